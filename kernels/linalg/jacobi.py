"""The family "jacobi": eigenvalues and singular values by rotations, of many small matrices or of large ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..gemm import matmul
from ..registry import ArraySpec
from ..runtime.workspace import empty
from . import contract
from .batched import LARGEST
from .contract import SVD, Eigh

SWEEPS = 40
"""Sweeps over all pairs of blocks after which an iteration counts as not converged; 6 to 12 are usual."""


def _refuses(a: ArraySpec, *, driver: str | None = None, **keywords: Any) -> str | None:
    if a.dtype.kind != "f":
        return f"is compiled for float32 and float64, not {a.dtype}"
    if driver == "gesvd":
        return "is not a QR iteration, as driver='gesvd' requires"
    if not math.prod(a.shape):
        return "has nothing to do for arrays without elements"
    return None


def _scale(a: np.ndarray) -> tuple[np.ndarray, float]:
    """A matrix whose largest element is between 1/2 and 1, and the power of two that it was divided by."""
    largest = np.abs(a).max()
    exponent = int(np.frexp(largest)[1]) if largest > 0 else 0
    return np.ldexp(a, -exponent), exponent


@contract.eigh.impl("jacobi", refuses=_refuses)
def eigh(a: np.ndarray, *, vectors: bool = True, lower: bool = True, most_sweeps: int = SWEEPS, **_: Any) -> Eigh:
    """syevj: two-sided rotations until what is off the diagonal is eps of the whole (Frobenius norms). Large matrices
    take at most `most_sweeps`."""
    n, batch = a.shape[-1], a.shape[:-2]
    w, V = np.empty((*batch, n), a.dtype), empty(a.shape, a.dtype) if vectors else None
    if n <= LARGEST:
        return _eigh_small(a, w, V, lower)
    info, sweeps = np.zeros(batch, np.int32), 0
    for index in np.ndindex(batch):
        values, found, info[index], took = _eigh_large(a[index], vectors, lower, most_sweeps)
        w[index], sweeps = values, max(sweeps, took)
        if V is not None:
            V[index] = found
    return Eigh(w, V, info, {"routine": "syevj", "sweeps": sweeps})


def _eigh_small(a: np.ndarray, w: np.ndarray, V: np.ndarray | None, lower: bool) -> Eigh:
    from . import groups, small_jacobi

    n, count = a.shape[-1], math.prod(a.shape[:-2])
    info, sweeps = np.empty(a.shape[:-2], np.int32), np.zeros(count, np.int64)
    groups.run(
        small_jacobi.Eigh, a.dtype, count, small_jacobi.eigh_vectors(n), n=n, options=int(not lower),
        a=np.ascontiguousarray(a), x=w, y=V, z=sweeps, info=info,
    )  # fmt: skip
    return Eigh(w, V, info, {"routine": "syevjBatched", "sweeps": int(sweeps.max())})


def _eigh_large(a: np.ndarray, vectors: bool, lower: bool, most_sweeps: int) -> tuple[Any, Any, int, int]:
    """Values, vectors, info and sweeps."""
    from . import block_jacobi

    n = len(a)
    triangle = np.tril(a) if lower else np.triu(a)
    if not np.isfinite(triangle).all():
        return np.nan, np.nan, n, 0
    triangle, exponent = _scale(triangle)
    other = np.tril(triangle, -1) if lower else np.triu(triangle, 1)
    found = block_jacobi.eigh_blocked(triangle + other.T, vectors, most_sweeps)
    own = np.flatnonzero(found.players < n)
    values = np.diagonal(found.rows)[own]
    order = np.argsort(values, kind="stable")
    V = None if found.vectors is None else block_jacobi.orthonormal(found.vectors[own[order]]).T
    return np.ldexp(values[order], exponent), V, n if found.rest else 0, found.sweeps


@contract.svd.impl("jacobi", refuses=_refuses)
def svd(
    a: np.ndarray, *, full: bool = False, vectors: bool = True, driver: str | None = None, most_sweeps: int = SWEEPS,
    **_: Any,
) -> SVD:  # fmt: skip
    """gesvdj: one-sided rotations until all pairs of columns are orthogonal to eps max(1, sqrt(m) / 2). Large matrices
    take at most `most_sweeps`."""
    (m, n), batch = a.shape[-2:], a.shape[:-2]
    short = min(m, n)
    rows, columns = (m, n) if full else (short, short)
    S = np.empty((*batch, short), a.dtype)
    U, Vh = (empty((*batch, m, rows), a.dtype), empty((*batch, columns, n), a.dtype)) if vectors else (None, None)
    if max(m, n) <= LARGEST:
        return _svd_small(a, U, S, Vh, full)
    info, sweeps = np.zeros(batch, np.int32), 0
    for index in np.ndindex(batch):
        matrix = a[index] if m >= n else a[index].T
        left, S[index], right, info[index], took = _svd_tall(matrix, full, vectors, most_sweeps)
        sweeps = max(sweeps, took)
        if U is not None and Vh is not None:
            U[index], Vh[index] = (left, right) if m >= n else (np.transpose(right), np.transpose(left))
    return SVD(U, S, Vh, info, {"routine": "gesvdj", "sweeps": sweeps})


def _svd_small(a: np.ndarray, U: np.ndarray | None, S: np.ndarray, Vh: np.ndarray | None, full: bool) -> SVD:
    from . import groups, small_svd

    m, n = a.shape[-2:]
    count = math.prod(a.shape[:-2])
    info, sweeps = np.empty(a.shape[:-2], np.int32), np.zeros(count, np.int64)
    options = (U is not None) * small_svd.VECTORS + full * small_svd.FULL
    groups.run(
        small_svd.Svd, a.dtype, count, small_svd.svd_vectors(m, n), m=m, n=n, options=options,
        a=np.ascontiguousarray(a), b=sweeps, x=S, y=U, z=Vh, info=info,
    )  # fmt: skip
    return SVD(U, S, Vh, info, {"routine": "gesvdjBatched", "sweeps": int(sweeps.max())})


def _svd_tall(a: np.ndarray, full: bool, vectors: bool, most_sweeps: int) -> tuple[Any, Any, Any, int, int]:
    """U, S, Vh, info and sweeps of a matrix with at least as many rows as columns. One that is much taller is reduced
    to its triangular factor first."""
    from . import block_jacobi

    m, n = a.shape
    if not np.isfinite(a).all():
        return np.nan, np.nan, np.nan, n, 0
    a, exponent = _scale(np.ascontiguousarray(a))
    if m >= 2 * n:
        Q, a, _report = contract.qr(a, mode="reduced" if vectors else "r")
    columns = np.ascontiguousarray(a.T)
    found = block_jacobi.svd_blocked(columns, vectors, most_sweeps)
    lengths = np.sqrt(np.sum(np.square(found.rows, dtype=np.float64), axis=1))
    order = np.lexsort((found.players, -lengths, found.players >= n))[:n]
    S, info = np.ldexp(lengths[order].astype(a.dtype), exponent), n if found.rest else 0
    if found.vectors is None:
        return None, S, None, info, found.sweeps
    there = order[lengths[order] ** 2 > block_jacobi.null_lengths(columns)[found.players[order]]]
    left = block_jacobi.orthonormal((found.rows[there] / lengths[there, None]).astype(a.dtype)).T
    if m >= 2 * n:
        left = matmul(Q, np.ascontiguousarray(left))
    return (
        _complete_basis(left, m if full else n),
        S,
        block_jacobi.orthonormal(found.vectors[order]),
        info,
        found.sweeps,
    )


def _complete_basis(left: np.ndarray, count: int) -> np.ndarray:
    """Orthonormal columns, and as many more as are missing."""
    from . import block_jacobi

    if left.shape[1] == count:
        return left
    basis = np.eye(left.shape[0], dtype=left.dtype)
    if left.shape[1]:
        basis = contract.qr(np.ascontiguousarray(left), mode="complete").Q
    whole = np.concatenate([left, basis[:, left.shape[1] : count]], axis=1)
    return block_jacobi.orthonormal(np.ascontiguousarray(whole.T)).T
