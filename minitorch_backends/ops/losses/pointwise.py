"""Losses that compare numbers element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dispatch.op import Array, composite, op
from ...kernels.runtime.context import warn_caller
from ...tensor.dtypes import bool_
from ...tensor.tensor import Tensor
from ..elementwise.activations import hardtanh
from ..functional import functional

__all__ = ["gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss"]


# How losses are reduced: to one number or not at all


def reduce_loss(loss: Tensor, reduction: str) -> Tensor:
    """The loss of each element, their mean, or their sum. Raises ValueError for another word."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise _not_a_reduction(reduction)


def _not_a_reduction(reduction: Any) -> ValueError:
    return ValueError(f"{reduction!r} is not a valid value for reduction; expected 'none', 'mean' or 'sum'")


def refuse_reduction(reduction: str) -> None:
    """Raise ValueError for another word, before anything is computed."""
    if reduction not in ("none", "mean", "sum"):
        raise _not_a_reduction(reduction)


def _warn_of_broadcast(name: str, input: Tensor, target: Tensor) -> None:
    if input.shape != target.shape:
        warn_caller(
            f"{name}: the target's size {list(target.shape)} is different from the input's size {list(input.shape)}, "
            "so that they broadcast, which is seldom what a loss should do; give both the same size"
        )


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
@composite(method=False, takes="f", also="i", widen=True, autocast="float32")
def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(input - target)**2, times `weight` of the same shape; the mean is over the weights."""
    _warn_of_broadcast("mse_loss", input, target)
    return _reduce_weighted("mse_loss", _difference("mse_loss", input, target).square(), weight, reduction)


@functional(positional="averaging")
@composite(method=False, widen=True, takes="ifc", autocast="float32")
def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|input - target|, times `weight` of the same shape; the mean is over the weights."""
    _warn_of_broadcast("l1_loss", input, target)
    return _reduce_weighted("l1_loss", (input - target).abs(), weight, reduction)


@op(
    takes="f",
    traits="function",
    difference=lambda g, difference, delta: g * hardtanh(difference, -delta, delta),
    batch="align",
)
def huber_terms(difference: Array, delta: float) -> Array:
    """c * (difference - c / 2), with c the difference clamped to `delta`; squares of large numbers could overflow."""
    clamped = np.clip(difference, -delta, delta)
    terms = np.asarray(clamped * -0.5)
    terms += difference
    return np.multiply(terms, clamped, out=terms)


@functional(positional="averaging")
@composite(method=False, takes="f", also="i", widen=True, autocast="float32")
def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """With d = |input - target|: d**2 / (2 beta) below `beta`, and d - beta / 2 from there on (Girshick, 2015). Raises
    RuntimeError for a negative `beta`."""
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
    _warn_of_broadcast("smooth_l1_loss", input, target)
    difference = _difference("smooth_l1_loss", input, target)
    if beta == 0:
        return reduce_loss(difference.abs(), reduction)
    return reduce_loss(huber_terms(difference, beta) / beta, reduction)


@functional(positional="options")
@composite(method=False, takes="f", widen=True, autocast="float32")
def huber_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """With d = |input - target|: d**2 / 2 up to `delta`, and delta * (d - delta / 2) beyond; times `weight` of the same
    shape, which does not change the divisor of the mean. Raises RuntimeError for a `delta` that is not positive."""
    if delta <= 0:
        raise RuntimeError(f"huber_loss takes a positive delta, got {delta}")
    _warn_of_broadcast("huber_loss", input, target)
    loss = huber_terms(_difference("huber_loss", input, target), delta)
    return reduce_loss(_apply_weight("huber_loss", loss, weight), reduction)


# Likelihoods


@functional(positional="averaging")
@composite(method=False, takes="f", widen=True, autocast="float32")
def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log(target) - input): the divergence of `target` from exp(input).

    With `log_target` the target is a logarithm too. The reduction "batchmean" divides the sum by the batch's size.
    Raises RuntimeError for targets of integers.
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


@functional(positional="averaging")
@composite(method=False, widen=True, takes="if", autocast="float32")
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


@functional(positional="options")
@composite(method=False, takes="f", also="i", widen=True)
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
    for negative variances, and for sizes that do not go together, RuntimeError for variances of integers.
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
