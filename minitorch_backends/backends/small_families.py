"""The small families of torch.backends, mostly of libraries that are not used here.

`FAMILIES` has one row each: a docstring and the functions; a constant stands for a function that returns it. The
modules `backends.mps`, `backends.nnpack` and so on are built from these rows and from the flags below their paths.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from ..flags import Group, assign, current
from . import table as _table  # noqa: F401  (declares the flags)


class Constant(NamedTuple):
    """A function without arguments that returns `value`."""

    value: Any
    doc: str

    def function(self) -> Callable[[], Any]:
        return lambda: self.value


# mha


def get_fastpath_enabled() -> bool:
    """Whether nn.MultiheadAttention may run as one fused kernel."""
    return current().read("mha.fastpath")


def set_fastpath_enabled(value: bool) -> None:
    """Allow or forbid the fused path. Raises RuntimeError for values other than True and False."""
    assign({"mha.fastpath": value}, "mha")


# mps


def is_macos_or_newer(major: int, minor: int) -> NoReturn:
    """Raises RuntimeError: only Metal reports the version of macOS, and Metal is not used."""
    if type(major) is not int or type(minor) is not int:
        raise TypeError(f"is_macos_or_newer(): major and minor must be ints, got {major!r} and {minor!r}")
    raise _no_metal("is_macos_or_newer")


def is_macos13_or_newer(minor: int = 0) -> NoReturn:
    """Raises RuntimeError: only Metal reports the version of macOS, and Metal is not used."""
    if type(minor) is not int:
        raise TypeError(f"is_macos13_or_newer(): minor must be an int, got {minor!r}")
    raise _no_metal("is_macos13_or_newer")


def get_name() -> NoReturn:
    """Raises RuntimeError: no Metal device exists."""
    raise _no_metal("get_name")


def get_core_count() -> NoReturn:
    """Raises RuntimeError: no Metal device exists."""
    raise _no_metal("get_core_count")


def _no_metal(function: str) -> RuntimeError:
    return RuntimeError(f"mps.{function}() requires Metal, which this engine does not use; see mps.is_available()")


# nnpack and openmp


def set_flags(_enabled: bool) -> tuple[bool]:
    """Allow or forbid Winograd and FFT convolutions, and return the previous value."""
    before = current().read("nnpack.enabled")
    assign({"nnpack.enabled": _enabled}, "nnpack")
    return (before,)


def openmp_is_available() -> bool:
    """Whether Numba's OpenMP layer can be loaded on this machine."""
    if importlib.util.find_spec("numba") is None:
        return False
    try:
        importlib.import_module("numba.np.ufunc.omppool")
    except ImportError:
        return False
    return True


FAMILIES: dict[str, tuple[str, dict[str, Constant | Callable[..., Any]]]] = {
    "cusparselt": (
        "NVIDIA's library of sparse products, which is not used.",
        {
            "is_available": Constant(False, "Whether cuSPARSELt is used: False."),
            "version": Constant(None, "cuSPARSELt's version: None, since it is not used."),
            "get_max_alg_id": Constant(None, "The number of cuSPARSELt's algorithms: None, since it is not used."),
        },
    ),
    "kleidiai": (
        "Arm's library of kernels, which is not used.",
        {"is_available": Constant(False, "Whether KleidiAI is used: False.")},
    ),
    "mha": (
        "The fused path of nn.MultiheadAttention.",
        {"get_fastpath_enabled": get_fastpath_enabled, "set_fastpath_enabled": set_fastpath_enabled},
    ),
    "miopen": ("MIOpen, AMD's library of convolutions, which is not used.", {}),
    "mps": (
        "Apple's Metal, which this engine does not run on.",
        {
            "is_built": Constant(False, "Whether this engine can run on Metal: False."),
            "is_available": Constant(False, "Whether a Metal device can be used: False."),
            "is_macos_or_newer": is_macos_or_newer,
            "is_macos13_or_newer": is_macos13_or_newer,
            "get_name": get_name,
            "get_core_count": get_core_count,
        },
    ),
    "nnpack": (
        "The switch of the Winograd and FFT convolutions, under the name of torch's library for them.",
        {
            "is_available": Constant(False, "Whether NNPACK is used: False. Its flag controls this engine's kernels."),
            "set_flags": set_flags,
        },
    ),
    "openmp": (
        "OpenMP: whether Numba can use it for parallel loops. This engine's kernels have their own thread pool.",
        {"is_available": openmp_is_available},
    ),
    "partial_sums": ("Sums in parts, as of tensor parallelism and split-K: how many, in which order and dtype.", {}),
    "quantized": ('Quantised tensors, which this engine does not have: their only engine is "none".', {}),
    "xnnpack": ("XNNPACK, a library of kernels for phones, which is not used.", {}),
}
"""For each family, its docstring and its functions by name."""


def install(package: ModuleType) -> None:
    """Create the module of each family, as a submodule of `package`."""
    for family, (doc, functions) in FAMILIES.items():
        module = ModuleType(f"{package.__name__}.{family}", doc)
        for name, row in functions.items():
            function = row.function() if isinstance(row, Constant) else row
            function.__module__, function.__name__, function.__qualname__ = module.__name__, name, name
            function.__doc__ = row.doc if isinstance(row, Constant) else row.__doc__
            setattr(module, name, function)
        module.__all__ = list(functions)  # type: ignore[attr-defined]
        Group.install(module, family)
        sys.modules[module.__name__] = module
        setattr(package, family, module)
