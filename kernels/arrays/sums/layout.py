"""How the loops pass over an array: which dimension in vectors, which tiles, tasks and chunks."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .loops import Table
from .vectors import TILE

_WORK, _MOST_SHARING = 1 << 15, 64
"""Numbers of a task, at least; tasks that share a result, at most."""

_FOLDED, _LEAST_COLUMNS = 256, 128
"""Columns, about, to which several rows are put side by side where they have fewer than the second."""

_LEAST_BLOCK = 64
"""Steps that are joined before they are joined with others, at least."""

_PASS, _CONTIGUOUS, _NEAR, _FAR = 16.0, 0.125, 1.0, 3.0
"""Cycles, about: of a pass along a dimension, and of each number, side by side, within a cache line or two, or not."""

_NEAR_BYTES = 128

_FLOAT, _INTEGER = struct.Struct("<d"), struct.Struct("<q")


class Dim(NamedTuple):
    """A dimension: its size, and the bytes between neighbouring numbers, and between their results, if it is kept."""

    size: int
    stride: int
    out: int
    kept: bool = True


class Layout(NamedTuple):
    """The table of the loops, the byte offsets from the first number and result to the lowest address, and the number
    of float64 totals of chunks, 0 if results are not shared."""

    table: np.ndarray
    start: int
    out_start: int
    totals: int


class _Pass(NamedTuple):
    """What vectors pass along: COUNT, STRIDE, STEPS, ROW, PERIOD, TAIL and OUT_STEP of the table, and whether it is
    across rows."""

    across: bool
    count: int
    stride: int
    steps: int
    row: int
    period: int
    tail: int
    out_step: int


def layout(
    dims: Iterable[Dim], itemsize: int, out_size: int, divisor: int, repeats: int, by_row: bool = False
) -> Layout:
    """That of a total over the dimensions that are not kept, times `repeats` over `divisor`; with `by_row` (one row),
    always along it and in one chunk."""
    dims = [each for each in dims if each.size > 1]
    start, out_start, ordered = 0, 0, list[Dim]()
    for each in dims:
        if each.stride < 0:
            start += each.stride * (each.size - 1)
            out_start += each.out * (each.size - 1)
            each = each._replace(stride=-each.stride, out=-each.out)
        ordered.append(each)
    merged = _merge_dims(sorted(ordered, key=lambda each: -each.stride))
    along, rest = _choose_pass(merged, itemsize, by_row)
    kept, reduced = ([each for each in reversed(rest) if each.kept == state] for state in (True, False))
    rows = math.prod(each.size for each in reduced)
    if not along.across:
        total_steps, units = rows * along.steps, math.prod(each.size for each in kept)
        width, work = 1, rows * along.count
    else:
        total_steps, tiles = rows * along.steps, -(-along.count // TILE)
        units = tiles * math.prod(each.size for each in kept)
        width = min(along.period, along.count, TILE)
        work = total_steps * min(along.count, TILE)
    chunks = 1 if by_row else max(1, min(_MOST_SHARING // max(units, 1), work // _WORK, total_steps))
    steps = -(-total_steps // chunks)
    chunks = -(-total_steps // steps)
    table = Table(
        len(kept), len(reduced), along.across, along.count, along.stride, along.steps, along.row, along.period,
        along.tail, along.out_step, out_size, _bits(repeats), _bits(divisor), units,
        max(1, _WORK // max(work, 1)) if chunks == 1 else 1, chunks, steps, total_steps, width,
        max(_LEAST_BLOCK, math.isqrt(steps)),
    )  # fmt: skip
    words = [word for each in (table, *(dim[:3] for dim in (*kept, *reduced))) for word in each]
    return Layout(np.array(words, np.int64), start, out_start, width * units * chunks if chunks > 1 else 0)


def _merge_dims(dims: list[Dim]) -> list[Dim]:
    """Dimensions from the outermost to the innermost, with those joined that one step passes."""
    found: list[Dim] = []
    for each in dims:
        if found and found[-1].kept == each.kept:
            outer, whole = found[-1], each.size
            if outer.stride == whole * each.stride and outer.out == whole * each.out:
                found[-1] = each._replace(size=outer.size * whole)
                continue
        found.append(each)
    return found


def _piece(size: int, itemsize: int) -> int:
    """Numbers of a row that are joined before they are joined with others. Totals are float64: of float64 numbers
    each of 16 chains joins about as many as there are pieces, so that both sums are short."""
    if itemsize < 8:
        return 4096
    return min(4096, max(256, 16 * math.isqrt(size // 16)))


def _choose_pass(dims: list[Dim], itemsize: int, by_row: bool) -> tuple[_Pass, list[Dim]]:
    """The cheapest pass, and the dimensions that are left."""
    if not dims:
        dims = [Dim(1, itemsize, 0, False)]

    def cost(place: int) -> float:
        each = dims[place]
        size = each.size * _fold_rows(dims, place, itemsize)
        number = _CONTIGUOUS if each.stride == itemsize else _NEAR if each.stride <= _NEAR_BYTES else _FAR
        return _PASS / size + number

    reduced = [place for place, each in enumerate(dims) if not each.kept]
    place = reduced[0] if by_row and reduced else min(reversed(range(len(dims))), key=cost)
    each, rest = dims[place], dims[:place] + dims[place + 1 :]
    if not each.kept:
        piece = _piece(each.size, itemsize)
        return _Pass(False, each.size, each.stride, -(-each.size // piece), piece, 1, 0, 0), rest
    rows = [outer for outer in rest if not outer.kept]
    row = min(rows, key=lambda outer: outer.stride) if rows else Dim(1, 0, 0, False)
    rest = [outer for outer in rest if outer is not row]
    fold = _fold_rows(dims, place, itemsize)
    steps, tail = -(-row.size // fold), row.size % fold * each.size
    period = each.size if fold > 1 else TILE
    return _Pass(True, fold * each.size, each.stride, steps, fold * row.stride, period, tail, each.out), rest


def _fold_rows(dims: list[Dim], place: int, itemsize: int) -> int:
    """How many rows lie side by side and are passed as one, where rows are short."""
    each = dims[place]
    if not each.kept or each.stride != itemsize or each.size >= _LEAST_COLUMNS or not place:
        return 1
    outer = dims[place - 1]
    follows = not outer.kept and outer.stride == each.size * itemsize
    return min(outer.size, _FOLDED // each.size) if follows else 1


def _bits(value: float) -> int:
    return _INTEGER.unpack(_FLOAT.pack(value))[0]
