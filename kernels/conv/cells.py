"""The geometry of convolutions without channels to sum over, where arrays stay where they are: cells of positions.

A *cell* is one position of the result, or `CELL` neighbouring ones that meet the same taps at the same distances (of
one phase, in a gradient with respect to the input). Its taps are those that meet a value, so that no padding is needed.
All shapes here have three spatial dimensions.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from .geometry import Task

__all__ = ["CELL", "CELL_FIELDS", "Cells", "cells_of"]

CELL = 4
"""Positions of a cell that is not one position. (Cells of 8 beside them take as long: 128 channels of 56 x 56, 114 and
115 microseconds.)"""

CELL_FIELDS = 5


class _Class(NamedTuple):
    """The taps that a position meets along a dimension, and how many places their values are from the first one's."""

    taps: tuple[int, ...]
    distances: tuple[int, ...]


class Cells(NamedTuple):
    """Where cells begin and what they meet.

    Attributes:
        table: int64 (rows of the result, cells of a row, CELL_FIELDS): bytes to the value that the first tap meets,
            bytes to the result, the number of positions, the first pair of `taps`, and how many.
        taps: int64 (pairs, 2): the bytes to a value, and the index of its weight.
        read_step, write_step: bytes from position to position of a cell.
        reach: int64 (rows, 2): the least and greatest byte at which a row reads a value.
        complete: whether every position meets a tap; those that do not have no cell.
    """

    table: np.ndarray
    taps: np.ndarray
    read_step: int
    write_step: int
    reach: np.ndarray
    complete: bool


def _match_taps(task: Task, axis: int, gradient: bool) -> list[tuple[_Class, int]]:
    """For each position along a dimension its class, and the place that its first tap meets."""
    stride, padding, dilation = task.stride[axis], task.padding[axis], task.dilation[axis]
    size, output, found = task.size[axis], task.output[axis], []
    for position in range(size if gradient else output):
        pairs = []
        for tap in range(task.kernel[axis]):
            if gradient:
                place, rest = divmod(position + padding - tap * dilation, stride)
                inside = rest == 0 and 0 <= place < output
            else:
                place = position * stride - padding + tap * dilation
                inside = 0 <= place < size
            if inside:
                pairs.append((tap, place))
        first = pairs[0][1] if pairs else 0
        found.append((_Class(tuple(t for t, _ in pairs), tuple(p - first for _, p in pairs)), first))
    return found


def _segments(met: list[tuple[_Class, int]], phases: int, advance: int) -> list[tuple[int, int, int, _Class]]:
    """Along the last dimension: first position, the place it meets, the number of positions, and their class."""
    found = []
    for phase in range(phases):
        at = phase
        while at < len(met):
            kind, place = met[at]
            run = [met[at + phases * k] for k in range(CELL) if at + phases * k < len(met)]
            whole = len(run) == CELL and all(run[k] == (kind, place + advance * k) for k in range(CELL))
            count = CELL if whole else 1
            if kind.taps:
                found.append((at, place, count, kind))
            at += phases * count
    return found


@functools.lru_cache(256)
def cells_of(task: Task, gradient: bool, read: tuple[int, ...], write: tuple[int, ...]) -> Cells:
    """The cells of a convolution, or of the gradient with respect to its input; `read` and `write` are the strides of
    what is read and of the result, in bytes, for three dimensions."""
    met = [_match_taps(task, axis, gradient) for axis in range(3)]
    phases, advance = (task.stride[2], 1) if gradient else (1, task.stride[2])
    segments = _segments(met[2], phases, advance)
    _, height, width = task.kernel
    taps: list[tuple[int, int]] = []
    places: dict[tuple[_Class, ...], tuple[int, int, int, int]] = {}

    def of(kinds: tuple[_Class, ...]) -> tuple[int, int, int, int]:
        """The first pair and the number of the taps of these classes, and the least and greatest byte."""
        if kinds not in places:
            start = len(taps)
            for a, x in zip(*kinds[0], strict=True):
                for b, y in zip(*kinds[1], strict=True):
                    for c, z in zip(*kinds[2], strict=True):
                        taps.append((x * read[0] + y * read[1] + z * read[2], (a * height + b) * width + c))
            reached = [byte for byte, _ in taps[start:]]
            places[kinds] = start, len(reached), min(reached, default=0), max(reached, default=0)
        return places[kinds]

    table, reach = [], []
    for d, (kind_d, place_d) in enumerate(met[0]):
        for h, (kind_h, place_h) in enumerate(met[1]):
            if not (kind_d.taps and kind_h.taps):
                continue
            source, result = place_d * read[0] + place_h * read[1], d * write[0] + h * write[1]
            row, low, high = [], [], []
            for w, place, count, kind in segments:
                start, number, least, most = of((kind_d, kind_h, kind))
                at, last = source + place * read[2], (count - 1) * advance * read[2]
                row.append((at, result + w * write[2], count, start, number))
                low.append(at + least + min(last, 0))
                high.append(at + most + max(last, 0))
            if row:
                table.append(row)
                reach.append((min(low), max(high)))
    complete = all(kind.taps for axis in met for kind, _ in axis)
    shape = (len(table), len(table[0]) if table else 0, CELL_FIELDS)
    return Cells(
        np.array(table, np.int64).reshape(shape), np.array(taps, np.int64).reshape(-1, 2), advance * read[2],
        phases * write[2], np.array(reach, np.int64).reshape(-1, 2), complete,
    )  # fmt: skip
