"""The loops of Bluestein's algorithm: a transform of any length n as a convolution, by transforms of a smooth length m.

With c[j] = exp(-pi i j^2 / n), X[k] = c[k] * sum over j of (x[j] c[j]) conj c[k - j]: a product with c, a convolution
with its conjugate, cyclic of length m >= 2n - 1, and a product with c again (L. Bluestein, "A linear filtering approach
to the computation of discrete Fourier transform", 1970).
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from ..block.emit import F32, F64, I32, I64, POINTER, broadcast, load, offset, store, vector
from ..block.loops import leaf_address
from ..block.tags import constant, field_class
from ..runtime.emitter import Fields, Pointer, Type, emitter
from ..runtime.jit import ir, njit, subroutine
from ..runtime.launch import call_at, job_class, launch, leaf_class
from ..runtime.raw_memory import get
from .butterflies import Arithmetic
from .codelets import vectors
from .loops import first_of, groups_of
from .table import ONE, Job
from .tasks import run_alone

CHIRP_FIELDS = ("plan", "n", "m", "size", "chirp", "spectrum", "multiply")
"""What the int64 of a table mean: the table of the plan of length m; the addresses of `FACTORS` of c, and of the
transform of its conjugate over m; the leaf of products."""

_PLAN, _N, _M, _SIZE, _CHIRP, _SPECTRUM, _MULTIPLY = range(7)

FACTORS = 3
"""Arrays for each array of factors f: their real parts twice, -im(f) beside im(f), and im(f) beside -im(f). The product
x f is the sum of those of x with the first and of x with its parts exchanged with the second; (x exchanged) f takes the
second and the first, and x f exchanged the third and the first."""


MultiplyArguments = namedtuple("MultiplyArguments", "source straight crossed target count scale")
"""`straight` meets the numbers as they are, `crossed` those with their parts exchanged."""


@emitter
def _products(builder, leaf: Type, job: Fields, index) -> None:
    tag = field_class(leaf, "vectors")
    a, kind = Arithmetic(builder, tag.element, tag.lanes), vector(tag.element, tag.lanes)
    at = builder.mul(index, I64(2 * tag.size))
    places = {name: offset(builder, builder.inttoptr(getattr(job, name), POINTER), at) for name in _ARRAYS}
    x, straight, crossed = (load(builder, kind, places[name], tag.size) for name in _ARRAYS[:3])
    number = builder.bitcast(job.scale, F64)
    scale = broadcast(builder, number if tag.element is F64 else builder.fptrunc(number, F32), tag.lanes)
    exchanged = builder.shuffle_vector(x, x, ir.Constant(vector(I32, tag.lanes), [k ^ 1 for k in range(tag.lanes)]))
    value = a.plus(a.times(x, straight), a.times(exchanged, crossed))
    store(builder, a.times(value, scale), places["target"], tag.size)


_ARRAYS = MultiplyArguments._fields[:4]


@subroutine
def _multiply(leaf, job):
    together = constant(leaf.vectors, "lanes") // 2
    for index in range(0, job.count - together + 1, together):
        _products(leaf, job, index)
    if job.count % together:
        _products(leaf, job, job.count - together)


Multiply = leaf_class("Multiply", "vectors", _multiply, MultiplyArguments)
"""Leaf: products of complex numbers, scaled, at least a vector of them. Where they do not fill vectors, the last
one takes some again."""


def leaf_of_products(size: int, lanes: int) -> int:
    """The address of the leaf."""
    return leaf_address(Multiply(vectors(size, lanes * size)))


def factors_of(numbers: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`FACTORS` of complex numbers, one after the other, with parts of a dtype."""
    re, im = numbers.real, numbers.imag
    return np.stack([np.stack([re, re], -1), np.stack([-im, im], -1), np.stack([im, -im], -1)]).astype(dtype)


@emitter
def _clear(builder, at: Pointer, count) -> None:
    """Make `count` int64 zero."""
    kind = ir.FunctionType(ir.VoidType(), [POINTER, ir.IntType(8), I64, ir.IntType(1)])
    name = "llvm.memset.p0.i64"
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    builder.call(function, [at, ir.IntType(8)(0), builder.mul(count, I64(8)), ir.IntType(1)(0)])


@subroutine
def _factors(at, length):
    return at, at + length, at + 2 * length


@subroutine
def _transforms(plan, swap, source, target, step, count, memory):
    """Transform rows that lie `step` bytes apart."""
    run_alone(Job(plan, swap, ONE, source, step, 0, target, step, 0, count, 1, count, memory, 0, 0))


@subroutine
def _chirp_task(task, worker, job):
    """Some transforms, in the worker's own memory, some rows at a time: so many fill the vectors of short lengths."""
    table, rows = job.table, job.rows
    n, size, plan, multiply = get(table, _N), get(table, _SIZE), get(table, _PLAN), get(table, _MULTIPLY)
    step = 2 * size * get(table, _M)
    re, im, less_im = _factors(get(table, _CHIRP), 2 * size * n)
    of_spectrum, crossed_spectrum, _ = _factors(get(table, _SPECTRUM), step)
    first = job.memory + worker * job.worker_bytes
    second = first + rows * step
    memory = second + rows * step
    begin = task * job.chunk
    count = min(job.chunk, job.batch - begin)
    for group in range(groups_of(count, rows)):
        start = begin + first_of(group, rows, count)
        for row in range(rows):
            source, here = job.source + (start + row) * job.source_step, first + row * step
            straight, crossed = (im, re) if job.swap else (re, im)
            call_at(multiply, MultiplyArguments(source, straight, crossed, here, n, ONE))
            _clear(here + 2 * n * size, (step - 2 * n * size) // 8)
        _transforms(plan, 0, first, second, step, rows, memory)
        for row in range(rows):
            here = second + row * step
            call_at(multiply, MultiplyArguments(here, of_spectrum, crossed_spectrum, here, get(table, _M), ONE))
        _transforms(plan, 1, second, first, step, rows, memory)
        for row in range(rows):
            target = job.target + (start + row) * job.target_step
            straight, crossed = (less_im, re) if job.swap else (re, im)
            call_at(multiply, MultiplyArguments(first + row * step, straight, crossed, target, n, job.scale))


Chirps = job_class(
    "Chirps", "table swap scale source source_step target target_step batch chunk rows memory worker_bytes", _chirp_task
)
"""Transform `batch` rows by the table at an address, `chunk` of them in a task, in memory of worker_bytes for each
thread. `rows` are transformed together. The last task may have fewer; it takes some of the one before again, which
both write alike."""


@njit
def transform_by_chirp(pool, threads, job):
    launch(pool, threads, (job.batch + job.chunk - 1) // job.chunk, job)
