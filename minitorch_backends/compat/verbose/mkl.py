"""The lines of MKL's verbose mode for a kernel call that BLAS or LAPACK has a routine for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...kernels.registry import Call
from ...kernels.runtime import cpu
from ...kernels.runtime.blas_library import blas_library
from ...kernels.runtime.threading import get_num_threads

__all__ = ["ENGINE", "PRODUCTS", "address", "lapack_arguments", "mkl_lines"]


# The LAPACK call (or BLAS, for triangular systems) equivalent to a linear algebra kernel.
#
# The arguments are those for a column-major library with transposed copies, as row-major callers of LAPACK pass them.
# LAPACK's workspace, which the kernels do not have, appears as (nil) with a length of 0.


_WORK = ("(nil)", 0)


def address(array: Any) -> str:
    """As C prints it."""
    return hex(array.ctypes.data) if isinstance(array, np.ndarray) else "(nil)"


def lapack_arguments(call: Call) -> tuple[str, tuple] | None:
    """The routine, without the letter of its type, and its arguments; those of a batch have strides and its size."""
    describe = _ROUTINES.get(call.kernel)
    if describe is None:
        return None
    routine, arguments = describe(call)
    batch = int(np.prod(call.shapes[0][:-2]))
    if len(call.shapes[0]) > 2:
        a = call.arrays[0]
        routine, arguments = f"{routine}_BATCH_STRIDED", (*arguments, a.shape[-2] * a.shape[-1], batch)
    if call.kernel == "triangular_solve":  # which can only divide by zero
        return routine, arguments
    info = getattr(call.result, "info", None)
    return routine, (*arguments, 0 if info is None else int(np.max(info, initial=0)))


def _factor(routine: str, *first: Any) -> Callable[[Call], tuple[str, tuple]]:
    """(first..., n, a, lda) of a square matrix."""

    def describe(call: Call) -> tuple[str, tuple]:
        n = call.shapes[0][-1]
        return routine, (*first, n, address(call.result[0] if isinstance(call.result, tuple) else call.result), n)

    return describe


def _solve(routine: str, *first: Any, pivots: Callable[[Call], Any] | None = None) -> Callable[[Call], tuple]:
    """(first..., n, nrhs, a, lda[, ipiv], b, ldb)."""

    def describe(call: Call) -> tuple[str, tuple]:
        n, columns = call.arrays[-1].shape[-2:]
        result = call.result[0] if isinstance(call.result, tuple) else call.result
        swaps = () if pivots is None else (address(pivots(call)),)
        flags = ["T" if flag == "N" and call.keywords.get("transpose") else flag for flag in first]
        return routine, (*flags, n, columns, address(call.arrays[0]), n, *swaps, address(result), n)

    return describe


def _triangular(call: Call) -> tuple[str, tuple]:
    get, (m, n), a = call.keywords.get, call.arrays[1].shape[-2:], call.arrays[0]
    side, triangle = "L" if get("left", True) else "R", "U" if get("upper") else "L"
    flags = (side, triangle, "T" if get("transpose") else "N", "U" if get("unitriangular") else "N")
    return "TRSM", (*flags, m, n, "(nil)", address(a), a.shape[-1], address(call.result), m)


def _reflectors(call: Call) -> tuple[str, tuple]:
    m, n = call.shapes[0][-2:]
    return "GEQRF", (m, n, address(call.result[0]), m, address(call.result[1]), *_WORK)


def _orthogonal(call: Call) -> tuple[str, tuple]:
    (m, n), tau = call.shapes[0][-2:], call.arrays[1]
    name = "UNGQR" if tau.dtype.kind == "c" else "ORGQR"
    return name, (m, n, tau.shape[-1], address(call.result), m, address(tau), *_WORK)


def _rectangular_lu(call: Call) -> tuple[str, tuple]:
    m, n = call.shapes[0][-2:]
    return "GETRF", (m, n, address(call.result.LU), m, address(call.result.pivots))


def _eigh(call: Call) -> tuple[str, tuple]:
    n, job = call.shapes[0][-1], "V" if call.keywords.get("vectors", True) else "N"
    driver = "EVJ" if call.implementation == "jacobi" else "EVD"
    name = ("HE" if call.arrays[0].dtype.kind == "c" else "SY") + driver
    triangle = "L" if call.keywords.get("lower", True) else "U"
    return name, (job, triangle, n, address(call.result.V), n, address(call.result.w), *_WORK, *_WORK)


def _svd(call: Call) -> tuple[str, tuple]:
    (m, n), result, get = call.shapes[0][-2:], call.result, call.keywords.get
    job = "N" if not get("vectors", True) else "A" if get("full") else "S"
    name = {"jacobi": "GESVJ"}.get(call.implementation, "GESVD" if get("driver") == "gesvd" else "GESDD")
    factors = (address(result.S), address(result.U), m, address(result.Vh), min(m, n))
    return name, (job, m, n, address(call.arrays[0]), m, *factors, *_WORK, "(nil)")


def _eig(call: Call) -> tuple[str, tuple]:
    n, job = call.shapes[0][-1], "V" if call.keywords.get("vectors", True) else "N"
    a, result = call.arrays[0], call.result
    return "GEEV", ("N", job, n, address(a), n, address(result.w), "(nil)", 1, address(result.V), n, *_WORK)


def _lstsq(call: Call) -> tuple[str, tuple]:
    (m, n), columns, result = call.shapes[0][-2:], call.shapes[1][-1], call.result
    name = str(call.keywords.get("driver", "gelsy")).upper()
    return name, (m, n, columns, address(call.arrays[0]), m, address(result.x), max(m, n), address(result.S), *_WORK)


_ROUTINES: dict[str, Callable[[Call], tuple[str, tuple]]] = {
    "cholesky": _factor("POTRF", "L"),
    "cholesky_inverse": _factor("POTRI", "L"),
    "cholesky_solve": _solve("POTRS", "L"),
    "lu_factor": _rectangular_lu,
    "lu_solve": _solve("GETRS", "N", pivots=lambda call: call.arrays[1]),
    "solve": _solve("GESV", pivots=lambda call: call.result.pivots),
    "inv": _factor("GETRI"),
    "triangular_solve": _triangular,
    "geqrf": _reflectors,
    "qr": _reflectors,
    "householder_product": _orthogonal,
    "eigh": _eigh,
    "svd": _svd,
    "eig": _eig,
    "lstsq": _lstsq,
    "ldl_factor": _factor("SYTRF", "L"),
    "ldl_solve": _solve("SYTRS", "L", pivots=lambda call: call.arrays[1]),
}


# What both kinds of trace agree on


ENGINE = "minitorch-backends"
"""The name of the library that banners show."""

PRODUCTS = ("matmul", "addmm", "linear", "half_matmul", "scaled_matmul")
"""Kernels that are matrix products: GEMM to MKL; oneDNN calls their arguments src, wei and bia."""


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
