"""The sizes of small products (`small`, `small_products`)."""

SIDE, DEPTH = 128, 256
"""The most rows or columns, and the greatest depth: sums of `loops.py` run in one chain that far, to the same bits.

By tiles either the rows or the columns may be more: so little is done with each value that packing it and reading it
again takes longer than the product. Microseconds by panels and by tiles, 32 rows or columns at a time: tf32 [13824, 24]
@ [24, 24] 152, 117, of a transposed left operand 179, 109, [24, 24] @ [24, 13824] 219, 123; [4096, 128] @ [128, 128] in
tf32 310, 227, in bf16 205, 144, in bf16x6 388, 325; with a depth of 256 570, 480, 335, 233, 728, 726; [256, 64] @
[64, 64] 18, 9, 15, 6, 20, 12."""

LINES = 32
"""Rows or columns that tiles do at a time where there are many."""


def is_in_lines(isa: str, m: int, n: int) -> bool:
    """Whether so many rows or columns are done `LINES` at a time."""
    return isa == "amx" and max(m, n) > SIDE
