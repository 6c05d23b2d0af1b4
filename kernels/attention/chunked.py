"""Attention over chunks of the keys, with memory that does not grow with their number.

The online softmax of M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018), as in M. Rabe
and C. Staats, "Self-attention does not need O(n^2) memory" (2021). Scores, weights and sums are of float32 (float64 for
float64); half operands are widened, and the result is rounded once. A mask is read through its strides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..arrays.elementwise import each
from ..arrays.rows import exponentials
from ..gemm import matmul
from ..registry import without_observers
from ..runtime.context import restore_on_failure
from ..runtime.workspace import empty
from .plain import Attended, causal_mask

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
        each(np.multiply, found, self.scale, out=found)
        if self.mask is not None:
            found += self.mask[..., rows, columns]
        if self.causal and columns.stop > rows.start:
            height, width = found.shape[-2:]
            np.copyto(found, -np.inf, where=causal_mask(height, width, rows.start, columns.start))
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
    wholes = [array.reshape(batch, groups, heads // groups, *array.shape[2:]) for array in (q, *others)]
    at_once = max(1, _BYTES // (heads * ROWS * COLUMNS * wide.itemsize))
    for start in range(0, batch, at_once):
        part = slice(start, start + at_once)
        own_q, *own = [array[part] for array in wholes]
        keys, values = (array[part, :, None].astype(wide, copy=False) for array in (k, v))
        own_mask = None if mask is None else mask[part]
        yield (
            _Problem(
                own_q.astype(wide, copy=False), keys, values, own_mask, keywords["scale"],
                keywords.get("causal", False), lambda a, b: matmul(a, b, **options),
            ),
            own,
        )  # fmt: skip


@restore_on_failure
def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, **keywords: Any) -> Attended:
    """The result and the statistics."""
    out = empty((*q.shape[:3], v.shape[3]), q.dtype)
    largest, total = np.empty((2, *q.shape[:3]), np.float64 if q.dtype == np.float64 else np.float32)
    with without_observers(), np.errstate(invalid="ignore", over="ignore"):
        for problem, (own_out, *own) in _problems(q, k, v, mask, (out, largest, total), keywords):
            for rows in problem.rows():
                seen = _rows(problem, rows)
                own_out[..., rows, :] = seen.sums / seen.total
                for array, found in zip(own, (seen.largest, seen.total), strict=True):
                    array[..., rows] = found[..., 0]
    return Attended.of(out, largest, total, q.dtype)


class _Seen(NamedTuple):
    """What rows have seen: the values times exp(score - largest), summed; the sums of these weights, 1 where there are
    none; and the largest scores, inf there."""

    sums: np.ndarray
    total: np.ndarray
    largest: np.ndarray


def _rows(problem: _Problem, rows: slice) -> _Seen:
    found = None
    for columns in problem.columns(rows):
        weights, total, largest = exponentials(problem.scores(rows, columns))
        part = _Seen(problem.times(weights, problem.v[..., columns, :]), total, largest[..., None])
        found = part if found is None else _merge(found, part)
    if found is None:  # without keys
        shape = (*problem.q.shape[:-2], rows.stop - rows.start)
        nothing, ones = np.zeros((*shape, problem.v.shape[-1]), problem.q.dtype), np.ones((*shape, 1), problem.q.dtype)
        return _Seen(nothing, ones, np.inf * ones)
    return found


def _merge(*parts: _Seen) -> _Seen:
    """What the rows have seen of some keys and of others."""
    seen = [np.where(np.isposinf(part.largest), -np.inf, part.largest) for part in parts]
    largest = np.maximum(*seen)
    shift = np.where(np.isneginf(largest), 0, largest)
    shares = [np.exp(one - shift) for one in seen]
    total = sum(share * part.total for share, part in zip(shares, parts, strict=True))
    sums = sum(share * part.sums for share, part in zip(shares, parts, strict=True))
    nothing = np.isneginf(largest)
    return _Seen(sums, np.where(nothing, 1, total), np.where(nothing, np.inf, largest))


@restore_on_failure
def attention_gradient(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, out: np.ndarray, statistics: np.ndarray, g: np.ndarray,
    mask: np.ndarray | None = None, **keywords: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The gradients with respect to q, k and v; weights are made again from the scores and the statistics.

    With P the weights, dv = P.T g, dP = g v.T, dS = P * (dP - rowsum(g * out)), dq = scale * dS k, dk = scale * dS.T q
    (T. Dao et al., "FlashAttention", 2022, appendix B).
    """
    wide = np.float32 if q.dtype.itemsize == 2 else q.dtype
    grads = [np.zeros(array.shape, wide) for array in (q, k, v)]
    start = 0
    with without_observers(), np.errstate(invalid="ignore", over="ignore"):
        wholes = out, *statistics, g, grads[0]
        for problem, (own_out, *own, own_g, own_dq) in _problems(q, k, v, mask, wholes, keywords):
            part = slice(start, start := start + problem.q.shape[0])
            own_dk, own_dv = (grad[part] for grad in grads[1:])
            for rows in problem.rows():
                gradient = own_g[..., rows, :].astype(wide, copy=False)
                means = (gradient * own_out[..., rows, :]).sum(-1, keepdims=True, dtype=wide)
                largest, total = (np.ascontiguousarray(one[..., rows, None]) for one in own)
                for columns in problem.columns(rows):
                    scores = problem.scores(rows, columns)
                    weights = each(np.exp, each(np.subtract, scores, largest, out=scores), out=scores)
                    each(np.divide, weights, total, out=weights)
                    transposed = np.swapaxes(weights, -1, -2)
                    own_dv[:, :, columns] += problem.times(transposed, gradient).sum(2)
                    slopes = problem.times(gradient, np.swapaxes(problem.v[..., columns, :], -1, -2))
                    for ufunc, operand in ((np.subtract, means), (np.multiply, weights), (np.multiply, problem.scale)):
                        each(ufunc, slopes, operand, out=slopes)
                    own_dq[..., rows, :] += problem.times(slopes, problem.k[..., columns, :])
                    own_dk[:, :, columns] += problem.times(np.swapaxes(slopes, -1, -2), problem.q[..., rows, :]).sum(2)
    dq, dk, dv = (grad.astype(q.dtype, copy=False) for grad in grads)
    return dq, dk, dv
