"""Plans: how transforms of one length are divided, with the roots of unity and the compiled passes that they need.

A plan serves both directions (the inverse exchanges real and imaginary parts), every batch of its class, and any number
of threads at once: what it holds is only read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..block.loops import leaf_address
from ..runtime.workspace import address_of, aligned_bytes
from .codelets import Pass, Square, radix, vectors
from .lengths import (
    columns_of_wide,
    factors,
    lanes_in_registers,
    lanes_of,
    matrix,
    matrix_in_registers,
    narrow_lanes,
    numbers_of_lanes,
    passes_caches,
    rows_of_wide,
    sharing,
    sharing_rows,
    spectra_in_registers,
    vectors_abreast,
)
from .real_split import Tangle, TangleOfLanes
from .registers import leaf_of
from .row_access import Interleaved, Split, Streamed, Twiddled, writer_of
from .table import AT, KINDS, REALS, Fields
from .wide import wide_leaf


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


def passes(n: int, dtype: np.dtype, source: Any, target: Any, lanes: int) -> Passes:
    """The passes of columns of n rows; the first reads `source` rows, the last writes `target` rows."""
    tag, radices = vectors(dtype.itemsize, lanes * dtype.itemsize), factors(n)
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
        kind: "whole" (in registers), "wide" (a matrix of few rows), "short" (lanes of a vector), "long" (a matrix of
            a x b, by vectors that may be shorter than the CPU's), or "along" (columns as they lie).
        table: (len(AT),) int64. size: bytes of an element; row: of a split row; square: the leaf of transposes;
            down, across: the tables of the passes of lengths a and b (a short length has `down` alone); whole: the leaf
            of whole rows, or of the columns of a wide matrix; inverse: that of whole rows the other way; share: the
            transforms in a vector of a wide matrix; roots: exp(-2 pi i lane k / n) for the rows k < a; phases:
            exp(-2 pi i j k / n) for the first columns j of all vectors; tangle: the leaf of `real_split.py`, with its
            roots, where the numbers are real (0 where the leaf of whole rows does that); column_bytes: memory for
            columns; worker_bytes: that, and what else a thread needs alone; abreast: vectors of columns that take their
            first pass together.
        work_bytes: memory for the matrix of a long transform.
        held: the memory that the table points to.
    """

    kind: str
    n: int
    lanes: int
    size: int
    table: np.ndarray
    place: int
    column_bytes: int
    worker_bytes: int
    work_bytes: int
    nbytes: int
    held: tuple[Any, ...]

    def __str__(self) -> str:
        a = int(self.table[AT.a])
        return f"{self.kind} {self.n} = {a} x {self.n // a}"


_GAP = 4096
"""Bytes between the buffers of two threads: the CPU fetches neighbouring lines of a page, and took them from the other
thread (transforms of 60 as lanes 140 us without it and 89 with it; wide matrices of 240 complex128 235 and 205)."""


def _align(array: np.ndarray) -> np.ndarray:
    """A copy that begins on a cache line."""
    copy = aligned_bytes(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _starts(columns: int, width: int) -> np.ndarray:
    """The first columns of vectors of `width`: the last one begins earlier where they do not fill vectors."""
    return np.minimum(np.arange(0, columns, width), max(columns - width, 0))


def _turns(k: np.ndarray, n: int, dtype: np.dtype) -> np.ndarray:
    """-i exp(-2 pi i k / 2n) with the parts along a new last axis."""
    turns = roots(k, 2 * n, dtype)
    return _align(np.stack([turns[..., 1], -turns[..., 0]], -1))


def _plan(kind: str, real: str, fields: dict[str, int], work_bytes: int, held: tuple[Any, ...]) -> Plan:
    """`fields` are those of the table that all plans of this kind share; the others are 0."""
    n, size, lanes = fields["n"], fields["size"], fields["lanes"]
    row, dtype = 2 * size * lanes, np.dtype(f"f{size}")
    tag = vectors(size, lanes * size)
    fields = dict.fromkeys(AT._fields, 0) | fields | {"kind": KINDS.index(kind), "real": REALS.index(real), "row": row}
    fields["square"] = leaf_address(Square(tag))
    fields["column_bytes"] += _GAP if fields["column_bytes"] else 0
    fields["worker_bytes"] = fields["column_bytes"] + work_bytes
    if real and not fields["tangle_roots"]:
        turned = _turns(np.arange(n // 2 + lanes + 1), n, dtype)
        held = (*held, turned)
        leaf = TangleOfLanes(tag) if kind == "short" else Tangle(tag, vectors(size, size))
        fields.update(tangle_roots=address_of(turned), tangle=leaf_address(leaf))
    table = np.array(Fields(**fields), np.int64)
    nbytes = table.nbytes + sum(each.nbytes for each in {id(each): each for each in held}.values())
    return Plan(
        kind, n, lanes, size, table, address_of(table), fields["column_bytes"], fields["worker_bytes"], work_bytes,
        nbytes, held,
    )  # fmt: skip


def plan_short(n: int, dtype: np.dtype, kind: str, real: str = "") -> Plan:
    """For transforms that are lanes of vectors ("short"), and for columns as they lie ("along")."""
    size = dtype.itemsize
    lanes = lanes_of(size)
    ends = Interleaved if kind == "along" else Split
    down = passes(n, dtype, ends, ends, lanes)
    place, count = down.place
    fields = {"n": n, "size": size, "lanes": lanes, "down": place, "down_count": count, "a": n, "b": 1}
    fields["column_bytes"] = (3 * n + (1 if real else 0)) * 2 * size * lanes
    return _plan(kind, real, fields, 0, (down,))


def plan_whole(n: int, dtype: np.dtype, real: str = "") -> Plan:
    """For transforms in registers."""
    size = dtype.itemsize
    lanes = lanes_in_registers(n, size, real)
    assert lanes is not None
    divided = matrix_in_registers(n, lanes)
    assert divided is not None
    a, b = divided
    together = spectra_in_registers(n, lanes, real)
    share = sharing(n, lanes, together and real == "real")
    members = min(share, 2)
    starts = _starts(b, lanes // members)
    columns = (starts[:, None] + numbers_of_lanes(members, lanes, size)).ravel() % b
    held = _align(np.moveaxis(roots(np.arange(a)[:, None] * columns, n, dtype), -1, 1))
    fields = {"n": n, "size": size, "lanes": lanes, "a": a, "b": b, "roots": address_of(held)}
    for inverse in (False, True):
        if real != ("real" if inverse else "halved"):
            leaf = leaf_of(n, size, lanes, inverse, together)
            fields["inverse" if inverse else "whole"] = leaf_address(leaf)
    if not together:
        return _plan("whole", real, fields, 0, (held,))
    if real == "halved":
        numbers = b * np.arange(a)[:, None] + columns
    else:
        numbers = a * np.arange(-(-b // 2))[:, None] + np.array(numbers_of_lanes(share, lanes, size))
    turned = _align(np.moveaxis(_turns(numbers, n, dtype), -1, 1))
    return _plan("whole", real, fields | {"tangle_roots": address_of(turned)}, 0, (held, turned))


def plan_long(n: int, dtype: np.dtype, real: str = "", lanes: int = 0, of_user: bool = False) -> Plan:
    """For transforms that are matrices, by vectors of all the lanes that the CPU has, or of so many. Results that are
    the user's begin on cache lines, and nothing here reads them again."""
    size = dtype.itemsize
    lanes = lanes or lanes_of(size)
    divided = matrix(n, lanes)
    assert divided is not None
    a, b = divided
    row = 2 * size * lanes
    streamed = of_user and real != "real" and passes_caches(n, a, size, lanes)  # real spectra are read again
    down = passes(a, dtype, Interleaved, Twiddled, lanes)
    across = passes(b, dtype, Split, Streamed if streamed else Interleaved, lanes)
    rows, lane = np.arange(a), np.arange(lanes)
    starts = _starts(b, lanes)
    of_lanes = _align(np.moveaxis(roots(rows[:, None] * lane, n, dtype), -1, 1))
    phases = _align(roots(starts[:, None] * rows, n, dtype))
    fields = dict(zip(("down", "down_count", "across", "across_count"), (*down.place, *across.place), strict=True))
    fields |= {
        "n": n, "size": size, "lanes": lanes, "a": a, "b": b, "roots": address_of(of_lanes),
        "phases": address_of(phases),
    }  # fmt: skip
    fields["abreast"] = vectors_abreast(n, size, lanes) if len(down.table) > 1 else 1
    fields["column_bytes"] = max((2 + fields["abreast"]) * a, 2 * b) * row
    return _plan("long", real, fields, -(-a // lanes) * b * row, (down, across, of_lanes, phases))


def plan_wide(n: int, dtype: np.dtype, real: str = "") -> Plan:
    """For transforms that are matrices of few rows."""
    size, lanes = dtype.itemsize, lanes_of(dtype.itemsize)
    a = rows_of_wide(n, size)
    assert a is not None
    b, row = n // a, 2 * size * lanes
    across = passes(b, dtype, Split, writer_of(a, lanes), lanes)
    share, width = sharing_rows(a, lanes), columns_of_wide(a, lanes)
    numbers = numbers_of_lanes(2, lanes, size) if share > 1 else range(lanes)
    columns = _starts(b, width)[:, None, None] + np.array(numbers)
    held = _align(np.moveaxis(roots(np.arange(1, a)[:, None] * columns, n, dtype), -1, 2))
    place, count = across.place
    fields = {"n": n, "size": size, "lanes": lanes, "across": place, "across_count": count, "a": a, "b": b}
    fields |= {"roots": address_of(held), "whole": leaf_address(wide_leaf(a, b, size, lanes))}
    fields |= {"share": share, "column_bytes": (b + max(b, width)) * row}
    return _plan("wide", real, fields, 0, (across, held))


def make_plan(n: int, dtype: np.dtype, kind: str, real: str = "") -> Plan:
    """The plan of one of the kinds."""
    if kind in ("short", "along"):
        return plan_short(n, dtype, kind, real)
    if kind in ("narrow", "long"):
        lanes = narrow_lanes(n, dtype.itemsize) if kind == "narrow" else None
        return plan_long(n, dtype, real, lanes or 0, of_user=True)
    return {"whole": plan_whole, "wide": plan_wide}[kind](n, dtype, real)
