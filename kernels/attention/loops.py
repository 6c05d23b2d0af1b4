"""The loops of flash attention's gradients, one group of heads at a time, on the product's packing and microkernels.

The weights are made again, from the scores and the statistics: a block of scores is a product in the worker's own
memory, and weights are packed, and so rounded to the precision, as the left operand of the products with the cotangents
and the values. What is packed, and how, are leaves of `block.loops` known by their addresses, so that this is compiled
once, and for float64 once more. The gradients of keys and values are summed in the order of the blocks, by one thread
for each group.
"""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

from ..block.loops import BlockArguments, PackArguments
from ..runtime.jit import njit, subroutine
from ..runtime.launch import call_at, launch, task
from .rows import VECTOR_BYTES, fill_row, mask_row, slope_row, weigh_row

LIMITS = 640
"""Bytes of a worker for the magnitudes that it finds in five operands (`block.loops.LIMITS_BYTES` each)."""


Operand = namedtuple("Operand", "leaf batch_stride head_stride line_stride k_stride panel k_bytes step")
"""A packed operand: the leaf that packs it, the array's strides in bytes, and the format of its panels."""


Shape = namedtuple("Shape", "groups heads length seen depth rows columns summed kc causal")
"""Sizes. `rows` and `columns` are of a block of scores, `summed` the depth of a step along it; `kc`: along the
keys."""


@subroutine
def _up(value, multiple):
    return (value + multiple - 1) // multiple * multiple


@subroutine
def _bytes(operand, lines, depth):
    """What an operand takes when packed, in whole cache lines."""
    return _up(_up(lines, operand.panel) // operand.panel * operand.k_bytes * _up(depth, operand.step), 64)


@subroutine
def _pack(operand, at, lines, depth, kc, target, limits):
    call_at(
        operand.leaf,
        PackArguments(
            operand.line_stride, operand.k_stride, lines, depth, kc, at, target, limits, 0, lines, 0, depth
        ),
    )  # fmt: skip


@subroutine
def _head(operand, at, batch, head):
    """Where a head begins in the array at an address."""
    return at + batch * operand.batch_stride + head * operand.head_stride


@subroutine
def _within(operand, lines, k):
    """Where the place k, a multiple of kc, begins in a packed operand."""
    return _up(lines, operand.panel) // operand.panel * operand.k_bytes * k


_Sizes = namedtuple("_Sizes", "m n k kc mc nc")


@subroutine
def _sizes(a, b, m, n, columns, k, kc):
    """The sizes of a product, with so many columns computed."""
    return _Sizes(m, n, k, kc, _up(m, a.panel), _up(columns, b.panel))


_Rows = namedtuple("_Rows", "leaf stride size one")
"""Where a result is stored by a leaf; `one` is the bits of 1.0 where it is added to what is there, or 0."""


@subroutine
def _multiply(sizes, rows, packed_a, packed_b, c, scratch, j0):
    """All rows, and columns from j0 on, of a product."""
    call_at(
        rows.leaf,
        BlockArguments(
            sizes.m, sizes.n, sizes.k, sizes.kc, sizes.mc, sizes.nc, packed_a, packed_b, c, rows.stride,
            rows.one, rows.one, c, rows.stride, rows.size, scratch, 0, j0, 0, sizes.k,
        ),
    )  # fmt: skip


@subroutine
def _hide(shape, scores, size, first_row, first_column, rows, columns, hidden):
    """Overwrite the scores that a causal row excludes, and those that the last vector of a row reads beyond its end."""
    stride, end = size * shape.columns, _up(columns, VECTOR_BYTES // size)
    for row in range(rows):
        seen = columns
        if shape.causal:
            seen = min(columns, max(0, first_row + row + 1 - first_column))
        fill_row(scores + row * stride, seen, end, hidden)


@subroutine
def _columns_of(shape, first_row, rows):
    """Up to which key these rows see, rounded up to whole steps of the product with the values."""
    if shape.causal:
        return min(shape.seen, _up(first_row + rows, shape.kc))
    return shape.seen


class Mask(NamedTuple):
    """The strides of a mask of numbers as those of the scores, whose rows are dense, which is added to scores times
    `scale`."""

    batch_stride: int
    head_stride: int
    line_stride: int
    scale: float


class Layout(NamedTuple):
    """What does not depend on addresses. `one` is the bits of 1.0; rows of gradients have `grad_stride` bytes; the
    totals of rows are `total_bytes` beyond their largest scores. Scores are multiplied by `scale`, or have been with
    the mask, slopes by `slope_scale`; `hidden` is what a score that is not seen becomes. Numbers have `size` bytes and
    the type of the factors."""

    shape: Shape
    q: Operand
    k: Operand
    v: Operand
    g: Operand
    q_across: Operand
    k_across: Operand
    g_across: Operand
    p: Operand
    p_across: Operand
    mask: Mask
    score_leaf: int
    sum_leaf: int
    scale: float
    slope_scale: float
    hidden: float
    one: int
    grad_stride: int
    total_bytes: int
    memory_bytes: int
    size: int


Places = namedtuple("Places", "q k v g mask dq dk dv statistics means limits memory")
"""Addresses; that of the mask is 0 without a mask."""


Room = namedtuple("Room", "k v k_across q g q_across g_across slopes_packed packed_across weights slopes scratch")
"""Memory of a thread that differentiates: packed operands, and a block of weights and of their gradients, the
slopes."""


Block = namedtuple("Block", "batch head row first rows column columns")
"""Queries `first` and later of a head, with keys `column` and later. `row` is the number of the first query among
the rows of all heads."""


@subroutine
def _divide(of, start):
    shape, block = of.shape, of.size * of.shape.columns * of.shape.rows
    v = start + _bytes(of.k, shape.seen, shape.depth)
    k_across = v + _bytes(of.v, shape.seen, shape.depth)
    q = k_across + _bytes(of.k_across, shape.depth, shape.seen)
    g = q + _bytes(of.q, shape.rows, shape.depth)
    q_across = g + _bytes(of.g, shape.rows, shape.depth)
    g_across = q_across + _bytes(of.q_across, shape.depth, shape.rows)
    slopes_packed = g_across + _bytes(of.g_across, shape.depth, shape.rows)
    packed_across = slopes_packed + _bytes(of.p, shape.rows, shape.columns)
    weights = packed_across + _bytes(of.p_across, shape.columns, shape.rows)
    slopes, scratch = weights + block, weights + 2 * block
    return Room(start, v, k_across, q, g, q_across, g_across, slopes_packed, packed_across, weights, slopes, scratch)


@subroutine
def _weigh(of, places, room, inner, block):
    """Compute the weights of a block again, from the largest score and the total of each row, and their gradients."""
    shape, size, stride = of.shape, of.size, of.size * of.shape.columns
    rows, column, columns = block.rows, block.column, block.columns
    vectors = _up(size * columns, VECTOR_BYTES) // VECTOR_BYTES
    scored = _Rows(of.score_leaf, stride, size, 0)
    sizes = _sizes(of.q, of.k, rows, shape.seen, columns, shape.depth, shape.summed)
    _multiply(sizes, scored, room.q, room.k, room.weights - size * column, room.scratch, column)
    if places.mask != 0:
        mask = _head(of.mask, places.mask, block.batch, block.head) + block.first * of.mask.line_stride + size * column
        for row in range(rows):
            mask_row(room.weights + row * stride, columns, of.mask.scale, mask + row * of.mask.line_stride)
    _hide(shape, room.weights, size, block.first, column, rows, columns, of.hidden)
    sizes = _sizes(of.g, of.v, rows, shape.seen, columns, shape.depth, inner)
    _multiply(sizes, scored, room.g, room.v, room.slopes - size * column, room.scratch, column)
    for row in range(rows):
        at = size * (block.row + row)
        weights, slopes, largest = room.weights + row * stride, room.slopes + row * stride, places.statistics + at
        weigh_row(weights, vectors, of.scale, largest, largest + of.total_bytes)
        slope_row(weights, slopes, vectors, places.means + at, of.slope_scale)


@subroutine
def _add_gradients(of, places, room, limits, row_of_group, block):
    """Add the products of a block: weights with g to dv, slopes with q to dk, and slopes with k to dq."""
    shape, depth, rows, columns = of.shape, of.shape.depth, block.rows, block.columns
    summed = _Rows(of.sum_leaf, of.grad_stride, of.size, of.one)
    at, within = (row_of_group + block.column) * of.grad_stride, _within(of.k_across, depth, block.column)
    _pack(of.p_across, room.weights, columns, rows, shape.rows, room.packed_across, limits)
    sizes = _sizes(of.p_across, of.g_across, columns, depth, depth, rows, shape.rows)
    _multiply(sizes, summed, room.packed_across, room.g_across, places.dv + at, room.scratch, 0)
    _pack(of.p_across, room.slopes, columns, rows, shape.rows, room.packed_across, limits)
    sizes = _sizes(of.p_across, of.q_across, columns, depth, depth, rows, shape.rows)
    _multiply(sizes, summed, room.packed_across, room.q_across, places.dk + at, room.scratch, 0)
    _pack(of.p, room.slopes, rows, columns, shape.kc, room.slopes_packed, limits)
    sizes = _sizes(of.q, of.k_across, rows, depth, depth, columns, shape.kc)
    to = places.dq + block.row * of.grad_stride
    _multiply(sizes, summed, room.slopes_packed, room.k_across + within, to, room.scratch, 0)


@task("of places")
def _differentiate_task(task, worker, job):
    of, places = job.of, job.places
    shape, q, k, v, g = of.shape, of.q, of.k, of.v, of.g
    batch, group = task // shape.groups, task % shape.groups
    limits, inner = places.limits + worker * LIMITS, _up(shape.depth, q.step)
    room = _divide(of, places.memory + worker * of.memory_bytes)
    _pack(k, _head(k, places.k, batch, group), shape.seen, shape.depth, shape.summed, room.k, limits)
    _pack(v, _head(v, places.v, batch, group), shape.seen, shape.depth, inner, room.v, limits + 128)
    _pack(of.k_across, _head(k, places.k, batch, group), shape.depth, shape.seen, shape.kc, room.k_across, limits)
    row_of_group = (batch * shape.groups + group) * shape.seen
    for each in range(shape.heads):
        head = group * shape.heads + each
        row_of_head = (batch * shape.groups * shape.heads + head) * shape.length
        for first in range(0, shape.length, shape.rows):
            rows = min(shape.rows, shape.length - first)
            at_q = _head(q, places.q, batch, head) + first * q.line_stride
            at_g = _head(g, places.g, batch, head) + first * g.line_stride
            _pack(q, at_q, rows, shape.depth, shape.summed, room.q, limits + 256)
            _pack(g, at_g, rows, shape.depth, inner, room.g, limits + 384)
            _pack(of.q_across, at_q, shape.depth, rows, shape.rows, room.q_across, limits + 256)
            _pack(of.g_across, at_g, shape.depth, rows, shape.rows, room.g_across, limits + 384)
            end = _columns_of(shape, first, rows)
            for column in range(0, end, shape.columns):
                columns = min(shape.columns, end - column)
                block = Block(batch, head, row_of_head + first, first, rows, column, columns)
                _weigh(of, places, room, inner, block)
                _add_gradients(of, places, room, limits + 512, row_of_group, block)


@njit
def differentiate(pool, threads, tasks, layout, places):
    """Gradients of all heads, added to the zeroed rows dq, dk and dv.

    `means` are the sums of out * g, a number for each row. Memory is as for `attend`; the magnitudes are those in k, v,
    q, g and the weights.
    """
    launch(pool, threads, tasks, _differentiate_task(layout, places))
