"""Samples and references of `ops/norm/standardize.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels.arrays.rows import Standardized, StandardizeGradients
from minitorch_backends.ops.norm.standardize import _standard

from ..samples import Sample, between, sample
from ..table import declare


def standardize_reference(
    input: Any, weight: Any, bias: Any, dim: tuple[int, ...], eps: float, statistics: str = "moments"
) -> Standardized:
    mean, deviation = np.zeros((1,) * input.ndim), np.ones((1,) * input.ndim)
    if statistics == "moments":
        mean = input.mean(dim, keepdims=True)
    if statistics != "nothing":
        deviation = np.sqrt(np.square(input - mean).mean(dim, keepdims=True) + eps)
    return Standardized((input - mean) / deviation * weight + bias, mean, deviation)


def _backward_samples() -> Iterator[Sample]:
    for (input, weight, bias, *options), _ in _standardize_samples():
        _, mean, deviation = standardize_reference(input, weight, bias, *options)
        dim, _, statistics = options
        g = between(-1, 1, *input.shape, seed=3)
        yield sample(g, input, mean, deviation, weight, dim, statistics)


def _backward_reference(
    grad_output: Any, input: Any, mean: Any, deviation: Any, weight: Any, dim: tuple[int, ...], statistics: str
) -> StandardizeGradients:
    y = _standard(input, mean, deviation, statistics)
    of_input = h = grad_output * weight
    if statistics == "moments":
        of_input = of_input - h.mean(dim, keepdims=True)
    if statistics != "nothing":
        of_input = (of_input - y * (h * y).mean(dim, keepdims=True)) / deviation
    sizes = (1,) * (input.ndim - weight.ndim) + weight.shape
    repeated = tuple(each for each, size in enumerate(sizes) if size != input.shape[each])
    sums = (each.sum(repeated).reshape(weight.shape) for each in (grad_output * y, grad_output))
    return StandardizeGradients(of_input, *sums)


def _about_its_mean(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of its input's own mean: the op corrects a mean that was rounded."""

    def about_mean(g: Any, input: Any, mean: Any, deviation: Any, weight: Any, dim: Any, statistics: str) -> Any:
        if statistics == "moments" and mean.dtype == input.dtype and "float" in str(input.dtype):
            mean = input.mean(dim, **{"keepdims" if isinstance(input, np.ndarray) else "keepdim": True})
        return function(g, input, mean, deviation, weight, dim, statistics)

    return about_mean


declare("standardize_backward", _backward_reference, _backward_samples, _about_its_mean)


def _standardize_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 3, 4), between(0.5, 2, 4), between(-1, 1, 4), (1,), 1e-5, "moments")
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, between(0.5, 2, 2), between(-1, 1, 2), (0,), 0.1, "square")
    yield sample(between(-2, 2, 2, 3, 4), between(0.5, 2, 3, 1), between(-1, 1, 3, 1), (0, 2), 1e-5, "moments")
    yield sample(between(-2, 2, 2, 3, 4), between(0.5, 2, 3, 1), between(-1, 1, 3, 1), (0, 2), 0.0, "nothing")
    yield sample(between(-2, 2, 3, 4), between(0.5, 2), between(-1, 1), (0,), 1e-5, "moments")
    yield sample(between(-2, 2, 1, 4), between(0.5, 2, 4), between(-1, 1, 4), (1,), 1e-5, "moments")
    yield sample(between(-2, 2, 0, 3), between(0.5, 2, 3), between(-1, 1, 3), (1,), 1e-5, "moments")


declare("standardize", standardize_reference, _standardize_samples)
