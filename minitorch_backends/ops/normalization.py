"""Normalisation: batch, layer, group, instance and rms norm, which rest on one op, `standardize`; and by norms."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd.half_types import widen
from ..autograd.modes import no_grad
from ..dispatch.op import Array, composite, op
from ..kernels.arrays import rows, sums
from ..kernels.arrays.rows import Standardized, StandardizeGradients
from ..kernels.runtime.context import restore_on_failure
from ..tensor.casting import cast_unchecked
from ..tensor.dtypes import FLOATING, float32, get_default_dtype
from ..tensor.tensor import Tensor, adopt
from .functional import functional
from .gradients import counts
from .views.padding import constant_pad

__all__ = ["standardize"]

# Rows that are standardised, scaled and shifted in one op: what all normalisations but by norms rest on


# With h = g * weight and y = (input - mean) / deviation, the gradient of the input is P(h) = (h - mean(h) - y * mean(h
# * y)) / deviation. Fixed statistics drop terms of P.


def _standard(input: Any, mean: Any, deviation: Any, statistics: str) -> Any:
    y = input - mean if statistics == "moments" else input
    return y / deviation if statistics != "nothing" else y


def _backward_gradients(
    g: Any,
    grad_output: Tensor,
    input: Tensor,
    mean: Tensor,
    deviation: Tensor,
    weight: Tensor,
    dim: tuple[int, ...],
    statistics: str,
) -> tuple[Tensor | None, ...]:
    """Of <for_input, P(h)> + <for_weight, sum(grad_output * y)> + <for_bias, sum(grad_output)>, where P is its
    own adjoint."""
    for_input, for_weight, for_bias = g
    h, y, one = grad_output * weight, _standard(input, mean, deviation, statistics), adopt(np.ones_like(weight._array))
    projected = standardize_backward(for_input, input, mean, deviation, one, dim, statistics).input
    of_grad_output, of_weight = projected * weight + y * for_weight + for_bias, grad_output * projected
    of_mean = of_deviation = None
    of_input = grad_output * for_weight  # so far, that of y
    if statistics != "nothing":
        slope, other = (h * y).mean(dim, keepdim=True), (for_input * y).mean(dim, keepdim=True)
        of_input = (of_input - (for_input * slope + h * other) / deviation) / deviation
        of_deviation = -(projected * h / deviation + of_input * y)
    if statistics == "moments":
        of_mean = -of_input
    return of_grad_output, of_input, of_mean, of_deviation, of_weight


@op(
    takes="f",
    traits="function unwidened wide_rules",
    gradients=_backward_gradients,
    batch="loop: statistics of one sample",
)
def standardize_backward(
    grad_output: Array,
    input: Array,
    mean: Array,
    deviation: Array,
    weight: Array,
    dim: tuple[int, ...],
    statistics: str,
) -> StandardizeGradients:
    """The gradients of `standardize` from its input, its mean (whose rounding is corrected) and its deviation."""
    return rows.standardize_gradient(grad_output, input, mean, deviation, weight, dim=dim, statistics=statistics)


def _standardize_gradients(
    g: Any, input: Tensor, weight: Tensor, mean: Tensor, deviation: Tensor, dim: tuple[int, ...],
    statistics: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Three gradients: of the output; of the mean, divided by the number of elements; and of the deviation, times the
    standardised input divided by the deviation."""
    for_output, for_mean, for_deviation = g
    of_input, of_weight, of_bias = standardize_backward(for_output, input, mean, deviation, weight, dim, statistics)
    share = 1 / max(math.prod(input.shape[each] for each in dim), 1)
    if statistics == "moments" and counts(for_mean):
        of_input = of_input + for_mean * share
    if statistics != "nothing" and counts(for_deviation):
        of_input = of_input + _standard(input, mean, deviation, statistics) * (for_deviation * share)
    return of_input, of_weight, of_bias


@op(takes="f", traits="function unwidened", gradients=_standardize_gradients, batch="transform dim")
def standardize(
    input: Array, weight: Array, bias: Array, dim: tuple[int, ...], eps: float, statistics: str = "moments"
) -> Standardized:
    """(input - mean) / deviation * weight + bias over the dimensions `dim`; see `kernels.arrays.rows.standardize`."""
    return rows.standardize(input, weight, bias, dim=dim, eps=eps, statistics=statistics)


# One op standardises, scales and shifts

_FLOAT32 = np.dtype(np.float32)

_FAR = 16.0
"""Running means from so many deviations on are subtracted before the input is scaled."""


def _affine(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, like: tuple[int, ...], dim: tuple[int, ...], eps: float,
    statistics: str = "moments",
) -> Standardized:  # fmt: skip
    """`standardize`, with ones and zeros of the shape `like` for weights and biases that are not given."""
    x = input._array
    dtype = _FLOAT32 if x.dtype.itemsize == 2 else x.dtype
    weight = adopt(_constant(1, like, dtype)) if weight is None else _reshape_weight(weight, like, input)
    bias = adopt(_constant(0, like, dtype)) if bias is None else _reshape_weight(bias, like, input)
    return standardize(input, weight, bias, dim, eps, statistics)


@functools.lru_cache(64)
def _constant(value: float, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Read-only default for an omitted weight (ones) or bias (zeros)."""
    made = np.full(shape, value, dtype)
    made.setflags(write=False)
    return made


def _reshape_weight(tensor: Tensor, shape: tuple[int, ...], input: Tensor) -> Tensor:
    """A weight or bias in a shape, and in the dtype of the input if it holds integers."""
    tensor = tensor.to(input.dtype) if tensor._array.dtype.kind in "biu" else tensor
    return tensor if tensor._array.shape == shape else tensor.reshape(shape)


# Over the last dimensions


def _shape_of(normalized_shape: int | Sequence[int], input: Tensor, name: str) -> tuple[int, ...]:
    shape = (int(normalized_shape),) if isinstance(normalized_shape, (int, np.integer)) else tuple(normalized_shape)
    if not shape:
        raise RuntimeError(f"{name}: expected normalized_shape to have at least one size, got {list(shape)}")
    if input._array.shape[-len(shape) :] != shape:
        expected = ", ".join(map(str, ("*", *shape)))
        raise RuntimeError(
            f"{name}: given normalized_shape={list(shape)}, expected input with shape [{expected}], "
            f"but got {list(input.shape)}"
        )
    return shape


def _check(name: str, argument: str, tensor: Tensor | None, shape: tuple[int, ...]) -> None:
    if tensor is not None and tensor._array.shape != shape:
        raise RuntimeError(f"{name}: expected {argument} to be of shape {list(shape)}, but got {list(tensor.shape)}")


@functional
@composite(method=False, takes="f")
def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Standardise over the last dimensions, which are `normalized_shape`, then scale and shift (Ba et al., 2016).

    Raises RuntimeError where `input`, `weight` or `bias` do not have that shape.
    """
    shape = _shape_of(normalized_shape, input, "layer_norm")
    _check("layer_norm", "weight", weight, shape)
    _check("layer_norm", "bias", bias, shape)
    dim = tuple(range(input._array.ndim - len(shape), input._array.ndim))
    contiguous = input if input._array.flags.c_contiguous else input.contiguous()
    return _affine(contiguous, weight, bias, shape, dim, eps).output


@functional
@composite(method=False, takes="fc")
def rms_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide by the root of the mean square over the last dimensions, then scale (Zhang and Sennrich, 2019).

    `eps` is added to the mean square; by default the machine epsilon of the dtype computed in (float32 for half types).
    """
    shape = _shape_of(normalized_shape, input, "rms_norm")
    _check("rms_norm", "weight", weight, shape)
    dtype, dim = input._array.dtype, tuple(range(input.ndim - len(shape), input.ndim))
    eps = float(np.finfo(np.float32 if dtype.itemsize == 2 else dtype).eps) if eps is None else eps
    if dtype.kind != "c":
        return _affine(input, weight, None, shape, dim, eps, "square").output
    output = input * ((input * input).mean(dim, keepdim=True) + eps).rsqrt()
    return output if weight is None else output * weight


# Over channels, dimension 1


def _check_channels(name: str, input: Tensor, **given: Tensor | None) -> None:
    """Raise RuntimeError unless each has one value for each channel."""
    channels = (input._array.shape[1],)
    for argument, tensor in given.items():
        _check(name, argument, tensor, channels)


@restore_on_failure
def _track(
    running_mean: Tensor | None, running_var: Tensor | None, input: Tensor, dim: tuple[int, ...], mean: np.ndarray,
    deviation: np.ndarray, eps: float, size: int, momentum: float,
) -> None:  # fmt: skip
    """Move running statistics towards those of an input, averaged over the batch: mean and unbiased variance. Those of
    no values leave them."""
    if size == 0:
        return
    var = np.square(deviation, dtype=np.float64)
    var -= eps
    if var.size and var.min() < eps:  # the rounded deviation would lose digits
        about = np.asarray(sums.sum(input._array, dim, True, mean=True, wide=True))
        var = sums.sum_of_squares(input._array, dim, True, about=about, wide=True).reshape(var.shape) / size
    var *= size / max(size - 1, 1)
    with no_grad():
        for running, now in ((running_mean, mean), (running_var, var)):
            if running is not None and now.size:
                before, number = running._array, now.dtype.type
                average = now if now.size == before.size else np.asarray(sums.sum(now, 0, mean=True))
                moved = average.reshape(before.shape) * number(momentum)
                moved += before * number(1 - momentum)
                running.copy_(adopt(moved if moved.dtype is before.dtype else cast_unchecked(moved, before.dtype)))


def _refuse_half_of_statistics(name: str, mean: Tensor | None, var: Tensor | None, training: bool) -> None:
    """Raise ValueError where one of the running statistics is missing, RuntimeError where they are needed."""
    missing = "running_mean" if mean is None else "running_var"
    if not training and (mean is None or var is None):
        raise RuntimeError(f"{name}(): {missing} must be a Tensor unless the input's statistics are used, got None")
    if (mean is None) != (var is None):
        raise ValueError(f"{name}(): running_mean and running_var must both be given or both be None, got no {missing}")


@functional
@composite(method=False, takes="f", stateful=True)
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Standardise each channel (dimension 1) over the batch, then scale and shift (Ioffe and Szegedy, 2015).

    In training the input's statistics are used. They update the running ones with the weight `momentum`, in place and
    unrecorded (the variance unbiased). Otherwise the running statistics are used. Raises RuntimeError if these are
    missing or of another shape. Raises ValueError for one value per channel in training, and for an `eps` that is
    negative or, in training, 0.
    """
    _refuse_half_of_statistics("batch_norm", running_mean, running_var, training)
    if eps < 0 or (training and eps == 0):
        raise ValueError(f"batch_norm: eps must not be negative, nor 0 in training, got {eps}")
    if input._array.shape == (0,):
        return input.clone()
    if input.ndim < 2:
        raise RuntimeError(
            f"batch_norm: expected an input of at least 2 dimensions, (batch, channels, ...), got {list(input.shape)}"
        )
    _check_channels("batch_norm", input, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
    like, dim = (input.shape[1],) + (1,) * (input.ndim - 2), (0, *range(2, input.ndim))
    if not training:
        scale, shift = (widen(running_var) + eps).rsqrt(), widen(running_mean)
        if np.any(np.abs(shift._array) * scale._array > _FAR):  # -shift * scale would round away digits of the result
            apart = (widen(input) - shift.reshape(like)) * scale.reshape(like)
            return _affine(apart, weight, bias, like, dim, 0.0, "nothing").output.to(input.dtype)
        scale = scale if weight is None else scale * widen(weight)
        shift = -shift * scale if bias is None else widen(bias) - shift * scale
        return _affine(input, scale, shift, like, dim, 0.0, "nothing").output
    size = input.numel() // max(input.shape[1], 1)
    if size == 1:
        raise ValueError(
            "batch_norm: expected more than 1 value per channel when training, "
            f"got an input of size {list(input.shape)}"
        )
    output, mean, deviation = _affine(input, weight, bias, like, dim, eps)
    _track(running_mean, running_var, input, dim, mean._array, deviation._array, eps, size, momentum)
    return output


@functional
@composite(method=False, takes="f")
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Standardise each sample's `num_groups` groups of channels, then scale and shift by channel (Wu and He, 2018).
    Raises RuntimeError for fewer than two dimensions and for groups that do not divide the channels, ValueError for one
    value a channel."""
    if input.ndim < 2:
        raise RuntimeError(
            f"group_norm: expected an input of at least 2 dimensions, (batch, channels, ...), got {list(input.shape)}"
        )
    if num_groups < 1 or input.shape[1] % num_groups:
        raise RuntimeError(
            f"group_norm: expected the number of channels, {input.shape[1]}, to be divisible by num_groups={num_groups}"
        )
    if input._array.size == num_groups:  # one sample, and one value in each group: nothing but zeros would be left
        raise ValueError(
            "group_norm: expected more than 1 value per channel when training, "
            f"got an input of size {list(input.shape)} in {num_groups} groups"
        )
    _check_channels("group_norm", input, weight=weight, bias=bias)
    channels = input.shape[1] // num_groups
    groups = input.reshape(input.shape[0], num_groups, channels, math.prod(input.shape[2:]))
    return _affine(groups, weight, bias, (num_groups, channels, 1), (2, 3), eps).output.reshape(input.shape)


@functional
@composite(method=False, takes="f", stateful=True)
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Standardise each sample's channels over their positions, then scale and shift (Ulyanov et al., 2016).

    Running statistics that are given follow the means over the batch, or, with `use_input_stats=False`, are used.
    Raises ValueError for one spatial element while statistics are taken from it.
    """
    _refuse_half_of_statistics("instance_norm", running_mean, running_var, use_input_stats)
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    size = math.prod(input.shape[2:])
    if input.ndim < 3 or size == 1:
        raise ValueError(
            "instance_norm: expected more than 1 spatial element when training, "
            f"got an input of size {list(input.shape)}"
        )
    _check_channels(
        "instance_norm", input, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var
    )
    like, dim = (input.shape[1],) + (1,) * (input.ndim - 2), tuple(range(2, input.ndim))
    output, mean, deviation = _affine(input, weight, bias, like, dim, eps)
    _track(running_mean, running_var, input, dim, mean._array, deviation._array, eps, size, momentum)
    return output


# By a norm


@functional
@composite(widen=True, takes="fc", method=False)
def normalize(input: Tensor, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12) -> Tensor:
    """`input` divided by its p-norm over `dim`, or by `eps` where that is larger."""
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


def _sums_along_channels(x: Tensor, size: int, count: int) -> Tensor:
    """The sums of `size` neighbouring channels, from each of the first `count` on: of blocks of 1, 2, 4, ... channels,
    one for each bit of the size, so that rounding errors grow with its logarithm."""
    total, block, length, done = None, x, 1, 0
    while True:
        if size & length:
            part = block.narrow(1, done, count)
            total, done = part if total is None else total + part, done + length
        if total is not None and done == size:
            return total
        blocks = block.shape[1] - length
        block, length = block.narrow(1, 0, blocks) + block.narrow(1, length, blocks), 2 * length


@functional
@composite(method=False, takes="ifc")
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """input / (k + alpha * m)**beta, with m the mean of squares of `size` neighbouring channels.

    Channels beyond the first and last count as 0 (A. Krizhevsky, I. Sutskever and G. Hinton, "ImageNet classification
    with deep convolutional neural networks", 2012).

    input: (N, C, ...), of three dimensions or more. Raises ValueError for fewer, and for a size below 1.
    """
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if size < 1:
        raise ValueError(f"local_response_norm: expected a size of at least 1, got {size}")
    if not input.numel():
        return input
    x = widen(input) if input.dtype.category >= FLOATING else input.to(get_default_dtype())
    channels = x.shape[1]
    reach = min(size, 2 * channels + 1)  # windows over the channels
    wide = x.double() if x.dtype is float32 else x  # which holds squares of all numbers
    squares = constant_pad(wide * wide, ((0, 0), (reach // 2, (reach - 1) // 2), *((0, 0),) * (x.ndim - 2)))
    total = _sums_along_channels(squares, reach, channels)
    result = wide / (total * (alpha / size) + k) ** beta
    return result.to(input.dtype if input.dtype.category >= FLOATING else x.dtype)
