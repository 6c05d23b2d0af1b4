"""Namespaces: modules that are loaded at their first use, and names of torch that are missing for a reason."""

import importlib

import pytest

import minitorch_backends as mt
from minitorch_backends import namespaces


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("softmaxx", "minitorch_backends has no softmaxx; the nearest name is softmax"),
        ("quantize_per_tensor", "quantized tensors are not supported"),
        ("nn.Liner", "no nn.Liner; the nearest name is nn.Linear"),
        ("cuda", "the CPU is the only device"),
        ("distributions", "use torch's under interop.torch.emulate"),
        ("jit", "`minitorch-backends torch script.py`"),
        ("nn.utils.prune", "use torch's under interop.torch.emulate"),
    ],
)
def test_missing_names_say_why(name: str, sentence: str) -> None:
    path, _, last = name.rpartition(".")
    namespace = importlib.import_module(".".join(filter(None, ("minitorch_backends", path))))
    with pytest.raises(AttributeError, match=sentence):
        getattr(namespace, last)
    with pytest.raises(ImportError, match=last):
        exec(f"from {namespace.__name__} import {last}")


def test_reasons_name_a_remedy() -> None:
    assert all(";" in reason for reason in namespaces.REASONS.values())


def test_modules_are_loaded_at_their_first_use() -> None:
    assert mt.autocast is mt.amp.autocast
    assert mt.utils.data.DataLoader
    assert mt.nn.utils.rnn.pad_sequence([mt.ones(1), mt.ones(2)]).shape == (2, 2)
