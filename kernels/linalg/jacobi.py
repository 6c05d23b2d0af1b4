"""The family "jacobi": eigenvalues and singular values by rotations, of many small matrices or of large ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..gemm.workspace import empty
from ..registry import ArraySpec
from . import contract
from .batched import LARGEST
from .contract import SVD, Eigh

__all__: list[str] = []


def _eigh_refuses(a: ArraySpec, **keywords: Any) -> str | None:
    if a.dtype.kind != "f":
        return f"is compiled for float32 and float64, not {a.dtype}"
    if not math.prod(a.shape):
        return "has nothing to do for arrays without elements"
    if a.shape[-1] > LARGEST:
        return f"is for matrices of at most {LARGEST} x {LARGEST}, not of size {a.shape[-1]}"
    return None


@contract.eigh.impl("jacobi", refuses=_eigh_refuses)
def eigh(a: np.ndarray, *, vectors: bool = True, lower: bool = True, **_: Any) -> Eigh:
    """syevj: cyclic two-sided rotations until what is off the diagonal is eps of the whole (Frobenius norms)."""
    from . import groups, small_jacobi

    n, batch = a.shape[-1], a.shape[:-2]
    count = math.prod(batch)
    w, info = np.empty((*batch, n), a.dtype), np.empty(batch, np.int32)
    V = empty(a.shape, a.dtype) if vectors else None
    sweeps = np.zeros(count, np.int64)
    groups.run(
        small_jacobi.Eigh, a.dtype, count, small_jacobi.eigh_vectors(n), n=n, options=int(not lower),
        a=np.ascontiguousarray(a), x=w, y=V, z=sweeps, info=info,
    )  # fmt: skip
    return Eigh(w, V, info, {"routine": "syevjBatched", "sweeps": int(sweeps.max())})


def _svd_refuses(a: ArraySpec, *, driver: str | None = None, **keywords: Any) -> str | None:
    if a.dtype.kind != "f":
        return f"is compiled for float32 and float64, not {a.dtype}"
    if not math.prod(a.shape):
        return "has nothing to do for arrays without elements"
    if driver == "gesvd":
        return "is no QR iteration, which driver='gesvd' asks for"
    if max(a.shape[-2:]) > LARGEST:
        return f"is for matrices of at most {LARGEST} x {LARGEST}, not of size {max(a.shape[-2:])}"
    return None


@contract.svd.impl("jacobi", refuses=_svd_refuses)
def svd(a: np.ndarray, *, full: bool = False, vectors: bool = True, driver: str | None = None, **_: Any) -> SVD:
    """gesvdj: one-sided rotations until all pairs of columns are orthogonal to eps max(1, sqrt(m) / 2)."""
    from . import groups, small_svd

    (m, n), batch = a.shape[-2:], a.shape[:-2]
    count, short = math.prod(batch), min(m, n)
    S, info, sweeps = np.empty((*batch, short), a.dtype), np.empty(batch, np.int32), np.zeros(count, np.int64)
    rows, columns = (m, n) if full else (short, short)
    U, Vh = (empty((*batch, m, rows), a.dtype), empty((*batch, columns, n), a.dtype)) if vectors else (None, None)
    options = vectors * small_svd.VECTORS + full * small_svd.FULL
    groups.run(
        small_svd.Svd, a.dtype, count, small_svd.svd_vectors(m, n), m=m, n=n, options=options,
        a=np.ascontiguousarray(a), b=sweeps, x=S, y=U, z=Vh, info=info,
    )  # fmt: skip
    return SVD(U, S, Vh, info, {"routine": "gesvdjBatched", "sweeps": int(sweeps.max())})
