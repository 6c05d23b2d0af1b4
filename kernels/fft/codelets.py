"""The leaves of a transform: one pass of Stockham's algorithm over vectors, and transposes of squares of elements.

A vector holds the same place of as many independent transforms as it has lanes, so that a pass has no shuffles and its
roots of unity are scalars. A *row* is what one place takes up in memory: a vector of real parts and one of imaginary
parts (split), or the complex numbers as the user has them (interleaved), which takes two shuffles to split.

A transform of length r * m after passes of product s reads rows q + s * (p + m * k), k < r. It writes rows
q + s * (r * p + j), j < r, multiplied by exp(-2 pi i p j / (r * m)) (T. Stockham, "High-speed convolution and
correlation", 1966; the form of C. Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1992).

The inverse transform is the forward one with real and imaginary parts exchanged in what is read first and written last.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ..block.emit import F32, F64, I32, I64, POINTER, align_stack, broadcast, load, offset, store, transpose, vector
from ..block.tags import constant, field_class, tag_class
from ..runtime.emitter import Fields, Pointer, Type, boolean, emitter
from ..runtime.jit import ir, subroutine
from ..runtime.launch import leaf_class
from .butterflies import Arithmetic, Complex
from .row_access import Place, Split

_VECTORS = {
    (size, lanes): tag_class(f"F{8 * size}x{lanes}", __name__, element=element, size=size, lanes=lanes)
    for element, size in ((F32, 4), (F64, 8))
    for lanes in (1, 2, 4, 8, 16)
    if lanes * size in (size, 16, 32, 64)
}
_RADICES = {radix: tag_class(f"Radix{radix}", __name__, radix=radix) for radix in range(2, 17)}


def vectors(size: int, vector_bytes: int) -> Any:
    """The tag of vectors of elements of `size` bytes."""
    return _VECTORS[size, vector_bytes // size]()


def radix(r: int) -> Any:
    return _RADICES[r]()


# A pass


PassArguments = namedtuple(
    "PassArguments",
    "source source_step target target_step twiddles m s swap_in swap_out scale lanes phase apart last count "
    "source_next target_next",
)
"""lanes, phase: the roots of `Twiddled` rows. apart, last: bytes between the transforms that share vectors, and the
number of the last one, which is written for those that are not there. count: of vectors of columns, so many bytes
apart, that take each step of the pass together."""


def _place(a: Arithmetic, tag: Any, share: int, job: PassArguments, swap_field: str, factor: ir.Value) -> Place:
    """Where rows are read or written: with parts exchanged if the field says so, and times a factor."""
    builder = a.builder
    swap = builder.icmp_signed("!=", getattr(job, swap_field), I64(0))
    factors = (factor, builder.select(swap, builder.fneg(factor), factor))
    numbers = factors if tag.element is F64 else [builder.fptrunc(each, F32) for each in factors]
    others = []
    for index in range(share):
        there = builder.icmp_signed("<", I64(index), job.last)
        others.append(builder.mul(job.apart, builder.select(there, I64(index), job.last)))
    vectors = [broadcast(builder, each, tag.lanes) for each in numbers]
    filled = builder.trunc(builder.udiv(job.target_step, I64(tag.size)), I32)
    return Place(a, tag.size * tag.lanes, swap, *vectors, others, filled)


def _root(builder: Any, tag: Any, twiddles: ir.Value, j: int) -> Complex:
    """The root of unity that the result j > 0 of a pass is multiplied by, in all lanes."""
    parts = [
        load(builder, tag.element, offset(builder, twiddles, (2 * (j - 1) + part) * tag.size), tag.size)
        for part in range(2)
    ]
    return Complex(*[broadcast(builder, part, tag.lanes) for part in parts])


@emitter
def _butterfly(
    builder, leaf: Type, source: Pointer, source_step, target: Pointer, target_step, twiddles: Pointer,
    turned: boolean, job: Fields, lanes: Pointer, phase: Pointer,
) -> None:  # fmt: skip
    """Transform radix rows; `turned` says that p > 0, whose results are multiplied by roots of unity."""
    tag, r = field_class(leaf, "vectors"), field_class(leaf, "radix").radix
    reader, writer = field_class(leaf, "source"), field_class(leaf, "target")
    align_stack(builder)
    a, row_bytes = Arithmetic(builder, tag.element, tag.lanes), 2 * tag.size * tag.lanes
    scale, one = builder.bitcast(job.scale, F64), ir.Constant(F64, 1.0)

    share = getattr(writer, "share", 1)
    places = [_place(a, tag, share, job, *each) for each in (("swap_in", one), ("swap_out", scale))]

    def at(base: ir.Value, step: ir.Value, index: int) -> ir.Value:
        return offset(builder, base, builder.mul(step, I64(index)))

    values = a.transform([reader.read(places[0], at(source, source_step, k)) for k in range(r)])

    def write_all(results: list[Complex]) -> None:
        s = job.s
        for j, value in enumerate(results):
            row = (at(lanes, builder.mul(s, I64(row_bytes)), j), at(phase, builder.mul(s, I64(2 * tag.size)), j))
            writer.write(places[1], value, at(target, target_step, j), row)

    with builder.if_else(turned) as (then, otherwise):
        with then:
            if writer is Split:
                roots = (_root(builder, tag, twiddles, j) for j in range(1, r))
                write_all([values[0], *[a.multiply(*each) for each in zip(values[1:], roots, strict=True)]])
        with otherwise:
            write_all(values)


@subroutine
def _pass(leaf, job):
    r, size = constant(leaf.radix, "radix"), constant(leaf.vectors, "size")
    row = 2 * size * constant(leaf.vectors, "lanes")
    m, s = job.m, job.s
    for p in range(m):
        for q in range(s):
            source = job.source + (q + s * p) * job.source_step
            target = job.target + (q + s * r * p) * job.target_step
            for index in range(job.count):
                _butterfly(
                    leaf, source + index * job.source_next, s * m * job.source_step, target + index * job.target_next,
                    s * job.target_step, job.twiddles + 2 * p * (r - 1) * size, p > 0, job, job.lanes + q * row,
                    job.phase + 2 * q * size,
                )  # fmt: skip


Pass = leaf_class("Pass", "vectors radix source target", _pass, PassArguments)
"""Leaf: one pass. Fields: vectors, a radix, and how rows are read and written. All but `Split` rows may only be
written by a last pass, of m = 1."""


# Transposes


SquareArguments = namedtuple(
    "SquareArguments", "source source_step target target_step scale count source_next target_next parts part"
)
"""count: of squares, so many bytes apart; parts: of each, which are `part` bytes apart on both sides."""


@emitter
def _square(builder, leaf: Type, source, source_step, target, target_step, scale) -> None:
    tag = field_class(leaf, "vectors")
    a, kind = Arithmetic(builder, tag.element, tag.lanes), vector(tag.element, tag.lanes)
    source, target = builder.inttoptr(source, POINTER), builder.inttoptr(target, POINTER)
    number = builder.bitcast(scale, F64)
    factor = broadcast(builder, number if tag.element is F64 else builder.fptrunc(number, F32), tag.lanes)
    places = [offset(builder, source, builder.mul(source_step, I64(row))) for row in range(tag.lanes)]
    lines = transpose(builder, [load(builder, kind, each, tag.size) for each in places])
    for row, line in enumerate(lines):
        store(builder, a.times(line, factor), offset(builder, target, builder.mul(target_step, I64(row))), tag.size)


@subroutine
def _squares(leaf, job):
    for index in range(job.count):
        for part in range(job.parts):
            _square(
                leaf, job.source + index * job.source_next + part * job.part, job.source_step,
                job.target + index * job.target_next + part * job.part, job.target_step, job.scale,
            )  # fmt: skip


Square = leaf_class("Square", "vectors", _squares, SquareArguments)
"""Leaf: transpose squares of as many elements as a vector has lanes, and scale them."""
