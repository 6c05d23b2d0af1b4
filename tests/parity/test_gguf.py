"""GGUF against the package `gguf` of llama.cpp's authors: files that it writes, and every block type both ways."""

from pathlib import Path

import numpy as np
import pytest

from minitorch_backends import interop
from minitorch_backends.kernels.precisions import ggml

gguf = pytest.importorskip("gguf", reason="the package gguf is the reference")
X = np.random.default_rng(1).standard_normal((8, 512)).astype(np.float32)


@pytest.mark.parametrize("name", list(ggml.BLOCKS))
def test_block_types(name: str) -> None:
    kind = gguf.GGMLQuantizationType[name.upper()]
    packed = ggml.quantize(X, name)
    np.testing.assert_array_equal(ggml.dequantize(packed, name), gguf.quants.dequantize(packed, kind))
    if not name.endswith("k"):  # which the package does not quantise
        np.testing.assert_array_equal(packed, gguf.quants.quantize(X, kind))


def test_a_file_that_the_package_writes(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_array("names", ["a", "b"])
    writer.add_tensor("plain", X)
    packed = gguf.quants.quantize(X, gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("packed", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = interop.gguf.load(path)
    assert file.metadata["llama.block_count"] == 2
    assert file.metadata["names"] == ["a", "b"]
    np.testing.assert_array_equal(file.tensors["plain"].numpy(), X)
    expected = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.Q8_0)
    np.testing.assert_array_equal(file.tensors["packed"].numpy(), expected)
