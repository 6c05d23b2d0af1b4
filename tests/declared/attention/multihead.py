"""Samples and references of `ops/attention/multihead.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, sample
from ..table import declare


def _samples() -> Iterator[Sample]:
    x, weight, bias = between(-1, 1, 3, 2, 4), between(-1, 1, 12, 4, seed=1), between(-1, 1, 12, seed=2)
    out_weight, out_bias = between(-1, 1, 4, 4, seed=3), between(-1, 1, 4, seed=4)
    yield sample(x, x, x, 4, 2, weight, bias, None, None, False, 0.0, out_weight, out_bias)
    yield sample(x, x, x, 4, 1, weight, None, None, None, False, 0.0, out_weight, None, need_weights=False)


def _reference(
    query: Any, key: Any, value: Any, embed: int, heads: int, weight: Any, bias: Any, *others: Any, **named: Any
) -> Any:
    out_weight, out_bias = others[4], others[5]
    parts = np.split(weight, 3)
    shifts = [0, 0, 0] if bias is None else np.split(bias, 3)
    split = [
        (x @ w.T + shift).reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2, 0, 3)
        for x, w, shift in zip((query, key, value), parts, shifts, strict=True)
    ]
    scores = split[0] @ split[1].swapaxes(-1, -2) / math.sqrt(embed // heads)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    out = (weights @ split[2]).transpose(2, 0, 1, 3).reshape(query.shape) @ out_weight.T
    out = out if out_bias is None else out + out_bias
    return (out, weights.mean(1)) if named.get("need_weights", True) else (out, None)


declare("multi_head_attention_forward", _reference, _samples)
