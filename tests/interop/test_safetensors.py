"""Checkpoints in the safetensors format: every dtype, shards, parts of tensors, and files that lie."""

import json
import os
import struct

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import nn
from minitorch_backends.tensor.dtypes import dtypes

pytest.importorskip("safetensors", reason="safetensors is not installed")

from minitorch_backends.interop.safetensors import load_file, safe_open, save_file


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def header(tensors, data=b"", **others):
    """The bytes of a file whose header is as told."""
    text = json.dumps({**tensors, **others}).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_every_dtype(path):
    held = {name: dtype for name, dtype in dtypes.items() if name != "complex128"}
    tensors = {}
    for name, dtype in held.items():
        numbers = np.arange(12, dtype=np.uint8).repeat(dtype.itemsize).reshape(3, -1)
        tensors[name] = mt.from_numpy(numbers.view(dtype.dtype) if name != "bool" else numbers % 2 == 1)
    save_file(tensors, path, {"format": "mt"})
    found = load_file(path)
    assert list(found) == sorted(found, key=list(found).index)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].shape) == (held[name], tensor.shape)
        assert found[name].numpy().tobytes() == tensor.numpy().tobytes()
    with safe_open(path, framework="pt", device="cpu") as file:
        assert file.metadata() == {"format": "mt"}
        assert file.get_slice("bfloat16").get_dtype() is mt.bfloat16


def test_layouts_and_parts(path):
    x = mt.arange(24.0).reshape(4, 6)
    save_file({"x": x, "turned": x.clone().T, "none": mt.zeros(0, 3), "one": mt.tensor(2.5)}, path)
    found = load_file(path)
    assert mt.equal(found["turned"], x.T)
    assert (found["none"].shape, found["one"].shape, found["one"].item()) == ((0, 3), (), 2.5)
    found["x"][0] = 0  # in memory of its own
    with safe_open(path) as file:
        assert set(file.keys()) == {"x", "turned", "none", "one"}
        part = file.get_slice("x")
        assert part.get_shape() == [4, 6]
        assert mt.equal(part[1:3, ::2], x[1:3, ::2])
        assert mt.equal(file.get_tensor("x"), x)
        with pytest.raises(KeyError, match="tensor 'y' is not in the file"):
            file.get_tensor("y")
    with pytest.raises(KeyError):
        file.get_tensor("x")


def test_a_model_in_shards(tmp_path):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    index = tmp_path / "model.safetensors.index.json"
    save_file(model.state_dict(), index, max_shard_size=600)
    files = sorted(each.name for each in tmp_path.iterdir())
    assert files[:2] == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert json.loads(index.read_text(encoding="utf-8"))["metadata"] == {"total_size": 4 * (128 + 16 + 64 + 4)}
    other = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    other.load_state_dict(load_file(index))
    x = mt.randn(3, 8)
    assert mt.equal(model(x), other(x))
    with safe_open(index) as file:
        assert mt.equal(file.get_tensor("2.weight"), model[2].weight)


def test_written_over_itself(path):
    save_file({"x": mt.ones(5)}, path)
    with safe_open(path) as file:
        save_file({"x": file.get_tensor("x") * 2}, path)
    assert load_file(path)["x"].tolist() == [2] * 5
    assert os.listdir(path.parent) == [path.name]


def test_what_cannot_be_written(path):
    x = mt.ones(4)
    for tensors, options, error, text in (
        ({"x": x, "y": x[1:]}, {}, RuntimeError, "'x' and 'y' share memory; clone one of them"),
        ({"x": np.ones(3)}, {}, TypeError, "'x' must be a Tensor, got numpy.ndarray"),
        (
            {"x": mt.ones(2, dtype=mt.complex128)},
            {},
            ValueError,
            "'x' must have one of the types .*, got mt.complex128",
        ),
        ({"x": x}, {"metadata": {"a": 1}}, TypeError, "metadata must be text by names"),
        ({"x": x}, {"max_shard_size": 8}, ValueError, "filename must end in '.safetensors.index.json' for shards"),
    ):
        with pytest.raises(error, match=text):
            save_file(tensors, path, **options)
    assert not path.exists()
    save_file({"even": mt.arange(6)[::2], "odd": mt.arange(6)[1::2]}, path)
    shared = mt.arange(6)
    save_file({"even": shared[::2], "odd": shared[1::2]}, path)
    assert load_file(path)["odd"].tolist() == [1, 3, 5]


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff" * 8, struct.pack("<Q", 2**60), struct.pack("<Q", 5) + b"{}", header({"x": entry()}),
        header({"x": entry(shape=(2**40,), offsets=(0, 2**42))}, bytes(8)), header({"x": entry(shape=(3,))}, bytes(8)),
        header({"x": entry(offsets=(8, 16))}, bytes(16)), header({"x": entry(), "y": entry()}, bytes(8)),
        header({"x": entry("F99")}, bytes(8)), header({"x": entry(shape=(-1,))}, bytes(8)), header({"x": 3}, bytes(8)),
        header({"x": entry()}, bytes(9)), header({"x": entry(shape=(2**32, 2**32, 2**32))}, bytes(8)),
        header({"x": entry(offsets=(8, 0))}, bytes(8)), header({}, __metadata__={"a": 1}),
        header({"x": entry("F6_E2M3", (32,), (0, 24))}, bytes(24)),
        header({"x": entry(shape=(0, 2**62), offsets=(0, 0))}),
    ],
    ids=range(18),
)  # fmt: skip
def test_files_that_lie(path, data):
    path.write_bytes(data)
    for read in (load_file, safe_open):
        with pytest.raises(ValueError, match=rf"{read.__name__}\(\): .* must "):
            read(path)


def test_indexes_that_lie(tmp_path, path):
    save_file({"x": mt.ones(3)}, path)
    (tmp_path / "inner").mkdir()
    index = tmp_path / "inner" / "model.safetensors.index.json"
    inside = tmp_path / "inner" / "part.safetensors"
    save_file({"x": mt.ones(3)}, inside)
    for name in ("../model.safetensors", str(path), "none", "", "..", "a\0b", "inner/part.safetensors"):
        index.write_text(json.dumps({"weight_map": {"x": name}}))
        with pytest.raises(ValueError, match="shards must be files in the folder of"):
            load_file(index)
    for text in (
        "",
        "3",
        "{}",
        "[" * 10000,
        '{"weight_map": 3}',
        '{"weight_map": {"x": 3}}',
        "\ud800".encode("utf-8", "surrogatepass"),
    ):
        index.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(ValueError, match="must be a JSON object with the names of files"):
            load_file(index)
    index.write_text(json.dumps({"weight_map": {"y": "part.safetensors"}}))
    with pytest.raises(ValueError, match=r"says that 'y' is in 'part.safetensors', which does not have it"):
        load_file(index)
    with pytest.raises(FileNotFoundError):
        load_file(tmp_path / "none.safetensors")
    with pytest.raises(AssertionError, match="device must be 'cpu', got 'cuda'"):
        load_file(path, device="cuda")
