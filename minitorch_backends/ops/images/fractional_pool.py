"""Fractional max pooling: windows that begin at random places (Graham, arXiv 1412.6071)."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from ...dispatch.op import composite
from ...tensor.tensor import Tensor, adopt
from ..conv.functions import numbers
from ..conv.im2col import gather_flat
from ..functional import functional

Sizes = tuple[int, ...]


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


def _windows(starts: list[np.ndarray], kernel: Sizes, size: Sizes) -> np.ndarray:
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
    places = _windows(starts, kernel, size)
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


def _declare(dims: int) -> Callable[..., Any]:
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


fractional_max_pool2d = _declare(2)
fractional_max_pool3d = _declare(3)
