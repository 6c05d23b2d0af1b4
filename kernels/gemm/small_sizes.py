"""The sizes of small products (`small`, `small_products`)."""

SIDE, DEPTH = 128, 256
"""The most rows or columns, and the greatest depth: sums of `loops.py` run in one chain that far, to the same bits.

By tiles either the rows or the columns may be more: so little is done with each value that packing it and reading it
again takes longer than the product (bench/NOTES.md, `small_sizes.SIDE`)."""

LINES = 32
"""Rows or columns that tiles do at a time where there are many."""


def is_in_lines(isa: str, m: int, n: int) -> bool:
    """Whether so many rows or columns are done `LINES` at a time."""
    return isa == "amx" and max(m, n) > SIDE
