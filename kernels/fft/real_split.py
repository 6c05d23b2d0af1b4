"""Leaves between the spectrum of m complex numbers and half the spectrum of the 2m real numbers that they stand for.

With Z the transform of z[j] = x[2j] + i x[2j + 1] and w = exp(-2 pi i / 2m), the transform of x is

    X[k] = E + w^k O,  E = (Z[k] + conj Z[m - k]) / 2,  O = (Z[k] - conj Z[m - k]) / 2i

(J. Cooley, P. Lewis and P. Welch, "The fast Fourier transform algorithm: programming considerations in the calculation
of sine, cosine and Laplace transforms", 1970). A frequency and its mirror m - k are computed together from
the same two numbers, so that source and target may be one. The halves are left to the scaling; the way back,
Z[k] = (X[k] + conj X[m - k]) + i w^-k (X[k] - conj X[m - k]), has none.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ..block.emit import I32, I64, POINTER, broadcast, load, offset, store, vector, zero
from ..block.tags import constant
from ..runtime.emitter import Class, Pointer, emitter
from ..runtime.jit import ir, subroutine
from ..runtime.launch import leaf_class
from .butterflies import Arithmetic, Complex
from .spectra import combine_mirrors

TangleArguments = namedtuple(
    "TangleArguments", "source source_step target target_step count roots m k blocks rest inverse"
)
"""count: of transforms, so many bytes apart; k: the first frequency; blocks: how many vectors of them, each with
its mirrors; rest: whether frequency 0 is meant too, and those between what all such vectors have."""


def _order(values: list[int]) -> ir.Constant:
    return ir.Constant(vector(I32, len(values)), values)


class Rows:
    """Interleaved complex numbers at a frequency and after it, or at a frequency and before it."""

    def __init__(self, arithmetic: Arithmetic, size: int) -> None:
        self.a, self.size = arithmetic, size
        self.kind = vector(arithmetic.element, arithmetic.lanes)

    def _places(self, base: ir.Value, k: ir.Value, backwards: bool) -> list[ir.Value]:
        builder, lanes = self.a.builder, self.a.lanes
        if backwards:
            k = builder.sub(k, I64(lanes - 1))
        at = offset(builder, base, builder.mul(k, I64(2 * self.size)))
        return [at, offset(builder, at, lanes * self.size)]

    def read(self, base: ir.Value, k: ir.Value, backwards: bool = False) -> Complex:
        builder, lanes = self.a.builder, self.a.lanes
        low, high = (load(builder, self.kind, at, self.size) for at in self._places(base, k, backwards))
        order = range(lanes - 1, -1, -1) if backwards else range(lanes)
        return Complex(
            *[builder.shuffle_vector(low, high, _order([2 * lane + part for lane in order])) for part in range(2)]
        )

    def write(self, value: Complex, base: ir.Value, k: ir.Value, backwards: bool = False) -> None:
        builder, lanes = self.a.builder, self.a.lanes
        order = list(range(lanes - 1, -1, -1) if backwards else range(lanes))
        numbers = [lane + part * lanes for lane in order for part in range(2)]
        for half, at in enumerate(self._places(base, k, backwards)):
            some = _order(numbers[half * lanes : (half + 1) * lanes])
            store(builder, builder.shuffle_vector(value.re, value.im, some), at, self.size)


def _conjugate_if(builder: ir.IRBuilder, inverse: ir.Value, root: Complex) -> Complex:
    return Complex(root.re, builder.select(builder.icmp_signed("!=", inverse, I64(0)), builder.fneg(root.im), root.im))


@emitter
def _mirrors(builder, tag: Class, source: Pointer, target: Pointer, roots: Pointer, m, k, inverse) -> None:
    """The frequencies k, k + 1, ... of a vector and m - k, m - k - 1, ..."""
    a = Arithmetic(builder, tag.element, tag.lanes)
    rows, mirror = Rows(a, tag.size), builder.sub(m, k)
    root = _conjugate_if(builder, inverse, rows.read(roots, k))
    first, second = combine_mirrors(a, rows.read(source, k), rows.read(source, mirror, backwards=True), root)
    rows.write(first, target, k)
    rows.write(second, target, mirror, backwards=True)


@emitter
def _both_ends(builder, tag: Class, source, target, m, inverse) -> None:
    """Frequency 0 and, for real numbers, m; both are real."""
    source, target = builder.inttoptr(source, POINTER), builder.inttoptr(target, POINTER)
    last = builder.mul(m, I64(2 * tag.size))

    def get(at: ir.Value | int) -> Any:
        return load(builder, tag.element, offset(builder, source, at), tag.size)

    def put(value: Any, at: ir.Value) -> None:
        store(builder, value, at, tag.size)

    zero, first = ir.Constant(tag.element, 0.0), get(0)
    with builder.if_else(builder.icmp_signed("!=", inverse, I64(0))) as (then, otherwise):
        with then:
            second = get(last)
            put(builder.fadd(first, second), target)
            put(builder.fsub(first, second), offset(builder, target, tag.size))
        with otherwise:
            second = get(tag.size)
            total, difference = builder.fadd(first, second), builder.fsub(first, second)
            put(builder.fadd(total, total), target)
            put(zero, offset(builder, target, tag.size))
            put(builder.fadd(difference, difference), offset(builder, target, last))
            put(zero, offset(builder, offset(builder, target, last), tag.size))


@subroutine
def _tangle(leaf, job):
    lanes, m = constant(leaf.vectors, "lanes"), job.m
    for index in range(job.count):
        source, target = job.source + index * job.source_step, job.target + index * job.target_step
        for block in range(job.blocks):
            _mirrors(leaf.vectors, source, target, job.roots, m, job.k + block * lanes, job.inverse)
        if not job.rest:
            continue
        first = 1 + (m - 1) // (2 * lanes) * lanes
        if m - 2 * first + 1 >= lanes:
            _mirrors(leaf.vectors, source, target, job.roots, m, first, job.inverse)
        else:
            for k in range(first, m // 2 + 1):
                _mirrors(leaf.one, source, target, job.roots, m, k, job.inverse)
        _both_ends(leaf.one, source, target, m, job.inverse)


Tangle = leaf_class("Tangle", "vectors one", _tangle, TangleArguments)
"""Leaf: frequencies with their mirrors, by vectors and by vectors of one."""


# Lanes


TangleOfLanesArguments = namedtuple("TangleOfLanesArguments", "rows row roots m inverse")
"""rows: the address of m + 1 split rows (a spectrum of complex numbers fills m); row: their bytes."""


def _parts_at(a: Arithmetic, address: ir.Value, size: int) -> tuple[ir.Value, ir.Value]:
    """The places of both parts of a split row."""
    at = a.builder.inttoptr(address, POINTER)
    return at, offset(a.builder, at, size * a.lanes)


@emitter
def _mirrored_rows(builder, tag: Class, low, high, root: Pointer, inverse) -> None:
    """The rows of a frequency and of its mirror, in place."""
    a, kind = Arithmetic(builder, tag.element, tag.lanes), vector(tag.element, tag.lanes)
    parts = [load(builder, tag.element, offset(builder, root, part * tag.size), tag.size) for part in range(2)]
    places = [_parts_at(a, row, tag.size) for row in (low, high)]
    x, y = (Complex(*[load(builder, kind, at, tag.size * tag.lanes) for at in pair]) for pair in places)
    turn = _conjugate_if(builder, inverse, Complex(*[broadcast(builder, part, tag.lanes) for part in parts]))
    for pair, values in zip(places, combine_mirrors(a, x, y, turn), strict=True):
        for at, value in zip(pair, values, strict=True):
            store(builder, value, at, tag.size * tag.lanes)


@emitter
def _end_rows(builder, tag: Class, low, high, inverse) -> None:
    """The rows of frequency 0 and, of real numbers, m, in place."""
    a, kind = Arithmetic(builder, tag.element, tag.lanes), vector(tag.element, tag.lanes)
    align = tag.size * tag.lanes
    (low, low_im), (high, high_im) = (_parts_at(a, row, tag.size) for row in (low, high))
    first = load(builder, kind, low, align)
    with builder.if_else(builder.icmp_signed("!=", inverse, I64(0))) as (then, otherwise):
        with then:
            second = load(builder, kind, high, align)
            store(builder, a.plus(first, second), low, align)
            store(builder, a.minus(first, second), low_im, align)
        with otherwise:
            second = load(builder, kind, low_im, align)
            total, difference = a.plus(first, second), a.minus(first, second)
            for at, value in ((low, a.plus(total, total)), (high, a.plus(difference, difference))):
                store(builder, value, at, align)
            for at in (low_im, high_im):
                store(builder, zero(kind), at, align)


@subroutine
def _tangle_of_lanes(leaf, job):
    size = constant(leaf.vectors, "size")
    for k in range(1, job.m // 2 + 1):
        _mirrored_rows(
            leaf.vectors, job.rows + k * job.row, job.rows + (job.m - k) * job.row, job.roots + 2 * size * k,
            job.inverse,
        )  # fmt: skip
    _end_rows(leaf.vectors, job.rows, job.rows + job.m * job.row, job.inverse)


TangleOfLanes = leaf_class("TangleOfLanes", "vectors", _tangle_of_lanes, TangleOfLanesArguments)
"""Leaf: the same of as many transforms as vectors have lanes, whose frequencies are split rows."""
