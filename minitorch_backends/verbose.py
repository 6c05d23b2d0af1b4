"""Traces of kernel calls as oneDNN and MKL print them: one line for each call, while a block runs.

`backends.mkldnn.verbose(level)` prints lines in the columns of oneDNN's verbose mode, version 1 (its documentation,
"Verbose Mode", and `src/common/verbose.cpp`), `backends.mkl.verbose(enable)` lines in the style of MKL's ("Using Intel
oneMKL Verbose Mode" in its developer guide). Lines go to `sys.stdout`, or to a logger when one is given. Regions belong
to the thread or task, nest, and are off again afterwards; an inner region replaces the outer one, so that one at level
0 is silent.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

import numpy as np

from .kernels import cpu
from .kernels.blas_library import blas_library
from .kernels.registry import Call, observe_everywhere, start_observing, stop_observing
from .kernels.threading import get_num_threads
from .scopes import Scope

__all__ = ["MklVerbose", "OneDnnVerbose", "read_environment"]

_NAME = "minitorch-backends"

_DTYPES = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "int8": "s8",
    "uint8": "u8",
    "int16": "s16",
    "int32": "s32",
    "int64": "s64",
    "bool": "boolean",
    "complex64": "c64",
    "complex128": "c128",
}
"""oneDNN's names of dtypes; it has no complex ones."""


class _Region:
    """One level of tracing of a thread or task, above its parent level; the innermost one prints."""

    __slots__ = ("current", "lines", "logger", "parent", "started")

    def __init__(
        self,
        current: ContextVar[_Region | None],
        lines: Callable[[Call, bool], Iterable[str]],
        logger: logging.Logger | None,
    ) -> None:
        self.current, self.lines, self.logger = current, lines, logger
        self.parent, self.started = current.get(), False

    def __call__(self, call: Call) -> None:
        innermost = self.current.get()
        if innermost is self or innermost is None:
            for line in self.lines(call, not self.started):
                self.started = True
                if self.logger is None:
                    sys.stdout.write(line + "\n")
                else:
                    self.logger.info(line)


class _Verbose(Scope):
    """A region in which calls are traced. The arguments are checked when it is entered, as torch's are."""

    __slots__ = ("level", "logger")

    level: int
    logger: logging.Logger | None
    _current: ContextVar[_Region | None]
    _levels: tuple[int, ...]

    def _lines(self, call: Call, first: bool) -> Iterable[str]:
        raise NotImplementedError

    def __enter__(self) -> Any:
        name = f"{'mkl' if isinstance(self, MklVerbose) else 'mkldnn'}.verbose"
        if not isinstance(self.level, int):
            raise TypeError(f"{name} takes one of {self._levels}, and got {self.level!r}")
        if self.level not in self._levels:
            raise AssertionError(f"{name} takes one of {self._levels}, and got {self.level}")
        region = _Region(self._current, self._lines, self.logger)
        self._current.set(region)
        start_observing(region)
        return self if self.level else None

    def __exit__(self, *exception: object) -> None:
        region = self._current.get()
        self._current.set(region.parent if region is not None else None)
        stop_observing()


# oneDNN


class OneDnnVerbose(_Verbose):
    """Print a line in oneDNN's columns for each kernel call while a block runs: `with mkldnn.verbose(level):`.

    Arguments:
        level: VERBOSE_OFF, VERBOSE_ON for a line after each call, VERBOSE_ON_CREATION for one more for each call
            that compiled something.
        logger: takes the lines, at level INFO, in place of `sys.stdout`.
    """

    __slots__ = ()

    _current = ContextVar("onednn_region", default=None)
    _levels = (0, 1, 2)

    def __init__(self, level: int, *, logger: logging.Logger | None = None) -> None:
        self.level, self.logger = level, logger

    def __enter__(self) -> Any:
        entered = super().__enter__()
        if self.level == 2:
            _Compilation.listen()
        return entered

    def _lines(self, call: Call, first: bool) -> Iterable[str]:
        what = {0: frozenset(), 1: frozenset({"exec"}), 2: frozenset({"exec", "create"})}[int(self.level)]
        return onednn_lines(call, first, what)


_TEMPLATE = (
    "operation,engine,primitive,implementation,prop_kind,memory_descriptors,attributes,auxiliary,problem_desc,exec_time"
)
_PRODUCTS = ("matmul", "addmm", "linear", "half_matmul")
"""Kernels that are matrix products, whose arguments oneDNN calls src, wei and bia."""


def onednn_lines(call: Call, first: bool, what: frozenset[str]) -> Iterable[str]:
    """The lines of one call: "exec", "create" for what it compiled, "dispatch" for what was refused."""
    if not what:
        return
    if first:
        yield f"onednn_verbose,v1,info,{_NAME}"
        yield f"onednn_verbose,v1,info,cpu,runtime:threadpool,nthr:{get_num_threads()}"
        yield f"onednn_verbose,v1,info,cpu,isa:{cpu.capability()}"
        yield f"onednn_verbose,v1,primitive,info,template:{_TEMPLATE}"
    if "dispatch" in what:
        for name, sentence in call.refusals:
            columns = _columns(call, f"minitorch:{name}")
            yield f"onednn_verbose,v1,primitive,create:dispatch,{columns},{sentence.replace(',', ';')},registry"
    columns, compiled = _columns(call, f"minitorch:{call.implementation}"), 0.0
    if "create" in what:
        compiled = _Compilation.take()
        if compiled:
            yield f"onednn_verbose,v1,primitive,create:cache_miss,{columns},{compiled * 1e3:g}"
    if "exec" in what:
        yield f"onednn_verbose,v1,primitive,exec,{columns},{max(call.seconds - compiled, 0.0) * 1e3:g}"


def _columns(call: Call, implementation: str) -> str:
    """The columns from the engine to the description of the problem."""
    is_product = call.kernel in _PRODUCTS
    names = ("src", "wei", "bia") if is_product else tuple(f"src_{index}" for index in range(len(call.arrays)))
    ndim = max((len(array.shape) for array in call.arrays), default=0)
    described = [_Layout(array, ndim) for array in call.arrays]
    layouts = [layout.descriptor(name) for layout, name in zip(described, names, strict=False)]
    if isinstance(call.result, np.ndarray):
        layouts.append(_Layout(call.result, ndim).descriptor("dst"))
    precision = call.keywords.get("precision", "ieee")
    attributes = "" if precision == "ieee" else f"attr-fpmath:{precision}"
    if call.keywords.get("sums") == "half":
        attributes = "attr-acc-mode:f16"
    problem = ":".join("x".join(map(str, layout.shape)) for layout in described[: 2 if is_product else None])
    primitive = "matmul" if is_product else call.kernel
    return f"cpu,{primitive},{implementation},undef,{' '.join(layouts)},{attributes},,{problem}"


class _Layout:
    """An array as oneDNN describes it, with leading dimensions of size 1 up to `ndim`."""

    def __init__(self, array: Any, ndim: int) -> None:
        missing = max(ndim - len(array.shape), 0)
        strides = getattr(array, "strides", None)
        self.shape = (1,) * missing + tuple(array.shape)
        self.dtype = _DTYPES.get(array.dtype.name, array.dtype.name)
        steps = [] if strides is None else [stride // array.dtype.itemsize for stride in strides]
        whole = max([size * abs(step) for size, step in zip(array.shape, steps, strict=False)], default=1)
        self.strides = None if strides is None else [whole] * missing + steps

    def descriptor(self, name: str) -> str:
        """The name, dtype, kind of layout, order of the dimensions, and the strides where the array has gaps."""
        letters = "abcdefghijklmnopqrstuvwxyz"[: len(self.shape)]
        if self.strides is None:
            return f"{name}:{self.dtype}::opaque:::f0"
        steps = dict(zip(letters, self.strides, strict=True))
        tag = "".join(sorted(letters, key=lambda letter: (-abs(steps[letter]), letter)))
        dense, expected = True, 1
        for letter in reversed(tag):
            size = self.shape[letters.index(letter)]
            dense = dense and (size == 1 or steps[letter] == expected or 0 in self.shape)
            expected *= size
        strides = "" if dense else "x".join(map(str, self.strides))
        return f"{name}:{self.dtype}::blocked:{tag or 'a'}:{strides}:f0"


class _Compilation:
    """How long Numba has compiled in this thread, from Numba's own events."""

    _here = threading.local()
    _installed = False

    @classmethod
    def listen(cls) -> None:
        """Count from now on."""
        from numba.core import event

        class Listener(event.Listener):
            def on_start(self, event: Any) -> None:
                here = cls._here
                here.depth = getattr(here, "depth", 0) + 1
                if here.depth == 1:
                    here.start = time.perf_counter()

            def on_end(self, event: Any) -> None:
                here = cls._here
                here.depth -= 1
                if here.depth == 0:
                    here.seconds = getattr(here, "seconds", 0.0) + time.perf_counter() - here.start

        if not cls._installed:
            event.register("numba:compile", Listener())
            cls._installed = True
        cls._here.seconds = 0.0

    @classmethod
    def take(cls) -> float:
        """The seconds since the last call of this, in this thread."""
        seconds, cls._here.seconds = getattr(cls._here, "seconds", 0.0), 0.0
        return seconds


# MKL


class MklVerbose(_Verbose):
    """Print a line in MKL's style for each matrix product of a type that BLAS has: `with mkl.verbose(enable):`.

    Arguments:
        enable: VERBOSE_OFF or VERBOSE_ON; 2 is VERBOSE_ON.
        logger: takes the lines, at level INFO, in place of `sys.stdout`.
    """

    __slots__ = ()

    _current = ContextVar("mkl_region", default=None)
    _levels = (0, 1, 2)

    def __init__(self, enable: int, *, logger: logging.Logger | None = None) -> None:
        self.level, self.logger = enable, logger

    def _lines(self, call: Call, first: bool) -> Iterable[str]:
        return mkl_lines(call, first) if self.level else ()


_ONE_AND_ZERO = {np.dtype(name): np.array([1, 0], name) for name in ("float32", "float64", "complex64", "complex128")}
"""alpha and beta, whose addresses MKL prints."""

_LETTERS = {np.dtype("float32"): "S", np.dtype("float64"): "D", np.dtype("complex64"): "C", np.dtype("complex128"): "Z"}


def mkl_lines(call: Call, first: bool) -> Iterable[str]:
    """The line of one call, if BLAS has a routine for it, with a banner before the first."""
    routine = _gemm(call) if call.kernel in _PRODUCTS else None
    if routine is None:
        return
    if first:
        library = blas_library()
        yield f"MKL_VERBOSE {_NAME}, {cpu.capability()}, NumPy's BLAS is {library.name} {library.version}"
    yield f"MKL_VERBOSE {routine} {_duration(call.seconds)} CNR:OFF Dyn:0 FastMM:0 TID:0  NThr:{get_num_threads()}"


def _gemm(call: Call) -> str | None:
    """The product as a column-major library is asked for it: the transposed result, from the factors in turn."""
    a, b = call.arrays[:2]
    letter = _LETTERS.get(a.dtype)
    if letter is None or not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return None
    (m, k), n, result = a.shape[-2:], b.shape[-1], call.result
    (transposed_a, lda), (transposed_b, ldb) = _leading(a), _leading(b)
    factors = _ONE_AND_ZERO[a.dtype]
    alpha, beta = hex(factors.ctypes.data), hex(factors.ctypes.data + factors.itemsize)
    pa, pb, pc = (hex(array.ctypes.data) for array in (a, b, result))
    head = f"{transposed_b},{transposed_a},{n},{m},{k},{alpha}"
    if result.ndim == 2:
        return f"{letter}GEMM({head},{pb},{ldb},{pa},{lda},{beta},{pc},{max(n, 1)})"
    step_a, step_b = (x.strides[-3] // x.itemsize if x.ndim > 2 and x.shape[-3] > 1 else 0 for x in (a, b))
    batch = int(np.prod(result.shape[:-2]))
    second, first, out = f"{pb},{ldb},{step_b}", f"{pa},{lda},{step_a}", f"{pc},{max(n, 1)},{m * n}"
    return f"{letter}GEMM_BATCH_STRIDED({head},{second},{first},{beta},{out},{batch})"


def _leading(x: np.ndarray) -> tuple[str, int]:
    """N or T, and the leading dimension, for the matrices of a row-major array."""
    rows, columns = x.shape[-2:]
    row_step, column_step = (stride // x.itemsize for stride in x.strides[-2:])
    if column_step != 1 and row_step == 1 and column_step >= rows:
        return "T", max(column_step, 1)
    return "N", max(row_step if column_step == 1 and row_step >= columns else columns, 1)


def _duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.2f}{unit}"
    return f"{seconds * 1e9:.2f}ns"


# The environment

_ONEDNN_WORDS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("0", "none", "error", "warn", "check"), frozenset()),
    **dict.fromkeys(("1", "profile_exec"), frozenset({"exec"})),
    "profile_create": frozenset({"create"}),
    **dict.fromkeys(("2", "profile"), frozenset({"exec", "create"})),
    "dispatch": frozenset({"dispatch"}),
    "all": frozenset({"exec", "create", "dispatch"}),
}


def read_environment() -> None:
    """Start the traces that MKL_VERBOSE, and ONEDNN_VERBOSE or DNNL_VERBOSE, ask for, in every thread.

    Raises ValueError, naming the variable, for a text that is not understood.
    """
    text = os.environ.get("MKL_VERBOSE", "").strip()
    if text not in ("", "0", "1", "2"):
        raise ValueError(f"the environment variable MKL_VERBOSE={text!r} is not understood; expected 0, 1 or 2")
    if text in ("1", "2"):
        observe_everywhere(_Region(MklVerbose._current, mkl_lines, None))
    what = _asked("ONEDNN_VERBOSE") or _asked("DNNL_VERBOSE")
    if "create" in what:
        _Compilation.listen()
    if what:
        observe_everywhere(_Region(OneDnnVerbose._current, functools.partial(onednn_lines, what=what), None))


def _asked(variable: str) -> frozenset[str]:
    """The kinds of lines that a variable of oneDNN's asks for."""
    text = os.environ.get(variable, "").strip()
    words = text.split(",") if text else []
    if any(word not in _ONEDNN_WORDS for word in words):
        known = ", ".join(_ONEDNN_WORDS)
        raise ValueError(
            f"the environment variable {variable}={text!r} is not understood; expected some of {known}, with commas"
        )
    return frozenset().union(*(_ONEDNN_WORDS[word] for word in words))
