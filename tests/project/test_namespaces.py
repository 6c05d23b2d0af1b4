"""Namespaces: modules that are loaded at their first use, and names of torch that are missing for a reason."""

import importlib
import inspect
import os
import subprocess
import sys

import pytest

import minitorch_backends as mt
from minitorch_backends import namespaces
from minitorch_backends.tensor.registry import Declarations, functions


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("softmaxx", "minitorch_backends has no softmaxx; the nearest name is softmax"),
        ("quantize_per_tensor", "quantized tensors are not supported"),
        ("nn.Liner", "no nn.Liner; the nearest name is nn.Linear"),
        ("kl_div", "no kl_div; use nn.functional.kl_div"),
        ("exp_", r"no exp_; it is a method of tensors: x.exp_\(\)"),
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


def test_losses_of_two_defaults_have_one_name() -> None:
    """torch.kl_div and its like return all values where those of nn.functional return their mean: one form is here."""
    losses = [name for name in functions if name.endswith(("_loss", "kl_div", "_with_logits"))]
    assert len(losses) > 15
    for name in losses:
        assert not hasattr(mt, name)
        parameters = inspect.signature(getattr(mt.nn.functional, name)).parameters
        assert "reduction" not in parameters or parameters["reduction"].default == "mean"
    one, other = mt.tensor([0.0, -1.0]), mt.tensor([1.0, 0.5])
    for loss in (mt.nn.functional.kl_div, mt.nn.functional.binary_cross_entropy_with_logits):
        assert loss(one, other).item() == pytest.approx(loss(one, other, reduction="none").mean().item())


def test_reasons_name_a_remedy() -> None:
    assert all(";" in reason for reason in namespaces.REASONS.values())


def test_modules_are_loaded_at_their_first_use() -> None:
    assert mt.autocast is mt.amp.autocast
    assert mt.lab.sweep
    assert mt.utils.data.DataLoader
    assert mt.nn.utils.rnn.pad_sequence([mt.ones(1), mt.ones(2)]).shape == (2, 2)


_EACH_MODULE = """
import importlib, os, sys
from minitorch_backends import namespaces
from minitorch_backends.tensor.tensor import Tensor
modules = {}
for name, (module, _) in namespaces._by_name(namespaces.TABLES['METHODS']).items():
    modules.setdefault(module, []).append(name)
for module, names in modules.items():
    if not (child := os.fork()):
        importlib.import_module(module)
        missing = [name for name in names if type(vars(Tensor)[name]).__name__ == "_Unloaded"]
        print(module, *missing, flush=True)
        os._exit(bool(missing))
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each module is loaded in a fork of a process that has loaded none")
def test_each_module_installs_the_methods_that_the_index_names() -> None:
    done = subprocess.run([sys.executable, "-c", _EACH_MODULE], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    modules = {module for module, _ in namespaces._by_name(namespaces.TABLES["METHODS"]).values()}
    assert len(lines) == len(modules), done.stderr
    assert not [line for line in lines if " " in line], "a module does not install these methods"


def test_names_are_seen_before_they_are_loaded() -> None:
    script = "import minitorch_backends as mt; print(*dir(mt), *dir(mt.Tensor), *dir(mt.nn.functional))"
    seen = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert {"cumsum", "lab", "optim", "cumsum_", "silu", "autocast", "__deepcopy__"} <= {*seen}


def test_properties_load_where_they_are_assigned() -> None:
    script = (
        "import minitorch_backends as mt; x = mt.zeros(2, dtype=mt.complex64); x.real = mt.ones(2); print(x.numpy())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[1.+0.j 1.+0.j]\n"


def test_all_ops_are_found_by_their_names() -> None:
    script = """if True:
        from minitorch_backends.tensor.registry import registry
        before = dict.__len__(registry)
        assert registry["cumsum"] and "cumsum" in registry and "no_op" not in registry
        print(before, len([*registry]), len({*registry}))
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    before, count, different = map(int, done.stdout.split())
    assert before < 20 < 400 < count == different


def test_a_name_that_its_module_does_not_declare_is_one_sentence() -> None:
    mixed = Declarations()
    mixed.announce({"cosine": "minitorch_backends.ops.elementwise.activations"})
    with pytest.raises(ImportError, match="activations declares no 'cosine': files of two versions are mixed"):
        mixed["cosine"]
