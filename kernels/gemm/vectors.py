"""Microkernels for vector units: a block of results in registers, one broadcast of A and some vectors of B at a time.

The whole loop along K is one piece of LLVM code whose accumulators are values, so that LLVM keeps all of them in
registers. A fused multiply-add is used where the CPU has one; elsewhere a product and a sum.
"""

from __future__ import annotations

from typing import NamedTuple

from ..jit import ir
from .emit import (
    F32,
    F64,
    I32,
    I64,
    broadcast,
    call,
    load,
    loop,
    offset,
    prefetch_to_l2,
    prefetch_to_write,
    store,
    vector,
    zero,
)

__all__ = [
    "Avx2Float32",
    "Avx2Float64",
    "Avx2Int32",
    "Avx2Int64",
    "Avx512Float32",
    "Avx512Float64",
    "Avx512Int32",
    "Avx512Int64",
    "OddFloat32",
    "PortableFloat32",
    "PortableFloat64",
    "PortableInt32",
    "PortableInt64",
]


class Avx512Float32(NamedTuple):
    """28 accumulators of 16 lanes, 2 vectors of B, and 2 registers to spare. a_bytes is padded to a whole vector.

    The sums of a step along K are added to those before only at its end: the error of K = 4096 normal products is half
    that of one chain (1.1e-6 relative to sqrt(K)).

    The class has what the loops must know of a microkernel (see `microkernels.py`).
    """

    mr, nr, lanes = 14, 32, 16
    element, size, fused = F32, 4, True
    a_bytes, b_bytes = 64, 128
    step = 1
    ahead_a = ahead_b = 0
    subtracts = True
    tall = True  # whether small products have room for 16 accumulators (`small_vectors.py`)

    @classmethod
    def emit(
        cls, builder: ir.IRBuilder, depth, a, b, c, accumulate, out, out_stride, ahead_a, ahead_b, less=False
    ) -> None:
        kind, columns = vector(cls.element, cls.lanes), cls.nr // cls.lanes
        vector_bytes = cls.lanes * cls.size

        def rows(base: ir.Value, stride: ir.Value) -> list[ir.Value]:
            starts = [offset(builder, base, builder.mul(stride, I64(row))) for row in range(cls.mr)]
            return [offset(builder, at, column * vector_bytes) for at in starts for column in range(columns)]

        def step(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            a_at = offset(builder, a, builder.mul(index, I64(cls.a_bytes)))
            b_at = offset(builder, b, builder.mul(index, I64(cls.b_bytes)))
            if cls.ahead_a:
                prefetch_to_l2(builder, offset(builder, ahead_a, builder.mul(index, I64(cls.a_bytes))), cls.ahead_a)
            of_b = [load(builder, kind, offset(builder, b_at, c * vector_bytes), cls.size) for c in range(columns)]
            after = []
            for row in range(cls.mr):
                of_a = load(builder, cls.element, offset(builder, a_at, row * cls.size), cls.size)
                of_a = broadcast(builder, of_a, cls.lanes)
                after += [cls._add(builder, of_a, x, sums[row * columns + j]) for j, x in enumerate(of_b)]
            return after

        def finished(value: ir.Value, at: ir.Value) -> ir.Value:
            return builder.fsub(load(builder, kind, at, cls.size), value) if less else value

        places = list(zip(rows(out, out_stride), rows(c, I64(cls.nr * cls.size)), strict=True))
        if less:
            for at, _ in places:
                prefetch_to_write(builder, at)
        sums = loop(builder, depth, [zero(kind)] * (cls.mr * columns), step)
        with builder.if_else(accumulate) as (resume, start):
            with resume:
                for value, (at, before) in zip(sums, places, strict=True):
                    value = cls._sum(builder, load(builder, kind, before, cls.size), value)
                    store(builder, finished(value, at), at, cls.size)
            with start:
                for value, (at, _) in zip(sums, places, strict=True):
                    store(builder, finished(value, at), at, cls.size)

    @classmethod
    def _add(cls, builder: ir.IRBuilder, a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
        if cls.fused:
            name = f"llvm.fma.v{cls.lanes}f{8 * cls.size}"
            return call(builder, name, a.type, a, b, total)
        return builder.fadd(total, builder.fmul(a, b))

    @staticmethod
    def _sum(builder: ir.IRBuilder, before: ir.Value, value: ir.Value) -> ir.Value:
        return builder.fadd(before, value)

    @staticmethod
    def emit_begin(builder: ir.IRBuilder) -> None:
        """Nothing to prepare."""

    @staticmethod
    def emit_end(builder: ir.IRBuilder) -> None:
        """Nothing to leave."""


class Avx512Float64(Avx512Float32):
    mr, nr, lanes = 14, 16, 8
    element, size = F64, 8
    a_bytes, b_bytes = 128, 128


class Avx2Float32(Avx512Float32):
    mr, nr, lanes, tall = 6, 16, 8, False
    a_bytes, b_bytes = 32, 64


class Avx2Float64(Avx512Float32):
    mr, nr, lanes, tall = 6, 8, 4, False
    element, size = F64, 8
    a_bytes, b_bytes = 64, 64


class PortableFloat32(Avx512Float32):
    """For any CPU: vectors of 16 bytes, a product and a sum (a fused one is a call of the C library on some)."""

    mr, nr, lanes, fused = 4, 8, 4, False
    a_bytes, b_bytes = 16, 32


class PortableFloat64(PortableFloat32):
    mr, nr, lanes = 4, 4, 2
    element, size = F64, 8
    a_bytes, b_bytes = 32, 32


class OddFloat32(PortableFloat32):
    """Only for tests: sizes that are no power of two and divide nothing."""

    mr, nr, lanes = 5, 12, 4
    a_bytes, b_bytes = 20, 48


class _Integers(NamedTuple):
    """Products and sums that wrap around."""

    @staticmethod
    def _add(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
        return builder.add(total, builder.mul(a, b))

    @staticmethod
    def _sum(builder: ir.IRBuilder, before: ir.Value, value: ir.Value) -> ir.Value:
        return builder.add(before, value)


class Avx512Int32(_Integers, Avx512Float32):
    element = I32


class Avx512Int64(_Integers, Avx512Float64):
    element = I64


class Avx2Int32(_Integers, Avx2Float32):
    element = I32


class Avx2Int64(_Integers, Avx2Float64):
    element = I64


class PortableInt32(_Integers, PortableFloat32):
    element = I32


class PortableInt64(_Integers, PortableFloat64):
    element = I64
