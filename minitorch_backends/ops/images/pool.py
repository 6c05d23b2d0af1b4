"""Pooling: the largest value and the mean of sliding windows, under torch's names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd.half_types import widen
from ...autograd.modes import derives_from
from ...dispatch.op import composite
from ...tensor.registry import functions
from ...tensor.tensor import Tensor, adopt, not_a_tensor
from ..conv.functions import numbers
from ..conv.im2col import Windows, largest, pool_max, sum_windows
from ..functional import functional

Sizes = tuple[int, ...]
Given = int | Sequence[int]


def add_batch(name: str, input: Any, dims: int) -> tuple[Tensor, bool]:
    """The input as (N, C, *S), and whether N was missing. Raises TypeError for values that are not Tensors,
    RuntimeError for a wrong number of dimensions and for sizes of 0 other than N."""
    if not isinstance(input, Tensor):
        raise not_a_tensor(name, "input", input)
    shape = input._array.shape
    if len(shape) not in (dims + 1, dims + 2) or 0 in shape[-dims - 1 :]:
        raise RuntimeError(
            f"{name}: expected {dims + 1}D or {dims + 2}D (batch mode) tensor with non-zero sizes, except an optional "
            f"batch size of 0, got {list(shape)}"
        )
    return (input, False) if len(shape) == dims + 2 else (input.unsqueeze(0), True)


def count_of(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """The number of windows; `ceil_mode` adds a last one that begins inside the image or its left padding."""
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return span // stride + 1
    count = -(-span // stride) + 1
    return count - 1 if (count - 1) * stride >= size + padding else count


def _windows(
    name: str, input: Tensor, dims: int, kernel_size: Given, stride: Given | None, padding: Given, dilation: Given,
    ceil_mode: bool,
) -> Windows:  # fmt: skip
    """Where the windows of pooling lie. Raises RuntimeError for numbers that give none, as torch does."""
    kernel = numbers(name, "kernel_size", kernel_size, dims)
    absent = stride is None or (isinstance(stride, (tuple, list)) and not stride)
    steps = kernel if absent else numbers(name, "stride", stride, dims)
    pads, gaps = numbers(name, "padding", padding, dims), numbers(name, "dilation", dilation, dims)
    return _checked_windows(name, input._array.shape[1:], kernel, steps, pads, gaps, ceil_mode)


@functools.lru_cache(256)
def _checked_windows(
    name: str, sizes: Sizes, kernel: Sizes, steps: Sizes, pads: Sizes, gaps: Sizes, ceil_mode: bool
) -> Windows:
    for argument, values, least in (("kernel_size", kernel, 1), ("stride", steps, 1), ("dilation", gaps, 1)):
        if min(values) < least:
            raise RuntimeError(f"{name}: {argument} should be greater than zero, but got {argument}={list(values)}")
    if min(pads) < 0:
        raise RuntimeError(f"{name}: pad must be non-negative, but got padding={list(pads)}")
    if any(pad > (gap * (taps - 1) + 1) // 2 for pad, taps, gap in zip(pads, kernel, gaps, strict=True)):
        raise RuntimeError(
            f"{name}: pad should be at most half of effective kernel size, but got padding={list(pads)}, "
            f"kernel_size={list(kernel)} and dilation={list(gaps)}"
        )
    size = sizes[1:]
    output = tuple(map(count_of, size, kernel, steps, pads, gaps, (ceil_mode,) * len(size)))
    if min(output) < 1:
        given, result = ("x".join(map(str, (sizes[0], *each))) for each in (size, output))
        raise RuntimeError(f"Given input size: ({given}). Calculated output size: ({result}). Output size is too small")
    return Windows(size, kernel, steps, pads, gaps, output)


# Largest values


def _max_pool(
    name: str, dims: int, input: Tensor, kernel_size: Given, stride: Given | None, padding: Given, dilation: Given,
    ceil_mode: bool, return_indices: bool,
) -> Any:  # fmt: skip
    x, unbatched = add_batch(name, input, dims)
    at = _windows(name, x, dims, kernel_size, stride, padding, dilation, ceil_mode)
    if not (return_indices or derives_from(input)) and input._array.itemsize != 2:
        result = adopt(largest(x._array, at))
        return result.squeeze(0) if unbatched else result
    values, indices = pool_max(x, at)
    if unbatched:
        values, indices = values.squeeze(0), indices.squeeze(0)
    return (values, indices) if return_indices else values


# Means


def _shares(at: Windows, count_include_pad: bool) -> np.ndarray:
    """The number of elements of the image, or of the padded image, that each window covers."""
    counts = np.ones(())
    for size, taps, step, pad, length in zip(at.size, at.kernel, at.stride, at.padding, at.output, strict=True):
        start = np.arange(length) * step - pad
        stop = np.minimum(start + taps, size + pad)
        covered = stop - start if count_include_pad else np.minimum(stop, size) - np.maximum(start, 0)
        counts = counts[..., None] * covered
    return counts


@functools.lru_cache(256)
def _divisor(at: Windows, count_include_pad: bool) -> float | np.ndarray:
    """`_shares`, or the one that all windows have."""
    shares = _shares(at, count_include_pad)
    return float(shares.flat[0]) if shares.min() == shares.max() else shares


def _avg_pool(
    name: str, dims: int, input: Tensor, kernel_size: Given, stride: Given | None, padding: Given, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Tensor:  # fmt: skip
    x, unbatched = add_batch(name, input, dims)
    if divisor_override == 0:
        raise RuntimeError(f"{name}: divisor must be not zero, and divisor_override is {divisor_override}")
    at = _windows(name, x, dims, kernel_size, stride, padding, 1, ceil_mode)
    total = sum_windows(widen(x), at)
    if divisor_override is not None:
        divisor: Any = divisor_override
    else:
        shares = _divisor(at, count_include_pad)
        divisor = shares if isinstance(shares, float) else adopt(shares.astype(total._array.dtype))
    if total.is_floating_point():
        mean = total / divisor
    else:  # integers, which round towards zero
        mean = total.div(divisor if isinstance(divisor, Tensor) else int(divisor), rounding_mode="trunc")
    mean = mean.to(input.dtype) if mean._array.dtype != input._array.dtype else mean
    return mean.squeeze(0) if unbatched else mean


# The functions of one, two and three dimensions


def _declare(dims: int) -> tuple[Callable[..., Any], Callable[..., Tensor]]:
    max_name, avg_name = f"max_pool{dims}d", f"avg_pool{dims}d"
    autocast = "float32" if dims == 3 else None

    def pool_largest(
        input: Tensor,
        kernel_size: Given,
        stride: Given | None = None,
        padding: Given = 0,
        dilation: Given = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """The largest value of each window on images (N, C, ...), or (C, ...); with `return_indices` also where it is,
        its index in the image as one dimension. `stride` is by default the kernel's size.

        `ceil_mode` also takes a last window that reaches beyond the padding. Raises RuntimeError for sizes that give
        no window.
        """
        options = kernel_size, stride, padding, dilation, ceil_mode, return_indices
        return _max_pool(max_name, dims, input, *options)

    def pool_mean(
        input: Tensor,
        kernel_size: Given,
        stride: Given | None = None,
        padding: Given = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        """The mean of each window on images (N, C, ...), or (C, ...). `stride` is by default the kernel's size.

        The sum is divided by `divisor_override`, or by the number of places that a window covers of the image and, with
        `count_include_pad`, of its padding. Means of integers are rounded towards zero. Raises RuntimeError for sizes
        that give no window.
        """
        options = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        return _avg_pool(avg_name, dims, input, *options)

    pool_mean.__name__ = avg_name

    pool_largest.__name__ = max_name
    largest_of = composite(method=False, takes="if", autocast=autocast)(pool_largest)
    mean = composite(method=False, takes="if", autocast=autocast)(pool_mean)
    return functional(largest_of, with_indices=True), functional(mean)


max_pool1d, avg_pool1d = _declare(1)
max_pool2d, avg_pool2d = _declare(2)
max_pool3d, avg_pool3d = _declare(3)
max_pool1d_with_indices = functions["max_pool1d_with_indices"]
