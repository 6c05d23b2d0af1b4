"""The family "magma": blocked factorisations, rich in products, on the project's own product kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np

from ..gemm import matmul
from ..precisions.products import is_exact
from ..registry import ArraySpec, without_observers
from ..runtime.context import restore_on_failure
from ..runtime.threading import pool
from ..runtime.workspace import Workspace, address_of, empty
from . import by_matmul, choice, contract
from .contract import LU, Cholesky, Inverse, Solution
from .refine import Refined, in_each, refine_solution, row_norm


def refusal(*specs: ArraySpec, **_: Any) -> str | None:
    """Why these kernels do not take the arrays, or None."""
    if specs[0].dtype.kind != "f":
        return f"is compiled for float32 and float64, not {specs[0].dtype}"
    if not all(math.prod(each.shape) for each in specs):
        return "has nothing to do for arrays without elements"
    return None


def options(keywords: dict[str, Any]) -> dict[str, Any]:
    """Those of the products."""
    return {
        name: keywords[name] for name in ("precision", "rounding", "to_be_refined", "unit", "bits") if name in keywords
    }


def _each(*arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """The matrices of a batch; the last two dimensions of each array stay."""
    stacks = [a.reshape(-1, *a.shape[-2:]) for a in arrays]
    return zip(*stacks, strict=True)


def _rows(a: np.ndarray) -> np.ndarray:
    """The array, or a copy, with neighbouring numbers in its rows."""
    return a if a.strides[-1] == a.itemsize and a.strides[-2] >= a.shape[-1] * a.itemsize else np.ascontiguousarray(a)


_WHOLE, _LOWER, _UPPER = 0, 1, 2


def _copy(p: Any, a: np.ndarray, out: np.ndarray, part: int = _WHOLE) -> None:
    """Copy a matrix, or a triangle of it and zeros."""
    from .squares import copy_rows

    a = _rows(a)
    places = (address_of(a), a.strides[0], address_of(out), out.strides[0])
    copy_rows(p.tag, p.pool, p.threads, *a.shape, *places, part)


@contract.cholesky.impl("magma", refuses=refusal, by_unit=True, scales=True)
def cholesky(a: np.ndarray, **keywords: Any) -> Cholesky:
    from . import blocked_cholesky
    from .updates import Session

    if choice.multiplies_by_matmul(keywords):
        return Cholesky(*by_matmul.cholesky(a, **keywords), {"routine": "potrf, by products"})
    n, L, info = a.shape[-1], empty(a.shape, a.dtype), np.zeros(a.shape[:-2], np.int32)
    with Session(a.dtype, n, n, **options(keywords), of=a) as p:
        for index, (matrix, out) in enumerate(_each(a, L)):
            _copy(p, matrix, out, _LOWER)
            info.reshape(-1)[index] = blocked_cholesky.cholesky(p, n, address_of(out), out.strides[0])
            _copy(p, out, out, _LOWER)
    return Cholesky(L, info, {"routine": "potrf, blocked"})


def _strip(n: int, precision: str = "ieee", **_: Any) -> int:
    """Columns of the blocks of an LU factorisation, where bench/NOTES.md has the least time."""
    if n <= 512:
        return 64
    return 128 if n < 2048 or precision != "ieee" else 256


_KEPT = 8
"""Packed blocks that updates may still wait for."""

_INVERSE_STRIP = 128
"""Columns of an inverse that one worker finds at a time."""


def _row_bytes(n: int, dtype: np.dtype) -> int:
    """From row to row of n numbers which are not to share the sets of a cache, as those of 1, 2, 4 ... KiB do."""
    count = n * dtype.itemsize
    return count if count % 1024 else count + 128


class _Factors(NamedTuple):
    """Memory for the LU factors of a stack of matrices, and how they are found."""

    packed: np.ndarray
    pivots: np.ndarray
    info: np.ndarray
    strip: int
    lines: np.ndarray
    """`packed` with all that lies between its rows."""

    @classmethod
    def of(cls, a: np.ndarray, **keywords: Any) -> _Factors:
        k, strip = min(a.shape[-2:]), _strip(min(a.shape[-2:]), **keywords)
        pivots, info = np.zeros((*a.shape[:-2], k), np.int32), np.zeros(a.shape[:-2], np.int32)
        lines = empty((*a.shape[:-1], _row_bytes(a.shape[-1], a.dtype) // a.itemsize), a.dtype)
        return cls(lines[..., : a.shape[-1]], pivots, info, strip, lines)

    def alone(self) -> tuple[int, int, int]:
        """The shape of products for a session."""
        return self.packed.shape[-2], self.strip, self.strip

    def each(self, p: Any, a: np.ndarray) -> Iterator[tuple[Any, ...]]:
        """For each matrix the arguments of `blocked_lu.lu`, but for right sides."""
        from .blocked_lu import Blocks
        from .updates import left_bytes

        m, n = a.shape[-2:]
        block_bytes = left_bytes(p.leaves, m, min(self.strip, n))
        swaps = self.pivots.reshape(-1, min(m, n))
        with Workspace(_KEPT * block_bytes) as blocks:
            for index, (matrix, out) in enumerate(_each(a, self.packed)):
                rows = _rows(matrix)
                places = address_of(rows), rows.strides[0], address_of(out), out.strides[0]
                yield p, m, n, *places, swaps[index], self.strip, Blocks(blocks, block_bytes, _KEPT)


@contract.lu_factor.impl("magma", refuses=refusal, by_unit=True, scales=True)
def lu_factor(a: np.ndarray, **keywords: Any) -> LU:
    from .blocked_lu import Sides, lu
    from .updates import Session

    if choice.multiplies_by_matmul(keywords):
        return LU(*by_matmul.lu_factor(a, **keywords), {"routine": "getrf, by products"})
    named, (m, n) = options(keywords), a.shape[-2:]
    factors = _Factors.of(a, **named)
    with Session(a.dtype, m, n, **named, alone=(factors.alone(),), of=a) as p:
        for index, arguments in enumerate(factors.each(p, a)):
            factors.info.flat[index] = lu(*arguments, Sides(0, 0, 0))
    return LU(*factors[:3], {"routine": "getrf, blocked"})


@contract.triangular_solve.impl("magma", refuses=refusal, by_unit=True, scales=True)
def triangular_solve(
    a: np.ndarray, b: np.ndarray, *, upper: bool = False, left: bool = True, unitriangular: bool = False,
    transpose: bool = False, **keywords: Any,
) -> np.ndarray:  # fmt: skip
    from .few_sides import FEW
    from .triangular import solve_triangular
    from .updates import Session

    if choice.multiplies_by_matmul(keywords):
        which = {"upper": upper, "left": left, "unitriangular": unitriangular, "transpose": transpose}
        return by_matmul.triangular_solve(a, b, **which, **keywords)
    n, x = a.shape[-1], empty(b.shape, b.dtype)
    if left and b.shape[-1] <= FEW:
        for matrix, right, out in _each(a, b, x):
            out[...] = _few_sides(matrix, right, not upper, unitriangular, transpose)
        return x
    with Session(a.dtype, max(n, *b.shape[-2:]), n, **options(keywords)) as p:
        for matrix, right, out in _each(a, b, x):
            _copy(p, right, out)
            matrix = _rows(matrix)
            strides = matrix.strides[::-1] if transpose else matrix.strides
            width, at, row = b.shape[-1 if left else -2], address_of(out), out.strides[0]
            lower = upper == transpose
            solve_triangular(p, n, width, address_of(matrix), *strides, lower, unitriangular, not left, at, row)
    return x


def _lines(matrix: np.ndarray) -> np.ndarray:
    """A matrix with all that lies between its rows, for compiled code, which takes arrays without gaps."""
    matrix = _rows(matrix)
    row, size = matrix.strides[0], matrix.itemsize
    return np.lib.stride_tricks.as_strided(matrix, (matrix.shape[0], row // size), (row, size))


def _few_sides(matrix: np.ndarray, right: np.ndarray, lower: bool, unit: bool, transposed: bool) -> np.ndarray:
    """A triangular system with few right sides (n, k)."""
    from .few_sides import solve_few

    x = right.T.copy()
    solve_few(*_threads_for(matrix), _lines(matrix), x, lower, unit, transposed)
    return x.T


def _threads_for(matrix: np.ndarray) -> tuple[int, int]:
    state, threads = pool()
    return state, threads if matrix.size > 1 << 14 else 1


@contract.lu_solve.impl("magma", refuses=refusal, by_unit=True, scales=True)
def lu_solve(
    packed: np.ndarray, pivots: np.ndarray, b: np.ndarray, *, transpose: bool = False, **keywords: Any
) -> np.ndarray:
    from . import blocked_lu
    from .few_sides import FEW, solve_by_factors
    from .updates import Session

    (n, width), x = b.shape[-2:], empty(b.shape, b.dtype)
    swaps = np.ascontiguousarray(pivots).reshape(-1, n)
    if width <= FEW:
        for index, (factor, right, out) in enumerate(_each(packed, b, x)):
            places = (*_threads_for(factor), _lines(factor), swaps[index])
            rows = np.ascontiguousarray(right.T)
            work, found = np.empty_like(rows), np.empty_like(rows)
            solve_by_factors(*places, rows, work, found, transpose)
            out[...] = found.T
        return x
    with Session(b.dtype, max(n, width), n, **options(keywords)) as p:
        for index, (factor, right, out) in enumerate(_each(packed, b, x)):
            factor = _rows(factor)
            _copy(p, right, out)
            where = address_of(factor), factor.strides[0], swaps[index], transpose, address_of(out), out.strides[0]
            blocked_lu.lu_solve(p, n, width, *where)
    return x


def lowers_precision(precision: str, refine: bool) -> bool:
    """Whether factors are of low precision and solutions are to be refined."""
    return refine and not is_exact(precision)


def _of_blocks(n: int) -> bool:
    """Whether a matrix is more than one block: the factors of one, and substitution with it, have no products."""
    from .updates import BLOCK

    return n > BLOCK


@contract.solve.impl("magma", refuses=refusal, by_unit=True, scales=True)
def solve(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", refine: bool = True, **keywords: Any) -> Solution:
    """Refined where the precision of the factors is below float32's."""
    from .few_sides import FEW

    low = lowers_precision(precision, refine) and _of_blocks(a.shape[-1])
    keywords |= {"precision": precision, "to_be_refined": low}
    if b.shape[-1] <= FEW and not choice.multiplies_by_matmul(keywords):
        x, packed, pivots, info = _few_solutions(a, b, **options(keywords))
    else:
        packed, pivots, info, _ = lu_factor(a, **keywords)
        x = lu_solve(packed, pivots, b)
    report = {"routine": "getrf, getrs, blocked"}
    if low and not info.any():
        report |= _refined_solutions(a, b, x, packed, pivots, precision)
    return Solution(x, packed, pivots, info, report)


def _few_solutions(a: np.ndarray, b: np.ndarray, **named: Any) -> tuple[np.ndarray, ...]:
    """Solutions for few right sides, and the factors. Whatever Python has to do is done before the first compiled
    function is called, and after the last: those empty the caches, and it takes three times as long between them."""
    from .blocked_lu import Sides, lu
    from .few_sides import solve_few
    from .updates import Session

    (n, sides), lanes = b.shape[-2:], 64 // b.itemsize
    y = empty((sides, -(-n // lanes) * lanes), b.dtype)
    factors, x = _Factors.of(a, **named), empty(b.shape, b.dtype)
    info = factors.info.reshape(-1)
    with Session(a.dtype, n, n, **named, alone=(factors.alone(),)) as p:
        systems = zip(factors.each(p, a), _each(factors.lines, b, x), strict=True)
        for index, (arguments, (lines, right, out)) in enumerate(systems):
            y[:, :n] = right.T
            then = *_threads_for(lines), lines, y, False, False, False
            info[index] = lu(*arguments, Sides(sides, address_of(y), y.strides[0]))
            solve_few(*then)
            out[...] = y[:, :n].T
    return x, *factors[:3]


@restore_on_failure
def _refined_solutions(
    a: np.ndarray, b: np.ndarray, x: np.ndarray, packed: np.ndarray, pivots: np.ndarray, precision: str
) -> dict[str, Any]:
    """Refine x in place."""
    systems = [*_each(a, b, x, packed)]
    swaps = pivots.reshape(-1, pivots.shape[-1])

    def problem(index: int) -> tuple[Refined, np.ndarray]:
        matrix, right, out, factors = systems[index]
        by_factors = partial(lu_solve, factors, swaps[index])
        return refine_solution(out, right, row_norm(matrix), partial(matmul, matrix), by_factors), out

    def again(index: int) -> np.ndarray:
        return solve(*systems[index][:2]).x

    with without_observers():
        return in_each(map(problem, range(len(systems))), again, precision)


@contract.inv.impl("magma", refuses=refusal, by_unit=True, scales=True)
@restore_on_failure
def inv(a: np.ndarray, *, precision: str = "ieee", refine: bool = True, **keywords: Any) -> Inverse:
    """Refined where the precision of the factors is below float32's, by products with the inverse itself."""
    low = lowers_precision(precision, refine) and _of_blocks(a.shape[-1])
    inverse, info = _inverse(a, precision=precision, to_be_refined=low, **keywords)
    report = {"routine": "getrf, getri, blocked"}
    if low and not info.any():
        identity, pairs = np.eye(a.shape[-1], dtype=a.dtype), [*_each(a, inverse)]

        def problem(matrix: np.ndarray, own: np.ndarray) -> tuple[Refined, np.ndarray]:
            by_inverse = partial(matmul, own.copy(), precision=precision, **keywords)
            return refine_solution(own, identity, row_norm(matrix), partial(matmul, matrix), by_inverse), own

        with without_observers():
            report |= in_each(starmap(problem, pairs), lambda index: _inverse(pairs[index][0])[0], precision)
    return Inverse(inverse, info, report)


def _inverse(a: np.ndarray, **keywords: Any) -> tuple[np.ndarray, np.ndarray]:
    from .blocked_lu import Sides, invert, lu
    from .prepared import places
    from .updates import Session

    if choice.multiplies_by_matmul(keywords):
        packed, pivots, info = by_matmul.lu_factor(a, **keywords)
        identity = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
        return np.where(info[..., None, None] > 0, np.triu(packed), lu_solve(packed, pivots, identity)), info
    named, n, strip = options(keywords), a.shape[-1], _INVERSE_STRIP
    factors, inverse, x_row = _Factors.of(a, **named), empty(a.shape, a.dtype), _row_bytes(n, a.dtype)
    swaps, info = factors.pivots.reshape(-1, n), factors.info.reshape(-1)
    with Session(a.dtype, n, n, **named, alone=(factors.alone(), (n, strip, n))) as p:
        offsets, count = places(p.leaves, n)
        with Workspace(count + n * x_row) as memory:
            starts, x = offsets + memory, memory + count
            for index, (arguments, (packed, out)) in enumerate(
                zip(factors.each(p, a), _each(factors.packed, inverse), strict=True)
            ):
                rows = packed.strides[0], x_row, out.strides[0]
                then = p, n, address_of(packed), x, address_of(out), *rows, swaps[index], strip, starts
                info[index] = lu(*arguments, Sides(0, 0, 0))
                if info[index]:
                    _copy(p, packed, out, _UPPER)  # as LAPACK's getri leaves it
                else:
                    invert(*then)
    return inverse, factors.info


@contract.cholesky_solve.impl("magma", refuses=refusal, by_unit=True, scales=True)
@restore_on_failure
def cholesky_solve(
    L: np.ndarray, b: np.ndarray, *, precision: str = "ieee", refine: bool = True, **keywords: Any
) -> np.ndarray:
    """Refined, with residuals of L @ L.T, where the precision of the products is below float32's."""
    if not (lowers_precision(precision, refine) and _of_blocks(L.shape[-1])):
        return _by_triangles(L, b, precision=precision, **keywords)
    keywords |= {"precision": precision, "to_be_refined": True}
    x = _by_triangles(L, b, **keywords)
    systems = [*_each(np.tril(L), b, x)]

    def problem(lower: np.ndarray, right: np.ndarray, own: np.ndarray) -> tuple[Refined, np.ndarray]:
        magnitudes = np.abs(lower)
        norm = float((magnitudes @ magnitudes.sum(0)).max())
        correction = partial(_by_triangles, lower, **keywords)
        return refine_solution(own, right, norm, lambda y: matmul(lower, matmul(lower.T, y)), correction), own

    with without_observers():
        in_each(starmap(problem, systems), lambda index: _by_triangles(*systems[index][:2]), precision)
    return x


def _by_triangles(L: np.ndarray, b: np.ndarray, **keywords: Any) -> np.ndarray:
    return triangular_solve(L, triangular_solve(L, b, **keywords), transpose=True, **keywords)
