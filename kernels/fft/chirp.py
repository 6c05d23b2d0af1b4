"""The loops of Bluestein's algorithm: a transform of any length n as a convolution, by transforms of a smooth length m.

With c[j] = exp(-pi i j^2 / n), X[k] = c[k] * sum over j of (x[j] c[j]) conj c[k - j]: a product with c, a convolution
with its conjugate, cyclic of length m >= 2n - 1, and a product with c again (L. Bluestein, "A linear filtering approach
to the computation of discrete Fourier transform", 1970).
"""

from __future__ import annotations

from typing import NamedTuple

from ..gemm.emit import F32, F64, I64, POINTER, broadcast
from ..gemm.loops import leaf_address
from ..gemm.tags import constant, field_class
from ..jit import intrinsic, ir, njit, subroutine, types
from ..launch import call_at, launch
from ..words import get
from .butterflies import Arithmetic, Complex
from .codelets import vectors
from .loops import whole
from .table import ONE, Job
from .tangle import Rows

__all__ = ["CHIRP_FIELDS", "Multiply", "MultiplyArguments", "leaves", "transform_by_chirp"]

CHIRP_FIELDS = ("plan", "n", "m", "size", "lanes", "chirp", "spectrum", "multiply", "multiply_one", "worker_bytes")
"""What the int64 of a table mean: the table of the plan of length m; the addresses of c, and of the transform of its
conjugate over m; the leaves of products; bytes for a thread."""

_PLAN, _N, _M, _SIZE, _LANES, _CHIRP, _SPECTRUM, _MULTIPLY, _MULTIPLY_ONE, _WORKER_BYTES = range(10)


class MultiplyArguments(NamedTuple):
    source: int
    factors: int
    target: int
    first: int
    count: int
    swap_in: int
    swap_out: int
    scale: int


@intrinsic
def _products(typingctx, leaf, job, index):
    def codegen(context, builder, signature, arguments):
        tag = field_class(leaf, "vectors")
        _, job, index = arguments
        field = {name: builder.extract_value(job, place) for place, name in enumerate(MultiplyArguments._fields)}
        a = Arithmetic(builder, tag.element, tag.lanes)
        rows = Rows(a, tag.size)
        source, factors, target = (builder.inttoptr(field[name], POINTER) for name in ("source", "factors", "target"))
        number = builder.bitcast(field["scale"], F64)
        scale = broadcast(builder, number if tag.element is F64 else builder.fptrunc(number, F32), tag.lanes)

        def swapped(value: Complex, name: str) -> Complex:
            swap = builder.icmp_signed("!=", field[name], I64(0))
            return Complex(builder.select(swap, value.im, value.re), builder.select(swap, value.re, value.im))

        value = a.multiply(swapped(rows.read(source, index), "swap_in"), rows.read(factors, index))
        value = Complex(a.times(value.re, scale), a.times(value.im, scale))
        rows.write(swapped(value, "swap_out"), target, index)
        return context.get_dummy_value()

    return types.void(leaf, job, types.int64), codegen


@subroutine
def _multiply(leaf, job):
    lanes = constant(leaf.vectors, "lanes")
    for index in range(job.count):
        _products(leaf, job, job.first + index * lanes)


class Multiply(NamedTuple):
    """Leaf: products of complex numbers, scaled; parts change places on the way in or out."""

    vectors: NamedTuple
    run = _multiply
    arguments = MultiplyArguments


def leaves(size: int, lanes: int) -> tuple[int, int]:
    """The addresses of the leaves of whole vectors, and of single numbers."""
    return leaf_address(Multiply(vectors(size, lanes * size))), leaf_address(Multiply(vectors(size, size)))


@intrinsic
def _clear(typingctx, address, count):
    """Make `count` int64 zero."""

    def codegen(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.VoidType(), [POINTER, ir.IntType(8), I64, ir.IntType(1)])
        name = "llvm.memset.p0.i64"
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        at = builder.inttoptr(arguments[0], POINTER)
        builder.call(function, [at, ir.IntType(8)(0), builder.mul(arguments[1], I64(8)), ir.IntType(1)(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@subroutine
def _all_products(table, source, factors, target, count, swap_in, swap_out, scale):
    lanes = get(table, _LANES)
    vectors = count // lanes
    call_at(get(table, _MULTIPLY), MultiplyArguments(source, factors, target, 0, vectors, swap_in, swap_out, scale))
    call_at(
        get(table, _MULTIPLY_ONE),
        MultiplyArguments(source, factors, target, vectors * lanes, count - vectors * lanes, swap_in, swap_out, scale),
    )


@subroutine
def _chirp_task(task, worker, job):
    """Some transforms, in the worker's own memory."""
    table = job.table
    n, m, size, plan = get(table, _N), get(table, _M), get(table, _SIZE), get(table, _PLAN)
    chirp, spectrum = get(table, _CHIRP), get(table, _SPECTRUM)
    first = job.memory + worker * get(table, _WORKER_BYTES)
    second = first + 2 * m * size
    memory = second + 2 * m * size
    there = Job(plan, 0, ONE, 0, 0, 0, 0, 0, 0, 1, 1, 1, memory, 0, 0)
    back = Job(plan, 1, ONE, 0, 0, 0, 0, 0, 0, 1, 1, 1, memory, 0, 0)
    for item in range(task * job.chunk, min((task + 1) * job.chunk, job.batch)):
        source, target = job.source + item * job.source_step, job.target + item * job.target_step
        _all_products(table, source, chirp, first, n, job.swap, 0, ONE)
        _clear(first + 2 * n * size, (m - n) * 2 * size // 8)
        whole(there, first, second, memory)
        _all_products(table, second, spectrum, second, m, 0, 0, ONE)
        whole(back, second, first, memory)
        _all_products(table, first, chirp, target, n, 0, job.swap, job.scale)


class _Chirp(Job):
    run = _chirp_task


@njit
def transform_by_chirp(
    pool, threads, table, swap, scale, source, source_step, target, target_step, batch, memory
):  # fmt: skip
    """Transform `batch` rows by the table at an address, in memory of its worker_bytes for each thread."""
    chunk = max((batch + threads - 1) // threads, 1)
    job = _Chirp(table, swap, scale, source, source_step, 0, target, target_step, 0, batch, 1, chunk, memory, 0, 0)
    launch(pool, threads, (batch + chunk - 1) // chunk, job)
