"""Attention over chunks of the keys, with memory that does not grow with their number.

The online softmax of M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018), as in M. Rabe
and C. Staats, "Self-attention does not need O(n^2) memory" (2021). Scores, weights and sums are of float32 (float64 for
float64); half operands are widened, and the result is rounded once. A mask is read through its strides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..gemm import matmul
from ..registry import unobserved
from .plain import Attended, hidden

__all__ = ["attention", "attention_gradient"]

ROWS, COLUMNS = 256, 512
"""Scores of one head that are there at once: 512 KiB, a quarter of an L2 cache."""

_BYTES = 1 << 25
"""Scores of all heads that are there at once; more heads are done after one another."""


class _Problem(NamedTuple):
    """The operands with leading dimensions (batch, groups, heads of a group), and how to multiply."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    mask: np.ndarray | None
    scale: float
    causal: bool
    times: Callable[..., np.ndarray]

    def scores(self, rows: slice, columns: slice) -> np.ndarray:
        """The scores of some rows and columns, those that are hidden -inf."""
        found = self.times(self.q[..., rows, :], np.swapaxes(self.k[..., columns, :], -1, -2))
        found *= found.dtype.type(self.scale)
        if self.mask is not None:
            found += self.mask[..., rows, columns]
        if self.causal and columns.stop > rows.start:
            found[..., hidden(found.shape[-2], found.shape[-1], rows.start, columns.start)] = -np.inf
        return found

    def rows(self) -> Iterator[slice]:
        """Blocks of rows."""
        length = self.q.shape[-2]
        return (slice(start, min(start + ROWS, length)) for start in range(0, length, ROWS))

    def columns(self, rows: slice) -> Iterator[slice]:
        """Chunks of the keys that these rows see."""
        seen = min(self.k.shape[-2], rows.stop) if self.causal else self.k.shape[-2]
        return (slice(start, min(start + COLUMNS, seen)) for start in range(0, seen, COLUMNS))


def _problems(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, others: tuple, keywords: dict[str, Any]
) -> Iterator[tuple[_Problem, list[np.ndarray]]]:
    """The call, in parts of the batch whose scores take `_BYTES` at most; and the same parts of other arrays shaped as
    q is in all but the last dimensions."""
    wide = np.dtype(np.float32) if q.dtype.itemsize == 2 else q.dtype
    precision, options = keywords.get("precision", "ieee"), {}
    if q.dtype == np.float32 and precision != "ieee":
        options = {"precision": precision, "rounding": keywords.get("rounding", "rna")}
    batch, heads, length, _ = q.shape
    groups, seen = k.shape[1:3]
    if mask is not None:
        mask = np.broadcast_to(mask, (batch, heads, length, seen)).reshape(batch, groups, -1, length, seen)
    wholes = [each.reshape(batch, groups, heads // groups, *each.shape[2:]) for each in (q, *others)]
    at_once = max(1, _BYTES // (heads * ROWS * COLUMNS * wide.itemsize))
    for start in range(0, batch, at_once):
        part = slice(start, start + at_once)
        own_q, *own = [each[part] for each in wholes]
        keys, values = (each[part, :, None].astype(wide, copy=False) for each in (k, v))
        own_mask = None if mask is None else mask[part]
        yield (
            _Problem(
                own_q.astype(wide, copy=False), keys, values, own_mask, keywords["scale"],
                keywords.get("causal", False), lambda a, b: matmul(a, b, **options),
            ),
            own,
        )  # fmt: skip


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, **keywords: Any) -> Attended:
    """The result and the log-sum-exps."""
    out = np.empty((*q.shape[:3], v.shape[3]), q.dtype)
    lse = np.empty(q.shape[:3], np.float64 if q.dtype == np.float64 else np.float32)
    with unobserved(), np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for problem, (own_out, own_lse) in _problems(q, k, v, mask, (out, lse), keywords):
            for rows in problem.rows():
                own_out[..., rows, :], own_lse[..., rows] = _rows(problem, rows)
    return Attended(out, lse)


def _rows(problem: _Problem, rows: slice) -> tuple[np.ndarray, np.ndarray]:
    """The result and the log-sum-exps of some rows."""
    kind = problem.q.dtype.type
    shape = (*problem.q.shape[:-2], rows.stop - rows.start, 1)
    largest, total = np.full(shape, -np.inf, kind), np.zeros(shape, kind)
    sums = np.zeros((*shape[:-1], problem.v.shape[-1]), kind)
    for columns in problem.columns(rows):
        scores = problem.scores(rows, columns)
        above = np.maximum(largest, scores.max(-1, keepdims=True))
        shift = np.where(np.isneginf(above), kind(0), above)  # where nothing has been seen yet
        weights = np.exp(np.subtract(scores, shift, out=scores), out=scores)
        shrink = np.exp(largest - shift)
        total = total * shrink + weights.sum(-1, keepdims=True)
        sums *= shrink
        sums += problem.times(weights, problem.v[..., columns, :])
        largest = above
    sums /= np.where(total == 0, kind(1), total)
    return sums, np.where(total == 0, kind(np.inf), np.log(total) + largest)[..., 0]


def attention_gradient(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    out: np.ndarray,
    lse: np.ndarray,
    g: np.ndarray,
    mask: np.ndarray | None = None,
    **keywords: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients with respect to q, k and v; weights are made again from the scores and the log-sum-exps.

    With P the weights, dv = P.T g, dP = g v.T, dS = P * (dP - rowsum(g * out)), dq = scale * dS k, dk = scale * dS.T q
    (T. Dao et al., "FlashAttention", 2022, appendix B).
    """
    wide = np.float32 if q.dtype.itemsize == 2 else q.dtype
    grads = [np.zeros(each.shape, wide) for each in (q, k, v)]
    start = 0
    with unobserved(), np.errstate(invalid="ignore", over="ignore"):
        for problem, (own_out, own_lse, own_g, own_dq) in _problems(q, k, v, mask, (out, lse, g, grads[0]), keywords):
            part = slice(start, start := start + problem.q.shape[0])
            own_dk, own_dv = (each[part] for each in grads[1:])
            for rows in problem.rows():
                gradient = own_g[..., rows, :].astype(wide, copy=False)
                means = (gradient * own_out[..., rows, :]).sum(-1, keepdims=True, dtype=wide)
                for columns in problem.columns(rows):
                    scores = problem.scores(rows, columns)
                    weights = np.exp(np.subtract(scores, own_lse[..., rows, None], out=scores), out=scores)
                    transposed = np.swapaxes(weights, -1, -2)
                    own_dv[:, :, columns] += problem.times(transposed, gradient).sum(2)
                    slopes = problem.times(gradient, np.swapaxes(problem.v[..., columns, :], -1, -2))
                    slopes -= means
                    slopes *= weights
                    slopes *= slopes.dtype.type(problem.scale)
                    own_dq[..., rows, :] += problem.times(slopes, problem.k[..., columns, :])
                    own_dk[:, :, columns] += problem.times(np.swapaxes(slopes, -1, -2), problem.q[..., rows, :]).sum(2)
    dq, dk, dv = (each.astype(q.dtype, copy=False) for each in grads)
    return dq, dk, dv
