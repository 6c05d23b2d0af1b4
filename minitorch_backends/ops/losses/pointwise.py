"""Losses that compare numbers element by element."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...autograd.half_types import rounding_once
from ...dispatch.call_errors import warn_caller
from ...dispatch.op import Array, composite, op
from ...kernels.elementwise import each
from ...tensor.dtypes import bool_
from ...tensor.tensor import Tensor
from ..elementwise.activations import hardtanh, logsigmoid
from ..functional import functional
from ..samples import Sample, between, pairs, sample
from .reduction import reduce_loss, reduced_array

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss",
    "mse_loss", "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss",
]  # fmt: skip


def _warn_of_broadcast(name: str, input: Tensor, target: Tensor) -> None:
    if input.shape != target.shape:
        warn_caller(
            f"{name}: the target's size {list(target.shape)} is different from the input's size {list(input.shape)}, "
            "so that they broadcast, which is seldom what a loss should do; give both the same size"
        )


def loss_samples(
    low: float, high: float, low_target: float, high_target: float, *options: dict[str, Any]
) -> Callable[[], Iterator[Sample]]:
    """Samples of inputs and targets of equal shapes, one set for each reduction, and one for each set of options."""

    def samples() -> Iterator[Sample]:
        def both(*shape: int) -> tuple[np.ndarray, np.ndarray]:
            return between(low, high, *shape), between(low_target, high_target, *shape, seed=5)

        yield sample(*both(3, 4))
        yield sample(*both(3, 4), reduction="sum")
        yield sample(*(each[::2, ::-2].T for each in both(4, 6)), reduction="none")
        yield sample(*both())
        yield sample(*both(0, 3), reduction="sum")
        for option in options:
            yield sample(*both(3, 5), **option)

    return samples


def _apply_weight(name: str, loss: Tensor, weight: Tensor | None) -> Tensor:
    """The loss of each element times its weight. Raises ValueError for a weight of another shape."""
    if weight is not None and weight.shape != loss.shape:
        raise ValueError(f"{name}(): weight must have shape {list(loss.shape)}, got {list(weight.shape)}; expand it")
    return loss if weight is None else loss * weight


def _reduce_weighted(name: str, loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """`reduced` of a loss, where a mean of weighted elements divides by the sum of the weights."""
    weighted = _apply_weight(name, loss, weight)
    return reduce_loss(weighted, reduction) if weight is None or reduction != "mean" else weighted.sum() / weight.sum()


# Distances


def _difference(name: str, input: Tensor, target: Tensor) -> Tensor:
    """input - target; one of the two must be floating. Booleans count as 0 and 1."""
    if not (input.is_floating_point() or target.is_floating_point()):
        raise NotImplementedError(
            f"{name}() is not implemented for {input.dtype!r}; expected a floating input or target"
        )
    return input - (target.to(input.dtype) if target.dtype is bool_ else target)


@functional(positional="averaging")
@composite(
    method=False,
    takes="f",
    also="i",
    widen=True,
    reference=lambda input, target, reduction="mean": reduced_array(np.square(input - target), reduction),
    samples=loss_samples(-2, 2, -2, 2),
)
def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(input - target)**2, times `weight` of the same shape; the mean is over the weights."""
    _warn_of_broadcast("mse_loss", input, target)
    return _reduce_weighted("mse_loss", _difference("mse_loss", input, target).square(), weight, reduction)


@functional(positional="averaging")
@composite(
    method=False,
    widen=True,
    takes="ifc",
    reference=lambda input, target, reduction="mean": reduced_array(np.abs(input - target), reduction),
    samples=loss_samples(-2, 2, -3, 2),
)
def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|input - target|, times `weight` of the same shape; the mean is over the weights."""
    _warn_of_broadcast("l1_loss", input, target)
    return _reduce_weighted("l1_loss", (input - target).abs(), weight, reduction)


def _huber_terms_samples() -> Iterator[Sample]:
    for numbers in (between(-2, 2, 3, 4), between(-2, 2, 4, 6)[::2, ::-2].T, between(-2, 2), between(-2, 2, 0, 3)):
        yield sample(numbers, 0.37)


@op(
    takes="f",
    method=False,
    difference=lambda g, difference, delta: g * hardtanh(difference, -delta, delta),
    reference=lambda difference, delta: _huber_reference(difference, 0, "none", delta),
    samples=_huber_terms_samples,
)
def huber_terms(difference: Array, delta: float):
    """c * (difference - c / 2), with c the difference clamped to `delta`; squares of large numbers could overflow."""
    clamped = np.clip(difference, -delta, delta)
    terms = np.asarray(clamped * -0.5)
    terms += difference
    return np.multiply(terms, clamped, out=terms)


def _smooth_l1_reference(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    distance = np.abs(input - target)
    loss = np.where(distance < beta, 0.5 * distance**2 / (beta or 1), distance - 0.5 * beta)
    return reduced_array(loss, reduction)


@functional(positional="averaging")
@composite(
    method=False,
    takes="f",
    also="i",
    widen=True,
    reference=_smooth_l1_reference,
    samples=loss_samples(-2, 2, -3, 2, {"beta": 0.37}, {"beta": 0.0}),
)
def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """With d = |input - target|: d**2 / (2 beta) below `beta`, and d - beta / 2 from there on (Girshick, 2015)."""
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
    _warn_of_broadcast("smooth_l1_loss", input, target)
    difference = _difference("smooth_l1_loss", input, target)
    if beta == 0:
        return reduce_loss(difference.abs(), reduction)
    return reduce_loss(huber_terms(difference, beta) / beta, reduction)


def _huber_reference(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    distance = np.abs(input - target)
    return reduced_array(np.where(distance <= delta, 0.5 * distance**2, delta * (distance - 0.5 * delta)), reduction)


@functional(positional="options")
@composite(
    method=False, takes="f", widen=True, reference=_huber_reference, samples=loss_samples(-2, 2, -3, 2, {"delta": 0.37})
)
def huber_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """With d = |input - target|: d**2 / 2 up to `delta`, and delta * (d - delta / 2) beyond; times `weight` of the same
    shape, which does not change the divisor of the mean."""
    if delta <= 0:
        raise RuntimeError(f"huber_loss takes a positive delta, got {delta}")
    _warn_of_broadcast("huber_loss", input, target)
    loss = huber_terms(_difference("huber_loss", input, target), delta)
    return reduce_loss(_apply_weight("huber_loss", loss, weight), reduction)


# Likelihoods


def _kl_div_reference(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    logarithm = target if log_target else np.log(target)
    loss = np.exp(logarithm) * (logarithm - input)
    return loss.sum() / len(loss) if reduction == "batchmean" else reduced_array(loss, reduction)


@functional(positional="averaging")
@composite(
    method=False,
    takes="f",
    widen=True,
    reference=_kl_div_reference,
    samples=loss_samples(-3, -0.1, 0.1, 0.9, {"log_target": True}, {"reduction": "batchmean"}),
)
def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log(target) - input): the divergence of `target` from exp(input).

    With `log_target` the target is a logarithm too. The reduction "batchmean" divides the sum by the batch's size.
    """
    if not target.is_floating_point():
        raise RuntimeError(f"kl_div(): target must be a floating tensor, got {target.dtype!r}; use target.float()")
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = (target * target.log()).masked_fill(target == 0, 0) - target * input
    if reduction == "batchmean":
        return loss.sum() / loss.shape[0] if loss.ndim else loss
    return reduce_loss(loss, reduction)


_LEAST_LOG = -100.0
"""Where logarithms of probabilities are cut off, so that a wrong certainty costs much, but not infinity."""


def _bce_reference(input: Any, target: Any, weight: Any = 1, reduction: str = "mean") -> Any:
    return reduced_array(-(target * np.log(input) + (1 - target) * np.log1p(-input)) * weight, reduction)


@op(
    promote=True,
    takes="f",
    method=False,
    input=lambda g, input, target: g * (input - target) / ((1 - input) * input).clamp(min=1e-12),
    target=lambda g, input: g * ((-input).log1p().clamp(min=_LEAST_LOG) - input.log().clamp(min=_LEAST_LOG)),
    reference=lambda input, target: _bce_reference(input, target, reduction="none"),
    samples=pairs(0.1, 0.9, 0.25, 0.75),
)
def binary_cross_entropy_terms(input: Array, target: Array):
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
@composite(
    method=False,
    takes="f",
    reference=_bce_reference,
    samples=loss_samples(0.1, 0.9, 0.1, 0.9, {"weight": between(0.5, 2, 5)}),
)
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


def _bce_with_logits_reference(
    input: Any, target: Any, weight: Any = 1, reduction: str = "mean", pos_weight: Any = 1
) -> Any:
    loss = pos_weight * target * np.log1p(np.exp(-input)) + (1 - target) * np.log1p(np.exp(input))
    return reduced_array(loss * weight, reduction)


@functional(positional="averaging")
@composite(
    method=False,
    takes="f",
    widen=("input", "target"),
    reference=_bce_with_logits_reference,
    samples=loss_samples(-3, 3, 0.1, 0.9, {"weight": between(0.5, 2, 5)}, {"pos_weight": between(0.5, 2, 5)}),
)
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


@functional(positional="averaging")
@composite(
    method=False,
    takes="f",
    widen=("input",),
    reference=lambda input, target, reduction="mean": reduced_array(np.log1p(np.exp(-target * input)), reduction),
    samples=loss_samples(-3, 3, -1, 1.2),
)
def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input)) for targets of 1 and -1."""
    return reduce_loss(-logsigmoid(target * input), reduction)


def _poisson_reference(
    input: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Any:
    loss = np.exp(input) - target * input if log_input else input - target * np.log(input + eps)
    stirling = target * np.log(target) - target + 0.5 * np.log(2 * np.pi * target)
    return reduced_array(loss + (np.where(target > 1, stirling, 0) if full else 0), reduction)


@functional(positional="averaging")
@composite(
    method=False,
    widen=True,
    takes="if",
    reference=_poisson_reference,
    samples=loss_samples(0.2, 2, 0.3, 4, {"full": True}, {"log_input": False}),
)
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    *,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """The negative log likelihood of counts `target` under a Poisson rate `input`, or exp(input) with `log_input`.

    `full` adds Stirling's approximation of log(target!) for targets above 1; otherwise that term is omitted.
    """
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduce_loss(loss, reduction)


def _gaussian_samples() -> Iterator[Sample]:
    for (input, target), options in loss_samples(-2, 2, -2, 2, {"full": True})():
        yield sample(input, target, between(0.2, 2, *input.shape, seed=7), **options)


def _gaussian_reference(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    var = np.maximum(var, eps)
    return reduced_array(
        0.5 * (np.log(var) + (input - target) ** 2 / var + (np.log(2 * np.pi) if full else 0)), reduction
    )


@functional(positional="options")
@composite(method=False, takes="f", also="i", widen=True, reference=_gaussian_reference, samples=_gaussian_samples)
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    *,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """The negative log likelihood of `target` under normal distributions of mean `input` and variance `var`.

    `eps` bounds the variance without touching its gradient. `full` adds the constant log(2 pi) / 2. Raises ValueError
    for negative variances, and for sizes that do not go together.
    """
    spread = var if isinstance(var, Tensor) else input.detach() * 0 + var
    if not spread.is_floating_point():
        raise RuntimeError(f"gaussian_nll_loss(): var must be a floating tensor, got {spread.dtype!r}; use var.float()")
    size, given = input._array.shape, spread._array.shape
    if given != size and given == size[:-1]:
        spread = spread.unsqueeze(-1)
    elif given != size and (len(given) != len(size) or [b for a, b in zip(size, given, strict=True) if a != b] != [1]):
        raise ValueError(
            f"gaussian_nll_loss: var is of incorrect size {list(given)} for an input of {list(size)}; expected that "
            "size, that without the last dimension, or with one of 1"
        )
    if (spread._array < 0).any():
        raise ValueError("gaussian_nll_loss: var has negative entries; expected variances, which are at least 0")
    bounded = spread + (spread.detach().clamp(min=eps) - spread.detach())
    loss = 0.5 * (bounded.log() + (input - target).square() / bounded)
    return reduce_loss(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)
