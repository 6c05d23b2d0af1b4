"""The gradient of a convolution with respect to its weight on vector units: rows of a product are taps of channels.

A sum runs over the positions of the result. Images are laid out in planes (`pack_planes`): in every row of an image the
values that a tap of a channel meets lie side by side. The gradient of the result is packed as the right operand of a
product, one position after the other. A block multiplies the values of 14 (AVX-512) or 6 taps of channels, each from an
address of its own, with vectors of outputs. Positions of padding are not multiplied.
"""

from __future__ import annotations

from typing import NamedTuple

from ..block import emit as e
from ..block.emit import zero
from ..block.loops import LIMITS_BYTES, found_limits, reset_limits
from ..block.tags import constant
from ..runtime.emitter import Class, Pointer, emitter, int64
from ..runtime.jit import ir, njit, subroutine
from ..runtime.launch import call_at, launch, leaf_class, task
from ..runtime.raw_memory import put, record_at
from ..runtime.record import Address, Bytes, Count, Record
from .descriptor import Plan
from .gather_scatter import pointer
from .memory import read64
from .strips import pack_whole
from .weights import PAIRED_DEPTH, PanelArguments

SCRATCH_BYTES = 128 * (1 + PAIRED_DEPTH)
"""Of a thread that packs the gradient as pairs."""


@emitter
def _multiply(
    builder, kernel: Class, how: Class, places: Pointer, part_bytes, b: Pointer, starts: Pointer, count, width,
    sums: Pointer, more,
) -> None:  # fmt: skip
    """sums (mr x nr), to which is added where `more` is not 0: for `count` rows of an image of `width` positions, or
    pairs of them, the products of the values of mr taps of channels with a panel of the gradient. `places` has the
    address of each tap's value at the first position, `starts` the bytes from there to each row."""
    walk = [part for part, _ in how.walk] if how.paired else range(how.vector_parts)
    kind, columns, size = e.vector(kernel.element, kernel.lanes), kernel.nr // kernel.lanes, kernel.size
    slots = [e.offset(builder, sums, place * kernel.lanes * size) for place in range(kernel.mr * columns)]
    position_bytes = kernel.b_bytes * len(walk)

    def position(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        at, of_b, *totals = carried
        table = builder.inttoptr(e.opaque(builder, builder.ptrtoint(places, e.I64)), e.POINTER)
        for place, part in enumerate(walk):
            here = builder.add(at, builder.mul(part_bytes, e.I64(part))) if part else at
            here = e.opaque(builder, here)

            def of_a(row: int, column: int, here: ir.Value = here) -> ir.Value:
                place = e.load(builder, e.I64, e.offset(builder, table, 8 * row), 8)
                return builder.inttoptr(builder.add(place, here), e.POINTER)

            embedded = 0
            totals = kernel.add_place(builder, of_a, e.offset(builder, of_b, place * kernel.b_bytes), totals, embedded)
        return [builder.add(at, e.I64(size)), e.offset(builder, of_b, position_bytes), *totals]

    def row(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        of_b, *totals = carried
        at = e.load(builder, e.I64, e.offset(builder, starts, builder.shl(index, e.I64(3))), 8)
        return e.loop(builder, width, [at, of_b, *totals], position)[1:]

    before = e.either(
        builder,
        builder.icmp_signed("!=", more, e.I64(0)),
        lambda: [e.load(builder, kind, slot, size) for slot in slots],
        lambda: [zero(kind)] * len(slots),
    )
    _, *totals = e.loop(builder, count, [b, *before], row)
    for total, slot in zip(totals, slots, strict=True):
        e.store(builder, total, slot, size)


class _RowsArguments(NamedTuple):
    """Blocks of a panel of outputs: `places` has the addresses of all rows, `sums` begins with those of block 0."""

    places: int
    part_bytes: int
    b: int
    starts: int
    count: int
    width: int
    sums: int
    more: int
    first: int
    last: int


@subroutine
def _multiply_rows(leaf, job):
    mr, block = constant(leaf.kernel, "mr"), constant(leaf.kernel, "mr") * constant(leaf.kernel, "nr")
    block *= constant(leaf.kernel, "size")
    for index in range(job.first, job.last):
        _multiply(
            leaf.kernel, leaf.conversion, job.places + 8 * mr * index, job.part_bytes, job.b, job.starts, job.count,
            job.width, job.sums + block * index, job.more,
        )  # fmt: skip


MultiplyRows = leaf_class("MultiplyRows", "kernel conversion", _multiply_rows, _RowsArguments)
"""Leaf: some blocks, at some rows of images. Fields: a microkernel of `block.vectors`, and a conversion."""


@emitter
def _turn(builder, kernel: Class, sums, step, split_bytes, splits, rows, columns, out, out_stride) -> int64:
    """Store the transpose of the first rows, `step` bytes apart, and columns of a square of sums, added up over the
    splits. Returns whether a sum is not finite."""
    sums, out = pointer(builder, sums), pointer(builder, out)
    lanes, size = kernel.lanes, kernel.size
    kind, end = e.vector(kernel.element, lanes), builder.sub(rows, e.I64(1))
    below = [builder.icmp_signed("<", e.I64(row), end) for row in range(lanes)]
    places = [builder.mul(step, builder.select(less, e.I64(row), end)) for row, less in enumerate(below)]

    def of_split(index: ir.Value, lines: list[ir.Value]) -> list[ir.Value]:
        at = e.offset(builder, sums, builder.mul(index, split_bytes))
        found = [e.load(builder, kind, e.offset(builder, at, place), size) for place in places]
        return [builder.fadd(line, each) for line, each in zip(lines, found, strict=True)]

    lines = e.loop(builder, splits, [ir.Constant(kind, [-0.0] * lanes)] * lanes, of_split)
    mask, zeros = e.first_lanes(builder, rows, lanes), zero(kind)
    for index, line in enumerate(e.transpose(builder, lines)):
        # x - x is 0 of finite numbers, and no number of others. What lies beyond the rows was never written.
        zeros = builder.fadd(zeros, builder.select(mask, builder.fsub(line, line), zero(kind)))
        with builder.if_then(builder.icmp_signed("<", e.I64(index), columns), likely=True):
            e.masked_store(builder, line, e.offset(builder, out, builder.mul(out_stride, e.I64(index))), size, mask)
    unordered = builder.bitcast(builder.fcmp_unordered("uno", zeros, zeros), ir.IntType(lanes))
    return builder.zext(builder.icmp_signed("!=", unordered, ir.IntType(lanes)(0)), e.I64)


class _OrderArguments(NamedTuple):
    """Rows `first` to `last` of the sums of a panel, `step` apart, to where the weight of its first output begins."""

    sums: int
    step: int
    split_bytes: int
    splits: int
    columns: int
    out: int
    out_stride: int
    first: int
    last: int
    flag: int
    """Where 1 is written if a sum is not finite."""


@subroutine
def _order_rows(leaf, job):
    found = 0
    lanes, nr, size = constant(leaf.kernel, "lanes"), constant(leaf.kernel, "nr"), constant(leaf.kernel, "size")
    for row in range(job.first, job.last, lanes):
        for column in range(0, min(nr, job.columns), lanes):
            found |= _turn(
                leaf.kernel, job.sums + (row * job.step * nr + column) * size, job.step * nr * size, job.split_bytes,
                job.splits, job.last - row, job.columns - column, job.out + column * job.out_stride + row * size,
                job.out_stride,
            )  # fmt: skip
    if found:
        put(job.flag, 0, 1)


OrderRows = leaf_class("OrderRows", "kernel", _order_rows, _OrderArguments)
"""Leaf: some of the sums in the order of the weight. Field: the microkernel."""


class WeightGradient(Record):
    """What does not depend on addresses and values, for one group of channels and some images at a time."""

    multiply: Address
    """Of a `MultiplyRows`, as `order` of an `OrderRows`."""
    order: Address
    planes: Address
    """Of the plan by which images are laid out."""
    part_bytes: Bytes
    pack: Address
    """Of the leaf of `weights` that packs the gradient: `columns` outputs of `positions` in each image."""
    line_stride: Bytes
    k_stride: Bytes
    image_stride: Bytes
    batch: Count
    """Images that are laid out at a time, of `batches`."""
    batches: Count
    x_batch: Bytes
    """From those of a batch to the next ones."""
    positions: Count
    piece: Count
    """Positions that a task packs: as `piece_places` along K. An image has `image_places`."""
    piece_places: Count
    image_places: Count
    depth: Count
    """Positions that are packed at once."""
    zero: Address
    """Of a 0: the distance of the one tap that the gradient has."""
    columns: Count
    panels: Count
    b_bytes: Bytes
    """Of a place along K, a position or a pair, in a panel of the gradient."""
    rows: Count
    """That are stored side by side: taps of all channels, or with the channels last those of all channels of a tap."""
    taps: Count
    """1, or with the channels last how many taps there are."""
    table: Address
    """For each row, whole blocks of them, the bytes from the first plane to its value at the first position."""
    starts: Address
    """For each row of the images of a batch the bytes from the first position to its own."""
    lines: Count
    """Rows of the images of a batch, `width` places each."""
    width: Count
    chunk: Count
    """Rows of images that are multiplied at once."""
    splits: Count
    """Shares of the rows of images, whose sums are added at the end."""
    blocks: Count
    block_chunk: Count
    block_bytes: Bytes
    """Of the sums of a block, as `row_bytes` of one of its rows."""
    row_bytes: Bytes


@task("of g b limits scratch")
def _pack_task(task, worker, job):
    """A panel of some positions of the gradient."""
    of = job.of
    pieces = (of.positions + of.piece - 1) // of.piece
    panel, image, index = task % of.panels, task // of.panels // pieces, task // of.panels % pieces
    first, place = index * of.piece, image * of.image_places + index * of.piece_places
    call_at(
        of.pack,
        PanelArguments(
            job.g + image * of.image_stride + first * of.k_stride, of.line_stride, of.k_stride, of.columns,
            min(of.piece, of.positions - first), of.depth, of.zero, 1, 0, job.b + place * of.b_bytes,
            of.batch * of.image_places * of.b_bytes, job.limits + worker * LIMITS_BYTES,
            job.scratch + worker * SCRATCH_BYTES, panel, panel + 1,
        ),
    )  # fmt: skip


@task("of places b sums more")
def _multiply_task(task, worker, job):
    """Some blocks of a panel, at a share of the rows of images."""
    of = job.of
    parts = (of.blocks + of.block_chunk - 1) // of.block_chunk
    panel, split, part = task // parts % of.panels, task // parts // of.panels, task % parts
    first, last = of.lines * split // of.splits, of.lines * (split + 1) // of.splits
    sums = job.sums + (split * of.panels + panel) * of.blocks * of.block_bytes
    b = job.b + panel * of.batch * of.image_places * of.b_bytes
    for line in range(first, last, of.chunk):
        call_at(
            of.multiply,
            _RowsArguments(
                job.places, of.part_bytes, b + line * of.width * of.b_bytes, of.starts + 8 * line,
                min(of.chunk, last - line), of.width, sums, job.more + line - first, part * of.block_chunk,
                min((part + 1) * of.block_chunk, of.blocks),
            ),
        )  # fmt: skip


_ORDERED = 256
"""Rows that a task brings in order."""


@task("of sums out size flag")
def _order_task(task, worker, job):
    of = job.of
    panel, tap, first = task % of.panels, task // of.panels % of.taps, task // of.panels // of.taps * _ORDERED
    nr = of.row_bytes // job.size
    stride = of.taps * of.rows * job.size
    call_at(
        of.order,
        _OrderArguments(
            job.sums + panel * of.blocks * of.block_bytes + tap * of.row_bytes, of.taps,
            of.panels * of.blocks * of.block_bytes, of.splits, of.columns - panel * nr,
            job.out + panel * nr * stride + tap * of.rows * job.size, stride, first, min(first + _ORDERED, of.rows),
            job.flag,
        ),
    )  # fmt: skip


@njit
def weight_gradient(pool, threads, of: WeightGradient, x, g, out, size, memory, packed):
    """The gradient of a group, at `out` as [output][channel][tap] or [output][tap][channel], of values of `size` bytes.
    All but `of`, threads and the size are addresses: `memory` has LIMITS_BYTES for twice so many threads, 64 bytes,
    SCRATCH_BYTES for each thread, the addresses of all rows and the sums; `packed` the gradient, and behind it the
    planes. Returns the magnitudes found in g and in x, and 1 if the result is not finite."""
    limits, x_limits = memory, memory + threads * LIMITS_BYTES
    reset_limits(limits, 2 * threads)
    flag = memory + 2 * threads * LIMITS_BYTES
    put(flag, 0, 0)
    scratch = flag + 64
    places = scratch + threads * SCRATCH_BYTES
    mr = of.block_bytes // of.row_bytes
    sums = places + (8 * of.blocks * mr + 63) // 64 * 64
    b = packed
    planes = packed + (of.panels * of.batch * of.image_places * of.b_bytes + 63) // 64 * 64
    _write_places(places, of.table, planes, of.blocks * mr)
    pieces = (of.positions + of.piece - 1) // of.piece
    parts = (of.blocks + of.block_chunk - 1) // of.block_chunk
    for batch in range(of.batches):
        pack_whole(pool, threads, record_at(Plan, of.planes), x + batch * of.x_batch, planes, x_limits)
        of_g = g + batch * of.batch * of.image_stride
        launch(pool, threads, of.batch * pieces * of.panels, _pack_task(of, of_g, b, limits, scratch))
        launch(pool, threads, of.panels * of.splits * parts, _multiply_task(of, places, b, sums, batch))
    tasks = (of.rows + _ORDERED - 1) // _ORDERED * of.taps * of.panels
    launch(pool, threads, tasks, _order_task(of, sums, out, size, flag))
    return found_limits(limits, threads), found_limits(x_limits, threads), read64(flag)


@subroutine
def _write_places(places, table, planes, count):
    for row in range(count):
        put(places, row, planes + read64(table + 8 * row))
