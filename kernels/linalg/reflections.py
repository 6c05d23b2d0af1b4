"""The family "magma", by reflections: QR, products of Householder vectors, and least squares by them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..gemm.workspace import address_of, empty
from ..registry import ArraySpec
from . import contract
from .contract import QR, Reflectors
from .magma import declined, options

__all__ = ["Reflections"]


class Reflections(NamedTuple):
    """What one call works with: the products, the memory, and the shape of its matrices."""

    products: Any
    memory: Any

    def factor(self, a: np.ndarray, columns: int, taus: np.ndarray) -> None:
        """Factor the first columns of a (m, n) in place."""
        from .blocked_qr import householder

        householder(self.products, a, address_of(a), columns, taus, self.memory)

    def triangles(self, a: np.ndarray, taus: np.ndarray) -> None:
        from .blocked_qr import factor_triangles

        factor_triangles(self.products, a, address_of(a), taus, self.memory)

    def apply(self, a: np.ndarray, count: int, c: np.ndarray, transposed: bool = False, upper: bool = False) -> None:
        """Q C or Q.T C in place, by the vectors in a that were factored last."""
        from .blocked_qr import apply_reflections

        at = address_of(a), address_of(c)
        apply_reflections(self.products, a, at[0], count, transposed, upper, c, at[1], self.memory)


@contextmanager
def reflections(
    dtype: np.dtype, m: int, count: int, widest: int, precision: str = "ieee", rounding: str = "rna"
) -> Iterator[Reflections]:
    """For at most `count` reflections of m rows, applied to at most `widest` columns."""
    from .blocked_qr import PANEL, WIDE, Memory
    from .updates import Session

    triangles, panel = empty((-(-count // WIDE), WIDE, WIDE), dtype), empty((PANEL * m,), dtype)
    vectors, gram = empty((m, WIDE), dtype), empty((WIDE, WIDE), dtype)
    work, turned = (empty((WIDE, max(widest, WIDE)), dtype) for _ in range(2))
    at = (address_of(each) for each in (triangles, panel, vectors, gram, work, turned))
    with Session(dtype, max(m, WIDE), max(widest, WIDE), precision, rounding) as products:
        yield Reflections(products, Memory(triangles, panel, vectors, gram, *at))


def _each(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, *array.shape[-2:])


def _factored(a: np.ndarray, columns: int, **keywords: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Vectors and taus, and the first `columns` columns of Q, unless there are none."""
    m, n = a.shape[-2:]
    count, packed = min(m, n), np.array(a, order="C")
    taus = empty((*a.shape[:-2], count), a.dtype)
    q = np.zeros((*a.shape[:-2], m, columns), a.dtype) if columns else None
    with reflections(a.dtype, m, count, max(n, columns), **options(keywords)) as by:
        for index, (matrix, tau) in enumerate(zip(_each(packed), taus.reshape(-1, count), strict=True)):
            by.factor(matrix, count, tau)
            if q is not None:
                own = _each(q)[index]
                np.fill_diagonal(own, 1)
                by.apply(matrix, count, own, upper=True)
    return packed, taus, q


@contract.geqrf.impl("magma", refuses=declined)
def geqrf(a: np.ndarray, **keywords: Any) -> Reflectors:
    packed, taus, _ = _factored(a, 0, **keywords)
    return Reflectors(packed, taus, {"routine": "geqrf, blocked"})


@contract.qr.impl("magma", refuses=declined)
def qr(a: np.ndarray, *, mode: str = "reduced", **keywords: Any) -> QR:
    m, n = a.shape[-2:]
    columns = m if mode == "complete" else min(m, n)
    packed, _, q = _factored(a, 0 if mode == "r" else columns, **keywords)
    return QR(q, np.triu(packed[..., :columns, :]), {"routine": "geqrf, orgqr, blocked"})


@contract.householder_product.impl("magma", refuses=declined)
def householder_product(a: np.ndarray, tau: np.ndarray, **keywords: Any) -> np.ndarray:
    (m, n), count = a.shape[-2:], tau.shape[-1]
    q, packed = np.zeros(a.shape, a.dtype), np.ascontiguousarray(a)
    taus = np.ascontiguousarray(tau).reshape(-1, count)
    with reflections(a.dtype, m, count, n, **options(keywords)) as by:
        for matrix, own_taus, own in zip(_each(packed), taus, _each(q), strict=True):
            np.fill_diagonal(own, 1)
            by.triangles(matrix, own_taus)
            by.apply(matrix, count, own, upper=True)
    return q


def not_by_reflections(a: ArraySpec, b: ArraySpec, *, driver: str, precision: str = "ieee", **_: Any) -> str | None:
    """Why least squares are not solved by reflections without pivoting."""
    m, n = a.shape[-2:]
    if m < n:
        return f"solves systems of at least as many rows as columns, not {m} x {n}"
    if driver == "gels" or (driver == "gelsy" and precision != "ieee"):
        return declined(a, b)
    return f"driver={driver!r} finds ranks by pivoting or singular values, which this does not"
