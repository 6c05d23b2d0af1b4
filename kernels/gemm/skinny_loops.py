"""Products with few rows or columns, as of a matrix and a vector: the matrix is read where it lies, from memory once.

Reading the matrix bounds such a product. Values of 16 bits are widened and float32 ones rounded on their way into
registers; packing would write all of them to memory and read them again. The few rows are converted beforehand.

bf16x3 makes two parts of each value, and stores the rows twice. The rows themselves multiply the first part; their own
first parts multiply the second.

A block of rows (`skinny_kernels.ROWS`) is multiplied with vectors of columns of a matrix that runs across the result
(`AddRows`), or with lines of a matrix that runs along K (`SumRows`).
"""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

from ..block.emit import LINE
from ..block.tags import constant
from ..runtime.jit import njit, subroutine
from ..runtime.launch import call_at, job_class, launch, leaf_class
from ..runtime.raw_memory import get
from .skinny_kernels import One, add_rows, convert_row, sum_rows

_Arguments = namedtuple("_Arguments", "rows k a a_row a_part b by_k by_column totals totals_row totals_column columns")


@subroutine
def _add(leaf, job):
    """Some columns of the result, whose totals are neighbours."""
    height, vectors = constant(leaf.rows, "height"), constant(leaf.rows, "vectors")
    places, working = constant(leaf.rows, "places"), max(4, constant(leaf.element, "size"))
    lanes = LINE // working
    for first in range(0, job.k, places):
        depth, column = min(places, job.k - first), 0
        while column < job.columns:
            left = job.columns - column
            several = left >= vectors * lanes
            width = vectors * lanes if several else lanes
            b = job.b + first * job.by_k + column * job.by_column
            for row in range(0, job.rows, height):
                a = job.a + row * job.a_row + working * first
                to = job.totals + row * job.totals_row + working * column
                add_rows(
                    leaf, several, job.rows - row, depth, (a, job.a_row, job.a_part), b, job.by_k,
                    b + places * job.by_k, (to, job.totals_row), left,
                )  # fmt: skip
            column += width


AddRows = leaf_class("AddRows", "element conversion rows", _add, _Arguments)
"""Leaf: columns of the result of a matrix that is contiguous across them."""


@subroutine
def _sum(leaf, job):
    """Some columns of the result of a matrix that runs along K."""
    height, lines, size = constant(leaf.rows, "height"), constant(leaf.rows, "lines"), constant(leaf.element, "size")
    working = max(4, size)
    step = constant(leaf.rows, "step") * (LINE // working)
    for first in range(0, job.k, step):
        depth, line = min(step, job.k - first), 0
        while line < job.columns:
            several = line + lines <= job.columns
            b = job.b + first * size + line * job.by_column
            for row in range(0, job.rows, height):
                a = job.a + row * job.a_row + working * first
                to = job.totals + row * job.totals_row + line * job.totals_column
                sum_rows(
                    leaf, several, job.rows - row, depth, (a, job.a_row, job.a_part), b, job.by_column,
                    (to, job.totals_row, job.totals_column),
                )  # fmt: skip
            line += lines if several else 1


SumRows = leaf_class("SumRows", "element conversion rows", _sum, _Arguments)
"""Leaf: columns of the result of a matrix that is contiguous along K."""


class _Row(NamedTuple):
    k: int
    source: int
    out: int


@subroutine
def _convert(leaf, job):
    """Values that are neighbours, widened and rounded like those of the matrix, from a cache line on."""
    convert_row(leaf, job.k, job.source, job.out)


class ConvertRow(NamedTuple):
    """Leaf: one of the few rows as it is multiplied, where the matrix has one part."""

    element: NamedTuple
    conversion: NamedTuple
    rows: NamedTuple = One()
    run = _convert
    arguments = _Row


@subroutine
def _task(task, worker, job):
    pieces = (job.n + job.width - 1) // job.width
    unit, first = task // pieces, task % pieces * job.width
    b = job.b if job.units == 1 else get(job.b, unit)
    call_at(
        job.leaf,
        _Arguments(
            job.rows, job.k, job.a + unit * job.rows * job.a_row, job.a_row,
            job.a_part, b + first * job.by_column, job.by_k, job.by_column,
            job.totals + unit * job.rows * job.totals_row + first * job.totals_column, job.totals_row,
            job.totals_column, min(job.width, job.n - first),
        ),
    )  # fmt: skip


Columns = job_class(
    "Columns", "leaf width units n rows k a a_row a_part b by_k by_column totals totals_row totals_column", _task
)
"""Some rows times a matrix (k, n), added to `totals` (rows, n), in each of some units, whose rows and totals follow
one another; `b` is the address of a table of those of their matrices, or that of the matrix of one unit.

The rows at `a` lie `a_row` bytes apart. Where values of the matrix have two parts, they are there twice, `a_part`
bytes apart. `leaf` is the address of an `AddRows`, for which columns of totals are neighbours, or of a `SumRows`.
Values of the matrix lie `by_k` bytes apart along K and `by_column` bytes from column to column. Tasks are `width`
columns of a unit.
"""


@njit
def multiply_rows(pool, threads, job, convert, few, few_row):
    """Do a job of `Columns`, in float32, or float64 for matrices of it. Where `convert` is the address of a
    `ConvertRow`, it makes the rows of those at `few`, `few_row` bytes apart."""
    if convert != 0:
        for row in range(job.units * job.rows):
            call_at(convert, _Row(job.k, few + row * few_row, job.a + row * job.a_row))
    launch(pool, threads, job.units * ((job.n + job.width - 1) // job.width), job)
