"""What a namespace does with a name that it does not hold: load the module of it, or say why the name is missing.

`mt.lab` is imported at its first use. A name of torch that is not here raises AttributeError with the reason and the
nearest way, from one table that is read from the top.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from importlib.util import find_spec
from types import ModuleType
from typing import Any

PACKAGE = __name__.partition(".")[0]

LAZY = {
    "autocast": "amp",
    "get_autocast_dtype": "amp",
    "is_autocast_cache_enabled": "amp",
    "is_autocast_enabled": "amp",
}
"""Names of the package that a module defines which is loaded at their first use."""

REASONS: dict[str, str] = {
    "*sparse* *spmm *.smm *.coalesce": "sparse tensors are not supported; use dense tensors and matmul",
    "*quantiz* ao* fake_* q_* q*int8 q*int32 q*int4x2": (
        "quantized tensors are not supported; use a policy of lab.audit to see what lower precision does"
    ),
    "*nested* *jagged*": "nested tensors are not supported; pad with nn.utils.rnn.pad_sequence",
    "distributions* nn.utils.prune nn.utils.parametriz* nn.Lazy* nn.AdaptiveLogSoftmaxWithLoss": (
        "this package does not have it; use torch's under interop.torch.emulate, which runs torch under the flags here"
    ),
    "distributed* multiprocessing* nn.parallel* fx* jit* hub* profiler* compile* export* package* onnx* utils.cpp_*": (
        "this package does not have it; `minitorch-backends torch script.py` runs torch's programs under the flags here"
    ),
    "cuda* xpu* mps* mtia* hpu* accelerator*": "the CPU is the only device; its flags are in backends",
    "_C* _dynamo* _inductor* _functorch* _subclasses* _prims* _decomp* _ops* ops* classes* library*": (
        "it is a part of torch's own machinery; use the public functions"
    ),
    "Storage *Storage *Tensor": "memory is held by NumPy arrays; use tensor.numpy(), and tensor(data, dtype=)",
}
"""Patterns of names, and the reason with the nearest way."""


def sentence(path: str, known: Iterable[str] = ()) -> str:
    """The error message for a missing name; `known` are the existing names beside it."""
    for patterns, reason in REASONS.items():
        if any(fnmatchcase(path, pattern) for pattern in patterns.split()):
            return f"{PACKAGE} has no {path}: {reason}"
    above, _, name = path.rpartition(".")
    near = difflib.get_close_matches(name, [each for each in known if not each.startswith("_")], 3, 0.75)
    names = ", ".join(".".join(filter(None, (above, each))) for each in near)
    remedy = f"the nearest name is {names}" if len(near) == 1 else f"the nearest names are {names}"
    return f"{PACKAGE} has no {path}; {remedy if near else f'dir({PACKAGE}) lists what there is'}"


def _get_attribute(module: ModuleType, name: str) -> Any:
    """`__getattr__` of a namespace."""
    if name.startswith("__"):
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    if module.__name__ == PACKAGE and name in LAZY:
        return getattr(importlib.import_module(f"{PACKAGE}.{LAZY[name]}"), name)
    path = f"{module.__name__}.{name}"
    if hasattr(module, "__path__") and find_spec(path) is not None:
        return importlib.import_module(path)
    raise AttributeError(sentence(path.partition(".")[2], [*dir(module), *LAZY]))


def serve(path: str) -> None:
    """Give the namespace at a path of the package, "" for the package itself, the `__getattr__` of this module."""
    module = sys.modules[f"{PACKAGE}.{path}".rstrip(".")]
    module.__getattr__ = functools.partial(_get_attribute, module)  # type: ignore[method-assign]
