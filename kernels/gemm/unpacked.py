"""Products whose left operand is read where it lies (`unpacked_loops.py`): which, in which blocks, and how they run."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from ..block import plans, unpacked_strips
from ..block.conversions import AsIs
from ..block.emit import LINE
from ..block.loops import LIMITS_BYTES, leaf_address
from ..block.plans import Plan, up
from ..block.sources import ELEMENTS, Across, AlongK, Contiguous, Source
from ..block.tuning import Tuning, memoise, tuning
from ..block.unpacked_strips import HEIGHTS, LEAST_ROWS
from ..runtime import threading
from ..runtime.addresses import addresses
from ..runtime.record import Address, Bytes, Count
from ..runtime.workspace import address_of, result, return_workspace, take_workspace
from . import small_lines
from .divisions import is_read_in_place, packing
from .unpacked_loops import BY_TASK, BY_WORKER, NEVER, WHOLE, Unpacked, multiply_unpacked

_MOST_PARTS = 4
"""Parts for each thread of a dimension of the result."""

_PART_OF_PAGE = 1024
"""Lines at distances of a multiple of so many bytes share few places in a cache."""


class Shape(NamedTuple):
    """Of products of one shape: sizes, strides in bytes, and how many there are, each the sum of so many terms."""

    m: int
    k: int
    n: int
    a_row: int
    a_k: int
    b_k: int
    b_column: int
    c_row: int
    items: int = 1
    terms: int = 1
    shared: bool = True
    """Whether all terms have one right operand."""
    packed: bool = False
    """Whether that is packed already."""


class Finish(NamedTuple):
    """What is done with a result: alpha * result + beta * addend, and max(result, 0) with `relu`. Alpha and beta are
    bits of float64, and strides are in bytes."""

    alpha: int
    beta: int
    row: int
    column: int
    relu: bool = False


class Prepared(NamedTuple):
    """The record of some products, and the bytes of memory that they need."""

    products: Unpacked
    bytes: int
    threads: int


@functools.cache
def _leaf(isa: str, size: int, along_k: bool) -> int:
    return leaf_address(
        unpacked_strips.MultiplyUnpacked(unpacked_strips.KERNELS[isa, size], AlongK() if along_k else Across())
    )


@functools.cache
def _finish_leaf(isa: str, size: int) -> int:
    return leaf_address(unpacked_strips.FinishUnpacked(unpacked_strips.KERNELS[isa, size]))


@functools.cache
def _convert_leaf(plan: Plan, dtype: np.dtype) -> int:
    source = Source(AlongK(), Contiguous(), ELEMENTS[dtype.name])
    return leaf_address(small_lines.ConvertLines(source, plan.a_panel.conversion, small_lines.InTurn()))


def _cycles(row: Tuning, rows: int, columns: int, lanes: int) -> float:
    """Of a block for each place along K: strips of four vectors, and of what is left."""
    groups, rest = divmod(-(-columns // lanes), 4)
    found = groups * -(-rows // HEIGHTS[4]) * row.strip_cycles[3]
    return found + (-(-rows // HEIGHTS[rest]) * row.strip_cycles[rest - 1] if rest else 0)


def _makespan(row: Tuning, shape: Shape, way: int, mc: int, nc: int, lanes: int, threads: int) -> float:
    """Cycles for each place along K until all threads have done their tasks, with packing."""
    tasks = shape.items * -(-shape.m // mc) * -(-shape.n // nc)
    rows, columns = min(mc, shape.m), min(nc, shape.n)
    each = row.read_cycles * (2 * rows + columns) + row.task_cycles / shape.k
    largest = _cycles(row, rows, columns, lanes) + each
    total = shape.items * _cycles(row, shape.m, shape.n, lanes) + tasks * each
    before = 0.0
    if way == BY_TASK:
        largest += row.pack_cycles * columns
        total += shape.items * -(-shape.m // mc) * shape.n * row.pack_cycles
    elif way == BY_WORKER:
        before = shape.n * row.pack_cycles
    elif way == WHOLE and not shape.packed:
        before = 2 * shape.n * row.pack_cycles + row.barrier_cycles / shape.k
    uneven = (threads - 1) / threads * largest / 2  # threads begin and end at different times
    return before + max(-(-tasks // threads) * total / tasks, total / threads + uneven)


def _ways_of_packing(row: Tuning, shape: Shape, as_is: bool, size: int) -> tuple[int, ...]:
    """The ways in which columns of B may be made ready."""
    if shape.packed:
        return (WHOLE,)
    most = row.distant_rows_most if shape.b_k % _PART_OF_PAGE else row.page_rows_most
    if as_is and shape.b_column == size and (shape.b_k <= row.near_bytes_most or shape.m <= most):
        return (NEVER,)
    if not shape.shared:
        return (BY_TASK,)
    return BY_TASK, BY_WORKER if shape.n * shape.k * size <= row.cache_bytes // 4 else WHOLE


@memoise
def _divide(isa: str, shape: Shape, ways: tuple[int, ...], lanes: int, most: int, threads: int) -> tuple[int, int, int]:
    """How columns are packed, and the rows and columns of blocks, at most so many rows where tasks do not pack: those
    with which threads are done first."""
    row, best = tuning(isa), None
    for way in ways:
        least = -(-shape.m // (4 * most if way == BY_TASK else most))
        fewest = -(-shape.n // most) if way == BY_TASK else 1
        for rows in range(least, least + _MOST_PARTS * threads):
            mc = up(-(-shape.m // rows), HEIGHTS[4])
            for columns in range(fewest, fewest + _MOST_PARTS * threads):
                nc = up(-(-shape.n // columns), 2 * lanes)
                found = _makespan(row, shape, way, mc, nc, lanes, threads), way, mc, nc
                best = found if best is None or found[0] < 0.99 * best[0] else best
                if nc <= 2 * lanes or threads == 1:
                    break
            if mc <= 2 * HEIGHTS[4] or threads == 1:
                break
    assert best is not None
    return best[1:]


@memoise
def prepare(plan: Plan, dtype: np.dtype, shape: Shape, finish: Finish | None, threads: int) -> Prepared | None:
    """None where such products are not made from operands where they lie."""
    size, along_k = dtype.itemsize, shape.a_k == dtype.itemsize
    if not is_read_in_place(plan, dtype, shape.m, along_k or shape.a_row == size):
        return None
    products = shape.m * shape.n * shape.k * shape.items * shape.terms
    if products < tuning(plan.isa).spread_microseconds * plan.products_per_microsecond:
        threads = 1
    as_is, kc, kernel = type(plan.a_panel.conversion) is AsIs, plan.scheme.kc, unpacked_strips.KERNELS[plan.isa, size]
    row, lanes = tuning(plan.isa), kernel.lanes
    most = up(row.cache_bytes // (4 * kc * size), HEIGHTS[4])
    way, mc, nc = _divide(plan.isa, shape, _ways_of_packing(row, shape, as_is, size), lanes, most, threads)
    side = plans.side(plan, False, dtype, shape.n, shape.k, shape.b_column, shape.b_k)
    panel, panel_bytes = kernel.nr, kernel.b_bytes
    b_bytes = up(min(nc, shape.n), panel) // panel * panel_bytes * kc if way == BY_TASK else 0
    rows = mc + LEAST_ROWS
    a_bytes = 0 if as_is else max(rows * (kc * size + 128), kc * (rows * size + 128))
    whole = 0 if shape.packed else side.bytes(shape.n)
    if way == BY_WORKER:
        b_bytes = LINE + whole
    scratch_bytes = up(b_bytes + a_bytes, LINE)
    shared_bytes = whole if way == WHOLE else 0
    ending = finish or Finish(0, 0, 0, 0)
    record = Unpacked(
        leaf=Address(_leaf(plan.isa, size, along_k)),
        finish=Address(0 if finish is None else _finish_leaf(plan.isa, size)),
        convert=Address(0 if as_is else _convert_leaf(plan, dtype)), packing=way, b=packing(side, shape.n, threads),
        a_row=Bytes(shape.a_row), a_k=Bytes(shape.a_k), c_row=Bytes(shape.c_row), size=Bytes(size), m=Count(shape.m),
        n=Count(shape.n), k=Count(shape.k), kc=Count(kc), mc=Count(mc), nc=Count(nc), terms=Count(shape.terms),
        b_bytes=Bytes(b_bytes), scratch_bytes=Bytes(scratch_bytes), alpha=ending.alpha, beta=ending.beta,
        addend_row=Bytes(ending.row), addend_column=Bytes(ending.column), relu=int(ending.relu),
    )  # fmt: skip
    return Prepared(record, threads * (scratch_bytes + LIMITS_BYTES) + shared_bytes, threads)


def multiply(prepared: Prepared, pool: int, places: np.ndarray, items: int, packed: int = 0) -> None:
    """Compute the products. `places` are int64 in rows: the addresses of the left and of the right operand of each
    term, its depth, and, for each item, the addresses of the result and of what is added."""
    at, row = address_of(places), places.strides[0]
    memory = take_workspace(prepared.bytes)
    try:
        multiply_unpacked(
            pool if prepared.threads > 1 else 0, prepared.threads, prepared.products, items,
            at, at + row, at + 2 * row, at + 3 * row, at + 4 * row, packed, address_of(memory),
        )  # fmt: skip
    finally:
        return_workspace(memory)


@memoise
def prepare_one(
    threads: int, isa: str, precision: str, rounding: str, dtype: np.dtype, m: int, k: int, n: int, *strides: int
) -> Prepared | None:
    """`prepare` for one product of two matrices."""
    if not (m and k and n):
        return None
    plan = plans.plan_for(isa, precision, rounding, 8 if dtype.itemsize == 8 else 4)
    return prepare(plan, dtype, Shape(m, k, n, *strides, n * dtype.itemsize), None, threads)


def multiply_one(a: np.ndarray, b: np.ndarray, pool: int, prepared: Prepared) -> np.ndarray:
    """The product of two matrices."""
    c = result((a.shape[0], b.shape[1]), a.dtype)
    places = np.array(((address_of(a),), (address_of(b),), (a.shape[1],), (address_of(c),), (0,)))
    multiply(prepared, pool, places, 1)
    return c


def multiply_into(
    c: np.ndarray, plan: Plan, a: np.ndarray, at_b: int, b: np.ndarray | None, batch: tuple[int, ...],
    ending: tuple[Finish, np.ndarray] | None,
) -> bool:  # fmt: skip
    """Compute the products c of a and b, whose leading dimensions broadcast to `batch`, finished as `ending` says, with
    what is added; whether they can be read so. Without b, its packed form is at `at_b`."""
    (m, k), n, count = a.shape[-2:], c.shape[-1], math.prod(batch)
    shared, strides = b is None or b.size == k * n, (0, 0) if b is None else b.strides[-2:]
    shape = Shape(m, k, n, *a.strides[-2:], *strides, c.strides[-2], count, 1, shared, b is None)
    pool, threads = threading.pool()
    prepared = prepare(plan, a.dtype, shape, None if ending is None else ending[0], threads)
    if prepared is None:
        return False
    places = np.zeros((5, count), np.int64)
    places[0], places[1], places[2] = addresses(a, batch), at_b, k
    places[3] = addresses(c, batch)
    if b is not None and not shared:
        places[1] = addresses(b, batch)
    if ending is not None:
        places[4] = addresses(ending[1], batch)
    multiply(prepared, pool, places, count, 0 if b is not None else at_b)
    return True
