"""Which family of implementations is asked first: that of the flag, or by size for "default".

The names are those of `torch.backends.cuda.preferred_linalg_library`. "magma" is the blocked algorithms. "cusolver" is
the kernels for many small matrices ("batched") and, for eigenvalues and singular values, rotations ("jacobi"); what
those refuse goes on to the other families. "default" asks by size, as PyTorch does for cuSOLVER (there, eigh by
Jacobi rotations for batches of at most 32 x 32, LU by the batched kernel where the batch is large for the size).
bench/NOTES.md has the measurements behind the limits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["LIMITS", "Limit", "preferred"]

_JACOBI = frozenset({"eigh", "svd"})


class Limit(NamedTuple):
    """Up to which size, and from how many matrices on, "default" asks the kernel for small matrices."""

    size: int
    batch: int
    family: str = "batched"


LIMITS = {
    "cholesky": Limit(32, 1),
    "cholesky_solve": Limit(32, 1),
    "cholesky_inverse": Limit(32, 1),
    "lu_factor": Limit(32, 1),
    "lu_solve": Limit(32, 1),
    "triangular_solve": Limit(32, 1),
    "inv": Limit(32, 1),
    "solve": Limit(32, 1),
    "qr": Limit(32, 1),
    "geqrf": Limit(32, 1),
    "eigh": Limit(32, 2, "jacobi"),
    "svd": Limit(32, 2, "jacobi"),
}


def preferred(kernel: str, shape: tuple[int, ...], library: str = "default", driver: str | None = None) -> str:
    """The name of the implementation that is asked first for matrices of this shape.

    `driver` is that of one call: "gesvdj" and "syevj" are Jacobi's, the others those of the blocked family.
    """
    if driver is not None:
        return "jacobi" if driver in ("gesvdj", "gesvda", "syevj") else "magma"
    if library == "magma":
        return "magma"
    if library == "cusolver":
        return "jacobi" if kernel in _JACOBI else "batched"
    limit = LIMITS.get(kernel)
    if limit is None or max(shape[-2:]) > limit.size or math.prod(shape[:-2]) < limit.batch:
        return "magma"
    return limit.family
