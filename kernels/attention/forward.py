"""The loops of flash attention: one group of heads, and a block of its queries, at a time.

A task packs the keys and values of a group once, and takes blocks of queries that look at them. A block goes over the
keys in stretches; within one, each panel of queries (as many as the microkernel has columns) is finished before the
next: its scores with the keys, the online softmax over them, and the product of the values with the weights. Scores
have keys as rows and queries as columns, and the sums have the places of a value as rows, so only two of the three
reused operands are packed, the keys and values, as left ones; weights are packed while they are computed (`lanes`).

A leaf is compiled for each microkernel, packed form of the weights and type of the result; the launcher holds its
address.
"""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

from ..block.loops import LIMITS_BYTES, PackArguments, found_limits, reset_limits
from ..block.microkernels import begin, end, multiply_panels
from ..block.tags import constant
from ..runtime.jit import intrinsic, ir, njit, subroutine, types
from ..runtime.launch import call_at, launch, leaf_class, task
from ..runtime.raw_memory import get, put
from .lanes import finish_panel, hide_lanes, soften_panel, start_panel
from .masks import mask_panel

OPERANDS = 3
"""Whose magnitudes are found, each in `block.loops.LIMITS_BYTES` of a worker: q, k and v."""


Numbers = namedtuple(
    "Numbers",
    "q k v out statistics mask memory limits leaf tasks scale unit least greatest limits_bytes q_leaf q_batch q_head "
    "q_line q_k k_leaf k_batch k_head k_line k_k v_leaf v_batch v_head v_line v_k mask_batch mask_head mask_line "
    "mask_k mask_scale out_stride groups heads length seen depth inner rows columns summed parts causal k_bytes "
    "v_bytes q_bytes score_bytes weight_bytes sum_bytes total_bytes memory_bytes",
)
"""One call, in int64: addresses, strides and sizes in bytes, counts. It is read from memory.

`leaf` is the address of an `AttendTask`. `rows` queries are a block, `columns` keys a stretch, `inner` is `depth`
in whole steps, `summed` steps are summed at a time, `parts` the tasks of a group; scores are multiplied by
`mask_scale` before a mask is added, and by `scale` after, or by `unit` for the statistics, whose totals are
`total_bytes` beyond the largest scores; `least` and `greatest` are the magnitudes, as float32 bits, between which
operands need no check. A worker has memory for packed keys, packed values, packed queries, scores, weights, sums
and states.
"""


_COUNT = len(Numbers._fields)
NUMBERS_BYTES = -(-_COUNT // 8) * 64


@intrinsic
def _numbers(typingctx, address):
    """The `Numbers` at an address."""

    def codegen(context, builder, signature, arguments):
        kind = ir.ArrayType(ir.IntType(64), _COUNT)
        return builder.load(builder.inttoptr(arguments[0], kind.as_pointer()))

    return types.NamedUniTuple(types.int64, _COUNT, Numbers)(types.int64), codegen


@subroutine
def _up(value, multiple):
    return (value + multiple - 1) // multiple * multiple


@subroutine
def _pack(leaf, at, line_stride, k_stride, lines, depth, kc, target, limits):
    call_at(
        leaf, PackArguments(line_stride, k_stride, lines, depth, kc, at, target, limits, 0, lines, 0, depth)
    )  # fmt: skip


@subroutine
def _hide(job, scores, width, size, query, column, keys, whole):
    """Overwrite the scores that the mask excludes for all or some queries of a panel, for the keys starting at
    `column`."""
    row_bytes = size * width
    if job.call.causal:
        for row in range(max(0, query + 1 - column), keys):
            hide_lanes(job.weights, scores + row * row_bytes, column + row - query)
    for row in range(keys, whole):
        hide_lanes(job.weights, scores + row * row_bytes, width)


@subroutine
def _stretch(job, place, query, column, keys):
    """Take some keys, from `column` on, into the sums of a panel of queries."""
    tag, call = job.kernel, job.call
    height, width, step = constant(tag, "mr"), constant(tag, "nr"), constant(tag, "step")
    a_bytes, b_bytes = constant(tag, "a_bytes"), constant(tag, "b_bytes")
    row_bytes, panel_bytes = constant(tag, "size") * width, a_bytes * call.inner
    first = place.keys + column // height * panel_bytes
    ahead = first + call.columns // height * panel_bytes
    for row in range(0, keys, height):
        scores = place.scores + row * row_bytes
        for k in range(0, call.inner, call.summed):
            multiply_panels(
                tag, min(call.summed, call.inner - k), first + k * a_bytes, place.queries + k * b_bytes, scores, k > 0,
                scores, row_bytes, ahead + k * a_bytes, place.queries,
            )  # fmt: skip
        first += panel_bytes
        ahead += panel_bytes
    whole = _up(keys, step)
    mask_panel(
        job.weights, job.mask, place.scores, keys, call.mask_scale,
        place.mask + query * call.mask_line + column * call.mask_k, call.mask_line, call.mask_k, call.length - query,
    )  # fmt: skip
    _hide(job, place.scores, width, constant(tag, "size"), query, column, keys, whole)
    rows = _up(call.depth, height)
    soften_panel(
        job.weights, place.scores, place.weights, whole, call.scale, place.state, place.sums, rows if column else 0
    )
    panels, stretch = rows // height, min(call.columns, _up(call.seen, step) - column)
    first = place.values + a_bytes * panels * column
    for panel in range(panels):
        sums = place.sums + panel * height * row_bytes
        here = first + panel * a_bytes * stretch
        multiply_panels(
            tag, whole, here, place.weights, sums, column > 0, sums, row_bytes,
            here + a_bytes * panels * stretch, place.weights,
        )  # fmt: skip


_Place = namedtuple("_Place", "keys values queries scores weights sums state mask")
"""Where a panel of queries has its operands and sums, and its head the mask."""


@subroutine
def _block(job, memory, batch, head, first, limits):
    """All of a block of queries of one head."""
    tag, call = job.kernel, job.call
    width, b_bytes, size = constant(tag, "nr"), constant(tag, "b_bytes"), constant(tag, "size")
    state_bytes = 2 * size * width
    rows = min(call.rows, call.length - first)
    packed_v = memory + call.k_bytes
    packed_q = packed_v + call.v_bytes
    scores = packed_q + call.q_bytes
    weights = scores + call.score_bytes
    sums = weights + call.weight_bytes
    states = sums + (call.rows + width - 1) // width * call.sum_bytes
    if call.weight_bytes == 0:
        weights = scores
    at_q = call.q + batch * call.q_batch + head * call.q_head + first * call.q_line
    _pack(call.q_leaf, at_q, call.q_line, call.q_k, rows, call.depth, call.inner, packed_q, limits)
    mask = call.mask + batch * call.mask_batch + head * call.mask_head
    panels = (rows + width - 1) // width
    for panel in range(panels):
        start_panel(job.weights, states + panel * state_bytes)
    end = min(call.seen, first + rows) if call.causal else call.seen
    for column in range(0, end, call.columns):
        for panel in range(panels):
            query = first + panel * width
            last = min(call.seen, query + width) if call.causal else call.seen
            keys = min(call.columns, last - column)
            if keys > 0:
                place = _Place(
                    memory, packed_v, packed_q + panel * b_bytes * call.inner, scores, weights,
                    sums + panel * call.sum_bytes, states + panel * state_bytes, mask,
                )  # fmt: skip
                _stretch(job, place, query, column, keys)
    row = (batch * call.groups * call.heads + head) * call.length + first
    largest = call.statistics + size * row
    totals = largest + call.total_bytes
    for panel in range(panels):
        finish_panel(
            job.weights, job.element, states + panel * state_bytes, call.unit, sums + panel * call.sum_bytes,
            min(width, rows - panel * width), call.depth, call.out + (row + panel * width) * call.out_stride,
            call.out_stride, largest + size * panel * width, totals + size * panel * width,
        )  # fmt: skip


@subroutine
def _attend_task(leaf, arguments):
    call, task, worker = _numbers(arguments.numbers), arguments.task, arguments.worker
    job = _Job(leaf.kernel, leaf.weights, leaf.element, leaf.mask, call)
    unit, part = task // call.parts, task % call.parts
    batch, group = unit // call.groups, unit % call.groups
    memory, limits = call.memory + worker * call.memory_bytes, call.limits + worker * LIMITS_BYTES
    at_k = call.k + batch * call.k_batch + group * call.k_head
    at_v = call.v + batch * call.v_batch + group * call.v_head
    _pack(
        call.k_leaf, at_k, call.k_line, call.k_k, call.seen, call.depth, call.inner, memory, limits + call.limits_bytes
    )
    _pack(
        call.v_leaf, at_v, call.v_line, call.v_k, call.depth, call.seen, call.columns, memory + call.k_bytes,
        limits + 2 * call.limits_bytes,
    )  # fmt: skip
    begin(leaf.kernel)
    for each in range(call.heads):
        for first in range(part * call.rows, call.length, call.parts * call.rows):
            _block(job, memory, batch, group * call.heads + each, first, limits)
    end(leaf.kernel)


class _Job(NamedTuple):
    """What a block needs: tags, and the numbers of the call."""

    kernel: object
    weights: object
    element: object
    mask: object
    call: Numbers


class _TaskArguments(NamedTuple):
    numbers: int
    task: int
    worker: int


AttendTask = leaf_class("AttendTask", "kernel weights element mask", _attend_task, _TaskArguments)
"""Leaf: the blocks of queries of one task. Fields: a microkernel, `lanes.Weights`, the result's element type, and
how the mask is read (`masks.NoMask` or a source)."""


@task("leaf numbers")
def _task(task, worker, job):
    call_at(job.leaf, _TaskArguments(job.numbers, task, worker))


@subroutine
def _is_admitted(found, least, greatest):
    lowest = found & 0xFFFFFFFF
    return found >> 32 <= greatest and (lowest == 0 or lowest >= least)


@njit
def attend(pool, threads, template, q, k, v, out, statistics, mask, indirect, memory):
    """Attention of all heads. Returns whether the magnitudes of q, k and v lie between the template's `least` and
    `greatest`. The first words of `memory` are then these magnitudes, as `block.loops.found_limits` gives them.

    `template` is the address of a `Numbers` without the addresses of arrays and memory, which a copy at the beginning
    of `memory` gets. Arrays are addresses, or with `indirect` the addresses of addresses.
    """
    for index in range(_COUNT):
        put(memory, index, get(template, index))
    for index, address in enumerate((q, k, v, out, statistics, mask)):
        put(memory, index, get(address, 0) if indirect else address)
    limits = memory + NUMBERS_BYTES
    limits_bytes = threads * LIMITS_BYTES
    put(memory, 6, limits + OPERANDS * limits_bytes)
    put(memory, 7, limits)
    reset_limits(limits, OPERANDS * threads)
    call = _numbers(memory)
    launch(pool, threads, call.tasks, _task(call.leaf, memory))
    fine = True
    for operand in range(OPERANDS):
        found = found_limits(limits + operand * limits_bytes, threads)
        put(memory, operand, found)
        fine = fine and _is_admitted(found, call.least, call.greatest)
    return fine
