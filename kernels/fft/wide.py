"""Leaves for the columns of a wide matrix, of as few rows as a vector has lanes or a half or a quarter of that:
transformed in registers, multiplied by exp(-2 pi i j k / n) and turned, so that each vector holds a column.

The long rows are columns of `loops.column` then, whose vectors are full where a length has the factor 4. Where a column
is a half or a quarter of a vector, neighbouring transforms share it, and lanes are read in turn from two, as in
`registers.py`.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

from ..block.emit import I64, POINTER, offset, prefetch_to_l2, prefetch_to_write, splat, store
from ..block.tags import constant, field_class, tag_class
from ..runtime.emitter import Fields, Pointer, Type, emitter
from ..runtime.jit import ir, subroutine
from ..runtime.launch import leaf_class
from .butterflies import Complex
from .codelets import radix, vectors
from .complex_vectors import Address, Vectors
from .lengths import columns_of_wide, sharing_rows

Full = tag_class("Full", __name__)
"""Matrices of as many columns as fill a vector, or more."""


class Part(NamedTuple):
    """Matrices of fewer columns."""


WideArguments = namedtuple("WideArguments", "source apart last columns sign roots target result result_apart ahead")
"""apart, last: bytes between the transforms that share vectors, and the number of the last one, which is read for
those that are not there. columns: of the matrix. roots: [vector of columns][row but the first][part][lane]. result,
result_apart: where the transforms will be written, and bytes between them. ahead: bytes to the transforms that are
read next."""


@emitter
def _columns(builder, leaf: Type, job: Fields, first, roots: Pointer, target: Pointer) -> None:
    """A vector of columns, from `first` on, to split rows."""
    tag, a = field_class(leaf, "vectors"), field_class(leaf, "rows").radix
    field = job._asdict()
    m, share, members = Vectors(builder, tag), sharing_of(leaf), min(sharing_of(leaf), 2)
    sign = m.number(field["sign"])
    numbers = [builder.add(first, builder.mul(field["columns"], I64(row))) for row in range(a)]
    sources, masks = _sources(m, leaf, field, numbers), None
    if field_class(leaf, "reach") is Part:
        masks = m.masks(builder.sub(field["columns"], first))
        masks = masks if members == 1 else [masks[0]] * 2  # each of two has half a vector
    lines: list[Complex] = []
    padding = [Complex(splat(tag.element, 0.0, tag.lanes), splat(tag.element, 0.0, tag.lanes))]
    for at in range(0, share, members):
        rows = [_row(m, sources[at : at + members], number, masks) for number in numbers]
        lines += _transform_and_twiddle(m, [Complex(row.re, m.arithmetic.times(row.im, sign)) for row in rows], roots)
        lines += padding * (tag.lanes // share - a)
    row = 2 * tag.lanes * tag.size
    for place, value in enumerate(m.turn(lines, members)):
        for part in range(2):
            store(builder, value[part], offset(builder, target, place * row + part * row // 2), row // 2)


def _sources(m: Vectors, leaf: Any, field: dict[str, ir.Value], numbers: list[ir.Value]) -> list[Address]:
    """The addresses of the transforms that share vectors. For each line read, one line of the results and one of the
    next source are prefetched to the L2 cache, since they do not fit the L1 cache as well. Lines that are written in
    pieces go to the L1 cache."""
    builder, found = m.builder, []
    pieces = m.size == 8 and sharing_of(leaf) * field_class(leaf, "rows").radix != m.lanes
    lines = max(2 * width_of(leaf) * m.size // 64, 1)
    for index in range(sharing_of(leaf)):
        there = builder.icmp_signed("<", I64(index), field["last"])
        which = builder.select(there, I64(index), field["last"])
        source = m.address(builder.add(field["source"], builder.mul(field["apart"], which)))
        result = builder.add(field["result"], builder.mul(field["result_apart"], which))
        m.ask_for(prefetch_to_write if pieces else prefetch_to_l2, builder.inttoptr(result, POINTER), numbers, lines)
        m.ask_for(prefetch_to_l2, offset(builder, source.at, field["ahead"]), numbers, lines)
        found.append(source)
    return found


def _row(m: Vectors, sources: list[Address], number: ir.Value, masks: list[ir.Value] | None) -> Complex:
    """A vector of a row of one transform, or of two whose numbers it has in turn."""
    if len(sources) == 1:
        return m.read(*m.plain(sources[0].at, number), masks)
    return m.read_members(*[m.plain_address(source, number) for source in sources], masks)


def _transform_and_twiddle(m: Vectors, rows: list[Complex], roots: ir.Value) -> list[Complex]:
    """Transformed, and multiplied by roots of unity."""
    out = m.arithmetic.transform(rows)
    for k in range(1, len(rows)):
        places = [(2 * (k - 1) + part) * m.lanes for part in range(2)]
        out[k] = m.arithmetic.multiply(out[k], Complex(*[m.load(roots, each, m.lanes * m.size) for each in places]))
    return out


def sharing_of(leaf: Any) -> int:
    """How many transforms share vectors."""
    return sharing_rows(field_class(leaf, "rows").radix, field_class(leaf, "vectors").lanes)


def width_of(leaf: Any) -> int:
    """How many columns of a transform a vector has."""
    return columns_of_wide(field_class(leaf, "rows").radix, field_class(leaf, "vectors").lanes)


@subroutine
def _wide(leaf, job):
    size, a, width = constant(leaf.vectors, "size"), constant(leaf.rows, "radix"), constant(leaf, "width")
    row = 2 * size * constant(leaf.vectors, "lanes")
    for group in range((job.columns + width - 1) // width):
        first = max(min(group * width, job.columns - width), 0)
        _columns(leaf, job, first, job.roots + group * (a - 1) * row, job.target + first * row)


Wide = leaf_class("Wide", "vectors rows reach", _wide, WideArguments, width=width_of)
"""Leaf: the columns of one transform, or of those that share vectors."""


def wide_leaf(rows: int, columns: int, size: int, lanes: int) -> Any:
    return Wide(vectors(size, lanes * size), radix(rows), Part() if columns < columns_of_wide(rows, lanes) else Full())
