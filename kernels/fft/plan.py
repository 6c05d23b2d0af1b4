"""Plans: how transforms of one length are divided, with the roots of unity and the compiled passes that they need.

A plan serves both directions (the inverse exchanges real and imaginary parts), every batch of its class, and any number
of threads at once: what it holds is only read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..gemm.loops import leaf_address
from ..gemm.workspace import address_of, aligned_bytes
from .codelets import Interleaved, Pass, Split, Square, Twiddled, radix, vectors
from .lengths import factors, lanes_of, matrix

__all__ = ["Passes", "Plan", "plan_long", "plan_short"]


def roots(turns: np.ndarray, n: int, dtype: np.dtype) -> np.ndarray:
    """exp(-2 pi i turns / n) with the parts along a new last axis, from long double, each rounded once."""
    angles = (turns % n).astype(np.longdouble) * (2 * np.arctan2(np.longdouble(0), np.longdouble(-1)) / n)
    return np.stack([np.cos(angles), -np.sin(angles)], -1).astype(dtype)


class Passes(NamedTuple):
    """The passes of a column.

    Attributes:
        table: (passes, 4) int64: the address of the leaf, m, s, and the address of the roots.
        held: the memory that the table points to.
    """

    length: int
    table: np.ndarray
    held: tuple[np.ndarray, ...]

    @property
    def place(self) -> tuple[int, int]:
        """The address of the table and how many passes it has."""
        return address_of(self.table), len(self.table)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + sum(each.nbytes for each in self.held)


def passes(n: int, dtype: np.dtype, source: Any, target: Any) -> Passes:
    """Those of columns of n rows, the first of which reads `source` rows and the last writes `target` rows."""
    tag, radices = vectors(dtype.itemsize, lanes_of(dtype.itemsize) * dtype.itemsize), factors(n)
    assert radices is not None
    rows, held, s, length = [], [], 1, n
    for index, r in enumerate(radices):
        m = length // r
        first, last = index == 0, index == len(radices) - 1
        leaf = Pass(tag, radix(r), source() if first else Split(), target() if last else Split())
        table = np.ascontiguousarray(roots(np.arange(m)[:, None] * np.arange(1, r), length, dtype))
        held.append(table)
        rows.append((leaf_address(leaf), m, s, address_of(table)))
        s, length = s * r, m
    return Passes(n, np.array(rows, np.int64), tuple(held))


class Plan(NamedTuple):
    """A division of a length, and what its loops are given.

    Attributes:
        kind: "short" (lanes of a vector), "long" (a matrix of a x b), or "along" (columns as they lie).
        row: bytes of a split row.
        square: the leaf of transposes.
        down, across: the passes of lengths a and b; a short length has `down` alone.
        roots: exp(-2 pi i lane k / n) for the rows k < a; phases: exp(-2 pi i j k / n) for the first columns j of all
            vectors.
        buffer_bytes, work_bytes: memory for columns, and for the matrix.
    """

    kind: str
    n: int
    lanes: int
    size: int
    row: int
    square: int
    down: Passes
    across: Passes
    roots: np.ndarray
    phases: np.ndarray
    buffer_bytes: int
    work_bytes: int

    @property
    def nbytes(self) -> int:
        """Bytes of the roots and tables that the plan keeps."""
        others = self.across.nbytes if self.across is not self.down else 0
        return self.down.nbytes + others + self.roots.nbytes + self.phases.nbytes

    def __str__(self) -> str:
        return f"{self.kind} {self.n} = {self.down.length} x {self.n // self.down.length}"


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins on a cache line."""
    copy = aligned_bytes(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _square(dtype: np.dtype) -> int:
    size = dtype.itemsize
    return int(leaf_address(Square(vectors(size, lanes_of(size) * size))))


_NONE = np.empty(0)


def plan_short(n: int, dtype: np.dtype, kind: str) -> Plan:
    """For transforms that are lanes of vectors ("short"), and for columns as they lie ("along")."""
    size = dtype.itemsize
    lanes = lanes_of(size)
    ends = Interleaved if kind == "along" else Split
    down = passes(n, dtype, ends, ends)
    row = 2 * size * lanes
    return Plan(kind, n, lanes, size, row, _square(dtype), down, down, _NONE, _NONE, 3 * n * row, 0)


def plan_long(n: int, dtype: np.dtype) -> Plan:
    """For transforms that are matrices."""
    size = dtype.itemsize
    lanes = lanes_of(size)
    divided = matrix(n, lanes)
    assert divided is not None
    a, b = divided
    row = 2 * size * lanes
    down, across = passes(a, dtype, Interleaved, Twiddled), passes(b, dtype, Split, Interleaved)
    rows, lane = np.arange(a), np.arange(lanes)
    starts = np.minimum(np.arange(-(-b // lanes)) * lanes, b - lanes)
    of_lanes = _aligned(np.moveaxis(roots(rows[:, None] * lane, n, dtype), -1, 1))
    phases = _aligned(roots(starts[:, None] * rows, n, dtype))
    blocks = -(-a // lanes)
    buffer = max(3 * a, 2 * b) * row
    return Plan("long", n, lanes, size, row, _square(dtype), down, across, of_lanes, phases, buffer, blocks * b * row)
