"""Copies in another order of dimensions, tile by tile: what `turned.in_order` calls."""

from __future__ import annotations

from collections import namedtuple

from ...block.emit import I8, I16, I32, I64
from ...block.tags import constant, tag_class
from ...block.transpose import copy_transposed
from ...runtime.jit import njit, subroutine
from ...runtime.launch import call_at, launch, leaf_class, task
from ...runtime.raw_memory import get

Word1 = tag_class("Word1", __name__, element=I8, size=1, lanes=16)
"""Elements of a size, whatever their type, and rows and columns of a square that is transposed in registers."""

Word2 = tag_class("Word2", __name__, element=I16, size=2, lanes=16)
Word4 = tag_class("Word4", __name__, element=I32, size=4, lanes=8)
Word8 = tag_class("Word8", __name__, element=I64, size=8, lanes=4)


WORDS = {word.size: word() for word in (Word1, Word2, Word4, Word8)}
"""Tags by the bytes of an element."""


_Rows = namedtuple("_Rows", "source target rows columns row column")
"""Addresses of the first word of the rows in both arrays, how many rows and columns there are, and the bytes
between rows of the target and between columns of the source."""


@subroutine
def _turn(leaf, job):
    """Two squares side by side fill cache lines of the target."""
    lanes, size = constant(leaf.word, "lanes"), constant(leaf.word, "size")
    for column in range(0, job.columns, 2 * lanes):
        for row in range(0, job.rows, lanes):
            copy_transposed(
                leaf.word, min(2 * lanes, job.columns - column), min(lanes, job.rows - row),
                job.source + column * job.column + row * size, job.column,
                job.target + row * job.row + column * size, job.row,
            )  # fmt: skip


Turn = leaf_class("Turn", "word", _turn, _Rows)
"""Leaf: some rows of the target, whose words are neighbours from row to row in the source."""


@task("leaf places items blocks at_once rows columns row column size")
def _task(task, worker, job):
    item, first = task // job.blocks, task % job.blocks * job.at_once
    source, target = get(job.places, item), get(job.places, job.items + item)
    call_at(
        job.leaf,
        _Rows(
            source + first * job.size, target + first * job.row, min(job.at_once, job.rows - first), job.columns,
            job.row, job.column,
        ),
    )  # fmt: skip


@njit
def run(pool, threads, leaf, places, items, at_once, rows, columns, row, column, size):
    """Copy `items` matrices of `rows` and `columns`, which begin at the addresses (2, items) at `places` in the source
    and in the target, some rows at a time (`at_once`). Words of `size` bytes are neighbours along the columns of a row
    in the target, whose rows are `row` bytes apart, and from row to row in the source, whose columns are `column`."""
    blocks = (rows + at_once - 1) // at_once
    job = _task(leaf, places, items, blocks, at_once, rows, columns, row, column, size)
    launch(pool, threads, items * blocks, job)
