"""Products of arrays by the compiled loops: packed or not, alone or in a batch, with what is fused in."""

from __future__ import annotations

import functools
import math
import struct
from typing import NamedTuple

import numpy as np

from ..arrays.elementwise import each
from ..block import loops, plans, ranges
from ..block.plans import Plan, Side, up
from ..block.tuning import memoise, tuning
from ..runtime import threading
from ..runtime.addresses import addresses
from ..runtime.record import Address, Bytes, Count
from ..runtime.shapes import broadcast_shapes
from ..runtime.workspace import address_of, aligned_bytes, maker_of, result, return_workspace, take_workspace
from . import unpacked
from .divisions import divide, lines_at_once, packing
from .tasks import Divided, multiply_divided

_ZERO = np.zeros(1)
"""What is added where nothing is, in every dtype."""


def _bits(value: float) -> int:
    return struct.unpack("<q", struct.pack("<d", value))[0]


@functools.lru_cache(4096)
def target_for(
    plan: Plan, dtype: np.dtype, row_stride: int, affine: tuple[float, float, int, int] | None = None
) -> loops.Target:
    """How results of a dtype are stored; with alpha, beta, and the strides of the addend where one is added."""
    alpha, beta, row, column = affine or (0.0, 0.0, 0, 0)
    return loops.Target(
        leaf=Address(plans.block_leaf(plan, dtype, affine is None, affine is None or column == dtype.itemsize)),
        row_stride=Bytes(row_stride), item_bytes=Bytes(dtype.itemsize), alpha_bits=_bits(alpha), beta_bits=_bits(beta),
        addend_row=Bytes(row), addend_column=Bytes(column),
    )  # fmt: skip


def _ending(
    c: np.ndarray, alpha: float, beta: float, addend: np.ndarray | None, relu: bool
) -> tuple[unpacked.Finish, np.ndarray] | None:
    """How products that are read where they lie are finished, and what is added; None for the products alone."""
    if addend is None and alpha == 1.0 and not relu:
        return None
    added, beta = (np.broadcast_to(_ZERO, c.shape), 0.0) if addend is None else (addend, beta)
    return unpacked.Finish(_bits(alpha), _bits(beta), *added.strides[-2:], relu), added


def _certain_from(plan: Plan, depth: int, found_a: int, found_b: int) -> float:
    """The magnitude from which results keep the bound (`ranges.py`). Raises `Refused` where something may overflow."""
    return ranges.certain_from(plan.precision, depth, found_a, found_b) if plan.finds_magnitudes else 0.0


class Packed:
    """The right operand of products, packed once, which `product` takes in the place of b.

    It holds its own copy of the values at the precision it was packed for, and nothing of the array.
    """

    __slots__ = ("_memory", "address", "dtype", "found", "isa", "ndim", "precision", "rounding", "shape", "wanted")

    def __init__(self, b: np.ndarray, isa: str, precision: str, rounding: str, wanted: str | None = None) -> None:
        plan, (k, n), (pool, threads) = plans.plan_for(isa, precision, rounding, _size(b)), b.shape, threading.pool()
        side = plans.side(plan, False, b.dtype, n, k, *b.strides[::-1])
        self.isa, self.precision, self.rounding, self.wanted = isa, precision, rounding, wanted or precision
        self.shape, self.dtype, self.ndim = b.shape, b.dtype, 2
        self._memory = aligned_bytes(side.bytes(n) + threads * loops.LIMITS_BYTES)
        self.address = address_of(self._memory)
        limits = self.address + side.bytes(n)
        self.found = loops.pack(pool, threads, packing(side, n, threads), address_of(b), self.address, limits)

    def __repr__(self) -> str:
        return f"<packed {self.dtype}{list(self.shape)} for {self.wanted} products by {self.isa}>"


class _Prepared(NamedTuple):
    """The record of some products, the bytes of memory that they need, and the threads that they take."""

    products: Divided
    bytes: int
    threads: int
    whole: bool
    """Whether a task computes all of a product, as of a brief one."""


@memoise
def _prepare(plan: Plan, a: Side, b: Side | None, n: int, count: int, threads: int) -> _Prepared:
    """What does not depend on addresses, for products of one shape whose right operands (None: packed already) have n
    columns."""
    division, kernel, chunk = divide(plan, a, b, n, count, threads), plan.scheme.kernel, 1
    whole = division.packs_a and division.packs_b
    if whole:
        work = count * (a.lines * n * a.depth / plan.products_per_microsecond + 0.5)
        threads = threads if count > 1 and work > tuning(plan.isa).spread_microseconds else 1
        chunk = max(1, count // (8 * threads))
    a_bytes = a.bytes(division.rows) if division.packs_a else 0
    b_bytes = b._replace(depth=division.step).bytes(division.columns) if b and division.packs_b else 0
    scratch = up(a_bytes + b_bytes + up(division.rows, kernel.mr) * division.width * kernel.size, 64)
    before_a = 0 if division.packs_a else a.bytes(a.lines)
    before_b = 0 if b is None or division.packs_b else b.bytes(n)
    products = Divided(
        a=packing(a, a.lines, threads), b=packing(b or a._replace(leaf=0), n, threads), m=Count(a.lines), n=Count(n),
        rows=Count(division.rows), columns=Count(division.columns), width=Count(division.width),
        step=Count(division.step), a_bytes=Bytes(a_bytes), b_bytes=Bytes(b_bytes), whole_a_bytes=Bytes(before_a),
        scratch_bytes=Bytes(scratch), chunk=Count(chunk),
    )  # fmt: skip
    return _Prepared(products, threads * (scratch + 2 * loops.LIMITS_BYTES) + before_a + before_b, threads, whole)


def _run(
    plan: Plan, prepared: _Prepared, depth: int, target: loops.Target, pool: int, places: np.ndarray,
    packed: Packed | None = None,
) -> float:  # fmt: skip
    """Compute the products. `places`, contiguous, are four addresses for each: of its operands, of the result, and of
    what is added. Returns the magnitude from which the results are certain."""
    memory = take_workspace(prepared.bytes)
    try:
        found_a, found_b = multiply_divided(
            pool if prepared.threads > 1 else 0, prepared.threads, prepared.products, target, places.size // 4,
            address_of(places), packed.address if packed else 0, address_of(memory),
        )  # fmt: skip
    finally:
        return_workspace(memory)
    return _certain_from(plan, depth, found_a, packed.found if packed else found_b)


@memoise
def _prepare_one(
    threads: int, isa: str, precision: str, rounding: str, dtype: np.dtype, m: int, k: int, n: int, *strides: int
) -> tuple[Plan, _Prepared, int, loops.Target] | None:
    """What `_run` takes for one product of two matrices; None where it is none, or done in parts."""
    if not (m and k and n):
        return None
    plan = plans.for_rows(plans.plan_for(isa, precision, rounding, 8 if dtype.itemsize == 8 else 4), m)
    a, b = plans.side(plan, True, dtype, m, k, *strides[:2]), plans.side(plan, False, dtype, n, k, *strides[:1:-1])
    if m > lines_at_once(a, plan.scheme.mc) or n > lines_at_once(b, plan.scheme.nc):
        return None
    return plan, _prepare(plan, a, b, n, 1, threads), k, target_for(plan, dtype, n * dtype.itemsize)


def _multiply_one(
    a: np.ndarray, b: np.ndarray, pool: int, prepared: tuple[Plan, _Prepared, int, loops.Target]
) -> np.ndarray:
    """The product of two matrices in one call of compiled code. What surrounds it counts, since such a product takes
    all of the caches and leaves Python's own code cold: 100 us beside the 200 of a bf16 product of 512."""
    make = maker_of(a.shape[0] * b.shape[1] * a.itemsize) if prepared[1].whole else result
    c = make((a.shape[0], b.shape[1]), a.dtype)
    places = np.array((address_of(a), address_of(b), address_of(c), 0))
    ranges.refuse_uncertain(_run(*prepared, pool, places), c, a, b)
    return c


def _multiply(plan: Plan, a: Side, b: Side | Packed, target: loops.Target, places: np.ndarray) -> float:
    """Compute products of one shape; the magnitude from which their results are certain. Those that are divided among
    threads are done one after the other, in parts whose packed operands are of a limited size."""
    (packed, side, n) = (b, None, b.shape[1]) if isinstance(b, Packed) else (None, b, b.lines)
    (pool, threads), count = threading.pool(), places.shape[1]
    rows, columns = lines_at_once(a, plan.scheme.mc), n if side is None else lines_at_once(side, plan.scheme.nc)
    if a.lines <= rows and n <= columns:
        prepared = _prepare(plan, a, side, n, count, threads)
        if count == 1 or prepared.whole:
            return _run(plan, prepared, a.depth, target, pool, places, packed)
    if count > 1:
        return max(_multiply(plan, a, b, target, places[:, item : item + 1].copy()) for item in range(count))
    certain = 0.0
    for column in range(0, n, columns):
        for row in range(0, a.lines, rows):
            some, width = a._replace(lines=min(rows, a.lines - row)), min(columns, n - column)
            prepared = _prepare(plan, some, side and side._replace(lines=width), width, 1, threads)
            of_b = column * side.line_stride if side else 0
            of_c = row * target.row_stride + column * target.item_bytes
            added = row * target.addend_row + column * target.addend_column
            there = places + np.array(((row * a.line_stride,), (of_b,), (of_c,), (added,)))
            certain = max(certain, _run(plan, prepared, a.depth, target, pool, there, packed))
    return certain


def _size(x: np.ndarray) -> int:
    """Size of what x is accumulated in."""
    return 8 if x.dtype.itemsize == 8 else 4


def product(
    a: np.ndarray, b: np.ndarray | Packed, *, isa: str, precision: str = "ieee", rounding: str = "rna",
    alpha: float = 1.0, beta: float = 1.0, addend: np.ndarray | None = None, relu: bool = False,
) -> np.ndarray:  # fmt: skip
    """alpha * (a @ b) + beta * addend by the microkernels of `isa`, not below zero with `relu`.

    Arguments:
        a: (..., m, k), of dtype float32, float64, float16 or bfloat16 and of any strides.
        b: (..., k, n) of the same dtype, whose leading dimensions broadcast with those of a, or a `Packed` (k, n).
        precision, rounding: of float32 products (`precisions.products`); for 16-bit dtypes one that holds their values.
        addend: an array of the same dtype that broadcasts to the result, or None. With beta = 0 it is not looked at.

    Raises `Refused` where the values do not admit the precision on this instruction set.
    """
    (m, k), n = a.shape[-2:], b.shape[-1]
    if a.ndim == 2 and type(b) is np.ndarray and b.ndim == 2 and addend is None and alpha == 1.0 and not relu:
        pool, threads = threading.pool()
        ready = unpacked.prepare_one(threads, isa, precision, rounding, a.dtype, m, k, n, *a.strides, *b.strides)
        if ready is not None:
            return unpacked.multiply_one(a, b, pool, ready)
        one = _prepare_one(threads, isa, precision, rounding, a.dtype, m, k, n, *a.strides, *b.strides)
        if one is not None:
            return _multiply_one(a, b, pool, one)
    plan, batch = plans.for_rows(plans.plan_for(isa, precision, rounding, _size(a)), m), ()
    if a.ndim > 2 or b.ndim > 2:
        if b.ndim == 2 and (addend is None or addend.ndim < 2):
            rows = a.reshape(math.prod(a.shape[:-1]), k)
            options = {"alpha": alpha, "beta": beta, "addend": addend, "relu": relu}
            return product(rows, b, isa=isa, precision=precision, rounding=rounding, **options).reshape(
                *a.shape[:-1], n
            )
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    c = result((*batch, m, n), a.dtype)
    if addend is not None:
        addend = np.broadcast_to(addend, c.shape) if beta else None
    if c.size == 0:
        return c
    if k == 0:
        c[...] = 0 if addend is None else beta * addend
        return c
    array, at_b = (None, b.address) if isinstance(b, Packed) else (b, address_of(b))
    if unpacked.multiply_into(c, plan, a, at_b, array, batch, _ending(c, alpha, beta, addend, relu)):
        return c
    added, affine = np.broadcast_to(_ZERO, c.shape) if addend is None else addend, None
    if addend is not None or alpha != 1.0:
        affine = alpha, beta, *added.strides[-2:]
    right: Side | Packed = b if isinstance(b, Packed) else plans.side(plan, False, b.dtype, n, k, *b.strides[:-3:-1])
    places = np.stack([addresses(x, batch) for x in (a, a if array is None else array, c, added)])
    target = target_for(plan, c.dtype, c.strides[-2], affine)
    certain = _multiply(plan, plans.side(plan, True, a.dtype, m, k, *a.strides[-2:]), right, target, places)
    ranges.refuse_uncertain(certain * max(abs(alpha), 1.0), c, a, array)
    return each(np.maximum, c, c.dtype.type(0), out=c) if relu else c
