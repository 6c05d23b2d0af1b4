"""Attention as it is written: all scores at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays.rows import exponentials
from ..gemm import matmul
from ..precisions.products import OF_HALF


class Attended(NamedTuple):
    """out: (..., L, Ev). statistics: (2, ..., L), of float32 (float64 for float64): of each row its largest score,
    scaled and masked, and the sum of exp(score - largest); inf and 1 for a row that sees nothing.

    The two apart make the same weights again. Their log-sum-exp, rounded, would change all weights of a row by as much
    as half a unit of the largest score: by 2e-6 for scores of 30 in float32.
    """

    out: np.ndarray
    statistics: np.ndarray

    @classmethod
    def of(cls, out: np.ndarray, largest: np.ndarray, total: np.ndarray, dtype: Any) -> Attended:
        """From what there is of each row, in arrays of (..., L), for operands of `dtype`."""
        wide = np.float32 if np.dtype(dtype).itemsize == 2 else dtype
        return cls(out.astype(dtype, copy=False), np.array([largest, total], wide))

    @property
    def lse(self) -> np.ndarray:
        """The logarithms of the sums of exp(score), (..., L); inf for a row that sees nothing."""
        largest, total = self.statistics
        return largest + np.log(total)


def group_heads(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """With the heads that share keys in a dimension of their own, where there are such."""
    heads, groups = (each.shape[-3] if each.ndim > 2 else 1 for each in (q, k))
    if heads == groups or groups == 1:
        return q, k, v
    shape = (*q.shape[:-3], groups, heads // groups, *q.shape[-2:])
    return q.reshape(shape), np.expand_dims(k, -3), np.expand_dims(v, -3)


def causal_mask(rows: int, columns: int, first_row: int = 0, first_column: int = 0) -> np.ndarray:
    """Where a causal row must not look: (rows, columns), true above the diagonal."""
    return np.arange(first_row, first_row + rows)[:, None] < np.arange(first_column, first_column + columns)


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, *, scale: float, causal: bool = False,
    precision: str = "ieee", rounding: str = "rna", halves: bool = False, unit: Any = None, **_: Any,
) -> Attended:  # fmt: skip
    """The result and the statistics. Both factors of the scores take the root of the scale, as in PyTorch, so that
    the products of large half values do not overflow."""
    dtype, wide = q.dtype, np.float32 if q.dtype.itemsize == 2 else q.dtype
    options: dict[str, Any] = {} if unit is None else {"unit": unit}
    if dtype == np.float32 and precision != "ieee":
        options |= {"precision": precision, "rounding": rounding}
    elif unit is not None and dtype.name in OF_HALF:
        options["precision"] = OF_HALF[dtype.name]
    if not halves:
        q, k, v = (each.astype(wide, copy=False) for each in (q, k, v))
    leading = q.shape[:-2]
    q, k, v = group_heads(q, k, v)
    root = q.dtype.type(np.sqrt(abs(scale)))
    scores = matmul(q * (root if scale >= 0 else -root), np.swapaxes(k, -1, -2) * root, **options)
    scores = scores.astype(wide, copy=False)
    scores = scores.reshape(*leading, *scores.shape[-2:])
    if mask is not None:
        scores = scores + mask.astype(wide, copy=False)
    if causal:
        scores[..., causal_mask(*scores.shape[-2:])] = -np.inf
    weights, total, largest = exponentials(scores)
    weights /= total
    weights = weights.astype(q.dtype, copy=False).reshape(*q.shape[:-1], k.shape[-2])
    out = matmul(weights, v, **options)
    return Attended.of(out.reshape(*leading, *out.shape[-2:]), largest, total[..., 0], dtype)
