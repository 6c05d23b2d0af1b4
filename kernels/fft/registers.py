"""Leaves that transform short rows whole: a matrix of a rows and b columns in vector registers (the compiler spills
those that the CPU lacks), so that the user's memory is read in order, and written in order. What is read next and what
is written is asked for meanwhile, a few lines at a time: beyond the L2 cache a fifth to a third less time, since
transforms are as long as few lines, and are worked on for longer than the CPU looks ahead (bench/NOTES.md).

With j = b * j1 + j2 and k = k1 + a * k2, columns are transformed over j1 (a vector holds a row, a lane a column),
multiplied by exp(-2 pi i j2 k1 / n), transposed, and transformed over j2 (D. Bailey, "FFTs in external or hierarchical
memory", 1990). Where rows or columns do not fill vectors, two or four transforms share them, and lanes are read in turn
from two, which leaves one round of exchanges less to the transpose.

The inverse transform is the forward one with real and imaginary parts exchanged in what is read and written, which
takes no instruction in code of its own. Real numbers are half as many complex ones, whose spectrum becomes that of the
real numbers before it is written, or is read as that of the complex ones (`spectra.py`).
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ..block.emit import I64, POINTER, loop, offset, opaque, prefetch, prefetch_to_write, store
from ..block.tags import constant, field_class, tag_class
from ..runtime.emitter import Pointer, Type, Value, emitter, int64
from ..runtime.jit import ir, subroutine
from ..runtime.launch import leaf_class
from .butterflies import Complex
from .codelets import vectors
from .lengths import IN_REGISTERS, in_registers
from .register_matrix import Matrix, WholeArguments, matrix_of, sharing_of
from .table import ONE


def _shape(n: int) -> Any:
    """A tag of a length, under a name by which it is found when compiled code is read again."""
    tag = globals()[f"Matrix{n}"] = namedtuple(f"Matrix{n}", (), module=__name__)
    tag.n = n
    return tag


_SHAPES = {n: _shape(n) for n in IN_REGISTERS}


Forward = tag_class("Forward", __name__, inverse=False, real=False)
"""Complex numbers to complex numbers."""

Inverse = tag_class("Inverse", __name__, inverse=True, real=False)
RealForward = tag_class("RealForward", __name__, inverse=False, real=True)
"""Real numbers to half of their spectrum."""

RealInverse = tag_class("RealInverse", __name__, inverse=True, real=True)


_DIRECTIONS = {(each.inverse, each.real): each for each in (Forward, Inverse, RealForward, RealInverse)}


@emitter
def _scaled_roots(builder, leaf: Type, job: Value) -> int64:
    """The address of the roots times the scale."""
    m = Matrix(builder, leaf, job, I64(0))
    vectors = 2 * m.a * m.vectors_down
    with builder.goto_entry_block():
        place = builder.alloca(ir.ArrayType(ir.IntType(8), vectors * m.lanes * m.size))
        place.align = 64
    roots, to = builder.inttoptr(m.field["roots"], POINTER), builder.bitcast(place, POINTER)
    scaled = builder.icmp_signed("!=", m.field["scale"], I64(ONE))
    with builder.if_then(scaled):
        scale = m.number(m.field["scale"])

        def multiply(index, _):
            at = builder.mul(index, I64(m.lanes))
            value = m.arithmetic.times(m.load(roots, at, m.lanes * m.size), scale)
            store(builder, value, offset(builder, to, builder.mul(at, I64(m.size))), m.lanes * m.size)
            return []

        loop(builder, I64(vectors), [], multiply)
    return builder.select(scaled, builder.ptrtoint(to, I64), m.field["roots"])


@emitter
def _in_registers(builder, leaf: Type, job: Value, roots, first) -> None:
    """Transform as many as share vectors, from the first on."""
    m = Matrix(builder, leaf, job, roots)
    groups, columns = m.groups(first), list[Complex]()
    m.ask(prefetch, m.transforms("source", builder.add(first, I64(m.share))), I64(0), 1)
    for vector in range(m.vectors_down):
        rows = [row for group in groups for row in m.down(group, I64(vector))]
        columns += m.in_order(m.lines(rows), len(columns))
    m.across(columns, m.transforms("target", first), I64(0))


@emitter
def _matrix_on_stack(builder, leaf: Type) -> int64:
    """The address of memory for the matrices that share vectors: [vector of rows][column][part][lane]."""
    rows, columns = matrix_of(leaf)
    width, lanes, size = _width(leaf), field_class(leaf, "vectors").lanes, field_class(leaf, "vectors").size
    lines = rows * sharing_of(leaf) // lanes * -(-columns // width) * width
    with builder.goto_entry_block():
        place = builder.alloca(ir.ArrayType(ir.IntType(8), 2 * lines * lanes * size))
        place.align = 64
    return builder.ptrtoint(place, I64)


@emitter
def _columns(builder, leaf: Type, job: Value, roots, index, vector, memory: Pointer) -> None:
    """A vector of columns of the matrices, to memory; halves of vectors are yet to change places."""
    m = Matrix(builder, leaf, job, roots)
    following = m.transforms("source", builder.add(index, I64(m.share)))
    m.ask(prefetch, following, vector, m.vectors_down + m.vectors_across)
    m.ask(prefetch_to_write, m.transforms("target", index), vector, m.vectors_down)
    rows = [row for group in m.groups(index) for row in m.down(group, vector)]
    to = offset(builder, memory, builder.mul(vector, I64(m.width * m.line)))
    for block in range(len(rows) // m.width):
        for line, value in enumerate(m.lines(rows[block * m.width : (block + 1) * m.width], m.squares)):
            for part in range(2):
                at = (block * m.filled + line) * m.line + part * m.line // 2
                store(builder, value[part], offset(builder, to, at), m.line // 2)


@emitter
def _rows(builder, leaf: Type, job: Value, roots, index, first, memory) -> None:
    """A vector of rows of the matrices, from memory."""
    m = Matrix(builder, leaf, job, roots)
    # Unknown to LLVM, which would keep what is in memory in registers where all loops are of one turn.
    memory = builder.inttoptr(opaque(builder, memory), POINTER)
    part = builder.add(builder.udiv(first, I64(m.width)), I64(m.vectors_down))
    following = m.transforms("source", builder.add(index, I64(m.share)))
    m.ask(prefetch, following, part, m.vectors_down + m.vectors_across)
    at, columns = offset(builder, memory, builder.mul(first, I64(m.filled * m.line // m.width))), list[Complex]()
    for column in range(0, m.b, m.width):
        square = offset(builder, at, column * m.line)
        columns += m.in_order([m.line_at(square, line) for line in range(m.width)], column)
    m.across(columns, m.transforms("target", index), first)


@subroutine
def _whole(leaf, job):
    roots = _scaled_roots(leaf, job)
    for first in range(job.first, job.last, constant(leaf, "sharing")):
        _in_registers(leaf, job, roots, first)


Whole = leaf_class("Whole", "vectors shape direction", _whole, WholeArguments, sharing=sharing_of)
"""Leaf: transforms whose columns, or those of the ones that share vectors, are as high as a vector is long."""


def _side(index: int) -> Any:
    return lambda leaf: matrix_of(leaf)[index]


@subroutine
def _in_two(leaf, job):
    memory, roots, width = _matrix_on_stack(leaf), _scaled_roots(leaf, job), constant(leaf, "width")
    share = constant(leaf, "sharing")
    for index in range(job.first, job.last, share):
        for vector in range((constant(leaf, "columns") + width - 1) // width):
            _columns(leaf, job, roots, index, vector, memory)
        for first in range(0, constant(leaf, "rows"), width):
            _rows(leaf, job, roots, index, first, memory)


def _width(leaf: Any) -> int:
    return field_class(leaf, "vectors").lanes // min(sharing_of(leaf), 2)


InTwo = leaf_class(
    "InTwo", "vectors shape direction", _in_two, WholeArguments, rows=_side(0), columns=_side(1), sharing=sharing_of,
    width=_width,
)  # fmt: skip
"""Leaf: transforms of larger matrices, in two steps through memory in the L1 cache."""


def leaf_of(n: int, size: int, lanes: int, inverse: bool, real: bool = False) -> Any:
    """The leaf for a length that has a matrix."""
    return (Whole if in_registers(n, lanes, real) else InTwo)(
        vectors(size, lanes * size), _SHAPES[n](), _DIRECTIONS[inverse, real]()
    )
