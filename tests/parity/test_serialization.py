"""Checkpoints both ways: torch reads ours with weights_only=True, and we read torch's."""

import io
from collections import OrderedDict
from types import ModuleType
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends.tensor.dtypes import dtypes

from .peer import torch


def cross(obj: Any, source: ModuleType, target: ModuleType, **options: Any) -> Any:
    file = io.BytesIO()
    source.save(obj, file)
    file.seek(0)
    return target.load(file, weights_only=True, **options)


def checkpoint(library: ModuleType) -> dict[str, Any]:
    base = library.arange(24).reshape(2, 3, 4)
    tensors = {name: base.to(getattr(library, name)) for name, dtype in dtypes.items() if dtype.letter != "p"}
    tensors["float4_e2m1fn_x2"] = base.to(library.uint8).view(library.float4_e2m1fn_x2)
    return {
        **tensors,
        "turned": tensors["float32"].permute(2, 0, 1),
        "part": tensors["float32"][1, :, ::2],
        "expanded": tensors["float32"][0, 0].expand(5, 4),
        "scalar": library.tensor(2.5, requires_grad=True),
        "empty": library.empty(0, 3),
        "weight": library.nn.Parameter(tensors["float32"]),
        "frozen": library.nn.Parameter(tensors["float64"], requires_grad=False),
        "nested": OrderedDict(a=[1, (2.5, None, {"b": b"\xff"})], size=library.Size([1, 2]), dtype=library.bfloat16),
    }


@pytest.mark.parametrize(("source", "target"), [(mt, torch), (torch, mt)], ids=["ours", "torch's"])
def test_checkpoints_are_read_by_the_other(source: ModuleType, target: ModuleType) -> None:
    found, expected = cross(checkpoint(source), source, target), checkpoint(target)
    assert found.keys() == expected.keys()
    assert found["nested"] == expected["nested"]
    for name in expected.keys() - {"nested"}:
        one, other = found[name], expected[name]
        assert (type(one), one.dtype, one.requires_grad) == (type(other), other.dtype, other.requires_grad)
        assert tuple(one.shape) == tuple(other.shape)
        assert one.stride() == other.stride(), name
        if name.startswith("float4"):  # pairs of numbers, which have no values
            one, other = one.view(target.uint8), other.view(target.uint8)
        assert one.tolist() == other.tolist()
    found["float32"][1, 0, 2] = -1.0
    assert found["turned"][2, 1, 0] == found["part"][0, 1] == found["weight"][1, 0, 2] == -1.0


def test_lazy_conjugates_have_their_values() -> None:
    z = torch.tensor([1 + 2j, 3 - 1j])
    for lazy in (z.conj(), z.conj().imag):
        assert cross(lazy, torch, mt).tolist() == lazy.tolist()


@pytest.mark.parametrize(("source", "target"), [(mt, torch), (torch, mt)], ids=["ours", "torch's"])
@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad", "LBFGS"])
def test_states_of_models_and_optimizers_go_on(name: str, source: ModuleType, target: ModuleType) -> None:
    def start(library: ModuleType) -> tuple[Any, Any]:
        model = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.BatchNorm1d(4))
        others = {"SGD": {"momentum": 0.9}, "LBFGS": {"max_iter": 3}}
        options = {"lr": 0.1} | others.get(name, {})
        return model, getattr(library.optim, name)(model.parameters(), **options)

    def step(library: ModuleType, model: Any, optimizer: Any) -> float:
        def closure() -> Any:
            optimizer.zero_grad()
            goal = library.arange(20.0).reshape(5, 4).cos()  # without it gradients are rounding, which Adam enlarges
            loss = ((model(library.arange(15.0).reshape(5, 3).sin()) - goal) ** 2).mean()
            loss.backward()
            return loss

        return float(optimizer.step(closure).detach())

    source.manual_seed(0)
    target.manual_seed(0)
    ours, theirs = start(source), start(target)
    step(source, *ours)
    states = cross([each.state_dict() for each in ours], source, target)
    assert states[0]._metadata["1"] == {"version": 2}
    for each, state in zip(theirs, states, strict=True):
        each.load_state_dict(state)
    for _ in range(2):
        assert step(target, *theirs) == pytest.approx(step(source, *ours), rel=1e-4)


def test_what_has_no_counterpart_is_refused_in_words(tmp_path: Any) -> None:
    for tensor, words in [(torch.eye(2).to_sparse(), "sparse")]:
        with pytest.raises(RuntimeError, match=words):
            cross(tensor, torch, mt)
    torch.save(torch.ones(2, 3), tmp_path / "new.pt")
    assert mt.load(tmp_path / "new.pt", mmap=True).tolist() == [[1.0] * 3] * 2
    mt.save(mt.ones(2, 3), tmp_path / "ours.pt")
    assert torch.load(tmp_path / "ours.pt", mmap=True).tolist() == [[1.0] * 3] * 2


def test_states_of_torch_are_loaded_as_they_are() -> None:
    """torch does not support a NumPy dtype for bfloat16; with `assign` the module uses torch's memory."""
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).bfloat16()
    copied, shared = (mt.nn.Sequential(mt.nn.Linear(3, 4), mt.nn.BatchNorm1d(4)) for _ in range(2))
    copied.load_state_dict(theirs.state_dict())
    shared.load_state_dict(theirs.state_dict(), assign=True)
    assert (copied[0].weight.dtype, shared[0].weight.dtype) == (mt.float32, mt.bfloat16)
    with torch.no_grad():
        wanted = theirs[0].weight.float().tolist()
        theirs[0].weight.zero_()
    assert copied[0].weight.tolist() == wanted
    assert not shared[0].weight.detach().any()
    assert isinstance(shared[0].weight, mt.nn.Parameter)
    assert shared[1].num_batches_tracked.dtype is mt.int64


def test_the_format_from_before_1_6_is_read(tmp_path: Any) -> None:
    state = {name: each for name, each in checkpoint(torch).items() if isinstance(each, torch.Tensor)}
    state["nested"] = OrderedDict(a=[1, (2.5, None)], size=torch.Size([1, 2]))
    torch.save(state, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for trusted in (False, True):
        found = mt.load(tmp_path / "old.pt", weights_only=not trusted)
        assert found.keys() == state.keys()
        for name, tensor in state.items():
            if name == "nested":
                assert found[name] == OrderedDict(a=[1, (2.5, None)], size=mt.Size([1, 2]))
                continue
            assert found[name].stride() == tensor.stride() or not tensor.numel(), name
            dense, other = found[name].detach().contiguous(), tensor.detach().contiguous()
            if tensor.dim():  # by bytes: some types have no numbers
                assert dense.view(mt.uint8).tolist() == other.view(torch.uint8).tolist(), name
        found["float32"].zero_()
        assert not found["turned"].any()
