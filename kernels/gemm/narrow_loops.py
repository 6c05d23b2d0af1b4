"""Exact products with few columns: rows of A are read where they lie, a panel of B for all columns stays in the cache.

For n columns each value of A is used n times only, so that packing A costs more than it saves. A strip is six rows of
the result and four vectors of its columns; values of A are broadcast from memory, and B is packed in panels of that
width (`packing.VectorPanel`), by each task for itself. A strip runs along K to the end, so that rows are read as memory
streams, in steps of kc whose sums are added one to another in the result, as in `loops.py`.

Measured, 16 x ([1024, 1024] @ [1024, 64]), two threads: 7.3 ms (2.3 ms to read the left operand) where MKL takes 8.0.
Strips of 8 x 2 and 12 x 2 vectors take 7.8 and 7.6; all strips in one step of kc after another 8.4; the left operand
prefetched to L2 a strip ahead 8.8.
"""

from __future__ import annotations

from typing import NamedTuple

from ..jit import intrinsic, ir, njit, subroutine, types
from ..launch import call_at, launch
from .emit import I32, I64, POINTER, broadcast, call, lane_numbers, load, loop, offset, vector, zero
from .loops import LIMITS_BYTES, PackArguments
from .microkernels import Rows
from .sources import ELEMENTS
from .tags import constant, instance
from .vectors import Avx512Float32, Avx512Float64

__all__ = ["KERNELS", "Narrow", "NarrowRows", "multiply_narrow"]


class _Narrow512Float32(Avx512Float32):
    """`mr` rows of a strip, `nr` columns of a panel of B: 24 accumulators, 4 vectors of B, one of A."""

    mr, nr, b_bytes = 6, 64, 256


class _Narrow512Float64(Avx512Float64):
    mr, nr, b_bytes = 6, 32, 256


KERNELS = {("avx512", 4): _Narrow512Float32(), ("avx512", 8): _Narrow512Float64()}
"""By instruction set and size of an element."""


@intrinsic(prefer_literal=True)
def _strip(typingctx, tag, rows, a, a_row, a_k, b, c, c_row, columns, depth, more):
    """Some rows of a panel's columns; the first `columns` are stored: a literal number of rows, or, for 0, as many as
    the strips of the tag have. `more`: they are added to the result."""
    kernel = instance(tag)
    height = rows.literal_value or kernel.mr
    width, element = kernel.nr // kernel.lanes, ELEMENTS[f"float{8 * kernel.size}"]

    def codegen(context, builder, signature, arguments):
        a, a_row, a_k, b, c, c_row, columns, depth, more = arguments[2:]
        lanes, size = kernel.lanes, kernel.size
        kind = vector(kernel.element, lanes)
        a, b, c = (builder.inttoptr(address, POINTER) for address in (a, b, c))
        a_rows = [offset(builder, a, builder.mul(a_row, I64(row))) for row in range(height)]

        def step(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            b_at, a_step, after = (
                offset(builder, b, builder.mul(index, I64(kernel.b_bytes))),
                builder.mul(index, a_k),
                [],
            )
            of_b = [load(builder, kind, offset(builder, b_at, v * lanes * size), size) for v in range(width)]
            for row, at in enumerate(a_rows):
                of_a = broadcast(builder, load(builder, kernel.element, offset(builder, at, a_step), size), lanes)
                for v, x in enumerate(of_b):
                    after.append(call(builder, f"llvm.fma.v{lanes}f{8 * size}", kind, of_a, x, sums[row * width + v]))
            return after

        sums = loop(builder, depth, [zero(kind)] * (height * width), step)
        left, access = broadcast(builder, builder.trunc(columns, I32), lanes), Rows(builder, type(element), lanes)
        masks = [builder.icmp_signed("<", lane_numbers(lanes, lanes * v), left) for v in range(width)]
        places = []
        for row in range(height):
            c_at = offset(builder, c, builder.mul(c_row, I64(row)))
            places += [(offset(builder, c_at, v * lanes * size), mask) for v, mask in enumerate(masks)]
        with builder.if_else(more) as (further, first):
            with further:
                for value, (at, mask) in zip(sums, places, strict=True):
                    access.write(builder.fadd(access.read(at, None, mask), value), at, mask)
            with first:
                for value, (at, mask) in zip(sums, places, strict=True):
                    access.write(value, at, mask)
        return context.get_dummy_value()

    integer = types.int64
    return types.void(tag, rows, *[integer] * 8, types.boolean), codegen


@subroutine
def _narrow_rows(leaf, job):
    """Rows first to last of the result, from the packed B."""
    tag, mr, nr = leaf.kernel, constant(leaf.kernel, "mr"), constant(leaf.kernel, "nr")
    size, b_bytes = constant(leaf.kernel, "size"), constant(leaf.kernel, "b_bytes")
    panels, row = (job.n + nr - 1) // nr, job.first
    while row < job.last:
        whole = row + mr <= job.last
        for panel in range(panels):
            c, columns = job.c + row * job.c_row + panel * nr * size, job.n - panel * nr
            for k in range(0, job.k, job.kc):
                depth = min(job.kc, job.k - k)
                a = job.a + row * job.a_row + k * job.a_k
                b = job.b + b_bytes * (panels * k + panel * depth)
                if whole:
                    _strip(tag, 0, a, job.a_row, job.a_k, b, c, job.c_row, columns, depth, k > 0)
                else:
                    _strip(tag, 1, a, job.a_row, job.a_k, b, c, job.c_row, columns, depth, k > 0)
        row += mr if whole else 1


class _RowsArguments(NamedTuple):
    n: int
    k: int
    kc: int
    a: int
    a_row: int
    a_k: int
    b: int
    c: int
    c_row: int
    first: int
    last: int


class NarrowRows(NamedTuple):
    """Leaf: some rows of a result. Field: one of `KERNELS`."""

    kernel: NamedTuple
    run = _narrow_rows
    arguments = _RowsArguments


@subroutine
def _narrow_task(task, worker, job):
    item, first = task // job.blocks, task % job.blocks * job.rows
    packed, limits = job.scratch + worker * job.b_bytes, job.limits + worker * LIMITS_BYTES
    a, b, c = job.addresses[0, item], job.addresses[1, item], job.addresses[2, item]
    call_at(job.pack, PackArguments(job.b_line, job.b_k, job.n, job.k, job.kc, b, packed, limits, 0, job.n, 0, job.k))
    last = min(job.m, first + job.rows)
    call_at(
        job.leaf,
        _RowsArguments(job.n, job.k, job.kc, a, job.a_row, job.a_k, packed, c, job.c_row, first, last),
    )


class Narrow(NamedTuple):
    """Products of one shape, each in `blocks` tasks of `rows` rows: `addresses` (3, count) are those of A, B and the
    result.

    `pack` is the address of a `PackRange` for B, `leaf` that of a `NarrowRows`. Each worker has b_bytes of scratch
    memory for B, and LIMITS_BYTES.
    """

    pack: int
    leaf: int
    m: int
    n: int
    k: int
    kc: int
    rows: int
    blocks: int
    a_row: int
    a_k: int
    b_line: int
    b_k: int
    c_row: int
    addresses: object
    scratch: int
    b_bytes: int
    limits: int
    run = _narrow_task


@njit
def multiply_narrow(pool, threads, job):
    launch(pool, threads, job.addresses.shape[1] * job.blocks, job)
