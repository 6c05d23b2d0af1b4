"""The gradient of a convolution with respect to its weight on vector units: every tap is a shift along K.

Positions are what is summed over. A chunk of them is packed in panels for vector microkernels, the gradient of the
result as it is, and the images with the neighbours that taps reach: since a panel has one place after the other, a tap
reads the same panel some places further on. So values are packed once, and multiplied once for each tap.
"""

from __future__ import annotations

from typing import NamedTuple

from ..gemm.loops import LIMITS_BYTES, PackArguments, found_limits, reset_limits
from ..gemm.microkernels import begin, end, multiply_panels
from ..gemm.tags import constant
from ..jit import njit, subroutine
from ..launch import call_at, launch
from ..words import get, put
from .descriptor import TAPS, field
from .memory import clear, write32

__all__ = ["ZEROS", "MultiplyTaps", "weight_gradient"]

ZEROS = -(1 << 62)
"""In the place of where values lie: there are none."""

_OPERAND_BYTES = 8 * len(TAPS)


class _TapArguments(NamedTuple):
    """a, b: the first panels. sums: of the blocks of results, which are added to where `more` says so."""

    a: int
    a_panel: int
    panels: int
    b: int
    places: int
    sums: int
    more: int


@subroutine
def _multiply_taps(leaf, job):
    tag, row = leaf.kernel, constant(leaf.kernel, "nr") * constant(leaf.kernel, "size")
    block, more = constant(leaf.kernel, "mr") * row, job.more != 0
    begin(tag)
    for panel in range(job.panels):
        a, sums = job.a + panel * job.a_panel, job.sums + panel * block
        multiply_panels(tag, job.places, a, job.b, sums, more, sums, row, a + job.a_panel, job.b)
    end(tag)


class MultiplyTaps(NamedTuple):
    """Leaf: all panels of A with one of B. The field is a microkernel for vectors."""

    kernel: NamedTuple
    run = _multiply_taps
    arguments = _TapArguments


@subroutine
def _pack_task(task, worker, job):
    """Some runs of neighbouring places: an operand, the first place, how many, and where they lie, or `ZEROS`."""
    first = job.first + task * job.chunk
    for run in range(first, min(first + job.chunk, job.last)):
        row = job.runs + 32 * run
        index, place, count, source = get(row, 0), get(row, 1), get(row, 2), get(row, 3)
        operand = job.operands + _OPERAND_BYTES * index
        places, panels = field("taps", operand, "places"), field("taps", operand, "panels")
        target = job.memory + field("taps", operand, "target")
        if source == ZEROS:
            k_bytes = field("taps", operand, "k_bytes")
            for panel in range(panels):
                clear(target + (panel * places + place) * k_bytes, count * k_bytes)
            continue
        line_stride, k_stride = field("taps", operand, "line_stride"), field("taps", operand, "k_stride")
        lines, at = field("taps", operand, "lines"), (job.g if index == 0 else job.x) + source - place * k_stride
        limits = (job.limits if index == 0 else job.x_limits) + worker * LIMITS_BYTES
        call_at(
            field("taps", operand, "leaf"),
            PackArguments(
                line_stride, k_stride, lines, places, places, at, target, limits, 0, panels, place, place + count
            ),
        )  # fmt: skip


class _Pack(NamedTuple):
    operands: int
    runs: int
    first: int
    last: int
    chunk: int
    x: int
    g: int
    memory: int
    limits: int
    x_limits: int
    run = _pack_task


@subroutine
def _multiply_task(task, worker, job):
    """One tap of one panel of B and some of A."""
    parts = (job.a_panels + job.chunk - 1) // job.chunk
    line, first = task // parts, task % parts * job.chunk
    tap, panel = job.taps + 16 * (line // job.b_panels), line % job.b_panels
    call_at(
        job.leaf,
        _TapArguments(
            job.a + get(tap, 0) + first * job.a_panel, job.a_panel, min(job.chunk, job.a_panels - first),
            job.b + get(tap, 1) + panel * job.b_panel, job.places,
            job.sums + (line * job.a_panels + first) * job.block, job.more,
        ),
    )  # fmt: skip


class _Multiply(NamedTuple):
    leaf: int
    taps: int
    a: int
    a_panel: int
    a_panels: int
    b: int
    b_panel: int
    b_panels: int
    chunk: int
    places: int
    sums: int
    block: int
    more: int
    run = _multiply_task


@subroutine
def _order_task(task, worker, job):
    """The results of a panel of A."""
    mr, nr, size = job.mr, job.nr, job.size
    block = mr * nr * size
    tap_bytes = job.a_panels * job.b_panels * block
    for panel in range(job.b_panels):
        blocks = job.sums + (panel * job.a_panels + task) * block
        for row in range(min(mr, job.a_lines - task * mr)):
            for column in range(min(nr, job.b_lines - panel * nr)):
                to = job.weight + (task * mr + row) * job.a_step + (panel * nr + column) * job.b_step
                at = blocks + (row * nr + column) * size
                if size == 4:
                    for tap in range(job.taps):
                        write32(to + 4 * tap, at + tap * tap_bytes)
                else:
                    for tap in range(job.taps):
                        put(to, tap, get(at + tap * tap_bytes, 0))


class _Order(NamedTuple):
    """steps: bytes from line to line of each operand in the weight."""

    sums: int
    weight: int
    taps: int
    a_panels: int
    a_lines: int
    a_step: int
    b_panels: int
    b_lines: int
    b_step: int
    mr: int
    nr: int
    size: int
    run = _order_task


@njit
def weight_gradient(
    pool, threads, leaf, operands, runs, chunk_runs, chunks, places, last_places, taps, tap_count, x_is_a, mr, nr,
    size, x, g, memory, limits, sums, weight,
):  # fmt: skip
    """Sum the products of all taps to `sums`, [tap][panel of B][panel of A][row][column], and bring them in the order
    of the weight, [output][channel][tap]. All but threads and numbers are addresses.

    Arguments:
        operands: rows of `descriptor.TAPS`, the gradient's first, then those of the images' planes, which are alike.
        runs: of `_pack_task`; chunk_runs: where those of each chunk of so many places begin.
        taps: for each tap the bytes from the first panel of A, and of B, to those that it multiplies.
        limits: of twice so many threads. Returns the magnitudes found in g and in x, of operands in two parts.
    """
    x_limits = limits + threads * LIMITS_BYTES
    reset_limits(limits, 2 * threads)
    a = operands + (_OPERAND_BYTES if x_is_a else 0)
    b = operands + (0 if x_is_a else _OPERAND_BYTES)
    a_panels, b_panels = field("taps", a, "panels"), field("taps", b, "panels")
    a_panel = field("taps", a, "places") * field("taps", a, "k_bytes")
    b_panel = field("taps", b, "places") * field("taps", b, "k_bytes")
    at_a, at_b = memory + field("taps", a, "target"), memory + field("taps", b, "target")
    each = min(max(a_panels * b_panels * tap_count // (4 * threads), 1), a_panels)
    products = tap_count * b_panels * ((a_panels + each - 1) // each)
    for chunk in range(chunks):
        first, last = get(chunk_runs, chunk), get(chunk_runs, chunk + 1)
        some = max((last - first) // (4 * threads), 1)
        tasks = (last - first + some - 1) // some
        launch(pool, threads, tasks, _Pack(operands, runs, first, last, some, x, g, memory, limits, x_limits))
        here = places if chunk < chunks - 1 else last_places
        launch(
            pool, threads, products,
            _Multiply(
                leaf, taps, at_a, a_panel, a_panels, at_b, b_panel, b_panels, each, here, sums, mr * nr * size,
                int(chunk > 0),
            ),
        )  # fmt: skip
    a_lines, b_lines, step = field("taps", a, "lines"), field("taps", b, "lines"), tap_count * size
    a_step, b_step = (step, step * a_lines) if x_is_a else (step * b_lines, step)
    launch(
        pool, threads, a_panels,
        _Order(sums, weight, tap_count, a_panels, a_lines, a_step, b_panels, b_lines, b_step, mr, nr, size),
    )  # fmt: skip
    return found_limits(limits, threads), found_limits(x_limits, threads)
