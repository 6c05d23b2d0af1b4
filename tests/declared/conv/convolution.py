"""Samples and references of `ops/conv/convolution.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels.conv import conv, conv_input_gradient, conv_weight_gradient
from minitorch_backends.ops.conv.convolution import Sizes

from ..samples import Sample, between, sample
from ..table import declare

_STEPS: tuple[tuple[int, Sizes, Sizes, Sizes, Sizes, Sizes, int], ...] = (
    (2, (7,), (3,), (2,), (1,), (1,), 1),
    (1, (5, 6), (2, 3), (1, 2), (0, 1), (2, 1), 1),
    (2, (4, 5), (3, 2), (1, 1), (1, 0), (1, 1), 2),
    (1, (5, 4), (3, 3), (2, 1), (2, 2), (1, 2), 4),
    (1, (3, 4, 3), (2, 2, 2), (1, 2, 1), (0, 1, 1), (1, 1, 2), 1),
    (0, (4, 4), (2, 2), (1, 1), (0, 0), (1, 1), 1),
)
"""Images, sizes, kernel, stride, padding, dilation and groups."""


def _calls() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, tuple]]:
    """For each of `_STEPS` the input, the weight, a gradient of the output, and the other arguments."""
    for images, size, kernel, stride, padding, dilation, groups in _STEPS:
        x = between(-1, 1, images, 4, *size)
        weight = between(-1, 1, 4, 4 // groups, *kernel, seed=1)
        steps = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        g = between(-1, 1, *conv.reference(x, weight, **steps).shape, seed=2)
        yield x, weight, g, (stride, padding, dilation, groups)


def _conv_samples() -> Iterator[Sample]:
    for number, (x, weight, _, steps) in enumerate(_calls()):
        yield sample(x, weight, between(-1, 1, 4, seed=3) if number % 2 else None, *steps)
    x, weight = between(-1, 1, 2, 10, 5, 3)[:, ::2].transpose(0, 3, 1, 2), between(-1, 1, 2, 3, 2, 2)[:, :, ::-1]
    yield sample(x, weight, None, (1, 1), (1, 0), (1, 1), 1)


def _input_gradient_samples() -> Iterator[Sample]:
    for x, weight, g, steps in _calls():
        yield sample(g, weight, x.shape[2:], *steps)
    yield sample(between(-1, 1, 1, 4, 3, 2).transpose(0, 2, 3, 1), between(-1, 1, 3, 2, 2, 2), (3, 5), (1, 1), (0, 0))


def _weight_gradient_samples() -> Iterator[Sample]:
    for x, weight, g, steps in _calls():
        yield sample(x, g, weight.shape[2:], *steps)
    x, g = between(-1, 1, 1, 4, 3, 2).transpose(0, 2, 3, 1), between(-1, 1, 1, 3, 2, 3)[..., ::-1]
    yield sample(x, g, (1, 2), (1, 1), (0, 0))


def _by_name(stride: Sizes, padding: Sizes, dilation: Sizes = (), groups: int = 1) -> dict[str, Any]:
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}


def _conv_reference(input: Any, weight: Any, bias: Any, *steps: Any) -> np.ndarray:
    return conv.reference(input, weight, bias, **_by_name(*steps))


def _input_gradient_reference(
    grad_output: Any,
    weight: Any,
    input_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = (),
    dilation: Sizes = (),
    groups: int = 1,
) -> np.ndarray:
    steps = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return conv_input_gradient.reference(grad_output, weight, input_size=input_size, **steps)


def _weight_gradient_reference(
    input: Any,
    grad_output: Any,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = (),
    dilation: Sizes = (),
    groups: int = 1,
) -> np.ndarray:
    steps = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return conv_weight_gradient.reference(input, grad_output, kernel_size=kernel_size, **steps)


declare("convolution", _conv_reference, _conv_samples)
declare("convolution_input_gradient", _input_gradient_reference, _input_gradient_samples)
declare("convolution_weight_gradient", _weight_gradient_reference, _weight_gradient_samples)
