"""The matrix units' rules applied: dot products by their definition, and compiled matrix products."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from ..runtime import threading
from ..runtime.workspace import address_of
from .rules import OPERANDS, Aligned, BlockRule, Chain, Halves, Lanes, Rule, Tiles, Tree, TwoStage, powers

_NAN = {np.dtype(np.float32): 0x7FFFFFFF, np.dtype(np.float16): 0x7FFF}


@np.errstate(over="ignore", invalid="ignore")  # infinities and NaN are results
def definition(
    rule: Rule, operand: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, *, result: Any = np.float32,
    promote: int = 0, halve_to: int = 0,
) -> np.ndarray:  # fmt: skip
    """n dot products: c (n) plus those of a and b (n, K), values of the format `operand`, in blocks of ascending K.

    `result` is float32 or float16, to which c is rounded first. After each `promote` places (0: never) the unit
    restarts from zero, and its sum is added, to nearest, to an fp32 number that starts as c. With `halve_to`, places
    that remain and are less than two times as many are cut in two, the first part a multiple of it (-1: equal parts of
    a K as short). A NaN operand, Inf times zero and infinities of both signs give NaN (0x7FFFFFFF, in float16 0x7FFF).
    """
    if pieces := _pieces(rule, a.shape[1], promote, halve_to):
        for at in pieces:
            c = definition(rule, operand, a[:, at], b[:, at], c, result=result, promote=promote)
        return c
    a, b, c = (np.asarray(x).astype(np.float64) for x in (a, b, np.asarray(c).astype(result)))
    if isinstance(rule, Lanes):
        parts = rule.places(a.shape[1])
        sums = (definition(rule.by, operand, a[:, at], b[:, at], np.zeros_like(c)) for at in parts)
        return _add(sums, c, result)
    rule = rule.at(a.shape[1]) if isinstance(rule, Tiles) else rule
    finite = np.isfinite(a).all(-1) & np.isfinite(b).all(-1) & np.isfinite(c)
    left, right = (_pad(np.where(finite[:, None], x, 0.0), 1, rule.length) for x in (a, b))
    if isinstance(rule, Tiles):
        left, right, promote = rule.unfold(left, 0), rule.unfold(right, 1), promote * len(rule.walk)
    total, depth = np.where(finite, c, 0.0), left.shape[1]
    every, block = promote or max(depth, 1), cast(BlockRule, rule).block
    for start in range(0, depth, every):
        part = np.zeros_like(total) if promote else total
        for k in range(start, min(start + every, depth), rule.length):
            places = slice(k, k + rule.length)
            added = block(left[:, places], right[:, places], part, OPERANDS[operand], result is np.float16)
            part = np.where(np.isinf(part), part, added)
        total = (total + part).astype(np.float32).astype(np.float64) if promote else part
    with np.errstate(invalid="ignore"):
        beyond = (_signs(a) * _signs(b)).sum(-1) + _signs(c)
    return _round_result(np.where(finite, total, beyond), result)


def _pieces(rule: Rule, depth: int, promote: int, halve_to: int) -> tuple[slice, ...]:
    """Where K is cut, if not by the loops: whole periods and two halves of the rest (OpenBLAS, MKL), lanes anywhere."""
    cuts = [*range(promote, depth, promote)] if promote else []
    if halve_to < 0 and len(cuts) == 1:
        cuts = [depth // 2, depth - depth % 2]
    elif halve_to > 0 and cuts and depth % promote:
        half, odd = divmod(promote + depth % promote, 2)
        cuts[-1] += (half + max(halve_to - 1, odd)) // halve_to * halve_to - promote  # OpenBLAS rounds down first
    elif not isinstance(rule, Lanes):
        cuts = []
    return tuple(itertools.starmap(slice, itertools.pairwise([0, *cuts, depth]))) if cuts else ()


def multiply(
    rule: Rule, operand: str | tuple[str, str], a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None, *,
    result: Any = np.float32, promote: int = 0, halve_to: int = 0,
    scales: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:  # fmt: skip
    """c (m, n) plus the product of a (m, K) and b (K, n), each entry as `definition` has it: compiled and threaded.

    `operand` names the format of both, or those of a and b. `scales` are powers of two for their elements, (m, K) and
    (K, n), whose exponents the unit adds to those of the elements.
    """
    from . import loops

    formats = (operand, operand) if isinstance(operand, str) else operand
    m, n = a.shape[0], b.shape[1]
    if pieces := _pieces(rule, a.shape[1], promote, halve_to):
        for at in pieces:
            c = multiply(rule, operand, a[:, at], b[at], c, result=result, promote=promote)
        return cast(np.ndarray, c)
    rule = rule.at(a.shape[1]) if isinstance(rule, Tiles) else rule
    if isinstance(rule, Lanes):
        parts = rule.places(a.shape[1])
        of = [None if scales is None else (scales[0][:, at], scales[1][at]) for at in parts]
        sums = (multiply(rule.by, operand, a[:, at], b[at], scales=each) for at, each in zip(parts, of, strict=True))
        return _add(sums, np.zeros((m, n)) if c is None else np.asarray(c).astype(result), result)
    with np.errstate(over="ignore"):
        out = np.zeros((m, n)) if c is None else np.array(np.broadcast_to(c, (m, n)).astype(result), np.float64)
    a, b = a.astype(np.float64), b.astype(np.float64)
    beyond = _beyond(a, b, out)
    least = [OPERANDS[each].least for each in formats]
    kind, numbers = _arguments(rule, least, result, loops)
    packing = _packing(rule)
    flushes = isinstance(rule, Tree | Tiles) or (isinstance(rule, Chain) and rule.flushes)
    sides = []
    for side, (x, axis) in enumerate(((a, 1), (b, 0))):
        x = _pad(np.where(np.isfinite(x), x, 0.0), axis, rule.length)
        if isinstance(rule, Tiles):
            x = rule.unfold(x.T if side else x, side)
            x = x.T if side else x
        if flushes:
            x[np.abs(x) < 2.0 ** least[side]] = 0.0
        factor = None if scales is None else _pad(scales[side].astype(np.float64), axis, rule.length)
        if packing is not None:
            x = _pack(x, axis, rule.length, packing)
            factor = None if factor is None else _pack(factor, axis, rule.length, packing)
        x = np.ascontiguousarray(x)
        sides += [x, powers(x, least[side])] if factor is None else [x * factor, powers(x, least[side]) * factor]
    out[~np.isfinite(out)] = 0.0
    if flushes and promote == 0:
        out[np.abs(out) < 2.0**-126] *= 0.0
    promote *= len(rule.walk) if isinstance(rule, Tiles) else 1
    if packing is not None:
        kind, promote = (kind[0], len(packing), kind[2]), promote * len(packing) // rule.length
    depth = sides[0].shape[1]
    if out.size and depth:
        sizes = m, n, depth, promote
        loops.multiply(*threading.pool(), tuple(map(address_of, (*sides, out))), sizes, kind, numbers)
    if beyond is not None:
        out = np.where(np.isfinite(beyond), out, beyond)
    return _round_result(out, result)


@np.errstate(over="ignore", invalid="ignore")
def _add(sums: Iterable[np.ndarray], c: np.ndarray, result: Any) -> np.ndarray:
    """Sums in float32 one after another, c at last."""
    total = functools.reduce(np.add, sums) + c.astype(np.float32)
    return _round_result(total.astype(np.float64), result)


def _arguments(rule: Rule, least: list[int], result: Any, loops: Any) -> tuple[tuple[int, int, int], tuple[float, ...]]:
    """The arguments of the loops for a rule: (kind, length, format of sums), and (smallest power, unit of products,
    unit of sums)."""
    half, nearest = result is np.float16, "rne16" if result is np.float16 else "rne32"
    if isinstance(rule, Aligned | Halves):
        by = rule if isinstance(rule, Aligned) else rule.by
        kind = loops.ALIGNED if by is rule else loops.HALVES
        kept = "rne16" if half else by.kept
        return (kind, rule.length, loops.KEPT[kept]), (2.0 ** by.least[half], 2.0**by.fraction, 0.0)
    if isinstance(rule, TwoStage):
        kind = loops.TWO_STAGE_APART if rule.apart else loops.TWO_STAGE
        return (kind, rule.length, loops.KEPT[nearest]), (2.0 ** sum(least), 2.0**rule.fraction, 2.0**rule.joint)
    if isinstance(rule, Chain):
        return (loops.CHAIN, rule.length, loops.KEPT[nearest]), (0.0, 1.0 - rule.fused, float(rule.flushes))
    if isinstance(rule, Tiles):
        return (loops.TILES, rule.length, loops.KEPT[nearest]), (0.0, 0.0, 1.0)
    kind = loops.TREE if isinstance(rule, Tree) else loops.EXACT
    return (kind, rule.length, loops.KEPT[nearest]), (0.0, 0.0, 0.0)


def _packing(rule: Rule) -> list[int] | None:
    """The places of a block as the loops read them, by summation order; None for unchanged. Parts that are aligned at
    once are filled up with zeros, places of -1, to multiples of four."""
    places = list(range(rule.length))
    if isinstance(rule, Chain):
        return list(rule.order)
    if isinstance(rule, Halves):
        parts = [[at for at in places if (at % 4 >= 2) == later] for later in (False, True)]
    elif isinstance(rule, Tiles) or (isinstance(rule, TwoStage) and rule.apart):
        parts = [places[::2], places[1::2]]
    elif isinstance(rule, Aligned | TwoStage):
        parts = [places]
    else:
        return None
    size = -(-len(parts[0]) // 4) * 4
    packing = [at for part in parts for at in part + [-1] * (size - len(part))]
    return None if packing == places else packing


def _pack(x: np.ndarray, axis: int, length: int, packing: list[int]) -> np.ndarray:
    """The blocks of an axis in a packing."""
    zero = x.shape[axis]
    blocks = np.arange(zero).reshape(-1, length)
    order = np.where(np.array(packing) < 0, zero, blocks[:, packing]).ravel()
    return np.take(np.pad(x, [(0, int(at == axis)) for at in range(x.ndim)]), order, axis)


def _pad(x: np.ndarray, axis: int, length: int) -> np.ndarray:
    """With zeros at the end of an axis, so that it is divided in blocks."""
    missing = -x.shape[axis] % length
    return np.pad(x, [(0, missing if place == axis else 0) for place in range(x.ndim)])


def _signs(x: np.ndarray) -> np.ndarray:
    """Signs of finite numbers, and the others as they are: sums of their products say which results are Inf or NaN."""
    return np.where(np.isfinite(x), np.sign(x), x)


def _beyond(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray | None:
    """The results that are Inf or NaN because operands are, among finite ones; None if all operands are finite."""
    if all(np.isfinite(x).all() for x in (a, b, c)):
        return None
    with np.errstate(invalid="ignore"):
        found = np.where(np.isfinite(c), 0.0, c)
        for place in np.flatnonzero(~np.isfinite(a).all(0) | ~np.isfinite(b).all(1)):
            found = found + np.multiply.outer(_signs(a[:, place]), _signs(b[place]))
    return found


def _round_result(x: np.ndarray, result: Any) -> np.ndarray:
    """Values of the result's type in it, with the unit's NaN."""
    with np.errstate(over="ignore"):
        found = x.astype(result)
    found.view(f"u{found.itemsize}")[np.isnan(x)] = _NAN[found.dtype]
    return found
