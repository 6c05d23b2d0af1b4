"""The losses of classification: negative log likelihood, cross entropy, and that of two classes."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...autograd.half_types import rounding_once
from ...autograd.modes import derives
from ...dispatch.op import Array, composite, op
from ...kernels.arrays.elementwise import each
from ...kernels.arrays.gathering import gather, scatter
from ...kernels.arrays.sums import sum_of_all
from ...tensor.dtypes import int64, uint8
from ...tensor.tensor import Tensor, adopt
from ..dims import integer
from ..elementwise.activations import logsigmoid
from ..functional import functional
from ..indexing.index_parsing import refuse_index_dtype
from ..softmax import log_softmax, log_softmax_forward
from .pointwise import reduce_loss

__all__ = ["binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "nll_loss"]


def _as_lines(array: np.ndarray, shape: tuple[int, ...], parts: int) -> np.ndarray:
    """Scores of this shape, or what there is for each target, as (batch, parts, ...)."""
    return array.reshape(shape[0] if len(shape) > 1 else 1, parts, math.prod(shape[2:]))


def _target_classes(target: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, int]:
    """The target classes for scores of this shape, and the number of classes."""
    classes = shape[min(1, len(shape) - 1)]
    if target.dtype.kind not in "iu" or target.size * classes != math.prod(shape):
        found = f"{target.dtype}{list(target.shape)}"
        raise ValueError(f"targets must be integers, one for each of the scores {list(shape)}, got {found}")
    return _as_lines(target if target.dtype == np.int64 else target.astype(np.int64), shape, 1), classes


def _scores(input: np.ndarray, target: np.ndarray, ignore_index: int, negative: bool = False) -> np.ndarray:
    """Those of the targets' classes, or minus those; 0 where the target is ignored."""
    classes, count = _target_classes(target, input.shape)
    out = gather(_as_lines(input, input.shape, count), classes, skip=ignore_index, negative=negative)
    if out is None:
        raise _no_class(target, count, ignore_index)
    return out.reshape(target.shape)


def _spread(shares: np.ndarray, target: np.ndarray, shape: tuple[int, ...], ignore_index: int) -> np.ndarray:
    """Minus each target's share at its class in zeros of this shape."""
    classes, count = _target_classes(target, shape)
    out = scatter(_as_lines(shares, shape, 1), classes, count, skip=ignore_index, negative=True)
    if out is None:
        raise _no_class(target, count, ignore_index)
    return out.reshape(shape)


def _no_class(target: np.ndarray, count: int, ignore_index: int) -> IndexError:
    """For the first target that is none."""
    if not count:
        return IndexError("expected at least one class, got scores of none")
    wrong = target[((target < 0) | (target >= count)) & (target != ignore_index)].flat[0]
    return IndexError(
        f"Target {wrong} is out of bounds; expected a class from 0 to {count - 1}, or ignore_index={ignore_index}"
    )


@op(
    traits="function",
    takes="if",
    grad_output=lambda g, target, ignore_index: nll_terms(g, target, ignore_index),
    batch="loop: places in one sample",
)
def nll_spread(grad_output: Array, target: Array, shape: tuple[int, ...], ignore_index: int = -100) -> Array:
    """The gradient of `nll_terms`, and its transpose: -grad_output at each target's class in zeros of `shape`."""
    return _spread(grad_output, target, shape, ignore_index)


@op(
    traits="function",
    takes="if",
    input=lambda g, target, ignore_index, input_shape: nll_spread(g, target, input_shape, ignore_index),
    batch="score",
)
def nll_terms(input: Array, target: Array, ignore_index: int = -100) -> Array:
    """Minus the score of each target's class; 0 where the target is `ignore_index`.

    input: (classes), (batch, classes) or (batch, classes, ...); target: integers of that shape without the classes.
    """
    return _scores(input, target, ignore_index, negative=True)


def _count_targets(target: np.ndarray, ignore_index: int) -> int:
    """The number of targets that count."""
    return int(np.count_nonzero(target != ignore_index))


def _mean_gradient(g: Tensor, target: Tensor, input_shape: tuple[int, ...], ignore_index: int) -> Tensor:
    count, array = _count_targets(target._array, ignore_index), g._array
    if array.dtype.itemsize == 2 or derives():
        return nll_spread((g / count).expand(target.shape), target, input_shape, ignore_index)
    shares = np.empty(target._array.shape, array.dtype)
    shares.fill(array / max(count, 1))  # where all targets are ignored, none is used
    return adopt(_spread(shares, target._array, input_shape, ignore_index))


@op(traits="function", takes="if", input=_mean_gradient, batch="mean_score")
def nll_mean(input: Array, target: Array, ignore_index: int = -100) -> Array:
    """The mean of `nll_terms` over the targets that are not ignored; NaN where all are."""
    total = sum_of_all(_scores(input, target, ignore_index))
    return np.asarray(-(total / _count_targets(target, ignore_index)))


def _check(name: str, input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: Any) -> int:
    """The dimension of the classes. Raises errors for shapes that do not go together."""
    if isinstance(ignore_index, Tensor):
        raise TypeError(f"{name}(): argument 'ignore_index' must be int, not Tensor; use ignore_index.item()")
    integer(name, "ignore_index", ignore_index)
    shape = input._array.shape
    if not shape:
        raise ValueError(
            f"{name}: expected an input of 1 dimension, (classes), or more, (batch, classes, ...), got none"
        )
    dim = 0 if len(shape) == 1 else 1
    if weight is not None and weight._array.shape != (shape[dim],):
        raise RuntimeError(
            f"{name}: weight should hold one value for each of the {shape[dim]} classes, "
            f"and its shape is {list(weight.shape)}"
        )
    expected = (*shape[:dim], *shape[dim + 1 :])
    if target._array.shape != expected:
        wrong_batch = dim and (not target.ndim or target.shape[0] != shape[0])
        raise (ValueError if wrong_batch else RuntimeError)(
            f"{name}: expected a target of shape {list(expected)} for an input of shape {list(shape)}, "
            f"got {list(target.shape)}"
        )
    refuse_index_dtype(name, "target", target._array, (int64, uint8))
    return dim


def _per_class(weight: Tensor, like: Tensor) -> Tensor:
    """One value per class in a shape that broadcasts against `like`."""
    return weight.reshape((-1,) + (1,) * max(like.ndim - 2, 0))


def _reduce_losses(loss: Tensor, target: Tensor, factors: Tensor | None, ignore_index: int, reduction: str) -> Tensor:
    """The mean is the sum of the losses over the weights of the targets that count; NaN where none does."""
    if reduction != "mean":
        return reduce_loss(loss, reduction)
    counted = int(np.count_nonzero(target._array != ignore_index)) if factors is None else factors.sum()
    return loss.sum() / counted


def _weights(weight: Tensor, input: Tensor, target: Tensor, ignore_index: int) -> Tensor:
    """The weight of each target's class, 0 where the target is ignored."""
    return -nll_terms(_per_class(weight, input).expand(input.shape), target, ignore_index)


@functional(positional="averaging")
@composite(method=False, takes="f", widen=("input", "target"), autocast="float32")
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """The negative log likelihood of each target class, times the class's `weight`.

    input: log probabilities (classes), (batch, classes) or (batch, classes, ...); target: integers of that shape
    without the classes. Targets equal to `ignore_index` do not count; "mean" divides by the weights of those that do.
    Raises ValueError or RuntimeError for mismatched shapes and dtypes, IndexError for invalid classes.
    """
    _check("nll_loss", input, target, weight, ignore_index)
    return _of_classes(input, target, weight, ignore_index, reduction)


def _of_classes(input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str) -> Tensor:
    if weight is None and reduction == "mean":
        return nll_mean(input, target, ignore_index)
    loss = nll_terms(input, target, ignore_index)
    if weight is None:
        return _reduce_losses(loss, target, None, ignore_index, reduction)
    factors = _weights(weight, input, target, ignore_index)
    return _reduce_losses(loss * factors, target, factors, ignore_index, reduction)


@functional(positional="averaging")
@composite(method=False, takes="f", widen=("input", "target"), autocast="float32")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """`nll_loss` of log_softmax(input). A target of the input's shape holds a probability for every class.

    `label_smoothing` in [0, 1] mixes that much of the uniform distribution into the target. Raises RuntimeError for
    other values of it, and for an `ignore_index` beside probabilities.
    """
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0, got {label_smoothing}")
    if target._array.shape == input._array.shape and input._array.ndim:
        if ignore_index >= 0:
            raise RuntimeError(f"cross_entropy: probabilities name no class to ignore, got {ignore_index=}")
        return _of_probabilities(input, target, weight, reduction, label_smoothing)
    dim = _check("cross_entropy", input, target, weight, ignore_index)
    log_probabilities = log_softmax_forward(input, dim)
    if not label_smoothing:
        return _of_classes(log_probabilities, target, weight, ignore_index, reduction)
    factors = None if weight is None else _weights(weight, input, target, ignore_index)
    certain = nll_terms(log_probabilities, target, ignore_index)
    weighted = log_probabilities if weight is None else log_probabilities * _per_class(weight, input)
    uniform = weighted.sum(dim).masked_fill(target == ignore_index, 0) * (-label_smoothing / input.shape[dim])
    loss = (certain if factors is None else certain * factors) * (1 - label_smoothing) + uniform
    return _reduce_losses(loss, target, factors, ignore_index, reduction)


def _of_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    if not target.is_floating_point():
        raise RuntimeError(
            f"cross_entropy: expected a floating point target for class probabilities, got {target.dtype!r}"
        )
    dim = 0 if input.ndim == 1 else 1
    classes = input.shape[dim]
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    terms = log_softmax(input, dim) * target
    loss = -(terms if weight is None else terms * _per_class(weight, input)).sum(dim)
    return loss.sum() / (input.numel() // classes) if reduction == "mean" else reduce_loss(loss, reduction)


_LEAST_LOG = -100.0
"""Where logarithms of probabilities are cut off, so that a wrong certainty costs much, but not infinity."""


@op(
    promote=True,
    takes="f",
    traits="function",
    input=lambda g, input, target: g * (input - target) / ((1 - input) * input).clamp(min=1e-12),
    target=lambda g, input: g * ((-input).log1p().clamp(min=_LEAST_LOG) - input.log().clamp(min=_LEAST_LOG)),
    batch="align",
)
def binary_cross_entropy_terms(input: Array, target: Array) -> Array:
    """-(target log(input) + (1 - target) log(1 - input)), with logarithms of at least -100."""
    if not ((input >= 0) & (input <= 1)).all():
        raise RuntimeError(
            "binary_cross_entropy: all elements of input should be between 0 and 1; use sigmoid first, "
            "or binary_cross_entropy_with_logits"
        )
    certain, contrary = (np.maximum(x, _LEAST_LOG) for x in (each(np.log, input), each(np.log1p, -input)))
    return (target - 1) * contrary - target * certain


@functools.partial(rounding_once, typed_by=("input",))
def _cross_entropies(input: Tensor, target: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    loss = binary_cross_entropy_terms(input, target)
    return reduce_loss(loss if weight is None else loss * weight.to(loss.dtype), reduction)


@functional(positional="averaging")
@composite(method=False, takes="f", autocast="float32")
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """-(target log(input) + (1 - target) log(1 - input)) for probabilities, times `weight`.

    Logarithms are at least -100. Raises ValueError for different sizes, RuntimeError for inputs outside [0, 1] and for
    targets of another dtype.
    """
    _refuse_broadcast("binary_cross_entropy", input, target)
    _refuse_wider("binary_cross_entropy", input, weight, "weight")
    if target.dtype is not input.dtype:
        raise RuntimeError(
            f"binary_cross_entropy(): target must be of the input's dtype {input.dtype!r}, got {target.dtype!r}; use "
            "target.to(input.dtype)"
        )
    return _cross_entropies(input, target, weight, reduction)


def _refuse_broadcast(name: str, input: Tensor, target: Tensor) -> None:
    if input.shape != target.shape:
        raise ValueError(f"{name}: target size {list(target.shape)} must be the same as input size {list(input.shape)}")


def _refuse_wider(name: str, input: Tensor, weight: Tensor | None, argument: str) -> None:
    """Raise RuntimeError for a weight that does not broadcast to the terms of the loss."""
    if weight is None:
        return
    known, given = input._array.shape, weight._array.shape
    if len(given) > len(known) or any(b not in (1, a) for a, b in zip(known[::-1], given[::-1], strict=False)):
        raise RuntimeError(
            f"{name}: output with shape {list(input.shape)} doesn't match the broadcast shape with {argument} of "
            f"shape {list(given)}; it must broadcast to the input"
        )


@functional(positional="averaging")
@composite(method=False, takes="f", widen=("input", "target"), autocast="float32")
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy` of sigmoid(input), accurate for inputs of any magnitude.

    `pos_weight` multiplies the terms of positive targets.
    """
    name = "binary_cross_entropy_with_logits"
    _refuse_broadcast(name, input, target)
    _refuse_wider(name, input, weight, "weight")
    _refuse_wider(name, input, pos_weight, "pos_weight")
    certain, contrary = logsigmoid(input), (1 - target) * input
    if pos_weight is not None:
        certain = certain * ((pos_weight.to(certain.dtype) - 1) * target + 1)
    loss = contrary - certain
    return reduce_loss(loss if weight is None else loss * weight.to(loss.dtype), reduction)
