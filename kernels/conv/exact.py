"""Convolution by its definition, tap by tap in float64 (complex128): what every implementation is held to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .packed_weight import Kept, array_of
from .shapes import Steps, output_size, pad, steps


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _taps(kernel: Sequence[int], output: Sequence[int], at: Steps) -> Iterator[tuple[Any, Any]]:
    """Each tap of a kernel, and the part of the padded input that it meets."""
    for tap in itertools.product(*map(range, kernel)):
        starts = [index * gap for index, gap in zip(tap, at.dilation, strict=True)]
        places = zip(starts, output, at.stride, strict=True)
        yield tap, (..., *(slice(start, start + (count - 1) * step + 1, step) for start, count, step in places))


def exact_conv(
    x: np.ndarray, weight: np.ndarray | Kept, bias: np.ndarray | None = None, *, stride: Sequence[int] = (),
    padding: Sequence[int] = (), dilation: Sequence[int] = (), groups: int = 1, relu: bool = False, **_: Any,
) -> np.ndarray:  # fmt: skip
    """y[n, o, p] = bias[o] + sum over c and k of x[n, c, stride p + dilation k - padding] * weight[o, c, k]."""
    kernel = weight.shape[2:]
    at = steps(len(kernel), stride, padding, dilation)
    output = output_size(x.shape[2:], kernel, at)
    wide, weights = pad(_wide(x), at.padding), _wide(array_of(weight))
    wide = wide.reshape(len(x), groups, x.shape[1] // groups, *wide.shape[2:])
    outputs = weight.shape[0]
    weights = weights.reshape(groups, outputs // groups, *weight.shape[1:])
    y = np.zeros((len(x), groups, outputs // groups, *output), np.result_type(wide, weights))
    for tap, seen in _taps(kernel, output, at):
        y += np.einsum("ngc...,goc->ngo...", wide[seen], weights[(..., *tap)])
    y = y.reshape(len(x), outputs, *output)
    if bias is not None:
        y += _wide(bias).reshape(len(bias), *(1,) * len(kernel))
    return np.maximum(y, 0) if relu else y


def exact_input_gradient(
    g: np.ndarray, weight: np.ndarray, *, input_size: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (), dilation: Sequence[int] = (), groups: int = 1, **_: Any,
) -> np.ndarray:  # fmt: skip
    """The transpose of `exact_conv` in x, applied to g: what each input receives through the weights."""
    kernel, channels = weight.shape[2:], weight.shape[1]
    at = steps(len(kernel), stride, padding, dilation)
    grouped = _wide(g).reshape(len(g), groups, len(weight) // groups, *g.shape[2:])
    weights = _wide(weight).reshape(groups, len(weight) // groups, *weight.shape[1:])
    wide_size = [length + 2 * pad for length, pad in zip(input_size, at.padding, strict=True)]
    wide = np.zeros((len(g), groups, channels, *wide_size), np.result_type(grouped, weights))
    for tap, seen in _taps(kernel, g.shape[2:], at):
        wide[seen] += np.einsum("ngo...,goc->ngc...", grouped, weights[(..., *tap)])
    inside: Any = (..., *(slice(pad, pad + size) for pad, size in zip(at.padding, input_size, strict=True)))
    return wide[inside].reshape(len(g), groups * channels, *input_size)


def exact_weight_gradient(
    x: np.ndarray, g: np.ndarray, *, kernel_size: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (), dilation: Sequence[int] = (), groups: int = 1, **_: Any,
) -> np.ndarray:  # fmt: skip
    """The transpose of `exact_conv` in the weight, applied to g."""
    at = steps(len(kernel_size), stride, padding, dilation)
    channels, outputs = x.shape[1] // groups, g.shape[1] // groups
    wide = pad(_wide(x), at.padding)
    wide = wide.reshape(len(x), groups, channels, *wide.shape[2:])
    grouped = _wide(g).reshape(len(g), groups, outputs, *g.shape[2:])
    result = np.zeros((groups, outputs, channels, *kernel_size), np.result_type(wide, grouped))
    positions = "xyz"[: len(kernel_size)]
    for tap, seen in _taps(kernel_size, g.shape[2:], at):
        result[(..., *tap)] = np.einsum(f"ngc{positions},ngo{positions}->goc", wide[seen], grouped)
    return result.reshape(groups * outputs, channels, *kernel_size)
