"""The family of implementations that is tried first: that of the flag, or by size for "default".

The names are those of `torch.backends.cuda.preferred_linalg_library`. "magma" is the blocked algorithms and, for
eigenvalues and singular values, LAPACK's divide and conquer. "cusolver" is the kernels for many small matrices
("batched") and, for eigenvalues and singular values, Jacobi rotations ("jacobi"); calls that they refuse go to the
other families.

"default" chooses by size, as PyTorch does for cuSOLVER (there, eigh by Jacobi rotations for batches of at most 32 x 32,
LU by the batched kernel for large batches): the kernels for small matrices where they are faster than LAPACK per matrix
(one matrix may suffice), LAPACK for other small ones, "magma" for large ones. The measurements are in bench/NOTES.md.
"""

from __future__ import annotations

import math
from typing import Any

from ..precisions.products import is_emulated, is_scaled

SMALL = 32
"""The largest size of the kernels for small matrices."""

LARGE = 128
"""The least size of blocked algorithms, whose calls cost 40 us more than LAPACK's. At a reduced precision, which LAPACK
does not have, they are asked from `SMALL` on."""

_JACOBI = frozenset({"eigh", "svd"})

_BATCHES: dict[str, tuple[tuple[int, int], ...]] = {
    "cholesky": ((16, 1), (SMALL, 2)), "lu_factor": ((24, 1), (SMALL, 2)), "solve": ((SMALL, 1),),
    "inv": ((16, 1), (SMALL, 2)), "lu_solve": ((SMALL, 2),), "cholesky_solve": ((SMALL, 4),),
    "cholesky_inverse": ((16, 1), (SMALL, 2)), "triangular_solve": ((SMALL, 8),), "qr": ((SMALL, 1),),
    "geqrf": ((24, 2), (SMALL, 4)), "eigh": ((16, 4), (SMALL, 8)), "svd": ((8, 1), (12, 2), (16, 3), (SMALL, 8)),
}  # fmt: skip
"""For each task pairs of a size and of the least batch that, up to this size, is quicker by the kernel for small
matrices than by one call of LAPACK for each."""


def smallest_batch(kernel: str, size: int) -> float:
    """The smallest batch of matrices of this size for which "default" prefers the kernel for small matrices; infinity
    for never."""
    return next((batch for limit, batch in _BATCHES.get(kernel, ()) if size <= limit), math.inf)


def multiplies_by_matmul(keywords: dict[str, Any]) -> bool:
    """Whether products of these keywords are made by `by_matmul`."""
    precision = keywords.get("precision", "ieee")
    return "unit" in keywords or is_scaled(precision) or is_emulated(precision)


def preferred_name(
    kernel: str, shape: tuple[int, ...], library: str = "default", driver: str | None = None, lowered: bool = False
) -> str:
    """The name of the implementation that is asked first for matrices of this shape.

    `lowered`: the products inside may have a lower precision than float32.
    `driver` is that of one call: "gesvdj" and "gesvda" are Jacobi's, the others those of the blocked family.
    """
    if driver is not None:
        return "jacobi" if driver in ("gesvdj", "gesvda") else "magma"
    small = "jacobi" if kernel in _JACOBI else "batched"
    if library != "default":
        return small if library == "cusolver" else "magma"
    size = max(shape[-2:])
    if size > SMALL:
        return "magma" if lowered or size >= LARGE else "lapack"
    return small if math.prod(shape[:-2]) >= smallest_batch(kernel, size) else "lapack"
