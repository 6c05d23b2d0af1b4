"""Attention as it is written: all scores at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..gemm import matmul
from ..rows import exponentials

__all__ = ["Attended", "attention", "grouped", "hidden"]


class Attended(NamedTuple):
    """out: (..., L, Ev). lse: (..., L), of float32 (float64 for float64); +inf for a row that sees nothing."""

    out: np.ndarray
    lse: np.ndarray


def grouped(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """With the heads that share keys in a dimension of their own, where there are such."""
    heads, groups = (each.shape[-3] if each.ndim > 2 else 1 for each in (q, k))
    if heads == groups or groups == 1:
        return q, k, v
    shape = (*q.shape[:-3], groups, heads // groups, *q.shape[-2:])
    return q.reshape(shape), np.expand_dims(k, -3), np.expand_dims(v, -3)


def hidden(rows: int, columns: int, first_row: int = 0, first_column: int = 0) -> np.ndarray:
    """Where a causal row must not look: (rows, columns), true above the diagonal."""
    return np.arange(first_row, first_row + rows)[:, None] < np.arange(first_column, first_column + columns)


def attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None = None,
    *,
    scale: float,
    causal: bool = False,
    precision: str = "ieee",
    rounding: str = "rna",
    halves: bool = False,
    **_: Any,
) -> Attended:
    """The result and the log-sum-exps. Both factors of the scores take the root of the scale, as in PyTorch, so that
    the products of large half values do not overflow."""
    dtype, wide = q.dtype, np.float32 if q.dtype.itemsize == 2 else q.dtype
    options = {} if dtype != np.float32 or precision == "ieee" else {"precision": precision, "rounding": rounding}
    if not halves:
        q, k, v = (each.astype(wide, copy=False) for each in (q, k, v))
    leading = q.shape[:-2]
    q, k, v = grouped(q, k, v)
    root = q.dtype.type(np.sqrt(abs(scale)))
    scores = matmul(q * (root if scale >= 0 else -root), np.swapaxes(k, -1, -2) * root, **options)
    scores = scores.astype(wide, copy=False)
    scores = scores.reshape(*leading, *scores.shape[-2:])
    if mask is not None:
        scores = scores + mask.astype(wide, copy=False)
    if causal:
        scores[..., hidden(*scores.shape[-2:])] = -np.inf
    weights, total, lse = exponentials(scores)
    weights /= total
    weights = weights.astype(q.dtype, copy=False).reshape(*q.shape[:-1], k.shape[-2])
    out = matmul(weights, v, **options)
    return Attended(out.reshape(*leading, *out.shape[-2:]).astype(dtype, copy=False), lse.astype(wide, copy=False))
