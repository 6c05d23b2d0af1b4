"""Rows that are standardised, scaled and shifted in one op: what all normalisations but by norms rest on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dispatch.op import Array, op
from ...kernels.arrays import rows
from ...kernels.arrays.rows import Standardized, StandardizeGradients
from ...tensor.tensor import Tensor, adopt
from ..gradients import counts

__all__ = ["standardize"]

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
    method=False,
    widen=False,
    widen_rules=True,
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


@op(takes="f", method=False, widen=False, gradients=_standardize_gradients, batch="transform dim")
def standardize(
    input: Array, weight: Array, bias: Array, dim: tuple[int, ...], eps: float, statistics: str = "moments"
) -> Standardized:
    """(input - mean) / deviation * weight + bias over the dimensions `dim`; see `kernels.arrays.rows.standardize`."""
    return rows.standardize(input, weight, bias, dim=dim, eps=eps, statistics=statistics)
