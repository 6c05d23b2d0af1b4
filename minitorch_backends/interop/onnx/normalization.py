"""Normalization, and what makes shares of a sum out of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import linalg
from ...nn import functional as F
from ...ops import names as ops
from ...ops.dims import wrap_dim
from ...tensor.tensor import Tensor
from .table import Statistics, operator

# One axis


def _flatten_axes(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function over all axes from `axis` on at once, which holds before opset 13."""

    def over_rows(x: Tensor, *, axis: int = 1) -> Tensor:
        axis = axis + x.ndim if axis < 0 else axis
        rows = ops.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
        return ops.reshape(function(rows, axis=-1), tuple(x.shape))

    return over_rows


@operator("Softmax", since=13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return F.softmax(x, axis)


@operator("LogSoftmax", since=13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return F.log_softmax(x, axis)


@operator("Hardmax", since=13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """1 at the first of the largest values, and 0 elsewhere."""
    places = ops.argmax(x, axis, keepdim=True)
    return ops.scatter(ops.zeros_like(x), axis, places, 1.0)


for _name, _function in {"Softmax": softmax, "LogSoftmax": log_softmax, "Hardmax": hardmax}.items():
    operator(_name)(_flatten_axes(_function))


@operator("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """x over its p-norm along an axis; zeros where that is zero."""
    wide = x.float() if x.dtype.itemsize == 2 else x  # a half type does not hold the sum of its squares
    length = linalg.vector_norm(wide, p, axis, True)
    return ops.where(length == 0, ops.zeros_like(wide), wide / length).to(x.dtype)


# Channels and several axes


@operator("BatchNormalization")
def batch_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Statistics, variance: Statistics, *, epsilon: float = 1e-5,
    momentum: float = 0.9, training_mode: int = 0, spatial: int = 1, outputs: int = 1,
) -> Any:  # fmt: skip
    """Each channel by its statistics. With `training_mode` by those of the batch; the next running ones are outputs."""
    if not training_mode:
        return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)
    axes = [0, *range(2, x.ndim)]
    found = F.batch_norm(x, None, None, scale, bias, True, 0.0, epsilon)
    of_batch = ops.mean(x, axes), ops.var(x, axes, correction=0)
    running = (old * momentum + new * (1 - momentum) for old, new in zip((mean, variance), of_batch, strict=True))
    return (found, *running)[:outputs]


@operator("InstanceNormalization")
def instance_normalization(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


@operator("LayerNormalization")
def layer_normalization(
    x: Tensor, scale: Tensor, bias: Tensor | None = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
    outputs: int = 1,
) -> Any:  # fmt: skip
    """Over the axes from `axis` on; further outputs are the mean and the inverse of the standard deviation."""
    axes = list(range(wrap_dim(axis, x.ndim), x.ndim))
    shape = tuple(x.shape[axes[0] :])
    if tuple(scale.shape) == shape and (bias is None or tuple(bias.shape) == shape):
        found = F.layer_norm(x, shape, scale, bias, epsilon)
    else:
        found = F.layer_norm(x, shape, None, None, epsilon) * scale
        found = found if bias is None else found + bias
    if outputs == 1:
        return found
    inverse = ops.rsqrt(ops.var(x, axes, correction=0, keepdim=True) + epsilon)
    return found, ops.mean(x, axes, keepdim=True), inverse


@operator("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    return F.rms_norm(x, tuple(x.shape[wrap_dim(axis, x.ndim) :]), None, epsilon) * scale


@operator("GroupNormalization", since=21)
def group_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@operator("GroupNormalization")
def group_normalization_18(x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5) -> Tensor:
    """With a scale and a bias for each group, as before opset 21."""
    size = x.shape[1] // num_groups
    return F.group_norm(x, num_groups, scale.repeat_interleave(size), bias.repeat_interleave(size), epsilon)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, *, axes: list[int] | None = None) -> Tensor:
    axes = axes or [0, 2, 3]
    centered = x - ops.mean(x, axes, keepdim=True)
    return centered / (ops.sqrt(ops.mean(centered * centered, axes, keepdim=True)) + 1e-9)


@operator("LRN")
def local_response_normalization(
    x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """x over (bias + alpha * the mean of the squares of `size` neighbouring channels) ** beta."""
    before = (size - 1) // 2
    squares = F.pad(x * x, [0, 0] * (x.ndim - 2) + [before, size - 1 - before])
    total: Any = sum(squares.narrow(1, shift, x.shape[1]) for shift in range(size))
    return x / ops.pow(bias + alpha / size * total, beta)
