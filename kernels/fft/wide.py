"""Leaves for the columns of a wide matrix, of as few rows as a vector has lanes or a half or a quarter of that:
transformed in registers, multiplied by exp(-2 pi i j k / n) and turned, so that each vector holds a column.

The long rows are columns of `loops.column` then, whose vectors are full where a length has the factor 4. Where a column
is a half or a quarter of a vector, neighbouring transforms share it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..gemm.emit import I64, POINTER, offset, prefetch_to_l2, prefetch_to_write, splat, store
from ..gemm.tags import constant, field_class
from ..jit import intrinsic, ir, subroutine, types
from .butterflies import Complex
from .codelets import radix, vectors
from .complex_vectors import Vectors
from .lengths import sharing_rows

__all__ = ["Wide", "WideArguments", "wide_leaf"]


class Full(NamedTuple):
    """Matrices of as many columns as a vector has lanes, or more."""


class Part(NamedTuple):
    """Matrices of fewer columns."""


class WideArguments(NamedTuple):
    """apart, last: bytes between the transforms that share vectors, and the number of the last one, which is read for
    those that are not there. columns: of the matrix. roots: [vector of columns][row but the first][part][lane]. result,
    result_apart: where the transforms will be written, and bytes between them. ahead: bytes to the transforms that are
    read next."""

    source: int
    apart: int
    last: int
    columns: int
    sign: int
    roots: int
    target: int
    result: int
    result_apart: int
    ahead: int


@intrinsic
def _columns(typingctx, leaf, job, first, roots, target):
    """A vector of columns, from `first` on, to split rows. As many lines of the results, and of what is read next, are
    asked for as are read: to the L2 cache, since the L1 cache has no room for more (of 4 MiB and more 5 to 50 % less
    time, and 5 to 20 % more of 2 MiB where they fill it), but for pieces of lines."""

    def codegen(context, builder, signature, arguments):
        tag, a = field_class(leaf, "vectors"), field_class(leaf, "rows").radix
        _, job, first, roots, target = arguments
        field = {name: builder.extract_value(job, place) for place, name in enumerate(WideArguments._fields)}
        m = Vectors(builder, tag)
        sign = m.number(field["sign"])
        roots, target = builder.inttoptr(roots, POINTER), builder.inttoptr(target, POINTER)
        numbers = [builder.add(first, builder.mul(field["columns"], I64(row))) for row in range(a)]
        lines: list[Complex] = []
        share = sharing_rows(a, tag.lanes)
        masks = m.masks(builder.sub(field["columns"], first)) if field_class(leaf, "reach") is Part else None
        padding = [Complex(splat(tag.element, 0.0, tag.lanes), splat(tag.element, 0.0, tag.lanes))]
        ask = prefetch_to_write if tag.size == 8 and share * a != tag.lanes else prefetch_to_l2
        for index in range(share):
            there = builder.icmp_signed("<", I64(index), field["last"])
            which = builder.select(there, I64(index), field["last"])
            source = builder.inttoptr(builder.add(field["source"], builder.mul(field["apart"], which)), POINTER)
            result = builder.add(field["result"], builder.mul(field["result_apart"], which))
            m.ask_for(ask, builder.inttoptr(result, POINTER), numbers)
            m.ask_for(prefetch_to_l2, offset(builder, source, field["ahead"]), numbers)
            rows = [m.read(*m.plain(source, each), masks) for each in numbers]
            rows = [Complex(row.re, m.arithmetic.times(row.im, sign)) for row in rows]
            lines += _turned(m, rows, roots)
            lines += padding * (tag.lanes // share - a)
        row = 2 * tag.lanes * tag.size
        for place, value in enumerate(m.turn(lines)):
            for part in range(2):
                store(builder, value[part], offset(builder, target, place * row + part * row // 2), row // 2)
        return context.get_dummy_value()

    return types.void(leaf, job, types.int64, types.int64, types.int64), codegen


def _turned(m: Vectors, rows: list[Complex], roots: ir.Value) -> list[Complex]:
    """Transformed, and multiplied by roots of unity."""
    out = m.arithmetic.transform(rows)
    for k in range(1, len(rows)):
        places = [(2 * (k - 1) + part) * m.lanes for part in range(2)]
        out[k] = m.arithmetic.multiply(out[k], Complex(*[m.load(roots, each, m.lanes * m.size) for each in places]))
    return out


@subroutine
def _wide(leaf, job):
    lanes, size, a = constant(leaf.vectors, "lanes"), constant(leaf.vectors, "size"), constant(leaf.rows, "radix")
    vector = lanes * size
    for group in range((job.columns + lanes - 1) // lanes):
        first = max(min(group * lanes, job.columns - lanes), 0)
        _columns(leaf, job, first, job.roots + 2 * group * (a - 1) * vector, job.target + 2 * first * vector)


class Wide(NamedTuple):
    """Leaf: the columns of one transform, or of those that share vectors."""

    vectors: NamedTuple
    rows: NamedTuple
    reach: NamedTuple
    run = _wide
    arguments = WideArguments


def wide_leaf(rows: int, columns: int, size: int, lanes: int) -> Any:
    return Wide(vectors(size, lanes * size), radix(rows), Part() if columns < lanes else Full())
