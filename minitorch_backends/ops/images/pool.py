"""Pooling, under torch's names: values and means of sliding, adaptive and random windows, and norms of neighbours."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from ...autograd.half_types import widen
from ...autograd.modes import derives_from
from ...dispatch.op import composite
from ...tensor.registry import functions
from ...tensor.size import addressable
from ...tensor.tensor import Tensor, adopt, not_a_tensor
from ..conv.functions import numbers
from ..conv.im2col import Windows, gather_flat, largest, pool_max, sum_windows
from ..dims import integer
from ..elementwise.activations import relu
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
    autocast, images = "float32" if dims == 3 else None, f"images {dims + 2}"

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
    largest_of = composite(method=False, takes="if", autocast=autocast, batch=images)(pool_largest)
    mean = composite(method=False, takes="if", autocast=autocast, batch=images)(pool_mean)
    return functional(largest_of, with_indices=True), functional(mean)


max_pool1d, avg_pool1d = _declare(1)
max_pool2d, avg_pool2d = _declare(2)
max_pool3d, avg_pool3d = _declare(3)
max_pool1d_with_indices = functions["max_pool1d_with_indices"]


# Pooling to given sizes, under torch's names


def _output_size(name: str, dims: int, output_size: Any, size: Sizes) -> Sizes:
    """The requested sizes; None keeps the input's."""
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * dims
    if len(given) != dims:
        raise RuntimeError(f"{name}: output_size must be {dims} numbers, got {output_size!r}")
    wanted = tuple(
        own if each is None else integer(name, "output_size", each) for each, own in zip(given, size, strict=True)
    )
    addressable(wanted)
    if min(wanted) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {list(wanted)}"
        )
    return wanted


def _bounds(size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each of `count` windows over `size` values begins and ends: floor(i size / count), ceil((i + 1) size /
    count)."""
    index = np.arange(count)
    return index * size // max(count, 1), -(-(index + 1) * size // max(count, 1))


def _places(size: int, count: int) -> np.ndarray:
    """The indices that each window sees, (count, longest); short windows have their last one again."""
    start, stop = _bounds(size, count)
    longest = int((stop - start).max(initial=1))
    return np.minimum(start[:, None] + np.arange(longest), stop[:, None] - 1)


def _mean_along(x: Tensor, dim: int, count: int) -> Tensor:
    """The means of windows along one dimension."""
    size = x.shape[dim]
    if count == size:
        return x
    if count and size % count == 0:
        return x.unflatten(dim, (count, size // count)).mean(dim + 1)
    start, stop = _bounds(size, count)
    places = _places(size, count)
    fresh = start[:, None] + np.arange(places.shape[1]) < stop[:, None]
    counts = np.maximum(stop - start, 1).astype(x._array.dtype)
    seen, behind = x.index_select(dim, adopt(places.ravel())).unflatten(dim, places.shape), (1,) * (x.ndim - dim - 1)
    # A multiplication by 0 would give NaN for infinite values.
    seen = seen.masked_fill(adopt(~fresh.reshape(*fresh.shape, *behind)), 0.0)
    return seen.sum(dim + 1) / adopt(counts.reshape(-1, *behind))


def _check(name: str, checked: int, dims: int, input: Tensor, output_size: Any) -> None:
    """Raise RuntimeError for another number of dimensions, and where one of the last `checked` is empty."""
    shape = list(input.shape)
    if len(shape) not in (dims + 1, dims + 2):
        raise (ValueError if not isinstance(output_size, int) and 1 < dims >= len(shape) else RuntimeError)(
            f"{name}(): input must have {dims + 1} or {dims + 2} dimensions, got shape {shape}"
        )
    for dim in range(len(shape) - checked, len(shape)):
        if shape[dim] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {shape} "
                f"with dimension {dim} being empty"
            )


def _average(name: str, dims: int, input: Tensor, output_size: Any) -> Tensor:
    _check(name, dims, dims, input, output_size)
    wanted = _output_size(name, dims, output_size, input._array.shape[-dims:])
    x = widen(input)
    if wanted == (1,) * dims:
        x = x.mean(tuple(range(x.ndim - dims, x.ndim)), keepdim=True)
    else:
        for dim, count in enumerate(wanted, input.ndim - dims):
            x = _mean_along(x, dim, count)
    return x.to(input.dtype) if x._array.dtype != input._array.dtype else x


def _largest(name: str, dims: int, input: Tensor, output_size: Any, return_indices: bool) -> Any:
    _check(name, dims + 1, dims, input, output_size)
    wanted = _output_size(name, dims, output_size, input._array.shape[-dims:])
    x = input if input.ndim == dims + 2 else input.unsqueeze(0)
    array, size = x._array, x._array.shape[2:]
    flat: Any = np.zeros((), np.int64)
    seen, longest = array, []
    for axis, count in enumerate(wanted):
        places = _places(size[axis], count)
        seen = np.take(seen, places, axis=2 + 2 * axis)  # (..., count, longest, ...)
        longest.append(places.shape[1])
        flat = flat[..., None, None] * size[axis] + places
    order = [0, 1, *(2 + 2 * axis for axis in range(dims)), *(3 + 2 * axis for axis in range(dims))]
    seen = seen.transpose(order).reshape(*array.shape[:2], *wanted, math.prod(longest))
    flat = flat.transpose([each - 2 for each in order[2:]]).reshape(*wanted, seen.shape[-1])
    best = (np.where(np.isnan(seen), np.inf, seen) if np.isnan(seen).any() else seen).argmax(-1)
    flat = np.broadcast_to(flat, seen.shape)
    indices = adopt(np.take_along_axis(flat, best[..., None], -1)[..., 0])
    values = gather_flat(x, indices)
    if input.ndim == dims + 1:
        values, indices = values.squeeze(0), indices.squeeze(0)
    return (values, indices) if return_indices else values


def _declare_adaptive(dims: int) -> tuple[Callable[..., Tensor], Callable[..., Any]]:
    avg_name, max_name = f"adaptive_avg_pool{dims}d", f"adaptive_max_pool{dims}d"
    autocast, images = "float32" if dims == 3 else None, f"images {dims + 2}"

    def average(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
        """Means over the last dimensions of (N, C, ...), or (C, ...), to `output_size`; None keeps a size.

        Window i of `count` over `size` values is floor(i size / count) to ceil((i + 1) size / count). Raises
        RuntimeError for negative sizes, a wrong number of sizes, and empty images.
        """
        return _average(avg_name, dims, input, output_size)

    def largest(
        input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
    ) -> Any:  # fmt: skip
        """The largest values in the windows of the adaptive mean; with `return_indices` also where they are, as indices
        in an image as one dimension.

        Raises RuntimeError for negative sizes, for another count of them, and for images without values.
        """
        return _largest(max_name, dims, input, output_size, return_indices)

    average.__name__, largest.__name__ = avg_name, max_name
    return (
        functional(composite(method=False, takes="fc", autocast=autocast, batch=images)(average)),
        functional(composite(method=False, takes="f", autocast=autocast, batch=images)(largest), with_indices=True),
    )


adaptive_avg_pool1d, adaptive_max_pool1d = _declare_adaptive(1)
adaptive_avg_pool2d, adaptive_max_pool2d = _declare_adaptive(2)
adaptive_avg_pool3d, adaptive_max_pool3d = _declare_adaptive(3)


# Fractional max pooling: windows that begin at random places (Graham, arXiv 1412.6071)


def _starts(samples: np.ndarray, size: int, count: int, kernel: int) -> np.ndarray:
    """Where `count` windows begin, for samples (...): (..., count). The last one ends where the image does."""
    if count < 2:
        return np.full((*samples.shape, count), size - kernel)
    alpha = (size - kernel) / (count - 1)
    shifted = samples[..., None]
    starts = np.floor((np.arange(count) + shifted) * alpha) - np.floor(shifted * alpha)
    starts[..., -1] = size - kernel
    return starts.astype(np.int64)


def _sizes(name: str, dims: int, size: Sizes, kernel: Sizes, output_size: Any, output_ratio: Any) -> Sizes:
    """The number of windows along each dimension. Raises ValueError if neither argument gives it, RuntimeError if they
    do not fit."""
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name}(): one of output_size and output_ratio must be given")
    if output_size is None:
        ratios = (output_ratio,) * dims if isinstance(output_ratio, Real) else output_ratio
        if not isinstance(ratios, (tuple, list)) or len(ratios) != dims or not all(isinstance(r, Real) for r in ratios):
            raise TypeError(f"{name}(): output_ratio must be a number or {dims} of them, got {output_ratio!r}")
        output_size = tuple(int(each * ratio) for each, ratio in zip(size, ratios, strict=True))
    output = numbers(name, "output_size", output_size, dims)
    if min(output) < 0:
        raise RuntimeError(f"{name}(): output_size must not be negative, got {list(output)}")
    room = [
        each - taps + (dims == 2) for each, taps in zip(size, kernel, strict=True)
    ]  # torch requires more for volumes
    if min(kernel) < 1 or any(count > most for count, most in zip(output, room, strict=True)):
        raise RuntimeError(
            f"{name}(): kernel_size must be positive and output_size at most {room} for an input of size {list(size)}, "
            f"got {list(kernel)} and {list(output)}"
        )
    return output


def _random_samples_of(name: str, x: Tensor, dims: int, given: Tensor | None) -> np.ndarray:
    """The samples, (batch, channels, dims), that users give, or numbers from the default generator."""
    batch, channels = x._array.shape[:2]
    if given is None:
        from ...random import default_generator

        return default_generator.uniform((batch, channels, dims), np.float32)
    if given.dtype is not x.dtype or given.ndim != 3 or given.shape[0] < batch or given.shape[1:] != (channels, dims):
        raise RuntimeError(
            f"{name}(): _random_samples must have shape {[batch, channels, dims]} and the input's dtype {x.dtype!r}, "
            f"got {given.dtype!r} of shape {list(given.shape)}"
        )
    return given._array[:batch].astype(np.float64)


def _random_windows(starts: list[np.ndarray], kernel: Sizes, size: Sizes) -> np.ndarray:
    """The index in an image as one dimension of every element of every window: (batch, channels, *output, taps)."""
    dims = len(size)
    flat: Any = 0
    for dim, (begin, taps, each) in enumerate(zip(starts, kernel, size, strict=True)):
        places = begin[..., None] + np.arange(taps)  # (batch, channels, output, taps)
        after = dims - dim - 1
        shape = (*places.shape[:2], *(1,) * dim, places.shape[2], *(1,) * after, *(1,) * dim, taps, *(1,) * after)
        flat = flat * each + places.reshape(shape)
    return flat.reshape(*flat.shape[: 2 + dims], math.prod(kernel))


def _pool(
    name: str, dims: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: bool,
    samples: Tensor | None,
) -> Any:  # fmt: skip
    shape = input._array.shape
    if len(shape) not in (dims + 1, dims + 2) or 0 in shape[-dims - 1 :]:
        raise RuntimeError(
            f"{name}(): input must have {dims + 1} or {dims + 2} dimensions, where only the batch may be empty, got "
            f"{list(shape)}"
        )
    kernel, size = numbers(name, "kernel_size", kernel_size, dims), shape[-dims:]
    output = _sizes(name, dims, size, kernel, output_size, output_ratio)
    x = input.unsqueeze(0) if len(shape) == dims + 1 else input
    drawn = _random_samples_of(name, x, dims, samples)
    order = range(dims) if dims == 3 else range(dims)[::-1]  # the first sample of an image is for the width
    starts = [_starts(drawn[..., k], *each) for k, *each in zip(order, size, output, kernel, strict=True)]
    places = _random_windows(starts, kernel, size)
    flat = x._array.reshape(*x._array.shape[:2], math.prod(size))
    taps = places.reshape(*flat.shape[:2], math.prod(places.shape[2:]))
    seen = np.take_along_axis(flat, taps, 2).reshape(places.shape)
    missing = seen != seen
    best = (np.where(missing, np.inf, seen) if missing.any() else seen).argmax(-1)
    indices = adopt(np.take_along_axis(places, best[..., None], -1)[..., 0])
    values = gather_flat(x, indices)
    if x is not input:
        values, indices = values.squeeze(0), indices.squeeze(0)
    return (values, indices) if return_indices else values


# The functions of two and three dimensions


def _declare_fractional(dims: int) -> Callable[..., Any]:
    name = f"fractional_max_pool{dims}d"

    def pool(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        """Fractional max pooling: the largest value of windows of `kernel_size` at random places of images (N, C, ...)
        or (C, ...).

        The number of windows is `output_size`, or `output_ratio` times the image's sizes. With `return_indices` the
        flat indices of the values are returned too. Draws from the default generator, or uses `_random_samples` in [0,
        1), (N, C, dims). Raises ValueError if the number of windows is not given, RuntimeError if they do not fit.
        """
        options = kernel_size, output_size, output_ratio, return_indices, _random_samples
        return _pool(name, dims, input, *options)

    pool.__name__ = name
    return functional(composite(method=False, takes="if", autocast="float32")(pool), with_indices=True)


fractional_max_pool2d = _declare_fractional(2)
fractional_max_pool3d = _declare_fractional(3)


# Powers of neighbours: pooling by p-norms, and values over those of the channels around them


_AVERAGES: tuple[Any, ...] = (avg_pool1d, avg_pool2d, avg_pool3d)
_GREATEST: tuple[Any, ...] = (max_pool1d, max_pool2d, max_pool3d)


def _declare_powers(dims: int) -> Callable[..., Tensor]:
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


lp_pool1d, lp_pool2d, lp_pool3d = map(_declare_powers, (1, 2, 3))
