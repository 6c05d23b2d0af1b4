"""Samples and references of `ops/normalization.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels.arrays.rows import Standardized, StandardizeGradients
from minitorch_backends.ops.normalization import _standard
from tests.declared.samples import Sample, between, sample
from tests.declared.table import declare


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


def _last_samples(with_bias: bool) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        weights = [between(0.5, 1.5, 4, seed=1), between(-1, 1, 4, seed=2)][: 1 + with_bias]
        yield sample(between(-2, 2, 3, 4), (4,))
        yield sample(between(-2, 2, 3, 4), (4,), *weights)
        yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, (2,), between(0.5, 1.5, 2), eps=0.1)
        yield sample(between(-2, 2, 2, 3, 4), (3, 4), between(0.5, 1.5, 3, 4, seed=1))
        yield sample(between(-2, 2, 0, 4), (4,), *weights)

    return samples


def _layer_norm_reference(
    input: Any, normalized_shape: Any, weight: Any = 1, bias: Any = 0, eps: float = 1e-5
) -> np.ndarray:
    return standardize_reference(input, weight, bias, tuple(range(-len(normalized_shape), 0)), eps).output


declare("layer_norm", _layer_norm_reference, _last_samples(with_bias=True))


def _rms_norm_reference(input: Any, normalized_shape: Any, weight: Any = 1, eps: float | None = None) -> np.ndarray:
    square = np.square(input).mean(tuple(range(-len(normalized_shape), 0)), keepdims=True)
    return input / np.sqrt(square + (np.finfo(input.dtype).eps if eps is None else eps)) * weight


declare("rms_norm", _rms_norm_reference, _last_samples(with_bias=False))


def _batch_samples() -> Iterator[Sample]:
    statistics = [between(-1, 1, 3, seed=1), between(0.5, 1.5, 3, seed=2)]
    weights = [between(0.5, 1.5, 3, seed=3), between(-1, 1, 3, seed=4)]
    yield sample(between(-2, 2, 4, 3), *statistics, *weights)
    yield sample(between(-2, 2, 2, 3, 4, 2), *statistics, eps=0.1)
    yield sample(between(-2, 2, 6, 4)[::2, ::-2].T, None, None, between(0.5, 1.5, 3), None, training=True)
    yield sample(between(-2, 2, 4, 3), None, None, *weights, True)
    yield sample(between(-2, 2, 2, 3, 4), None, None, training=True)
    yield sample(between(-2, 2, 0, 3), *statistics)


def _columns(ndim: int, *values: Any) -> list[Any]:
    return [value if value is None else value.reshape((-1,) + (1,) * (ndim - 2)) for value in values]


def _batch_norm_reference(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> np.ndarray:
    mean, var, weight, bias = _columns(input.ndim, running_mean, running_var, weight, bias)
    if training:
        dim = (0, *range(2, input.ndim))
        mean, var = input.mean(dim, keepdims=True), input.var(dim, keepdims=True)
    out = (input - mean) / np.sqrt(var + eps)
    return out * (1 if weight is None else weight) + (0 if bias is None else bias)


declare("batch_norm", _batch_norm_reference, _batch_samples)


def _group_samples() -> Iterator[Sample]:
    weights = [between(0.5, 1.5, 4, seed=1), between(-1, 1, 4, seed=2)]
    yield sample(between(-2, 2, 2, 4, 3), 2, *weights)
    yield sample(between(-2, 2, 2, 4), 1)
    yield sample(between(-2, 2, 4, 2, 6).T[::2], 2, between(0.5, 1.5, 2), eps=0.1)
    yield sample(between(-2, 2, 0, 4, 2), 2, *weights)


def _group_norm_reference(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> np.ndarray:
    weight, bias = _columns(input.ndim, weight, bias)
    groups = input.reshape(input.shape[0], num_groups, math.prod(input.shape[1:]) // num_groups)
    out = standardize_reference(groups, 1, 0, (2,), eps).output.reshape(input.shape)
    return out * (1 if weight is None else weight) + (0 if bias is None else bias)


declare("group_norm", _group_norm_reference, _group_samples)


def _instance_samples() -> Iterator[Sample]:
    weights = [between(0.5, 1.5, 3, seed=1), between(-1, 1, 3, seed=2)]
    yield sample(between(-2, 2, 2, 3, 4), weight=weights[0], bias=weights[1])
    yield sample(between(-2, 2, 2, 3, 4), weights[1], weights[0], use_input_stats=False)
    yield sample(between(-2, 2, 4, 3, 4).T[::2], eps=0.1)
    yield sample(between(-2, 2, 0, 3, 2))


def _instance_norm_reference(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> np.ndarray:
    if use_input_stats:
        return _group_norm_reference(input, input.shape[1], weight, bias, eps)
    return _batch_norm_reference(input, running_mean, running_var, weight, bias, eps=eps)


declare("instance_norm", _instance_norm_reference, _instance_samples)


def _normalize_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 3, 4))
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, 1.0, 0)
    yield sample(between(-2, 2, 2, 3, 4), p=3.0, dim=(0, 2))
    yield sample(between(-2, 2, 3, 4), dim=-1, eps=5.0)
    yield sample(between(-2, 2.5), dim=0)
    yield sample(between(-2, 2, 0, 3))


def _normalize_reference(input: np.ndarray, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> np.ndarray:
    axis = (dim if input.ndim else None) if isinstance(dim, int) else tuple(dim)
    return input / np.maximum((np.abs(input) ** p).sum(axis, keepdims=True) ** (1 / p), eps)


declare("normalize", _normalize_reference, _normalize_samples)


def _response_samples() -> Iterator[Sample]:
    for size in (1, 2, 5):
        yield sample(between(-2, 2, 2, 4, 3), size, 0.5, 0.6, 1.5)
    yield sample(between(-2, 2, 2, 4, 3, 2), 3)
    yield sample(np.moveaxis(between(-2, 2, 1, 3, 2, 5), -1, 1), 3, 0.3)
    yield sample(between(-2, 2, 0, 4, 3), 2)


def _response_reference(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> np.ndarray:
    out = np.empty(input.shape, np.result_type(input, np.float64))
    for channel in range(input.shape[1]):
        around = input[:, max(channel - size // 2, 0) : channel + (size - 1) // 2 + 1]
        out[:, channel] = input[:, channel] / (k + alpha * np.square(around).sum(1) / size) ** beta
    return out


declare("local_response_norm", _response_reference, _response_samples)
