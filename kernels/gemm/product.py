"""Products of arrays by the compiled loops: packed or not, alone or in a batch, with what is fused in."""

from __future__ import annotations

import functools
import math
import struct
import threading as python_threads
from typing import NamedTuple

import numpy as np

from .. import threading
from ..elementwise import each
from ..record import Address, Bytes
from ..shapes import broadcast_shapes
from . import loops, plans, ranges, strips, unpacked
from .addresses import addresses
from .divisions import (
    batch_product,
    column_product,
    divide,
    divide_one,
    is_brief,
    lines_at_once,
    packing,
    sizes,
    strip_product,
)
from .plans import Plan, Side
from .tuning import in_force, memoise, tuning, when_changed
from .workspace import address_of, aligned_bytes, result, return_workspace, take_workspace

_ZERO = np.zeros(1)
"""What is added where nothing is, in every dtype."""


class _Target(NamedTuple):
    """How the result is stored, where, and the address of what is added to it."""

    how: loops.Target
    at: int
    addend: int = 0

    def part(self, row: int, column: int) -> _Target:
        """From a row and a column on."""
        how = self.how
        at = self.at + row * how.row_stride + column * how.item_bytes
        return _Target(how, at, self.addend + row * how.addend_row + column * how.addend_column)


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
        row_stride=Bytes(row_stride),
        item_bytes=Bytes(dtype.itemsize),
        alpha_bits=_bits(alpha),
        beta_bits=_bits(beta),
        addend_row=Bytes(row),
        addend_column=Bytes(column),
    )


def _target(plan: Plan, c: np.ndarray, alpha: float, beta: float, addend: np.ndarray | None) -> _Target:
    if addend is None and alpha == 1.0:
        return _Target(target_for(plan, c.dtype, c.strides[-2]), address_of(c))
    added = np.broadcast_to(_ZERO, c.shape) if addend is None else addend
    how = target_for(plan, c.dtype, c.strides[-2], (alpha, beta, *added.strides[-2:]))
    return _Target(how, address_of(c), address_of(added))


def _ending(
    c: np.ndarray, alpha: float, beta: float, addend: np.ndarray | None, relu: bool
) -> tuple[unpacked.Finish, np.ndarray] | None:
    """How products that are read where they lie are finished, and what is added; None for the products alone."""
    if addend is None and alpha == 1.0 and not relu:
        return None
    added, beta = (np.broadcast_to(_ZERO, c.shape), 0.0) if addend is None else (addend, beta)
    return unpacked.Finish(_bits(alpha), _bits(beta), *added.strides[-2:], relu), added


def _sides(plan: Plan, a: np.ndarray, b: np.ndarray) -> tuple[Side, Side]:
    (m, k), n = a.shape[-2:], b.shape[-1]
    (a_line, a_k), (b_k, b_line) = a.strides[-2:], b.strides[-2:]
    return plans.side(plan, True, a.dtype, m, k, a_line, a_k), plans.side(plan, False, b.dtype, n, k, b_line, b_k)


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


def _most_bytes() -> int:
    """Of a product that fits, by any instruction set."""
    return max(each.row.cache_bytes for each in in_force().rows.values())


class _Small(python_threads.local):
    """What a thread keeps for small products: memory for the operands and sums, and the addresses of one product."""

    def __init__(self) -> None:
        self.memory = aligned_bytes(_most_bytes() + 64 + 2 * loops.LIMITS_BYTES)
        self.address = address_of(self.memory)
        self.addresses = np.zeros((4, 1), np.int64)


_small = _Small()


def _renew_small() -> None:
    """Have each thread allocate memory for small products anew: more may count as small now."""
    global _small
    _small = _Small()


when_changed.append(_renew_small)


@memoise
def _prepare_small(
    isa: str, precision: str, rounding: str, dtype: np.dtype, m: int, k: int, n: int, *strides: int
) -> tuple | None:
    """For a small product of two matrices all that does not depend on addresses: the plan, what `loops.multiply_batch`
    takes, and how the result is stored. None if it is not small."""
    plan = plans.plan_for(isa, precision, rounding, 8 if dtype.itemsize == 8 else 4)
    if not (m and k and n):
        return None
    a, b = plans.side(plan, True, dtype, m, k, *strides[:2]), plans.side(plan, False, dtype, n, k, *strides[:1:-1])
    if not is_brief(plan, a, b):
        return None
    return plan, batch_product(plan, a, b)[0], target_for(plan, dtype, n * dtype.itemsize)


def _small_product(a: np.ndarray, b: np.ndarray, prepared: tuple) -> np.ndarray:
    """A small product, on the caller's thread: some 5 us in all where the general way takes 15."""
    plan, how, stored = prepared
    c, mine = np.empty((a.shape[0], b.shape[1]), a.dtype), _small
    addresses = mine.addresses
    addresses[0, 0], addresses[1, 0], addresses[2, 0] = address_of(a), address_of(b), address_of(c)
    found = loops.multiply_batch(0, 1, how, stored, addresses, 1, mine.address)
    ranges.refuse_uncertain(_certain_from(plan, a.shape[1], *found), c, a, b)
    return c


def _by_strips(plan: Plan, a: Side, at_a: int, b: Side | Packed, at_b: int, target: _Target, rows: int) -> float:
    """One product, spread over the threads; each packs some rows of a at a time."""
    (pool, threads), certain = threading.pool(), 0.0
    source = None if isinstance(b, Packed) else b
    n, start = (b.shape[1], b.address) if isinstance(b, Packed) else (b.lines, at_b)
    columns = n if source is None else lines_at_once(source, plan.scheme.nc)
    for column in range(0, n, columns):
        how, needed = strip_product(plan, a, source, min(columns, n - column), rows, threads)
        if column:
            start, target = start + columns * b.line_stride, target.part(0, columns)
        memory = take_workspace(needed)
        try:
            found_a, found_b = strips.multiply_strips(
                pool, threads, how, target.how, at_a, start, target.at, target.addend, address_of(memory)
            )
        finally:
            return_workspace(memory)
        found_b = b.found if isinstance(b, Packed) else found_b
        certain = max(certain, _certain_from(plan, a.depth, found_a, found_b))
    return certain


@memoise
def _prepare_strips(
    threads: int, isa: str, precision: str, rounding: str, dtype: np.dtype, m: int, k: int, n: int, *strides: int
) -> tuple | None:
    """The plan of a product by strips, what `strips.multiply_strips` takes, how the result is stored, and the memory
    needed. None where the product is divided otherwise."""
    plan = plans.plan_for(isa, precision, rounding, 8 if dtype.itemsize == 8 else 4)
    rows = plans.strip(plan, m, n, k, threads) if m and k and n else 0
    if not rows:
        return None
    a, b = plans.side(plan, True, dtype, m, k, *strides[:2]), plans.side(plan, False, dtype, n, k, *strides[:1:-1])
    if lines_at_once(b, plan.scheme.nc) < n:
        return None
    how, needed = strip_product(plan, a, b, n, rows, threads)
    return plan, how, target_for(plan, dtype, n * dtype.itemsize), needed


def _divided_product(a: np.ndarray, b: np.ndarray, pool: int, threads: int, divided: tuple) -> np.ndarray:
    """A product by strips in one call of compiled code. What surrounds it counts, since such a product takes all of the
    caches and leaves Python's own code cold: 100 us beside the 200 of a bf16 product of 512, 40 less in this way."""
    plan, how, stored, needed = divided
    c = result((a.shape[0], b.shape[1]), a.dtype)
    memory = take_workspace(needed)
    try:
        found = strips.multiply_strips(
            pool, threads, how, stored, address_of(a), address_of(b), address_of(c), 0, address_of(memory)
        )
    finally:
        return_workspace(memory)
    ranges.refuse_uncertain(_certain_from(plan, a.shape[1], *found), c, a, b)
    return c


def _by_columns(plan: Plan, a: Side, at_a: int, b: Side, at_b: int, target: _Target, width: int) -> float:
    """One product, spread over the threads; each packs some columns of b at a time."""
    pool, threads = threading.pool()
    how, needed = column_product(plan, a, b, width, threads)
    memory = take_workspace(needed)
    try:
        found = strips.multiply_columns(
            pool, threads, how, target.how, at_a, at_b, target.at, target.addend, address_of(memory)
        )
    finally:
        return_workspace(memory)
    return _certain_from(plan, a.depth, *found)


def _one(plan: Plan, a: Side, at_a: int, b: Side | Packed, at_b: int, target: _Target) -> float:
    """One product, spread over the threads; the magnitude from which its results are certain."""
    scheme, depth, ready = plan.scheme, a.depth, isinstance(b, Packed)
    (pool, threads), certain = threading.pool(), 0.0
    n, sums = b.shape[1] if ready else b.lines, scheme.mc * scheme.nc * scheme.kernel.size
    way, lines = divide_one(plan, a, n, ready, threads)
    if way == "strips":
        return _by_strips(plan, a, at_a, b, at_b, target, lines)
    if way == "columns" and not isinstance(b, Packed):
        return _by_columns(plan, a, at_a, b, at_b, target, lines)
    columns, rows = n if ready else lines_at_once(b, scheme.nc), lines_at_once(a, scheme.mc)
    a_bytes, b_bytes = a.bytes(min(rows, a.lines)), 0 if ready else b.bytes(min(columns, n))
    memory = take_workspace(a_bytes + b_bytes + threads * (sums + loops.LIMITS_BYTES))
    try:
        packed_a = address_of(memory)
        limits = packed_a + a_bytes + threads * sums
        packed_b = b.address if ready else limits + threads * loops.LIMITS_BYTES
        for column in range(0, n, columns):
            width, found_b = min(columns, n - column), b.found if ready else 0
            if not ready:
                start = at_b + column * b.line_stride
                found_b = loops.pack(pool, threads, packing(b, width, threads), start, packed_b, limits)
            here = target.part(0, column) if column else target
            for row in range(0, a.lines, rows):
                height, start = min(rows, a.lines - row), at_a + row * a.line_stride
                found_a = loops.pack(pool, threads, packing(a, height, threads), start, packed_a, limits)
                certain = max(certain, _certain_from(plan, depth, found_a, found_b))
                blocks = sizes(a._replace(lines=height), width, *plans.blocks(plan, height, width, threads), sums)
                there = here.part(row, 0) if row else here
                loops.multiply(
                    pool, threads, blocks, there.how, packed_a, packed_b, there.at, there.addend, packed_a + a_bytes
                )
    finally:
        return_workspace(memory)
    return certain


def _batch(plan: Plan, a: Side, b: Side, target: _Target, addresses: np.ndarray) -> float:
    """Many products of one shape, each by one thread. `addresses` are as `loops.multiply_batch` says."""
    count = addresses.shape[1]
    work = count * (a.lines * b.lines * a.depth / plan.products_per_microsecond + 0.5)
    pool, threads = threading.pool() if count > 1 and work > tuning(plan.isa).spread_microseconds else (0, 1)
    (how, each), chunk = batch_product(plan, a, b), max(1, count // (8 * threads))
    memory = take_workspace(threads * each)
    try:
        found = loops.multiply_batch(pool, threads, how, target.how, addresses, chunk, address_of(memory))
    finally:
        return_workspace(memory)
    return _certain_from(plan, a.depth, *found)


def _size(x: np.ndarray) -> int:
    """Size of what x is accumulated in."""
    return 8 if x.dtype.itemsize == 8 else 4


def product(
    a: np.ndarray,
    b: np.ndarray | Packed,
    *,
    isa: str,
    precision: str = "ieee",
    rounding: str = "rna",
    alpha: float = 1.0,
    beta: float = 1.0,
    addend: np.ndarray | None = None,
    relu: bool = False,
) -> np.ndarray:
    """alpha * (a @ b) + beta * addend by the microkernels of `isa`, not below zero with `relu`.

    Arguments:
        a: (..., m, k), of dtype float32, float64, float16 or bfloat16 and of any strides.
        b: (..., k, n) of the same dtype, whose leading dimensions broadcast with those of a, or a `Packed` (k, n).
        precision, rounding: of float32 products (`kernels.precision`); for 16-bit dtypes, one that holds their values.
        addend: an array of the same dtype that broadcasts to the result, or None. With beta = 0 it is not looked at.

    Raises `Refused` where the values do not admit the precision on this instruction set.
    """
    (m, k), n = a.shape[-2:], b.shape[-1]
    if a.ndim == 2 and type(b) is np.ndarray and b.ndim == 2 and addend is None and alpha == 1.0 and not relu:
        pool, threads = threading.pool()
        ready = unpacked.prepare_one(threads, isa, precision, rounding, a.dtype, m, k, n, *a.strides, *b.strides)
        if ready is not None:
            return unpacked.multiply_one(a, b, pool, ready)
        prepared = _prepare_small(isa, precision, rounding, a.dtype, m, k, n, *a.strides, *b.strides)
        if prepared is not None:
            return _small_product(a, b, prepared)
        divided = _prepare_strips(threads, isa, precision, rounding, a.dtype, m, k, n, *a.strides, *b.strides)
        if divided is not None:
            return _divided_product(a, b, pool, threads, divided)
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
    place = (b.address, None) if isinstance(b, Packed) else (address_of(b), b)
    if unpacked.multiply_into(c, plan, a, *place, batch, _ending(c, alpha, beta, addend, relu)):
        return c
    target = _target(plan, c, alpha, beta, addend)
    if isinstance(b, Packed):
        side_a = plans.side(plan, True, a.dtype, m, k, *a.strides)
        certain = _one(plan, side_a, address_of(a), b, 0, target)
    else:
        certain = _run(plan, a, b, c, target, addend, batch)
    ranges.refuse_uncertain(certain * max(abs(alpha), 1.0), c, a, None if isinstance(b, Packed) else b)
    return each(np.maximum, c, c.dtype.type(0), out=c) if relu else c


def _run(
    plan: Plan,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    target: _Target,
    addend: np.ndarray | None,
    batch: tuple[int, ...],
) -> float:
    """Do the products of all matrices, together or one after the other, into c; the magnitude from which results are
    certain."""
    side_a, side_b = _sides(plan, a, b)
    at_a, at_b = address_of(a), address_of(b)
    if not batch:
        places = np.array(((at_a,), (at_b,), (target.at,), (target.addend,)))
    else:
        added = np.broadcast_to(_ZERO, c.shape) if addend is None else addend
        places = np.stack([addresses(x, batch) for x in (a, b, c, added)])
    if divide(plan, side_a, side_b, places.shape[1]) is not None:
        return _batch(plan, side_a, side_b, target, places)
    return max(
        _one(plan, side_a, one_a, side_b, one_b, target._replace(at=one_c, addend=one_addend))
        for one_a, one_b, one_c, one_addend in places.T.tolist()
    )
