"""The location of each torch module here: one table, a finder for `import`, and `__getattr__` for namespaces.

A path below `minitorch_backends` or `torch` without a file in this package is looked up in `HOMES`. Its home is a
module, possibly shared by several paths. Nothing is imported before its first use.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from . import missing

__all__ = ["ALIAS", "Facade", "Finder", "serve"]

PACKAGE, ALIAS = "minitorch_backends", "torch"

_HERE = "compat.torch"

HOMES: dict[str, str] = {
    **{
        name: f"{_HERE}.{name}"
        for name in (
            "accelerator", "compiler", "cuda", "distributed", "fx", "hub", "jit", "library", "mps",
            "multiprocessing", "onnx", "profiler", "types", "version", "xpu",
        )
    },
    "_C": f"{_HERE}.internals",
    "_custom_ops": f"{_HERE}.library",
    "_dynamo": f"{_HERE}.compiler",
    "amp": "amp",
    "ao": f"{_HERE}.quantization",
    "ao.quantization": f"{_HERE}.quantization",
    "autograd.profiler": f"{_HERE}.profiler",
    "autograd.variable": "autograd",
    "cuda.amp": f"{_HERE}.cuda_amp",
    "lab": "lab",
    "nn.parallel": f"{_HERE}.parallel",
    "nn.utils.rnn": "nn.packed_sequence",
    "utils.benchmark": f"{_HERE}.benchmark",
    "utils.data": "utils.data",
    "utils.tensorboard": f"{_HERE}.tensorboard",
    "utils.model_zoo": f"{_HERE}.hub",
    "utils._pytree": f"{_HERE}.pytree",
}  # fmt: skip
"""The module behind a path."""

UNDER_TORCH = {"ops": f"{_HERE}.operators"}
"""Names that have another meaning in this package, and that `torch` has after `install`."""

PATHS: dict[str, str] = {
    "": "functional",
    "_dynamo": "config eval_frame utils",
    "amp": "autocast_mode grad_scaler",
    "cuda.amp": "autocast_mode grad_scaler",
    "nn.modules": """activation adaptive batchnorm channelshuffle container conv distance dropout flatten fold
        instancenorm lazy linear loss module normalization padding pixelshuffle pooling rnn sparse transformer
        upsampling utils""",
    "nn": "modules",
    "nn.parallel": "data_parallel distributed",
    "utils.data": "dataloader dataset distributed sampler",
    "optim": "adadelta adagrad adam adamax adamw asgd lbfgs nadam radam rmsprop rprop sgd",
    "distributed": "distributed_c10d",
    "jit": "annotations",
    "onnx": "symbolic_helper symbolic_opset11",
    "fx": "graph graph_module node proxy",
}
"""Where torch defines names of a namespace: `nn.modules.linear` has those of `nn`, with `Linear` among them."""


EXTRAS = {"": "names", "autograd": "variable", "nn": "modules", "nn.init": "init", "nn.utils": "nn_utils"}
"""The module with the further names of a namespace, imported on access to one of them."""


def _is_listed(path: str) -> bool:
    """Whether `PATHS` has it."""
    above, _, name = path.rpartition(".")
    return name in PATHS.get(above, "").split()


def children(path: str) -> set[str]:
    """The names of the modules that `HOMES` and `PATHS` put below a path."""
    below = f"{path}." if path else ""
    homes = {each[len(below) :] for each in HOMES if each.startswith(below)}
    return {each for each in homes if "." not in each} | set(PATHS.get(path, "").split())


class Finder:
    """Finds modules below `root`: the package (for modules without a file), or torch after `install`.

    It has no base class, since `importlib.abc` takes 5 ms to import.
    """

    def __init__(self, root: str) -> None:
        self._root = root

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        root, _, below = fullname.partition(".")
        if root != self._root or not below:
            return None
        is_namespace = "__getattr__" in vars(sys.modules[fullname.rpartition(".")[0]])
        if root == PACKAGE and not (is_namespace or below in HOMES or _is_listed(below)):
            return None
        loader: Any = self
        return ModuleSpec(fullname, loader, is_package=True)

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python to make the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Replace the new module by its home. Raises ModuleNotFoundError if it has none.

        The error has no `name`, so that `from torch import name` raises it unchanged.
        """
        root, _, below = module.__name__.partition(".")
        if root == PACKAGE and _is_listed(below):
            above = importlib.import_module(module.__name__.rpartition(".")[0])
            module.__getattr__ = functools.partial(_get_forwarded, below, above)  # type: ignore[method-assign]
            return
        home = HOMES.get(below) if root == PACKAGE else UNDER_TORCH.get(below, below)
        if home is None:
            raise ModuleNotFoundError(missing.sentence(name_of_package(), below.removeprefix(f"{_HERE}.")))
        found = importlib.import_module(f"{PACKAGE}.{home}")
        serve(below, found)
        sys.modules[module.__name__] = found


def name_of_package() -> str:
    """The name by which the package is used: torch after `install`."""
    return ALIAS if isinstance(sys.modules.get(ALIAS), Facade) else PACKAGE


def _get_forwarded(path: str, above: ModuleType, name: str) -> Any:
    """`__getattr__` of a path of `PATHS`: modules below it are imported, others are names of the namespace above."""
    return importlib.import_module(f"{PACKAGE}.{path}.{name}") if name in children(path) else getattr(above, name)


def _get_attribute(path: str, module: ModuleType, name: str) -> Any:
    """`__getattr__` of the namespace at a path: modules below it are imported, other names are missing for a reason."""
    if name in children(path):
        below = f"{path}.{name}".lstrip(".")
        found = importlib.import_module(f"{PACKAGE}.{below}")
        serve(below, found)
        return found
    if name.startswith("__"):
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    known = dir(module)
    if path in EXTRAS:
        extra = importlib.import_module(f"{PACKAGE}.{_HERE}.{EXTRAS[path]}")
        if name in extra.NAMES:
            return getattr(extra, name)
        known += extra.NAMES
    raise AttributeError(missing.sentence(name_of_package(), f"{path}.{name}".strip("."), known))


def serve(path: str, module: ModuleType | None = None) -> None:
    """Make a module the namespace at a path of torch, once; `_get_attribute` looks up missing names.

    It becomes a package for `import`, which uses `Finder` for the modules below it.
    """
    module = module or sys.modules[f"{PACKAGE}.{path}".rstrip(".")]
    if "__getattr__" not in vars(module):
        module.__getattr__ = functools.partial(_get_attribute, path, module)  # type: ignore[method-assign]
        if "__path__" not in vars(module):
            module.__path__ = []


class Facade(ModuleType):
    """The package under torch's name: the same names, and torch's version."""

    def __init__(self, package: ModuleType, version: str) -> None:
        super().__init__(ALIAS, package.__doc__)
        names = {
            name: value
            for name, value in vars(package).items()
            if not name.startswith("__") and name not in UNDER_TORCH
        }
        self.__dict__.update(names, __version__=version, __path__=[], __file__=package.__file__)
        self.__spec__ = ModuleSpec(ALIAS, None, origin=package.__file__, is_package=True)
        self._package = package

    def __getattr__(self, name: str) -> Any:
        found = importlib.import_module(f"{ALIAS}.{name}") if name in UNDER_TORCH else getattr(self._package, name)
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return dir(self._package)


sys.meta_path.append(Finder(PACKAGE))
