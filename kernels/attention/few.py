"""Attention of few queries, as text is generated: all their scores at once, by products that read keys where they lie.

Such a call costs what reading keys and values from memory costs; the loops of flash attention pack them before, which
writes and reads them once more. Scores, weights and sums are of float32 (float64 for float64), and the weights are
rounded as the operands are before they meet the values, while their sum is of the unrounded ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.rows import exponentials
from ..gemm import skinny
from ..gemm.compiled import computed_by_panels
from ..runtime import cpu
from .plain import Attended

_MOST_QUERIES, _DEPTH_OF_EACH = 8, 16
"""Queries for each head of the keys, those of the heads that share it included, and the depth that each of them needs:
what is done to its scores takes longer than reading less. Microseconds here and by the loops, float32: 16 heads, 1024
keys of 64 with 1, 4, 8 queries 580, 757, 1096 and 1017, 900, 950; 32 heads of queries, 8 of 2048 keys of 128, with 1
and 2 queries 802, 1253 and 4833, 5415 (torch 1198, 1282)."""

_LEAST_PRODUCTS, _MOST_SCORES = 1 << 17, 1 << 23
"""Minimum number of products of one query of each head, and maximum size of the score matrix: 32 MiB. This takes about
70 us beside reading, and the loops a time for each head. Microseconds on a Zen 4, one query and heads of 64, here and
there: 16 heads of 64, 128, 256 keys 80, 91, 108 and 68, 123, 222 (bfloat16 74, 84, 105 and 43, 70, 124); 32 heads that
share 8 of keys 75, 85, 104 and 112, 208, 380 (74, 81, 100 and 63, 107, 202)."""


def _isa() -> str | None:
    return next((isa for isa in skinny.ISAS if cpu.refusal(isa) is None), None)


def takes(q: Any, k: Any, *, causal: bool = False, precision: str = "ieee", **_: Any) -> bool:
    """Whether queries and keys, arrays or what is known of them, are such a call."""
    isa, (batch, heads, length, depth), (_, groups, seen, _) = _isa(), q.shape, k.shape
    return not (
        isa is None
        or causal
        or heads * length > min(_MOST_QUERIES, depth // _DEPTH_OF_EACH) * groups
        or batch * heads * seen * depth < _LEAST_PRODUCTS
        or batch * heads * length * seen > _MOST_SCORES
        or computed_by_panels(isa, q.dtype, precision) is None
        or (q.dtype == np.float16 and not cpu.converts_half())
    )


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, *, scale: float,
    precision: str = "ieee", rounding: str = "rna", **_: Any,
) -> Attended:  # fmt: skip
    """The result and the statistics. Raises `Refused` for keys or values that are contiguous in no direction, and for
    bf16x3 products that are not finite."""
    isa, (batch, heads, length, depth), groups = _isa(), q.shape, k.shape[1]
    assert isa is not None
    how = isa, precision, rounding
    rows = q.reshape(batch, groups, heads // groups * length, depth)
    scores = skinny.rows_times(rows, k.swapaxes(-1, -2), *how)
    scores *= scores.dtype.type(scale)
    if mask is not None:
        of_heads = scores.reshape(batch, heads, length, -1)
        of_heads += mask
    weights, total, largest = exponentials(scores)
    out = skinny.rows_times(weights.astype(q.dtype, copy=False), v, *how)
    out /= total
    largest, total = (each.reshape(q.shape[:3]) for each in (largest, total))
    return Attended.of(out.reshape(*q.shape[:3], v.shape[3]), largest, total, q.dtype)
