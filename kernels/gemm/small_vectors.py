"""Products too small to be worth panels: strips of rows in vector registers, read from where the operands lie.

A strip is up to 8 rows of the result and one to three vectors of its columns; in 16 registers, without AVX-512, up to 6
rows and two vectors, and masks, which take registers there, only where columns end. Values of A are broadcast from
memory, of any strides; rows of B are read as vectors, and so need neighbouring columns. Operands that have to be
rounded or widened are so in one pass into memory of the worker (`small_lines.py`); a B whose columns are not adjacent
becomes the panels of `packing.VectorPanel`, of two vectors. Sums run along K in one chain, as in one step of
`loops.py`: the bits are the same.

Measured, 32 x 32 x 32 on one core: 0.3 us where packing both operands and multiplying panels takes 0.9, and OpenBLAS
0.8.
"""

from __future__ import annotations

from collections import namedtuple

from ..block import emit as e
from ..block.loops import PackArguments
from ..block.microkernels import Rows, convert
from ..block.tags import constant, field_class
from ..runtime.emitter import Constant, Fields, Pointer, Type, emitter, int64
from ..runtime.jit import ir, subroutine, types
from ..runtime.launch import call_at, leaf_class
from ..runtime.raw_memory import get
from .small_batch import HEADER, LIMITS_BYTES, SegmentArguments
from .small_lines import ConvertArguments

_SmallArguments = namedtuple(
    "_SmallArguments", "m n k a a_row a_k b b_k b_panel c c_row next_a next_b next_c by_a by_b by_c"
)
"""`b_panel` bytes lie between panels of B. Each place along K of each strip fetches a line at each of `next_...`,
from one to the next `by_...` bytes further."""


_MOST_ROWS = 6
"""Of a strip of two vectors of columns where there are 16 registers."""


class _Columns:
    """Emits some vectors of columns of the result, strip after strip of its rows; `job.k` is at least 1."""

    def __init__(self, builder: ir.IRBuilder, leaf: types.Type, width: int, job: ir.Value) -> None:
        self.builder, self.kernel, self.width = builder, field_class(leaf, "kernel"), width
        self.target, self.fetches = field_class(leaf, "element"), field_class(leaf, "ahead").fetches
        self.job = job._asdict()
        self.all = ir.Constant(e.vector(e.I1, self.kernel.lanes), [1] * self.kernel.lanes)

    def masks(self, left: ir.Value) -> list[ir.Value]:
        """Which lanes of each vector exist where so many numbers are left."""
        lanes = self.kernel.lanes
        return [e.first_lanes(self.builder, left, lanes, lanes * v) for v in range(self.width)]

    def heights(self) -> list[tuple[int, ir.Value]]:
        """Heights of strips from the first row on, and how many strips have each."""
        builder, rows = self.builder, self.job["m"]
        if self.kernel.tall or self.width == 1:
            found = []
            for height in (8, 4, 1):
                found.append((height, builder.sdiv(rows, e.I64(height))))
                rows = builder.srem(rows, e.I64(height))
            return found
        strips = builder.sdiv(builder.add(rows, e.I64(_MOST_ROWS - 1)), e.I64(_MOST_ROWS))
        least, taller = builder.sdiv(rows, strips), builder.srem(rows, strips)
        shorter, found = builder.sub(strips, taller), []
        for height in range(_MOST_ROWS, 0, -1):
            is_taller, is_least = (builder.icmp_signed("==", least, e.I64(each)) for each in (height - 1, height))
            count = builder.select(is_taller, taller, builder.select(is_least, shorter, e.I64(0)))
            found.append((height, count))
        return found

    def fetch(self, turn: ir.Value) -> None:
        """Ask for lines of the next operands and of the place of their result."""
        for operand in "abc" if self.fetches else "":
            by = self.builder.mul(turn, self.job[f"by_{operand}"])
            at = self.builder.inttoptr(self.builder.add(self.job[f"next_{operand}"], by), e.POINTER)
            (e.prefetch_to_write if operand == "c" else e.prefetch)(self.builder, at)

    def strip(self, height: int, masks: list[ir.Value], a: ir.Value, b: ir.Value, c: ir.Value, done: ir.Value) -> None:
        """`height` rows, which begin at a and c; `done` strips of the job were done before."""
        builder, kernel, job = self.builder, self.kernel, self.job
        lanes, size, depth = kernel.lanes, kernel.size, job["k"]
        kind = e.vector(kernel.element, lanes)
        rows = [e.opaque(builder, builder.mul(job["a_row"], e.I64(row))) for row in range(1, height)]
        before = builder.mul(done, depth)

        def step(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            a_at, b_at = (e.offset(builder, at, builder.mul(index, job[by])) for at, by in ((a, "a_k"), (b, "b_k")))
            self.fetch(builder.add(before, index))
            of_b, after = [], []
            for v, mask in enumerate(masks):
                of_b.append(e.masked_load(builder, kind, e.offset(builder, b_at, v * lanes * size), size, mask))
            for row, at in enumerate([a_at, *(e.offset(builder, a_at, apart) for apart in rows)]):
                of_a = e.broadcast(builder, e.load(builder, kernel.element, at, size), lanes)
                for v, x in enumerate(of_b):
                    after.append(
                        e.call(
                            builder,
                            f"llvm.fma.{e.suffix(kernel.element, lanes)}",
                            kind,
                            of_a,
                            x,
                            sums[row * self.width + v],
                        )
                    )
            return after

        sums = e.loop(builder, depth, [e.zero(kind)] * (height * self.width), step)
        access = Rows(builder, self.target, lanes)
        for place, value in enumerate(sums):
            row, v = divmod(place, self.width)
            at = e.offset(builder, c, builder.mul(job["c_row"], e.I64(row)))
            at = e.offset(builder, at, v * lanes * self.target.size)
            access.write(convert(builder, value, self.target), at, masks[v])


@emitter
def _columns(builder, leaf: Type, width: Constant, job: Fields, b: Pointer, c: Pointer, left, done) -> int64:
    """At most `width` vectors of columns (`left` numbers remain), strip after strip. Returns how many were done, with
    those that were `done` before."""
    columns = _Columns(builder, leaf, width, job)
    a = builder.inttoptr(job.a, e.POINTER)
    heights = columns.heights()

    def all_rows(masks: list[ir.Value]) -> list[ir.Value]:
        at_a, at_c, before = a, c, done
        for height, strips in heights:
            a_bytes, c_bytes = (builder.mul(getattr(job, row), e.I64(height)) for row in ("a_row", "c_row"))

            def one(index: ir.Value, _: list, at=(height, at_a, a_bytes, at_c, c_bytes, before)) -> list:
                height, at_a, a_bytes, at_c, c_bytes, before = at
                place_a = e.offset(builder, at_a, builder.mul(index, a_bytes))
                place_c = e.offset(builder, at_c, builder.mul(index, c_bytes))
                columns.strip(height, masks, place_a, b, place_c, builder.add(before, index))
                return []

            e.loop_of_any(builder, strips, [], one)
            at_a = e.offset(builder, at_a, builder.mul(strips, a_bytes))
            at_c, before = e.offset(builder, at_c, builder.mul(strips, c_bytes)), builder.add(before, strips)
        return [before]

    if columns.kernel.tall:
        return all_rows(columns.masks(left))[0]
    whole = builder.icmp_signed(">=", left, e.I64(width * columns.kernel.lanes))
    whole_masks = [columns.all] * width
    return e.either(builder, whole, lambda: all_rows(whole_masks), lambda: all_rows(columns.masks(left)))[0]


@subroutine
def _multiply_small(leaf, job):
    """The whole result. B is read in panels of two vectors of columns, `b_panel` bytes apart; where its rows are whole,
    by three vectors unless that would leave one: 24 accumulators for 8 + 3 loads. [48, 48] @ [48, 48] takes 1.5 us by
    threes and 1.9 by pairs."""
    lanes, size = constant(leaf.kernel, "lanes"), constant(leaf.kernel, "size")
    threes, j, done = constant(leaf.kernel, "tall") and job.b_panel == 2 * lanes * size, 0, 0
    while j < job.n:
        left, c = job.n - j, job.c + j * constant(leaf.element, "size")
        b = job.b + j * size if threes else job.b + j // (2 * lanes) * job.b_panel
        if threes and left > 2 * lanes and (left <= 3 * lanes or left > 4 * lanes):
            done = _columns(leaf, 3, job, b, c, left, done)
            j += lanes
        elif left > lanes:
            done = _columns(leaf, 2, job, b, c, left, done)
        else:
            done = _columns(leaf, 1, job, b, c, left, done)
        j += 2 * lanes


MultiplySmall = leaf_class("MultiplySmall", "kernel element ahead", _multiply_small, _SmallArguments)
"""Leaf: one product. Fields: a vector microkernel, for its lanes and element, the result's element type, and
whether another product follows."""


CONVERT_FIELDS = ("convert", "lines", "length", "line_stride", "stride", "target_line", "apart")
FIELDS = (
    *HEADER, "leaf", "m", "n", "k", "c_row", "a_row", "a_k", "b_k", "b_panel", "a_bytes",
    *(f"{name}_a" for name in CONVERT_FIELDS), *(f"{name}_b" for name in CONVERT_FIELDS), "pack_b", "line_b", "along_b",
    "depth_b", "by_a", "by_b", "by_c",
)  # fmt: skip
"""What the int64 of a job mean. convert_a, convert_b and pack_b are 0 where the operand is read where it lies."""

_FIRST = len(HEADER)
_CONVERT_A, _CONVERT_B = FIELDS.index("convert_a"), FIELDS.index("convert_b")
_PACK, _AHEAD = FIELDS.index("pack_b"), FIELDS.index("by_a")
_OF_B = LIMITS_BYTES // 2
"""Where the magnitudes found in B lie, behind those of A."""


@subroutine
def _convert(fields, at, target, limits):
    """Convert the operand at an address as the fields say."""
    arguments = ConvertArguments(
        get(fields, 1), get(fields, 2), at, get(fields, 3), get(fields, 4), target, get(fields, 5), get(fields, 6),
        limits,
    )  # fmt: skip
    call_at(get(fields, 0), arguments)


@subroutine
def _strips(_, segment):
    """The products of a segment."""
    at, limits = segment.job + 8 * _FIRST, segment.workspace
    workspace = limits + (LIMITS_BYTES if get(segment.job, 1) != 0 else 0)
    leaf, m, n, k, c_row = get(at, 0), get(at, 1), get(at, 2), get(at, 3), get(at, 4)
    b_k, of_b = get(at, 7), workspace + get(at, 9)
    convert_a, convert_b = segment.job + 8 * _CONVERT_A, segment.job + 8 * _CONVERT_B
    pack_b, ahead = segment.job + 8 * _PACK, segment.job + 8 * _AHEAD
    step_a, step_b, step_c = get(segment.job, 3), get(segment.job, 4), get(segment.job, 5)
    for item in range(segment.count):
        a, b, c = segment.a + item * step_a, segment.b + item * step_b, segment.c + item * step_c
        next_a, next_b, next_c = a + step_a, b + step_b, c + step_c
        if get(convert_a, 0) != 0:
            if item == 0 or step_a != 0:
                _convert(convert_a, a, workspace, limits)
            a = workspace
        if get(convert_b, 0) != 0:
            if item == 0 or step_b != 0:
                _convert(convert_b, b, of_b, limits + _OF_B)
            b = of_b
        elif get(pack_b, 0) != 0:
            if item == 0 or step_b != 0:
                depth = get(pack_b, 3)
                arguments = PackArguments(
                    get(pack_b, 1), get(pack_b, 2), n, depth, depth, b, of_b, limits + _OF_B, 0, n, 0, depth
                )
                call_at(get(pack_b, 0), arguments)
            b = of_b
        product = _SmallArguments(
            m, n, k, a, get(at, 5), get(at, 6), b, b_k, get(at, 8), c, c_row,
            next_a, next_b, next_c, get(ahead, 0), get(ahead, 1), get(ahead, 2),
        )  # fmt: skip
        call_at(leaf, product)


def strips(m: int, n: int, lanes: int) -> int:
    """About how many strips make a result, of tall ones."""
    return (m // 8 + m % 8 // 4 + m % 4) * -(-n // (2 * lanes))


Strips = leaf_class("Strips", "", _strips, SegmentArguments)
"""Leaf: a segment of products by the leaves that the job names."""
