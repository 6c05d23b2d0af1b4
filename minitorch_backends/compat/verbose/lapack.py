"""The LAPACK call (or BLAS, for triangular systems) equivalent to a linear algebra kernel.

The arguments are those for a column-major library with transposed copies, as row-major callers of LAPACK pass them.
LAPACK's workspace, which the kernels do not have, appears as (nil) with a length of 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...kernels.registry import Call

__all__ = ["address", "lapack_arguments"]

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
