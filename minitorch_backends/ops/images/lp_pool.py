"""Powers of neighbours: pooling by p-norms, and values over those of the channels around them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd.half_types import widen
from ...dispatch.op import composite
from ...tensor.dtypes import FLOATING, float32, get_default_dtype
from ...tensor.tensor import Tensor
from ..elementwise.activations import relu
from ..functional import functional
from ..views.padding import constant_pad
from .pool import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d

Given = int | Sequence[int]

_AVERAGES: tuple[Any, ...] = (avg_pool1d, avg_pool2d, avg_pool3d)
_GREATEST: tuple[Any, ...] = (max_pool1d, max_pool2d, max_pool3d)


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


def _declare(dims: int) -> Callable[..., Tensor]:
    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: Given, stride: Given | None = None, ceil_mode: bool = False
    ) -> Tensor:
        """sum(x ** p) ** (1 / p) over each window on images (N, C, ...), or (C, ...), with p = `norm_type` and without
        absolute values. The gradient is 0 where the sum is 0. `stride` is by default the kernel's size.

        With `ceil_mode` a last window that reaches beyond the image counts as if it were full of its mean. The norms of
        order Inf and -Inf are the greatest and the least absolute value. Raises RuntimeError for sizes that give no
        window, ValueError for a norm_type of 0.
        """
        if norm_type == 0:
            raise ValueError(f"lp_pool{dims}d(): norm_type must be a number other than 0, got {norm_type!r}")
        if math.isinf(norm_type):
            sign = math.copysign(1.0, norm_type)
            return sign * _GREATEST[dims - 1](sign * input.abs(), kernel_size, stride, ceil_mode=ceil_mode)
        taps = kernel_size**dims if isinstance(kernel_size, int) else int(np.prod(kernel_size))
        powers = input.double() ** norm_type  # which would leave the range of float32
        mean = _AVERAGES[dims - 1](powers, kernel_size, stride, 0, ceil_mode)
        result = (relu(mean.abs()) * mean.detach().sign() * taps) ** (1 / norm_type)
        return result.to(input.dtype)

    lp_pool.__name__ = f"lp_pool{dims}d"
    return functional(composite(method=False, takes="f")(lp_pool))


lp_pool1d, lp_pool2d, lp_pool3d = map(_declare, (1, 2, 3))
