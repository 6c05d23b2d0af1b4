"""Attention composed of ops: with dropout, and where gradients are differentiated again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backends import precision_policy
from ...backends.operands import Roles, act_on, formats_of, recorded_state
from ...flags import current
from ...tensor.tensor import Tensor, adopt
from ..elementwise.dropout import dropout
from ..gradients import counts
from ..matmul.by_role import round_along, to_dtype
from ..matmul.matmul import matmul

BY_ROLE = (Roles("query", "key"), Roles("probability", "value"))
"""The roles of both products, in place of a precision."""


def product_roles(product: int) -> Roles:
    """The roles of the operands of scores (0) or of results (1)."""
    return BY_ROLE[product]._replace(forward=recorded_state())


def apply_roles(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Keys and values in the formats of a cache, and whether queries or probabilities have formats, so that attention
    must be composed of products by role. Gradients pass through the rounding of a cache unchanged."""
    if act_on(("query", "probability")):
        return key, value, True
    dtype, found = query._array.dtype, []
    for roles, cached in zip(BY_ROLE, (key, value), strict=True):
        operands = formats_of(roles, dtype.name)
        if operands is not None and cached._array.dtype == dtype:
            rounded = to_dtype(round_along("attention", cached._array, str(operands.right), -1, operands).values, dtype)
            cached = cached + (adopt(rounded) - cached).detach() if cached.requires_grad else adopt(rounded)
        found.append(cached)
    return found[0], found[1], False


def cache_decisions(dtype: np.dtype) -> list[str]:
    """The flags that gave a cache of keys and values of a dtype its formats."""
    found = [formats_of(roles, dtype.name) for roles in BY_ROLE] if precision_policy.by_role else []
    return [each.decided_by for each in found if each is not None]


def _groups(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple:
    """Give heads that share keys a dimension of their own, if there are any."""
    heads, groups = (each.shape[-3] if each.ndim > 2 else 1 for each in (query, key))
    if heads == groups or groups == 1:
        return query, key, value, mask
    sizes = groups, heads // groups
    if mask is not None and mask.ndim > 2:
        mask = mask.unflatten(-3, sizes) if mask.shape[-3] > 1 else mask.unsqueeze(-3)
    return query.unflatten(-3, sizes), key.unsqueeze(-3), value.unsqueeze(-3), mask


def _weights(query: Tensor, key: Tensor, mask: Tensor | None, scale: float, causal: bool, precision: Any) -> Tensor:
    """softmax(scale * query @ key.mT + mask), with rows of zeros where no key is visible. All have groups."""
    if precision is BY_ROLE:
        scores = matmul(query, key.mT, precision=product_roles(0)) * scale
    else:
        root = math.sqrt(abs(scale))
        scores = matmul(query * math.copysign(root, scale), (key * root).mT, precision=precision)
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = scores.masked_fill(adopt(np.tri(*scores.shape[-2:]) == 0), -math.inf)
    return scores.softmax(-1) if mask is None else masked_softmax(scores)


def masked_softmax(scores: Tensor) -> Tensor:
    """The softmax along the last dimension, with rows of zeros in place of NaN where all scores are -inf."""
    if not scores.shape[-1]:
        return scores
    largest = scores.detach().amax(-1, keepdim=True)
    exponentials = (scores - largest.masked_fill(largest == -math.inf, 0)).exp()
    total = exponentials.sum(-1, keepdim=True)
    return exponentials / total.masked_fill(total == 0, 1)


def _widen(*tensors: Tensor | None) -> list[Any]:
    """Widen half tensors to float32, unless the flag allows half-precision sums."""
    keep = current().read("cuda.fp16_bf16_reduction_math_sdp")
    return [
        each.float() if each is not None and each._array.dtype.itemsize == 2 and not keep else each for each in tensors
    ]


def attention_of_ops(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    causal: bool,
    dropout_p: float,
    precision: Any,
) -> Tensor:
    """Attention composed of differentiable ops; at a precision, or by the roles of operands."""
    dtype, shape = query.dtype, query.shape[:-2]
    query, key, value, mask = _widen(query, key, value, mask)
    query, key, value, mask = _groups(query, key, value, mask)
    weights = dropout(_weights(query, key, mask, scale, causal, precision), dropout_p)
    out = matmul(weights, value, precision=product_roles(1) if precision is BY_ROLE else precision).to(dtype)
    return out if out.ndim == len(shape) + 2 or not shape else out.reshape(*shape, *out.shape[-2:])


def gradients(
    g: Tensor, for_statistics: Tensor, inputs: Sequence[Tensor], scale: float, causal: bool, precision: str | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The gradients of a kernel of attention computed by ops, so that they can be differentiated again.

    `inputs` are query, key, value, and a mask if there is one. The gradients have the batch of the result, which the
    engine reduces.
    """
    query, key, value, mask = inputs if len(inputs) == 4 else (*inputs, None)
    g, query, key, value, mask = _widen(g, query, key, value, mask)
    heads = query.shape
    query, key, value, mask = _groups(query, key, value, mask)
    g = g.reshape(*query.shape[:-1], g.shape[-1])
    weights = _weights(query, key, mask, scale, causal, precision)
    slopes = matmul(g, value.mT, precision=precision)
    slopes = weights * (slopes - (slopes * weights).sum(-1, keepdim=True))
    if counts(for_statistics) and weights.shape[-1]:
        slopes = slopes + _of_statistics(for_statistics.reshape(2, *weights.shape[:-1], 1), weights)
    scaled = slopes * scale
    found = [
        matmul(scaled, key, precision=precision),
        matmul(scaled.mT, query, precision=precision),
        matmul(weights.mT, g, precision=precision),
    ]
    if query.ndim > len(heads):
        found = [found[0].flatten(-4, -3), found[1].sum(-3), found[2].sum(-3)]
        slopes = slopes.flatten(-4, -3)
    return found[0], found[1], found[2], None if mask is None else slopes


def _of_statistics(g: Tensor, weights: Tensor) -> Tensor:
    """The gradient of scores from those of the largest score of a row and of the sum of exp(score - largest), which is
    1 over the largest weight. Rows that see no key have constants."""
    largest = weights.amax(-1, keepdim=True)
    first = adopt((weights._array == largest._array).astype(weights._array.dtype))
    first = first / first.sum(-1, keepdim=True)
    seen = adopt(largest._array > 0)
    total = 1 / largest.masked_fill(~seen, 1)
    return (weights * (g[1] * total) + first * (g[0] - g[1] * total)).masked_fill(~seen, 0)
