"""Microkernels for vector units: a block of results in registers, one broadcast of A and some vectors of B at a time.

The whole loop along K is one piece of LLVM code whose accumulators are values, so that LLVM keeps all of them in
registers. A fused multiply-add is used where the CPU has one; elsewhere a product and a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..runtime.jit import ir
from . import emit as e
from .tags import tag_class


class Avx512Float32(NamedTuple):
    """28 accumulators of 16 lanes, 2 vectors of B, and 2 registers to spare. a_bytes is padded to a whole vector.

    The sums of a step along K are added to those before only at its end: the error of K = 4096 normal products is half
    that of one chain (1.1e-6 relative to sqrt(K)).

    The class has what the loops must know of a microkernel (see `microkernels.py`).
    """

    mr, nr, lanes = 14, 32, 16
    element, size, fused = e.F32, 4, True
    a_bytes, b_bytes = 64, 128
    step = 1
    turn, ahead_a, ahead_b = 8, 1, 1
    subtracts = True
    tall = True  # whether small products have room for 16 accumulators (`small_vectors.py`)
    unrolled, embedded = 2, 11
    """Places along K in a turn of the loop, and rows whose value of A each product reads for itself, where the others
    take an instruction more to read it once for all. Two loads a cycle bound the former; instructions bound the latter
    where another hardware thread of the core takes its share of them (bench/NOTES.md, "Vectors")."""

    @classmethod
    def emit(
        cls, builder: ir.IRBuilder, depth, a, b, c, accumulate, out, out_stride, ahead_a, ahead_b, less=False
    ) -> None:
        kind, columns = e.vector(cls.element, cls.lanes), cls.nr // cls.lanes

        def turn(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            cls._fetch(builder, ahead_a, cls.ahead_a, index)
            cls._fetch(builder, ahead_b, cls.ahead_b, index)
            return cls._places(builder, a, b, builder.mul(index, e.I64(cls.unrolled)), cls.unrolled, sums)

        def single(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            return cls._places(builder, a, b, builder.add(done, index), 1, sums)

        places = result_places(builder, cls, range(cls.mr), out, out_stride, c)
        turns = builder.sdiv(depth, e.I64(cls.unrolled))
        done = builder.mul(turns, e.I64(cls.unrolled))
        sums = e.loop_of_any(builder, turns, [e.zero(kind)] * (cls.mr * columns), turn)
        sums = e.loop_of_any(builder, builder.sub(depth, done), sums, single)
        store_sums(builder, cls, sums, places, accumulate, less)

    @classmethod
    def _places(
        cls, builder: ir.IRBuilder, a: ir.Value, b: ir.Value, first: ir.Value, count: int, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """The sums with the products of so many places along K, from one on.

        Pointers are opaque, so that a read takes one register and a constant: with two it is an instruction of its own
        beside the product's. LLVM reads a value twice only where it does not know that the pointers are equal.
        """
        columns = cls.nr // cls.lanes
        places = (e.offset(builder, at, builder.mul(first, e.I64(k))) for at, k in ((a, cls.a_bytes), (b, cls.b_bytes)))
        at_a, at_b = (e.opaque(builder, builder.ptrtoint(at, e.I64)) for at in places)
        copies = [at_a]
        while cls.embedded and len(copies) < columns:
            copies.append(e.opaque(builder, copies[-1]))
        lines, of_b = [builder.inttoptr(at, e.POINTER) for at in copies], builder.inttoptr(at_b, e.POINTER)
        for place in range(count):

            def of_a(row: int, column: int, place: int = place) -> ir.Value:
                return e.offset(builder, lines[column], place * cls.a_bytes + row * cls.size)

            sums = cls.add_place(builder, of_a, e.offset(builder, of_b, place * cls.b_bytes), sums, cls.embedded)
        return sums

    @classmethod
    def add_place(
        cls, builder: ir.IRBuilder, of_a: Callable[[int, int], ir.Value], of_b: ir.Value, sums: list[ir.Value],
        embedded: int,
    ) -> list[ir.Value]:  # fmt: skip
        """The sums with the products of one place along K: `of_a(row, column)` is where a row's value is read for a
        vector of columns."""
        columns, kind = cls.nr // cls.lanes, e.vector(cls.element, cls.lanes)
        row_of_b = [
            e.load(builder, kind, e.offset(builder, of_b, j * cls.lanes * cls.size), cls.size) for j in range(columns)
        ]
        after = []
        for row in range(cls.mr):
            alone = (row + 1) * embedded // cls.mr > row * embedded // cls.mr
            for j, x in enumerate(row_of_b):
                if alone or j == 0:
                    value = e.broadcast(builder, e.load(builder, cls.element, of_a(row, j), cls.size), cls.lanes)
                after.append(cls.add_product(builder, value, x, sums[row * columns + j]))
        return after

    @classmethod
    def _fetch(cls, builder: ir.IRBuilder, at: ir.Value, lines: int, turn: ir.Value) -> None:
        """Ask for this turn's part of what comes soon; less than a line is asked for again in the next turn."""
        count = 64 * lines * max(1, cls.a_bytes // 64) * cls.unrolled // cls.turn
        if count:
            e.prefetch_to_l2(builder, e.offset(builder, at, builder.mul(turn, e.I64(count))), max(1, count // 64))

    @classmethod
    def add_product(cls, builder: ir.IRBuilder, a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
        if cls.fused:
            name = f"llvm.fma.v{cls.lanes}f{8 * cls.size}"
            return e.call(builder, name, a.type, a, b, total)
        return builder.fadd(total, builder.fmul(a, b))

    @staticmethod
    def add_before(builder: ir.IRBuilder, before: ir.Value, value: ir.Value) -> ir.Value:
        return builder.fadd(before, value)

    @staticmethod
    def emit_begin(builder: ir.IRBuilder) -> None:
        """Nothing to prepare."""

    @staticmethod
    def emit_end(builder: ir.IRBuilder) -> None:
        """Nothing to leave."""


def result_places(
    builder: ir.IRBuilder, kernel: Any, rows: range, out: ir.Value, out_stride: ir.Value, c: ir.Value
) -> list[tuple[ir.Value, ir.Value]]:
    """Where the vectors of some rows of a block are stored, asked for here, and where those of before are."""

    def vectors_of(base: ir.Value, stride: ir.Value) -> list[ir.Value]:
        starts = [e.offset(builder, base, builder.mul(stride, e.I64(row))) for row in rows]
        size = kernel.lanes * kernel.size
        return [e.offset(builder, at, column * size) for at in starts for column in range(kernel.nr // kernel.lanes)]

    places = list(zip(vectors_of(out, out_stride), vectors_of(c, e.I64(kernel.nr * kernel.size)), strict=True))
    for at, _ in places:
        e.prefetch_to_write(builder, at)
    return places


def store_sums(
    builder: ir.IRBuilder, kernel: Any, sums: list[ir.Value], places: list[tuple[ir.Value, ir.Value]],
    accumulate: ir.Value, less: bool,
) -> None:  # fmt: skip
    """Store the sums of a step along K, added to those of before where `accumulate` says so, or subtract them from what
    is stored there."""

    def put(value: ir.Value, at: ir.Value) -> None:
        if less:
            value = builder.fsub(e.load(builder, value.type, at, kernel.size), value)
        e.store(builder, value, at, kernel.size)

    with builder.if_else(accumulate) as (resume, start):
        with resume:
            for value, (at, before) in zip(sums, places, strict=True):
                put(kernel.add_before(builder, e.load(builder, value.type, before, kernel.size), value), at)
        with start:
            for value, (at, _) in zip(sums, places, strict=True):
                put(value, at)


Avx512Float32Narrow = tag_class("Avx512Float32Narrow", __name__, Avx512Float32, nr=16, b_bytes=64)
"""Blocks of one vector of columns, for few of them."""

Avx512Float64 = tag_class(
    "Avx512Float64", __name__, Avx512Float32, mr=14, nr=16, lanes=8, element=e.F64, size=8, a_bytes=128,
    b_bytes=128, turn=16, ahead_a=1, ahead_b=2,
)  # fmt: skip
Avx2Float32 = tag_class(
    "Avx2Float32", __name__, Avx512Float32, mr=6, nr=16, lanes=8, tall=False, a_bytes=32, b_bytes=64, turn=32,
    ahead_a=1, ahead_b=1, unrolled=4, embedded=0,
)  # fmt: skip
Avx2Float64 = tag_class(
    "Avx2Float64", __name__, Avx512Float32, mr=6, nr=8, lanes=4, tall=False, element=e.F64, size=8, a_bytes=64,
    b_bytes=64, turn=32, ahead_a=1, ahead_b=2, unrolled=4, embedded=0,
)  # fmt: skip
Avx2Float32Low = tag_class("Avx2Float32Low", __name__, Avx2Float32, mr=4, a_bytes=16)
"""Blocks of four rows; few rows leave less of them empty than of six."""

Avx2Float64Low = tag_class("Avx2Float64Low", __name__, Avx2Float64, mr=4, a_bytes=32)
Avx512Float32Unfused = tag_class("Avx512Float32Unfused", __name__, Avx512Float32, fused=False)
"""A product and a sum, each rounded, as any CPU can (`kernels/runtime/invariance.py`)."""

Avx512Float64Unfused = tag_class("Avx512Float64Unfused", __name__, Avx512Float64, fused=False)
Avx2Float32Unfused = tag_class("Avx2Float32Unfused", __name__, Avx2Float32, fused=False)
Avx2Float64Unfused = tag_class("Avx2Float64Unfused", __name__, Avx2Float64, fused=False)
PortableFloat32 = tag_class(
    "PortableFloat32", __name__, Avx512Float32, mr=4, nr=8, lanes=4, fused=False, a_bytes=16, b_bytes=32, ahead_a=0,
    ahead_b=0, embedded=0,
)  # fmt: skip
"""For any CPU: vectors of 16 bytes, and no fused products, which some CPUs leave to a function of the C library."""

PortableFloat64 = tag_class(
    "PortableFloat64", __name__, PortableFloat32, mr=4, nr=4, lanes=2, element=e.F64, size=8, a_bytes=32,
    b_bytes=32,
)  # fmt: skip
OddFloat32 = tag_class("OddFloat32", __name__, PortableFloat32, mr=5, nr=12, lanes=4, a_bytes=20, b_bytes=48)
"""Only for tests: sizes that are not powers of two and divide nothing."""


class _InTwo(NamedTuple):
    """Of operands in two parts: each place along K is two in a row, in A a0 and a1, in B b0 + b1 and b0, whose products
    are the three of bf16x3."""

    @classmethod
    def emit(cls, builder: ir.IRBuilder, depth: ir.Value, *others: ir.Value, less: bool = False) -> None:
        cls.of_one.emit(builder, builder.shl(depth, e.I64(1)), *others, less=less)


Avx512InTwo = tag_class("Avx512InTwo", __name__, _InTwo, Avx512Float32, of_one=Avx512Float32, a_bytes=128, b_bytes=256)
Avx512InTwoNarrow = tag_class(
    "Avx512InTwoNarrow", __name__, _InTwo, Avx512Float32Narrow, of_one=Avx512Float32Narrow, a_bytes=128,
    b_bytes=128,
)  # fmt: skip
Avx2InTwo = tag_class("Avx2InTwo", __name__, _InTwo, Avx2Float32, of_one=Avx2Float32, a_bytes=64, b_bytes=128)
Avx2InTwoLow = tag_class(
    "Avx2InTwoLow", __name__, _InTwo, Avx2Float32Low, of_one=Avx2Float32Low, a_bytes=32, b_bytes=128,
)  # fmt: skip
PortableInTwo = tag_class(
    "PortableInTwo", __name__, _InTwo, PortableFloat32, of_one=PortableFloat32, a_bytes=32, b_bytes=64,
)  # fmt: skip
OddInTwo = tag_class("OddInTwo", __name__, _InTwo, OddFloat32, of_one=OddFloat32, a_bytes=40, b_bytes=96)


class _Integers(NamedTuple):
    """Products and sums that wrap around."""

    @staticmethod
    def add_product(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
        return builder.add(total, builder.mul(a, b))

    @staticmethod
    def add_before(builder: ir.IRBuilder, before: ir.Value, value: ir.Value) -> ir.Value:
        return builder.add(before, value)


Avx512Int32 = tag_class("Avx512Int32", __name__, _Integers, Avx512Float32, element=e.I32)
Avx512Int64 = tag_class("Avx512Int64", __name__, _Integers, Avx512Float64, element=e.I64)
Avx2Int32 = tag_class("Avx2Int32", __name__, _Integers, Avx2Float32, element=e.I32)
Avx2Int64 = tag_class("Avx2Int64", __name__, _Integers, Avx2Float64, element=e.I64)
PortableInt32 = tag_class("PortableInt32", __name__, _Integers, PortableFloat32, element=e.I32)
PortableInt64 = tag_class("PortableInt64", __name__, _Integers, PortableFloat64, element=e.I64)
