"""Blocked factorisations whose products are calls of `matmul`: for operands with scales, units of devices, and emulated
float64.

Panels and triangles of `BLOCK` columns are LAPACK's, and all behind them is a product at the precision and by the unit
of the call, with K along the block's columns: right-looking LU and Cholesky factorisation (LAPACK's getrf, potrf),
substitution, and reflections in the compact WY form (R. Schreiber, C. Van Loan, "A storage-efficient WY representation
for products of Householder transformations", 1989). The loops of the family "magma" read operands as they pack them,
and so round each number by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ..gemm import matmul
from ..registry import without_observers
from ..runtime.context import restore_on_failure
from . import lapack

BLOCK = 64
"""Columns of a panel, as in the compiled factorisations; two blocks of 32 of the MX formats."""

Times = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _times(keywords: dict[str, Any]) -> Times:
    """The product of a call."""
    return partial(
        matmul, **{name: keywords[name] for name in ("precision", "rounding", "unit", "bits") if name in keywords}
    )


def _blocks(n: int) -> Iterator[slice]:
    return (slice(first, min(first + BLOCK, n)) for first in range(0, n, BLOCK))


@restore_on_failure
def cholesky(a: np.ndarray, **keywords: Any) -> tuple[np.ndarray, np.ndarray]:
    """The lower factors of a stack, and info."""
    L, info, times = np.tril(a), np.zeros(a.shape[:-2], np.int32), _times(keywords)
    with without_observers(), np.errstate(all="ignore"):
        for index, out in enumerate(L.reshape(-1, *a.shape[-2:])):
            for at in _blocks(len(out)):
                out[at, at], failed, _ = lapack.cholesky(out[at, at])
                if failed:
                    info.reshape(-1)[index] = at.start + failed
                    break
                after = slice(at.stop, None)
                options = {"left": False, "transpose": True}
                out[after, at] = lapack.triangular_solve(out[at, at], out[after, at], **options)
                out[after, after] -= np.tril(times(out[after, at], out[after, at].T))
    return L, info


@restore_on_failure
def lu_factor(a: np.ndarray, **keywords: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The packed factors of a stack, pivots from 1, and info."""
    packed, k, times = np.array(a, order="C"), min(a.shape[-2:]), _times(keywords)
    pivots, info = np.zeros((*a.shape[:-2], k), np.int32), np.zeros(a.shape[:-2], np.int32)
    with without_observers(), np.errstate(all="ignore"):
        for index, (out, swaps) in enumerate(
            zip(packed.reshape(-1, *a.shape[-2:]), pivots.reshape(-1, k), strict=True)
        ):
            for at in _blocks(k):
                panel, own, failed, _ = lapack.lu_factor(out[at.start :, at])
                for place, other in enumerate(own + at.start - 1, at.start):
                    out[[place, other]] = out[[other, place]]
                out[at.start :, at], swaps[at] = panel, own + at.start
                if failed and not info.reshape(-1)[index]:
                    info.reshape(-1)[index] = at.start + failed
                after = slice(at.stop, None)
                out[at, after] = lapack.triangular_solve(out[at, at], out[at, after], unitriangular=True)
                out[after, after] -= times(out[after, at], out[at, after])
    return packed, pivots, info


@restore_on_failure
def triangular_solve(
    a: np.ndarray, b: np.ndarray, *, upper: bool = False, left: bool = True, unitriangular: bool = False,
    transpose: bool = False, **keywords: Any,
) -> np.ndarray:  # fmt: skip
    """Substitution, the contract's task."""
    if not left:  # X A = B is A.T X.T = B.T
        options = {"upper": upper, "unitriangular": unitriangular, "transpose": not transpose}
        return triangular_solve(a, b.swapaxes(-1, -2), **options, **keywords).swapaxes(-1, -2)
    if transpose:
        a, upper = a.swapaxes(-1, -2), not upper
    x, times, blocks = np.array(b, order="C"), _times(keywords), [*_blocks(a.shape[-1])]
    with without_observers(), np.errstate(all="ignore"):
        for at in reversed(blocks) if upper else blocks:
            rest = slice(0, at.start) if upper else slice(at.stop, None)
            own = {"upper": upper, "unitriangular": unitriangular}
            x[..., at, :] = lapack.triangular_solve(a[..., at, at], x[..., at, :], **own)
            x[..., rest, :] -= times(a[..., rest, at], x[..., at, :])
    return x


class MatmulReflections:
    """What `reflections.Reflections` is, by products: the reflections that were factored or loaded last, in blocks of
    their vectors V and of the triangles T of Q = I - V T V.T."""

    def __init__(self, **keywords: Any) -> None:
        self._times = _times(keywords)
        self._of: list[tuple[slice, np.ndarray, np.ndarray]] = []

    def factor(self, a: np.ndarray, columns: int, taus: np.ndarray) -> None:
        """Factor the first columns of a (m, n) in place."""
        self._of = []
        for at in _blocks(columns):
            a[at.start :, at], taus[at], _ = lapack.geqrf(a[at.start :, at])
            block = self._add(at, a, taus)
            self._turn(*block, a[:, at.stop :], True)

    def load(self, a: np.ndarray, taus: np.ndarray) -> None:
        """Take vectors and taus that were factored elsewhere."""
        self._of = []
        for at in _blocks(len(taus)):
            self._add(at, a, taus)

    def apply(self, count: int, c: np.ndarray, transposed: bool = False, upper: bool = False) -> None:
        """Q C or Q.T C in place."""
        for block in self._of if transposed else reversed(self._of):
            if block[0].start < count:
                self._turn(*block, c, transposed)

    def _add(self, at: slice, a: np.ndarray, taus: np.ndarray) -> tuple[slice, np.ndarray, np.ndarray]:
        vectors = np.tril(a[at.start :, at], -1)
        np.fill_diagonal(vectors, 1)
        gram, triangle = vectors.T @ vectors, np.zeros((vectors.shape[1],) * 2, a.dtype)
        for j, tau in enumerate(taus[at]):
            triangle[:j, j], triangle[j, j] = -tau * (triangle[:j, :j] @ gram[:j, j]), tau
        self._of.append((at, vectors, triangle))
        return self._of[-1]

    def _turn(self, at: slice, vectors: np.ndarray, triangle: np.ndarray, c: np.ndarray, transposed: bool) -> None:
        seen = self._times(vectors.T, c[at.start :])
        c[at.start :] -= self._times(vectors, self._times(triangle.T if transposed else triangle, seen))
