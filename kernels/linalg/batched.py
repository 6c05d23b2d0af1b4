"""The family "batched": factorisations of many small matrices at once, one matrix in each lane of a vector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..registry import ArraySpec
from ..runtime.workspace import empty
from . import contract
from .contract import LU, QR, Cholesky, Inverse, Reflectors, Solution

LARGEST = 32
"""Rows and columns up to which a group of matrices stays in the first caches."""


def refusal(*specs: ArraySpec, **keywords: Any) -> str | None:
    """Why these kernels do not take the arrays, or None."""
    a = specs[0]
    if a.dtype.kind != "f":
        return f"is compiled for float32 and float64, not {a.dtype}"
    if keywords.get("precision", "ieee") != "ieee":
        return f"has no products at {keywords['precision']}: small factors are made in ieee arithmetic"
    largest = max(max(each.shape[-2:]) for each in specs if each.dtype.kind == "f")
    if largest > LARGEST:
        return f"is for matrices of at most {LARGEST} x {LARGEST}, not of size {largest}"
    if not all(math.prod(each.shape) for each in specs):
        return "has nothing to do for arrays without elements"
    return None


def _count(a: np.ndarray) -> int:
    return math.prod(a.shape[:-2])


def _like(a: np.ndarray, *shape: int, dtype: Any = None) -> np.ndarray:
    return empty((*a.shape[:-2], *shape), np.dtype(a.dtype if dtype is None else dtype))


def _info(a: np.ndarray) -> np.ndarray:
    return np.empty(a.shape[:-2], np.int32)


@contract.cholesky.impl("batched", refuses=refusal)
def cholesky(a: np.ndarray, **_: Any) -> Cholesky:
    from . import groups, small_factors

    n, L, info = a.shape[-1], _like(a, *a.shape[-2:]), _info(a)
    groups.run(
        small_factors.Cholesky, a.dtype, _count(a), n * n, n=n, a=np.ascontiguousarray(a), x=L, info=info
    )  # fmt: skip
    return Cholesky(L, info, {"routine": "potrfBatched"})


@contract.lu_factor.impl("batched", refuses=refusal)
def lu_factor(a: np.ndarray, **_: Any) -> LU:
    from . import groups, small_factors

    m, n = a.shape[-2:]
    k, packed, info = min(m, n), _like(a, m, n), _info(a)
    pivots = _like(a, k, dtype=np.int32)
    groups.run(
        small_factors.LUFactor, a.dtype, _count(a), m * n + k, m=m, n=n,
        a=np.ascontiguousarray(a), x=packed, y=pivots, info=info,
    )  # fmt: skip
    return LU(packed, pivots, info, {"routine": "getrfBatched"})


@contract.solve.impl("batched", refuses=refusal)
def solve(a: np.ndarray, b: np.ndarray, **_: Any) -> Solution:
    from . import groups, small_factors

    n, k = b.shape[-2:]
    x, packed, pivots, info = _like(b, n, k), _like(a, n, n), _like(a, n, dtype=np.int32), _info(a)
    groups.run(
        small_factors.Solve, a.dtype, _count(a), n * (n + k + 1), n=n, k=k,
        a=np.ascontiguousarray(a), b=np.ascontiguousarray(b), x=x, y=packed, z=pivots, info=info,
    )  # fmt: skip
    return Solution(x, packed, pivots, info, {"routine": "getrfBatched, getrsBatched"})


@contract.inv.impl("batched", refuses=refusal)
def inv(a: np.ndarray, **_: Any) -> Inverse:
    from . import groups, small_factors

    n, inverse, info = a.shape[-1], _like(a, *a.shape[-2:]), _info(a)
    groups.run(
        small_factors.Inv, a.dtype, _count(a), n * (2 * n + 1), n=n, a=np.ascontiguousarray(a), x=inverse, info=info
    )  # fmt: skip
    return Inverse(inverse, info, {"routine": "matinvBatched"})


@contract.triangular_solve.impl("batched", refuses=refusal)
def triangular_solve(
    a: np.ndarray, b: np.ndarray, *, upper: bool = False, left: bool = True, unitriangular: bool = False,
    transpose: bool = False, **_: Any,
) -> np.ndarray:  # fmt: skip
    from . import groups
    from . import small_factors as small

    m, n = b.shape[-2:]
    x, order = _like(b, m, n), a.shape[-1]
    options = upper * small.UPPER + (not left) * small.RIGHT + unitriangular * small.UNIT + transpose * small.TRANSPOSE
    groups.run(
        small.Triangular, a.dtype, _count(b), order * order + m * n, m=m, n=n, options=options,
        a=np.ascontiguousarray(a), b=np.ascontiguousarray(b), x=x,
    )  # fmt: skip
    return x


@contract.qr.impl("batched", refuses=refusal)
def qr(a: np.ndarray, *, mode: str = "reduced", **_: Any) -> QR:
    from . import groups, small_qr

    m, n = a.shape[-2:]
    k = m if mode == "complete" else min(m, n)
    Q, R = None if mode == "r" else _like(a, m, k), _like(a, k, n)
    groups.run(
        small_qr.Qr, a.dtype, _count(a), small_qr.qr_vectors(m, n), m=m, n=n, k=k,
        a=np.ascontiguousarray(a), x=Q, y=R,
    )  # fmt: skip
    return QR(Q, R, {"routine": "geqrfBatched" if Q is None else "geqrfBatched, orgqr"})


@contract.geqrf.impl("batched", refuses=refusal)
def geqrf(a: np.ndarray, **_: Any) -> Reflectors:
    from . import groups, small_qr

    m, n = a.shape[-2:]
    packed, tau = _like(a, m, n), _like(a, min(m, n))
    groups.run(
        small_qr.Qr, a.dtype, _count(a), small_qr.qr_vectors(m, n), m=m, n=n, k=min(m, n),
        a=np.ascontiguousarray(a), y=packed, z=tau,
    )  # fmt: skip
    return Reflectors(packed, tau, {"routine": "geqrfBatched"})


@contract.lu_solve.impl("batched", refuses=refusal)
def lu_solve(packed: np.ndarray, pivots: np.ndarray, b: np.ndarray, *, transpose: bool = False, **_: Any) -> np.ndarray:
    from . import groups, small_solves

    n, k = b.shape[-2:]
    x = _like(b, n, k)
    groups.run(
        small_solves.LUSolve, b.dtype, _count(b), n * (n + k + 1), n=n, k=k, options=int(transpose),
        a=np.ascontiguousarray(packed), y=np.ascontiguousarray(pivots), b=np.ascontiguousarray(b), x=x,
    )  # fmt: skip
    return x


@contract.cholesky_solve.impl("batched", refuses=refusal)
def cholesky_solve(L: np.ndarray, b: np.ndarray, **_: Any) -> np.ndarray:
    from . import groups, small_solves

    n, k = b.shape[-2:]
    x = _like(b, n, k)
    groups.run(
        small_solves.CholeskySolve, b.dtype, _count(b), n * (n + k), n=n, k=k,
        a=np.ascontiguousarray(L), b=np.ascontiguousarray(b), x=x,
    )  # fmt: skip
    return x


@contract.cholesky_inverse.impl("batched", refuses=refusal)
def cholesky_inverse(L: np.ndarray, **_: Any) -> np.ndarray:
    from . import groups, small_solves

    n, x = L.shape[-1], _like(L, *L.shape[-2:])
    groups.run(
        small_solves.CholeskySolve, L.dtype, _count(L), 2 * n * n, n=n, k=n, a=np.ascontiguousarray(L), x=x
    )  # fmt: skip
    return x
