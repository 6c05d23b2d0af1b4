"""The loops of a product, the same for every microkernel: which block is computed when, by whom, from which panels.

A product is three steps: pack A, pack B, and multiply. The result is divided into blocks of mc x nc, which threads take
one at a time. A block goes through K in steps of kc and keeps its sums in the worker's scratch memory meanwhile, which
fits in the L2 cache; within a step, a panel of B stays in the L1 cache while all panels of A's block (in L2) pass it.
Every value of the result is summed along K in one order, that of kc, whatever the blocks and the threads.

This is the blocking of BLIS (F. Van Zee, R. van de Geijn, "BLIS: a framework for rapidly instantiating BLAS
functionality", TOMS 41, 2015) with one exchange: the loop over K lies inside that over the blocks of the result. With
tiles, a step of kc = 256 lasts a quarter of a microsecond for 4 KiB of results, so that reading and writing the result
in memory at each step, as BLIS does, costs more than reading A and B again for each block.

Two leaves are compiled for each combination of tags, `PackRange` and `MultiplyBlock`. The code that divides the work
among threads holds their addresses (`leaf_address`) and is compiled once.
"""

from __future__ import annotations

from collections import namedtuple

from ..runtime.emitter import boolean, emitter, float64, int64
from ..runtime.jit import ir, njit, subroutine
from ..runtime.launch import address_of_run, call_at, launch, leaf_class, task
from ..runtime.record import Address, Bytes, Count, Record
from .microkernels import begin, end, multiply_panels, store_block, subtract_panels
from .packing import pack_panel
from .tags import constant

LIMITS_BYTES = 128
"""Memory that each worker needs for the magnitudes that it finds while packing (two vectors of 16 uint32)."""


@njit
def leaf_address(leaf):
    """Compile a leaf; the address of its code."""
    return address_of_run(leaf)


@subroutine
def _up(value, multiple):
    return (value + multiple - 1) // multiple * multiple


@subroutine
def chunks(lines, depth, panel_lines, along_k, kc, threads):
    """How packing is divided, in about four tasks for each thread: so many panels, and so much along K."""
    panels, tasks = (lines + panel_lines - 1) // panel_lines, 4 * threads
    panel_chunk = max(1, panels // tasks) if along_k else min(panels, 128)
    groups, step = (panels + panel_chunk - 1) // panel_chunk, kc if along_k else 32
    k_chunk = depth * groups // tasks + 1 if groups < tasks or not along_k else depth
    return panel_chunk, (k_chunk + step - 1) // step * step


@subroutine
def block_sizes(m, n, mc, nc, mr, nr, threads):
    """Sizes of the blocks of the result: about equal ones, and two or more for each thread where that is possible."""
    wanted = 2 * threads if threads > 1 else 1
    rows, columns = (m + mc - 1) // mc, (n + nc - 1) // nc
    while rows * columns < wanted:
        height, width = m // rows // mr, n // columns // nr
        if max(height, width) < 2:
            break
        if width >= height:
            columns += 1
        else:
            rows += 1
    return ((m + rows - 1) // rows + mr - 1) // mr * mr, ((n + columns - 1) // columns + nr - 1) // nr * nr


@subroutine
def _panel_at(k_bytes, panels, depth, kc, panel, k):
    """Where (panel, k) begins in a packed operand, in bytes: blocks of kc along K, in each the panels in order."""
    block = k // kc * kc
    return k_bytes * (panels * block + panel * min(kc, depth - block) + k - block)


@emitter
def _float(builder, bits) -> float64:
    """The float64 that an int64 holds the bits of."""
    return builder.bitcast(bits, ir.DoubleType())


@emitter
def _word(builder, address, value, write: boolean) -> int64:
    """The uint32 at an address, replaced by `value` where `write` says so."""
    word = builder.inttoptr(address, ir.IntType(32).as_pointer())
    with builder.if_then(write):
        builder.store(builder.trunc(value, ir.IntType(32)), word)
    return builder.zext(builder.load(word), ir.IntType(64))


@subroutine
def _pack_range(leaf, job):
    """Pack panels first_panel to last_panel from first_k (a multiple of kc, or of 32 if read across) to last_k."""
    panel_lines, k_bytes = constant(leaf.panel, "lines"), constant(leaf.panel, "k_bytes")
    step = constant(leaf.panel, "step")
    panels, depth = (job.lines + panel_lines - 1) // panel_lines, _up(job.depth, step)
    last_panel, last_k = min(job.last_panel, panels), min(job.last_k, job.depth)
    # Lines that are contiguous along K are read to the end of a block, one after the other. Otherwise a few places
    # along K are read over all lines, so that memory is read in order.
    along = constant(leaf.source, "along_k")
    stride = job.kc if along else constant(leaf.panel, "places")
    outer_first, outer_last, outer_step = job.first_panel, last_panel, 1
    inner_first, inner_last, inner_step = job.first_k, last_k, stride
    if not along:
        outer_first, outer_last, outer_step = job.first_k, last_k, stride
        inner_first, inner_last, inner_step = job.first_panel, last_panel, 1
    for outer in range(outer_first, outer_last, outer_step):
        for inner in range(inner_first, inner_last, inner_step):
            panel, k = (outer, inner) if along else (inner, outer)
            lines = min(panel_lines, job.lines - panel * panel_lines)
            at = job.at + panel * panel_lines * job.line_stride + k * job.k_stride
            to = job.target + _panel_at(k_bytes, panels, depth, job.kc, panel, k)
            count = min(stride, last_k - k)
            pack_panel(leaf.source, leaf.panel, at, job.line_stride, job.k_stride, lines, count, to, job.limits)


PackArguments = namedtuple(
    "PackArguments", "line_stride k_stride lines depth kc at target limits first_panel last_panel first_k last_k"
)


PackRange = leaf_class("PackRange", "source panel", _pack_range, PackArguments)
"""Leaf: pack a part of an operand. Fields: a source tag, and the tag of a panel format."""


@subroutine
def _multiply_block(leaf, job):
    """Compute the block of the result that begins at row i0 and column j0, from k0, a multiple of kc, to k1 along K:
    the scratch memory has the sums up to k0, and then those up to k1."""
    tag, mr, nr = leaf.kernel, constant(leaf.kernel, "mr"), constant(leaf.kernel, "nr")
    size, step, out_size = constant(tag, "size"), constant(tag, "step"), constant(leaf.element, "size")
    a_bytes, b_bytes = constant(tag, "a_bytes"), constant(tag, "b_bytes")
    turn, parts = constant(tag, "turn"), max(constant(tag, "a_bytes") // 64, 1)
    ahead_a, ahead_b = 64 * parts * constant(tag, "ahead_a"), 64 * parts * constant(tag, "ahead_b")
    m_panels, n_panels, depth = (job.m + mr - 1) // mr, (job.n + nr - 1) // nr, _up(job.k, step)
    i_first, i_last = job.i0 // mr, min((job.i0 + job.mc) // mr, m_panels)
    j_first, j_last = job.j0 // nr, min((job.j0 + job.nc) // nr, n_panels)
    less = constant(leaf.finish, "less") and constant(tag, "subtracts")
    direct = (constant(leaf.finish, "plain") or less) and out_size == size
    kc, block_bytes = job.kc, mr * nr * size
    begin(tag)
    for p in range(job.k0, min(job.k1, depth), kc):
        here, last, slot = min(kc, depth - p), p + kc >= depth, job.scratch
        next_a = job.a + (0 if last else _panel_at(a_bytes, m_panels, depth, kc, i_first, p + kc))
        for j in range(j_first, j_last):
            b_panel = job.b + _panel_at(b_bytes, n_panels, depth, kc, j, p)
            next_b = b_panel
            if j + 1 < j_last:
                next_b = job.b + _panel_at(b_bytes, n_panels, depth, kc, j + 1, p)
            elif not last:
                next_b = job.b + _panel_at(b_bytes, n_panels, depth, kc, j_first, p + kc)
            for i in range(i_first, i_last):
                a_panel = job.a + _panel_at(a_bytes, m_panels, depth, kc, i, p)
                rows, columns = min(mr, job.m - i * mr), min(nr, job.n - j * nr)
                place = job.c + i * mr * job.c_stride + j * nr * out_size
                whole = direct and rows == mr and columns == nr
                at, stride = (place, job.c_stride) if last and whole else (slot, nr * size)
                if less and last and whole:
                    subtract_panels(tag, leaf.finish, here, a_panel, b_panel, slot, p > 0, at, stride)
                else:
                    multiply_panels(tag, here, a_panel, b_panel, slot, p > 0, at, stride, next_a, next_b)
                if last and not whole:
                    store_block(
                        leaf, slot, place, job.c_stride, rows, columns,
                        _float(job.alpha_bits), _float(job.beta_bits),
                        job.addend + i * mr * job.row_stride + j * nr * job.column_stride,
                        job.row_stride, job.column_stride,
                    )  # fmt: skip
                next_a += here // turn * ahead_a
                next_b += here // turn * ahead_b
                if depth > kc:
                    slot += block_bytes
    end(tag)


BlockArguments = namedtuple(
    "BlockArguments",
    "m n k kc mc nc a b c c_stride alpha_bits beta_bits addend row_stride column_stride scratch i0 j0 k0 k1",
)


MultiplyBlock = leaf_class("MultiplyBlock", "kernel element finish", _multiply_block, BlockArguments)
"""Leaf: compute a block of the result. Fields: a microkernel, the type of its elements, how it is finished."""


@subroutine
def reset_limits(limits, workers):
    for worker in range(workers):
        for lane in range(16):
            at = limits + worker * LIMITS_BYTES + 4 * lane
            _word(at, 0xFFFFFFFF, True)
            _word(at + 64, 0, True)


@subroutine
def found_limits(limits, workers):
    """The magnitudes that the workers found: the greatest << 32 | the least nonzero one (0 if all are zero)."""
    least, greatest = 0xFFFFFFFF, 0
    for worker in range(workers):
        for lane in range(16):
            at = limits + worker * LIMITS_BYTES + 4 * lane
            least, greatest = min(least, _word(at, 0, False)), max(greatest, _word(at + 64, 0, False))
    return greatest << 32 | ((least + 1) & 0xFFFFFFFF)


class Packing(Record):
    """How an operand is packed: by a `PackRange`, in tasks of `panel_chunk` panels x `k_chunk` along K."""

    leaf: Address
    line_stride: Bytes
    k_stride: Bytes
    lines: Count
    depth: Count
    kc: Count
    panel_lines: Count
    k_bytes: Bytes
    """Of one place along K of a panel."""
    panel_chunk: Count
    k_chunk: Count


@task("of at target limits")
def _pack_task(task, worker, job):
    of = job.of
    along = (of.depth + of.k_chunk - 1) // of.k_chunk
    panel, k = task // along * of.panel_chunk, task % along * of.k_chunk
    limits = job.limits + worker * LIMITS_BYTES
    call_at(
        of.leaf,
        PackArguments(
            of.line_stride, of.k_stride, of.lines, of.depth, of.kc, job.at, job.target, limits,
            panel, panel + of.panel_chunk, k, k + of.k_chunk,
        ),
    )  # fmt: skip


@njit
def pack(pool, threads, packing: Packing, at, target, limits):
    """Pack an operand from address `at` to address `target`. Returns the magnitudes found, as `found_limits` does."""
    reset_limits(limits, threads)
    panels = (packing.lines + packing.panel_lines - 1) // packing.panel_lines
    along = (packing.depth + packing.k_chunk - 1) // packing.k_chunk
    tasks = (panels + packing.panel_chunk - 1) // packing.panel_chunk * along
    launch(pool, threads, tasks, _pack_task(packing, at, target, limits))
    return found_limits(limits, threads)


class Target(Record):
    """How a result is stored, by a `MultiplyBlock`, and what is added to it; alpha and beta as bits of float64."""

    leaf: Address
    row_stride: Bytes
    item_bytes: Bytes
    alpha_bits: int
    beta_bits: int
    addend_row: Bytes
    addend_column: Bytes
