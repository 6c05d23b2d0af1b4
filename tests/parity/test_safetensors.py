"""Files of safetensors.torch and ours, both ways."""

from pathlib import Path

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.interop.torch.memory import to_ours

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")

from minitorch_backends.interop import safetensors  # noqa: E402

NAMES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
]  # fmt: skip


def test_both_ways(tmp_path):
    path = tmp_path / "model.safetensors"
    bytes_ = torch.arange(16, dtype=torch.uint8).reshape(2, 8) % 2
    tensors = {name: bytes_.clone().view(getattr(torch, name)) for name in NAMES}
    tensors["empty"], tensors["scalar"] = torch.zeros(0, 2), torch.tensor(1.5)
    theirs.save_file(tensors, path, {"format": "pt"})
    ours = safetensors.load_file(path)
    for name, tensor in tensors.items():
        assert (str(ours[name].dtype)[3:], tuple(ours[name].shape)) == (str(tensor.dtype)[6:], tuple(tensor.shape))
        assert ours[name].numpy().tobytes() == tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    safetensors.save_file(ours, path, {"format": "pt"})
    for name, tensor in theirs.load_file(path).items():
        assert tensor.dtype is tensors[name].dtype
        assert tensor.reshape(-1).view(torch.uint8).equal(tensors[name].contiguous().reshape(-1).view(torch.uint8))


def test_a_sharded_state_of_torch(tmp_path):
    model = torch.nn.Linear(6, 4)
    ours = {name: to_ours(each.detach()) for name, each in model.state_dict().items()}
    safetensors.save_file(ours, tmp_path / "m.safetensors.index.json", {"format": "pt"}, max_shard_size=100)
    merged = {}
    for part in sorted(tmp_path.glob("*.safetensors")):
        merged |= theirs.load_file(part)
    assert merged["weight"].equal(model.weight)
    assert mt.equal(safetensors.load_file(tmp_path / "m.safetensors.index.json")["bias"], ours["bias"])


def test_weights_of_gpt_oss_are_those_of_transformers(tmp_path: Path) -> None:
    convert = pytest.importorskip("transformers.integrations.mxfp4").convert_moe_packed_tensors
    torch.manual_seed(0)
    blocks = torch.randint(0, 256, (2, 6, 3, 16), dtype=torch.uint8)
    scales = torch.randint(110, 140, (2, 6, 3), dtype=torch.uint8)
    theirs.save_file({"w_blocks": blocks, "w_scales": scales}, tmp_path / "model.safetensors")
    found = safetensors.load_weights(tmp_path / "model.safetensors")["w"]
    expected = convert(blocks, scales, dtype=torch.float32)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_weights_of_compressed_tensors(tmp_path: Path) -> None:
    helpers = pytest.importorskip(
        "compressed_tensors.compressors.pack_quantized.helpers", reason="compressed-tensors is the reference"
    )
    torch.manual_seed(0)
    codes = torch.randint(-8, 8, (6, 64), dtype=torch.int8)
    packed = helpers.pack_to_int32(codes, 4)
    scales = torch.rand(6, 2)
    tensors = {"w_packed": packed, "w_scale": scales, "w_shape": torch.tensor([6, 64])}
    theirs.save_file(tensors, tmp_path / "model.safetensors")
    unpacked = helpers.unpack_from_int32(packed, 4, torch.Size([6, 64]))
    expected = unpacked.float() * scales.repeat_interleave(32, 1)
    np.testing.assert_array_equal(
        safetensors.load_weights(tmp_path / "model.safetensors")["w"].numpy(), expected.numpy()
    )


def test_weights_of_torchao(tmp_path: Path) -> None:
    quantization = pytest.importorskip("torchao.quantization", reason="torchao is the reference")
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32, dtype=torch.bfloat16))
    quantization.quantize_(model, quantization.Float8WeightOnlyConfig())
    tensors, metadata = flatten_tensor_state_dict(model.state_dict())
    theirs.save_file(tensors, tmp_path / "model.safetensors", metadata)
    found = safetensors.load_weights(tmp_path / "model.safetensors", mt.bfloat16)
    assert sorted(found) == ["0.bias", "0.weight"]
    expected = model[0].weight.dequantize()
    np.testing.assert_array_equal(found["0.weight"].float().numpy(), expected.float().detach().numpy())
