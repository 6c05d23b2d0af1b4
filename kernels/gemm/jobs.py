"""Jobs of small products: what compiled code has to know of a shape with its strides, prepared once and remembered."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..block import loops, plans
from ..block.conversions import AsIs
from ..block.packing import OfB, VectorPanel
from ..block.sources import ELEMENTS, Across, AlongK, Contiguous, Source, Strided
from ..block.tuning import memoise, tuning
from ..registry import Refused
from ..runtime.workspace import address_of
from . import small_batch, small_lines, small_packing, small_tiles, small_vectors


class Steps(NamedTuple):
    """How many products follow one another, and the bytes from one to the next; `row`: from one row of a result to the
    next, 0 where rows lie side by side."""

    count: int = 1
    a: int = 0
    b: int = 0
    c: int = 0
    row: int = 0


_ALONE = Steps()


class Job:
    """The int64 of one job, at an address that compiled code reads.

    Attributes:
        microseconds: an estimate of what all products take together.
        spread: microseconds from which other threads are woken.
        checks: the precision whose limits hold for the magnitudes found, or None.
        exactly: makes the job that finds them exactly, where this one only finds that some are not usual.
    """

    __slots__ = ("address", "checks", "exactly", "microseconds", "spread", "values", "workspace_bytes")

    def __init__(
        self, fields: dict[str, int], names: tuple[str, ...], steps: Steps, isa: str, microseconds: float,
        checks: str | None = None,
    ) -> None:  # fmt: skip
        header = {"checked": int(checks is not None), "count": steps.count}
        header |= {"step_a": steps.a, "step_b": steps.b, "step_c": steps.c}
        self.values = np.array([(fields | header)[name] for name in names], np.int64)
        self.address, self.microseconds, self.checks = address_of(self.values), steps.count * microseconds, checks
        self.workspace_bytes, self.spread = fields["workspace_bytes"], tuning(isa).small_spread_microseconds
        self.exactly: Callable[[], Job] | None = None


@memoise
def job_for(
    isa: str, precision: str, rounding: str, dtype: np.dtype, sizes: tuple[int, int, int],
    strides: tuple[int, int, int, int], steps: Steps = _ALONE, result: np.dtype | None = None,
) -> Job:  # fmt: skip
    """The job of products of matrices (m, k) and (k, n) with these strides, of a and of b. By vectors results may have
    another dtype than the operands.

    Raises `Refused` where tiles would have to read an operand that is contiguous in no direction.
    """
    plan = plans.plan_for(isa, precision, rounding, 8 if dtype.itemsize == 8 else 4)
    if isa == "amx":
        return _tiles_job(plan, dtype, sizes, strides, steps)
    return _strips_job(plan, dtype, sizes, strides, steps, result or dtype)


def _sides(sizes: tuple, itemsize: int) -> tuple[int, int, int]:
    """Bytes of A, B and C."""
    m, k, n = sizes
    return m * k * itemsize, k * n * itemsize, m * n * itemsize


def _in_a_row(isa: str, steps: Steps, sides: tuple[int, int, int]) -> bool:
    """Whether the matrices of a batch that is larger than a cache lie one after the other, so that the next ones can be
    fetched while one is computed."""
    return (steps.a, steps.b, steps.c) == sides and steps.count * sum(sides) >= tuning(isa).cache_bytes


def _ahead(in_a_row: bool) -> small_batch.Alone | small_batch.InARow:
    return small_batch.InARow() if in_a_row else small_batch.Alone()


@functools.cache
def _leaf(plan: plans.Plan, result: np.dtype, in_a_row: bool) -> int:
    kernel = plan.scheme.kernel.of_one() if plan.a_panel.conversion.vector_parts == 2 else plan.scheme.kernel
    return loops.leaf_address(small_vectors.MultiplySmall(kernel, ELEMENTS[result.name], _ahead(in_a_row)))


@functools.cache
def _strips() -> int:
    return loops.leaf_address(small_vectors.Strips())


@functools.cache
def _convert_leaf(plan: plans.Plan, dtype: np.dtype, unit: bool, way: type) -> int:
    source = Source(AlongK(), Contiguous() if unit else Strided(), ELEMENTS[dtype.name])
    return loops.leaf_address(small_lines.ConvertLines(source, plan.a_panel.conversion, way()))


@functools.cache
def _pack_leaf(plan: plans.Plan, dtype: np.dtype, unit: bool) -> int:
    panel = VectorPanel(OfB(), plan.b_panel.conversion, plan.scheme.kernel)
    source = Source(AlongK(), Contiguous() if unit else Strided(), ELEMENTS[dtype.name])
    return loops.leaf_address(loops.PackRange(source, panel))


def _conversion(plan: plans.Plan, dtype: np.dtype, operand: str, lines: tuple, along_k: bool) -> dict[str, int]:
    """The fields that have an operand converted: `lines` are how many, their length, and both strides. Lines that
    follow one another are converted as one, which has no ends to mask; rows that vectors read, and those of two parts,
    begin on cache lines."""
    count, length, line_stride, stride = lines
    parts, way = plan.a_panel.conversion.vector_parts, small_lines.InTurn
    line = length * (8 if dtype.itemsize == 8 else 4)
    if parts == 2 and along_k:
        line *= 2
    elif parts == 2:
        way = small_lines.ApartOfA if operand == "a" else small_lines.ApartOfB
    apart = plans.up(line, 64) if operand == "b" or way.apart else line
    if stride == dtype.itemsize and line_stride == length * stride and apart == line and not way.apart:
        count, length = 1, count * length
    leaf = _convert_leaf(plan, dtype, stride == dtype.itemsize, way)
    values = (leaf, count, length, line_stride, stride, apart * (2 if way.apart else 1), apart)
    return {f"{name}_{operand}": value for name, value in zip(small_vectors.CONVERT_FIELDS, values, strict=True)}


def _strips_job(plan: plans.Plan, dtype: np.dtype, sizes: tuple, strides: tuple, steps: Steps, result: np.dtype) -> Job:
    size, (m, k, n) = 8 if dtype.itemsize == 8 else 4, sizes
    as_is = dtype.itemsize == size and type(plan.a_panel.conversion) is AsIs
    kernel, (a_row, a_k, b_k, b_column) = plan.scheme.kernel, strides
    parts = plan.a_panel.conversion.vector_parts  # of two each place along K becomes two
    fields = dict.fromkeys(small_vectors.FIELDS, 0)
    sides = _sides(sizes, dtype.itemsize)
    in_a_row = kernel.tall and _in_a_row(plan.isa, steps, sides)
    if in_a_row:
        places = parts * k * small_vectors.strips(m, n, kernel.lanes)
        fields.update(zip(("by_a", "by_b", "by_c"), (min(64, -(-side // places)) for side in sides), strict=True))
    leaf, c_row = _leaf(plan, result, in_a_row), steps.row or n * result.itemsize
    fields.update(leaf=leaf, m=m, n=n, k=parts * k, c_row=c_row, a_row=a_row, a_k=a_k)
    if not as_is:
        by_rows = abs(a_k) <= abs(a_row) or m == 1
        lines = (m, k, a_row, a_k) if by_rows else (k, m, a_k, a_row)
        fields.update(_conversion(plan, dtype, "a", lines, by_rows))
        line = fields["apart_a"]
        # The last line is stored in whole vectors, of each part, beside a B that may be kept.
        a_bytes = plans.up((m if by_rows else parts * k) * line, 64) + 64 * parts
        fields.update(a_bytes=a_bytes)
        fields.update(zip(("a_row", "a_k"), (line, size) if by_rows else (size, line), strict=True))
    along_k, rows = abs(b_k) <= abs(b_column) and n > 1, 2 * kernel.lanes * size
    if not along_k and (b_column == size or n == 1) and as_is:
        fields.update(b_k=b_k, b_panel=rows)
    elif not along_k:
        fields.update(_conversion(plan, dtype, "b", (k, n, b_k, b_column), False))
        fields.update(b_k=fields["apart_b"], b_panel=rows)
    else:
        leaf = _pack_leaf(plan, dtype, b_k == dtype.itemsize)
        fields.update(pack_b=leaf, line_b=b_column, along_b=b_k, depth_b=k)
        fields.update(b_k=kernel.b_bytes // parts, b_panel=k * kernel.b_bytes)
    of_b = plans.up(n, kernel.nr) // kernel.nr * k * kernel.b_bytes
    checked = plan.precision if plan.finds_magnitudes else None
    limits = small_batch.LIMITS_BYTES if checked else 0
    fields.update(run=_strips(), workspace_bytes=plans.up(limits + fields["a_bytes"] + of_b, 64))
    microseconds = (m * plans.up(n, kernel.lanes) * k) / (plan.products_per_microsecond * 2.4) + 0.08
    return Job(fields, small_vectors.FIELDS, steps, plan.isa, microseconds, checked)


@functools.cache
def _tiles_leaf(
    plan: plans.Plan, dtype: np.dtype, a_along_k: bool, b_along_k: bool, exactly: bool, in_a_row: bool
) -> int:
    orders = [AlongK() if along else Across() for along in (a_along_k, b_along_k)]
    conversion = AsIs() if dtype.name == "bfloat16" else plan.a_panel.conversion
    looks = small_packing.Exactly() if exactly else small_packing.Roughly()
    how = ELEMENTS[dtype.name], *orders, looks, _ahead(in_a_row)
    return loops.leaf_address(small_tiles.TilesInARow(plan.scheme.kernel, conversion, *how))


@memoise
def _tiles_job(
    plan: plans.Plan, dtype: np.dtype, sizes: tuple, strides: tuple, steps: Steps, exactly: bool = False
) -> Job:
    (m, k, n), (a_row, a_k, b_k, b_column), size = sizes, strides, dtype.itemsize
    a_along_k, b_along_k = a_k == size or k == 1, not (b_column == size or n == 1)
    if not (a_along_k or a_row == size or m == 1) or (b_along_k and not (b_k == size or k == 1)):
        raise Refused("takes matrices that are contiguous in a direction")
    a_stride, b_stride = a_row if a_along_k else a_k, b_column if b_along_k else b_k
    exactly |= plan.precision == "bf16"  # which rounds greatest magnitudes as they are, and looks no faster at others
    leaf = _tiles_leaf(plan, dtype, a_along_k, b_along_k, exactly, _in_a_row(plan.isa, steps, _sides(sizes, size)))
    parts = plan.scheme.kernel.a_bytes // 64
    fields = {
        "run": leaf, "m": m, "n": n, "k": k,
        "c_row": steps.row or n * size, "a_stride": a_stride, "b_stride": b_stride,
        "workspace_bytes": small_tiles.workspace_bytes(m, n, k, parts),
    }  # fmt: skip
    tiles = plans.up(m, 16) * plans.up(n, 16) * plans.up(k, 32)
    microseconds = 0.06 + tiles / plan.products_per_microsecond / 2 + (m * k + k * n) * parts * 5e-5
    job = Job(fields, small_tiles.FIELDS, steps, plan.isa, microseconds, plan.precision)
    if not exactly:
        job.exactly = functools.partial(_tiles_job, plan, dtype, sizes, strides, steps, True)
    return job
