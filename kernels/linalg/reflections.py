"""The family "magma", by reflections: QR, products of Householder vectors, and least squares by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..gemm import matmul
from ..registry import ArraySpec, Refused, without_observers
from ..runtime.context import restore_on_failure
from ..runtime.first_use import load
from ..runtime.workspace import address_of, empty
from . import by_matmul, choice, contract
from .contract import QR, Lstsq, Reflectors
from .magma import lowers_precision, options, refusal, triangular_solve
from .refine import Refined, in_each, refine_solution, row_norm


def _rows_of(a: np.ndarray) -> tuple[int, int]:
    """Where a matrix lies, whose rows the loops take for contiguous, and bytes from row to row."""
    assert a.size == 0 or a.strides[1] == a.itemsize, "an internal error: a matrix that is not in rows"
    return address_of(a), a.strides[0]


class Reflections(NamedTuple):
    """What one call works with: the products and the memory, in which the reflections are that were factored last."""

    products: Any
    memory: Any

    def factor(self, a: np.ndarray, columns: int, taus: np.ndarray) -> None:
        """Factor the first columns of a (m, n) in place."""
        from .blocked_qr import householder

        householder(self.products, *a.shape, *_rows_of(a), columns, taus, self.memory)

    def load(self, a: np.ndarray, taus: np.ndarray) -> None:
        """Take vectors and taus that were factored elsewhere."""
        from .blocked_qr import load_reflections

        load_reflections(self.products, a.shape[0], *_rows_of(a), taus, self.memory)

    def apply(self, count: int, c: np.ndarray, transposed: bool = False, upper: bool = False) -> None:
        """Q C or Q.T C in place."""
        from .blocked_qr import apply_reflections

        apply_reflections(self.products, *c.shape, count, transposed, upper, *_rows_of(c), self.memory)


@contextmanager
def reflections(
    dtype: np.dtype, m: int, count: int, **keywords: Any
) -> Iterator[Reflections | by_matmul.MatmulReflections]:
    """For at most `count` reflections of m rows; `keywords` are the session's."""
    if choice.multiplies_by_matmul(keywords):
        with without_observers():
            yield by_matmul.MatmulReflections(**keywords)
        return
    from .blocked_qr import PANEL, WIDE, Memory
    from .updates import Session, left_bytes

    blocks = -(-count // WIDE)
    with Session(dtype, max(m, WIDE), WIDE, **keywords, alone=((m, WIDE, WIDE), (WIDE, WIDE, m))) as products:
        turned_bytes = left_bytes(products.leaves, WIDE, m)
        block_bytes = turned_bytes + left_bytes(products.leaves, m, WIDE)
        triangles, panel = empty((blocks, WIDE, WIDE), dtype), empty((PANEL * m,), dtype)
        vectors, gram = empty((m, WIDE), dtype), empty((WIDE, WIDE), dtype)
        work, turned = (empty((products.threads, WIDE, WIDE), dtype) for _ in range(2))
        packed = empty((blocks, block_bytes), np.dtype(np.uint8))
        at = (address_of(each) for each in (triangles, panel, vectors, gram, work, turned, packed))
        yield Reflections(products, Memory(triangles, panel, vectors, gram, turned_bytes, block_bytes, *at))


def _each(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, *array.shape[-2:])


@restore_on_failure
def _factor(a: np.ndarray, columns: int, **keywords: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Vectors and taus, and the first `columns` columns of Q, unless there are none."""
    m, n = a.shape[-2:]
    count, packed = min(m, n), np.array(a, order="C")
    taus = empty((*a.shape[:-2], count), a.dtype)
    q = np.zeros((*a.shape[:-2], m, columns), a.dtype) if columns else None
    with reflections(a.dtype, m, count, **options(keywords)) as by:
        for index, (matrix, tau) in enumerate(zip(_each(packed), taus.reshape(-1, count), strict=True)):
            by.factor(matrix, count, tau)
            if q is not None:
                own = _each(q)[index]
                np.fill_diagonal(own, 1)
                by.apply(count, own, upper=True)
    return packed, taus, q


@contract.geqrf.impl("magma", refuses=refusal, by_unit=True, scales=True)
def geqrf(a: np.ndarray, **keywords: Any) -> Reflectors:
    packed, taus, _ = _factor(a, 0, **keywords)
    return Reflectors(packed, taus, {"routine": "geqrf, blocked"})


@contract.qr.impl("magma", refuses=refusal, by_unit=True, scales=True)
def qr(a: np.ndarray, *, mode: str = "reduced", **keywords: Any) -> QR:
    m, n = a.shape[-2:]
    columns = m if mode == "complete" else min(m, n)
    packed, _, q = _factor(a, 0 if mode == "r" else columns, **keywords)
    return QR(q, np.triu(packed[..., :columns, :]), {"routine": "geqrf, orgqr, blocked"})


@contract.householder_product.impl("magma", refuses=refusal, by_unit=True, scales=True)
@restore_on_failure
def householder_product(a: np.ndarray, tau: np.ndarray, **keywords: Any) -> np.ndarray:
    m, count = a.shape[-2], tau.shape[-1]
    q, packed = np.zeros(a.shape, a.dtype), np.ascontiguousarray(a)
    taus = np.ascontiguousarray(tau).reshape(-1, count)
    with reflections(a.dtype, m, count, **options(keywords)) as by:
        for matrix, own_taus, own in zip(_each(packed), taus, _each(q), strict=True):
            np.fill_diagonal(own, 1)
            by.load(matrix, own_taus)
            by.apply(count, own, upper=True)
    return q


def _not_by_reflections(a: ArraySpec, b: ArraySpec, *, driver: str, precision: str = "ieee", **_: Any) -> str | None:
    """Why least squares are not solved by reflections without pivoting."""
    m, n = a.shape[-2:]
    if m < n:
        return f"solves systems of at least as many rows as columns, not {m} x {n}"
    if driver == "gels" or (driver == "gelsy" and lowers_precision(precision, True)):
        return refusal(a, b)
    return f"driver={driver!r} finds ranks by pivoting or singular values, which this does not"


@contract.lstsq.impl("magma", refuses=_not_by_reflections, by_unit=True, scales=True)
@restore_on_failure
def lstsq(
    a: np.ndarray, b: np.ndarray, *, rcond: float, driver: str, precision: str = "ieee", refine: bool = True,
    **keywords: Any,
) -> Lstsq:  # fmt: skip
    """By QR of a with b as further columns, for full rank; refined where the precision of the factors is below
    float32's. For "gelsy" the rank is certain if R's condition is below that precision and `rcond`, and refused if
    not."""
    (m, n), count = a.shape[-2:], b.shape[-1]
    low = lowers_precision(precision, refine)
    info, x = np.zeros(a.shape[:-2], np.int32), empty((*a.shape[:-2], n, count), a.dtype)
    limit = max(rcond, 4 * n**0.5 * contract.lstsq.bound[precision]) if driver == "gelsy" else None
    problems, found = [*zip(_each(a), _each(b), _each(x), strict=True)], []
    keywords |= {"precision": precision, "to_be_refined": low}
    with reflections(a.dtype, m, n, **keywords) as by, without_observers():
        for index, (matrix, right, out) in enumerate(problems):
            solved = _LeastSquares(by, matrix, right)
            info.reshape(-1)[index] = solved.info(limit)
            if not info.reshape(-1)[index]:
                out[...] = solved.x()
                if low:
                    found.append((solved.refine(out), out))
    report = {"routine": "gels, blocked"}
    if low:
        exact = partial(lstsq, rcond=rcond, driver="gels")
        report |= in_each(found, lambda index: exact(*problems[index][:2]).x, precision)
    rank = None if limit is None else np.full(info.shape, n, np.int64)
    return Lstsq(x, rank, None, info, report)


class _LeastSquares:
    """One problem, factored. Scaled to a norm near 1, so that residuals and solutions weigh alike."""

    def __init__(self, by: Reflections | by_matmul.MatmulReflections, a: np.ndarray, b: np.ndarray) -> None:
        self.by, self.n = by, a.shape[1]
        largest = max(row_norm(a), np.finfo(a.dtype).tiny)
        scale = a.dtype.type(2.0 ** -np.frexp(largest)[1]) if largest < np.inf else a.dtype.type(1)
        self.a, self.b = a * scale, b * scale
        self.factors = np.ascontiguousarray(np.concatenate([self.a, self.b], -1))  # which follows the order of both
        by.factor(self.factors, self.n, np.empty(self.n, a.dtype))
        self.R = np.triu(self.factors[: self.n, : self.n])

    def info(self, limit: float | None) -> int:
        """Of gels: the first zero on R's diagonal, from 1. Raises Refused where the condition is beyond the limit."""
        if limit is not None and not _reciprocal_condition(self.R) > limit:
            raise Refused("the rank is not certain at this precision, and needs pivoting")
        zeros = np.flatnonzero(np.diagonal(self.R) == 0)
        return int(zeros[0]) + 1 if zeros.size else 0

    def x(self) -> np.ndarray:
        return triangular_solve(self.R, self.factors[: self.n, self.n :], upper=True)

    def refine(self, x: np.ndarray) -> Refined:
        """Refine x and the residual r together, as the solution of r + A x = b, A.T r = 0 (A. Bjorck, "Iterative
        refinement of linear least squares solutions", BIT 7, 1967)."""
        m = self.b.shape[0]
        norm = max(1 + row_norm(self.a), row_norm(self.a.T))
        sought = np.concatenate([self.b - matmul(self.a, x), x])
        given = np.concatenate([self.b, np.zeros_like(x)])
        found = refine_solution(sought, given, norm, self._apply, self._correction, small=0)
        return found._replace(x=found.x[m:])

    def _apply(self, y: np.ndarray) -> np.ndarray:
        m = self.b.shape[0]
        return np.concatenate([y[:m] + matmul(self.a, y[m:]), matmul(self.a.T, y[:m])])

    def _correction(self, residual: np.ndarray) -> np.ndarray:
        m, n = self.a.shape
        z = triangular_solve(self.R, residual[m:], upper=True, transpose=True)
        c = residual[:m].copy()
        self.by.apply(n, c, transposed=True)
        x = triangular_solve(self.R, c[:n] - z, upper=True)
        c[:n] = z
        self.by.apply(n, c)
        return np.concatenate([c, x])


_STEPS = 4
"""Of the power method: from a random start it finds at least two thirds of a norm here, and never more than all."""


def _reciprocal_condition(R: np.ndarray) -> float:
    """Half the estimate of 1 / (|R| |R^-1|) in the 2-norm, by the power method; 0 for a singular matrix, one with Inf
    or NaN, and on overflow.

    LAPACK's estimate in the 1-norm is up to n times smaller: 0.02 for 300 x 100 normal numbers, where this is 0.17.
    """
    if not (np.isfinite(R).all() and np.diagonal(R).all()):
        return 0.0
    R = R.astype(np.float64)
    (solve,) = load("scipy.linalg").get_lapack_funcs(("trtrs",), (R,))
    start = np.random.default_rng(0).standard_normal(len(R))

    def norm(apply: Callable[[np.ndarray, int], np.ndarray]) -> float:
        """Of a matrix, from a function of a vector and of whether it is transposed."""
        vector, found = start, 0.0
        for _ in range(_STEPS):
            vector = apply(vector / np.linalg.norm(vector), 0)
            found = float(np.linalg.norm(vector))
            vector = apply(vector / found, 1)
        return found

    with np.errstate(all="ignore"):
        size = norm(lambda vector, transposed: (R.T if transposed else R) @ vector)
        size_of_inverse = norm(lambda vector, transposed: solve(R, vector, trans=transposed)[0])
    found = 0.5 / (size * size_of_inverse)
    return found if found == found else 0.0
