"""Samples and references of `ops/attention/scaled_dot_product.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels.attention import Attended, exact_attention

from ..samples import Sample, between, sample
from ..table import declare


def _samples() -> Iterator[Sample]:
    q, k, v = (between(-1, 1, 1, 2, 3, 4, seed=seed) for seed in range(3))
    yield sample(q, k, v)
    yield sample(q, k, v, is_causal=True)
    yield sample(q, k, v, between(-1, 1, 3, 3, seed=3), scale=0.3)
    yield sample(q[0], k[0], v[0])
    yield sample(q[0, 0], k[0, 0, :2], v[0, 0, :2, :3])
    yield sample(
        q.transpose(0, 1, 3, 2), k.transpose(0, 1, 3, 2)[:, :1], v.transpose(0, 1, 3, 2)[:, :1], enable_gqa=True
    )
    yield sample(q[0], np.stack([k, v])[:, 0, :1], v[0, :1], enable_gqa=True)
    yield sample(q[:, :, :0], k, v)


def _reference(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    attn_mask: np.ndarray | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> np.ndarray:
    if enable_gqa:
        key, value = (np.repeat(each, query.shape[-3] // each.shape[-3], -3) for each in (key, value))
    scores = query @ np.swapaxes(key, -1, -2) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if attn_mask is not None:
        scores = scores + attn_mask
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e300))
    return weights / weights.sum(-1, keepdims=True) @ value


declare("scaled_dot_product_attention", _reference, _samples)


def _attend_samples() -> Iterator[Sample]:
    q, k, v = (between(-1, 1, 1, 2, 3, 4, seed=seed) for seed in range(3))
    yield sample(q, k, v)
    yield sample(q, k, v, None, True, 0.7)
    yield sample(q, k, v, between(-1, 1, 3, 3, seed=3))
    yield sample(q[0, 0], k[0, 0, :2], v[0, 0, :2, :3])
    yield sample(q.reshape(1, 1, 6, 4)[:, :, :4].reshape(1, 2, 2, 4), k[:, :1], v[:, :1], None, False, None, True)
    yield sample(q[:, :, :0], k, v)


def _attend_reference(query: Any, key: Any, value: Any, mask: Any = None, *options: Any) -> Attended:
    causal, scale, _ = (*options, *(False, None, False)[len(options) :])
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return exact_attention(query, key, value, *([] if mask is None else [mask]), causal=causal, scale=factor)


declare("attend", _attend_reference, _attend_samples)
