"""The lines of MKL's verbose mode for a kernel call that BLAS or LAPACK has a routine for."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...kernels.registry import Call
from ...kernels.runtime import cpu
from ...kernels.runtime.blas_library import blas_library
from ...kernels.runtime.threading import get_num_threads
from .lapack import address, lapack_arguments
from .names import ENGINE, PRODUCTS

__all__ = ["mkl_lines"]


_ONE_AND_ZERO = {np.dtype(name): np.array([1, 0], name) for name in ("float32", "float64", "complex64", "complex128")}
"""alpha and beta, whose addresses MKL prints."""

_LETTERS = {np.dtype("float32"): "S", np.dtype("float64"): "D", np.dtype("complex64"): "C", np.dtype("complex128"): "Z"}


def mkl_lines(call: Call, first: bool) -> Iterable[str]:
    """The line of one call, if there is a routine for it, with a banner before the first."""
    routine = _gemm(call) if call.kernel in PRODUCTS else _lapack(call)
    if routine is None:
        return
    if first:
        library = blas_library()
        yield f"MKL_VERBOSE {ENGINE}, {cpu.capability()}, NumPy's BLAS is {library.name} {library.version}"
    yield f"MKL_VERBOSE {routine} {_duration(call.seconds)} CNR:OFF Dyn:0 FastMM:0 TID:0  NThr:{get_num_threads()}"


def _lapack(call: Call) -> str | None:
    letter, asked = _LETTERS.get(call.arrays[0].dtype), lapack_arguments(call)
    if letter is None or asked is None:
        return None
    routine, arguments = asked
    return f"{letter}{routine}({','.join(map(str, arguments))})"


def _gemm(call: Call) -> str | None:
    """The product as a call of a column-major library: the transposed result, from the swapped factors."""
    a, b = call.arrays[:2]
    letter = _LETTERS.get(a.dtype)
    if letter is None or not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return None
    (m, k), n, result = a.shape[-2:], b.shape[-1], call.result
    (transposed_a, lda), (transposed_b, ldb) = _leading(a), _leading(b)
    factors = _ONE_AND_ZERO[a.dtype]
    alpha, beta = hex(factors.ctypes.data), hex(factors.ctypes.data + factors.itemsize)
    pa, pb, pc = map(address, (a, b, result))
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
