"""The namespaces of the package: names that are loaded at their first use, and the reason why another one is missing.

`index.txt`, which `python -m tests.stubs` writes from the declarations, says which module has a name: of a namespace,
an op of the registry, a function of `nn.functional`, or a method of `Tensor`. A namespace has the `__getattr__` and the
`__dir__` of this module (PEP 562); for type checkers it imports the same names under `if TYPE_CHECKING`. In the place
of a method `Tensor` has a descriptor that loads the module, which puts the method there.

A name of torch that is not here raises AttributeError with the reason and the nearest way, from one table that is read
from the top.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .tensor.registry import functions, registry
from .tensor.tensor import Tensor

PACKAGE = __name__.partition(".")[0]

_INDEX = Path(__file__).with_name("index.txt").read_text(encoding="utf-8")
TABLES = {name: lines for name, _, lines in (each.partition("]\n") for each in _INDEX.split("\n[")[1:])}
"""The lines of each table of the index."""

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
    from difflib import get_close_matches
    from fnmatch import fnmatchcase

    for patterns, reason in REASONS.items():
        if any(fnmatchcase(path, pattern) for pattern in patterns.split()):
            return f"{PACKAGE} has no {path}: {reason}"
    if path in functions:
        return f"{PACKAGE} has no {path}; use nn.functional.{path}"
    above, _, name = path.rpartition(".")
    if name.endswith("_") and not above and hasattr(Tensor, name):
        return f"{PACKAGE} has no {name}; it is a method of tensors: x.{name}()"
    near = get_close_matches(name, [each for each in known if not each.startswith("_")], 3, 0.75)
    names = ", ".join(".".join(filter(None, (above, each))) for each in near)
    remedy = f"the nearest name is {names}" if len(near) == 1 else f"the nearest names are {names}"
    return f"{PACKAGE} has no {path}; {remedy if near else f'dir({PACKAGE}) lists what there is'}"


def _by_name(table: str) -> dict[str, tuple[str, str]]:
    """From each name of a table of the index to the module that has it, and its name there."""
    found = {}
    for line in table.split("\n"):
        module, _, names = line.partition(": ")
        for each in names.split():
            name, _, attribute = each.partition("=")
            found[name] = f"{PACKAGE}.{module}", attribute or name
    return found


class _Namespace:
    """Loads the names that a module does not hold yet."""

    def __init__(self, module: str) -> None:
        self.path, self.module = module.partition(".")[2], sys.modules[module]
        table = "FUNCTIONS" if self.path == "nn.functional" else f"names of {self.path}".strip()
        self.names = _by_name(TABLES.get(table, "") + ("" if self.path else TABLES["names of ops.names"]))

    def get(self, name: str) -> Any:
        """`__getattr__` of the module."""
        if name == "__all__":
            return [each for each in self.dir() if not each.startswith("_")]
        if name in self.names:
            module, attribute = self.names[name]
            found = functions if self.path == "nn.functional" else importlib.import_module(module)
            value = found[name] if found is functions else found if attribute == "." else getattr(found, attribute)
            setattr(self.module, name, value)
            return value
        path = f"{self.module.__name__}.{name}"
        if name.startswith("__"):
            raise AttributeError(f"module {self.module.__name__!r} has no attribute {name!r}")
        if hasattr(self.module, "__path__") and importlib.util.find_spec(path) is not None:
            return importlib.import_module(path)
        raise AttributeError(sentence(path.partition(".")[2], self.dir()))

    def dir(self) -> list[str]:
        """`__dir__` of the module."""
        found = {*vars(self.module), *self.names} - {"TYPE_CHECKING", "serve", "__getattr__", "__dir__"}
        return sorted(filter(str.isidentifier, found))  # pytest adds others to modules that it rewrites


class _Unloaded:
    """In the place of a method of `Tensor`, until the module is loaded that puts it there."""

    def __init__(self, name: str, module: str) -> None:
        self.name, self.module = name, module

    def load(self) -> None:
        importlib.import_module(self.module)
        if vars(Tensor)[self.name] is self:
            raise AttributeError(f"{self.module} has no method {self.name}; run `python -m tests.stubs`")

    def __get__(self, instance: Any, owner: type) -> Any:
        self.load()
        return getattr(owner if instance is None else instance, self.name)

    def __set__(self, instance: Any, value: Any) -> None:
        self.load()
        setattr(instance, self.name, value)


def serve(module: str) -> None:
    """Give a module of the package the `__getattr__` and the `__dir__` of a namespace."""
    namespace = _Namespace(module)
    namespace.module.__getattr__ = namespace.get  # type: ignore[method-assign]
    namespace.module.__dir__ = namespace.dir  # type: ignore[method-assign]


def declare() -> None:
    """Announce ops, functions and methods whose modules are not loaded yet."""
    registry.announce({name: module for name, (module, _) in _by_name(TABLES["OPS"]).items()})
    functions.announce({name: module for name, (module, _) in _by_name(TABLES["FUNCTIONS"]).items()})
    for name, (module, _) in _by_name(TABLES["METHODS"]).items():
        if name not in vars(Tensor):
            setattr(Tensor, name, _Unloaded(name, module))
