"""Files of safetensors.torch and ours, both ways."""

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
