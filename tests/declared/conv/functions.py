"""Samples and references of `ops/conv/functions.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels.conv import conv as kernel
from minitorch_backends.kernels.conv import conv_input_gradient as transposed_kernel
from minitorch_backends.ops.conv.functions import Sizes

from ..samples import Sample, between, sample
from ..table import declare


def _spread(value: Any, dims: int) -> Sizes:
    return (value,) * dims if isinstance(value, int) else tuple(value)


def _reference(dims: int) -> Callable[..., np.ndarray]:
    def reference(
        input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
    ) -> np.ndarray:
        stride, dilation = _spread(stride, dims), _spread(dilation, dims)
        x = input if input.ndim == dims + 2 else input[None]
        if isinstance(padding, str):
            total = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, weight.shape[2:], strict=True)]
            x, padding = np.pad(x, [(0, 0), (0, 0), *((each // 2, each - each // 2) for each in total)]), 0
        keywords = {"stride": stride, "padding": _spread(padding, dims), "dilation": dilation, "groups": groups}
        result = kernel.reference(x, weight, bias, **keywords)
        return result if input.ndim == dims + 2 else result[0]

    return reference


def _transposed_reference(dims: int) -> Callable[..., np.ndarray]:
    def reference(
        input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, dilation: Any = 1,
    ) -> np.ndarray:  # fmt: skip
        s, p, o, d = (_spread(each, dims) for each in (stride, padding, output_padding, dilation))
        x = input if input.ndim == dims + 2 else input[None]
        size = tuple(
            (x.shape[2 + i] - 1) * s[i] - 2 * p[i] + d[i] * (weight.shape[2 + i] - 1) + o[i] + 1 for i in range(dims)
        )
        keywords = {"stride": s, "padding": p, "dilation": d, "groups": groups}
        result = transposed_kernel.reference(x, weight, input_size=size, **keywords)
        result = result if bias is None else result + bias.reshape(-1, *(1,) * dims)
        return result if input.ndim == dims + 2 else result[0]

    return reference


def _samples(dims: int) -> Callable[[], Iterator[Sample]]:
    size, taps = ((7,), (5, 4), (3, 4, 3))[dims - 1], ((3,), (2, 3), (2, 1, 2))[dims - 1]

    def samples() -> Iterator[Sample]:
        x, weight, bias = between(-1, 1, 2, 4, *size), between(-1, 1, 2, 4, *taps, seed=1), between(-1, 1, 2, seed=2)
        yield sample(x, weight, bias)
        yield sample(x[0], weight, None, 2, 1)
        yield sample(
            np.moveaxis(between(-1, 1, 1, *size, 4), -1, 1), weight, bias, padding="same", dilation=(2,) * dims
        )
        yield sample(x, weight[:, :2], bias, stride=[2] * dims, padding=[1] * dims, groups=2)
        yield sample(x[:1], between(-1, 1, 4, 1, *taps), padding="valid", groups=4)
        yield sample(x[:0], weight, bias)

    return samples


def _transposed_samples(dims: int) -> Callable[[], Iterator[Sample]]:
    size, taps = ((5,), (3, 2), (2, 3, 1))[dims - 1], ((3,), (2, 3), (2, 1, 2))[dims - 1]

    def samples() -> Iterator[Sample]:
        x, weight, bias = between(-1, 1, 2, 4, *size), between(-1, 1, 4, 2, *taps, seed=1), between(-1, 1, 2, seed=2)
        yield sample(x, weight, bias)
        yield sample(x[0], weight, None, 2, 0, 1)
        yield sample(np.moveaxis(between(-1, 1, 1, *size, 4), -1, 1), weight[:, :1], bias, 2, groups=2)
        yield sample(x, weight, dilation=2, output_padding=1)
        yield sample(x, weight, bias, padding=1, dilation=3, output_padding=2)
        yield sample(x[:1], weight, padding=1, dilation=2, output_padding=1)
        yield sample(x[:0], weight, bias)

    return samples


for _dims in (1, 2, 3):
    declare(f"conv{_dims}d", _reference(_dims), _samples(_dims))
    declare(f"conv_transpose{_dims}d", _transposed_reference(_dims), _transposed_samples(_dims))
