"""Sizes, layouts and windows of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Steps", "empty_output", "is_channels_last", "output_size", "padded", "steps", "windows"]


class Steps(NamedTuple):
    """How a kernel moves over an image: three tuples with one number for each spatial dimension."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


def steps(dims: int, stride: Sequence[int] = (), padding: Sequence[int] = (), dilation: Sequence[int] = ()) -> Steps:
    """The steps of a convolution of so many spatial dimensions; an empty tuple stands for the default."""
    ones = (1,) * dims
    return Steps(tuple(stride) or ones, tuple(padding) or (0,) * dims, tuple(dilation) or ones)


def output_size(size: Sequence[int], kernel: Sequence[int], at: Steps) -> tuple[int, ...]:
    """Spatial sizes of the output: floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1 for each."""
    return tuple(
        (length + 2 * pad - gap * (taps - 1) - 1) // step + 1
        for length, taps, step, pad, gap in zip(size, kernel, *at, strict=True)
    )


def is_channels_last(x: np.ndarray) -> bool:
    """Whether the channels of an array (N, C, *S) are neighbours in memory, and its columns are not."""
    return x.strides[1] == x.itemsize and x.shape[1] > 1 and not x.flags.c_contiguous


def empty_output(shape: tuple[int, ...], dtype: np.dtype, channels_last: bool) -> np.ndarray:
    """An uninitialised array (N, C, *S) of either layout."""
    if not channels_last:
        return np.empty(shape, dtype)
    return np.moveaxis(np.empty((shape[0], *shape[2:], shape[1]), dtype), -1, 1)


def padded(x: np.ndarray, padding: Sequence[int]) -> np.ndarray:
    """x (N, C, *S) with zeros on both sides of each spatial dimension, in its own layout; x itself without padding."""
    if not any(padding):
        return x
    sizes = [length + 2 * pad for length, pad in zip(x.shape[2:], padding, strict=True)]
    wide = empty_output((*x.shape[:2], *sizes), x.dtype, is_channels_last(x))
    wide[...] = 0
    inside: Any = (..., *(slice(pad, pad + length) for length, pad in zip(x.shape[2:], padding, strict=True)))
    wide[inside] = x
    return wide


def windows(wide: np.ndarray, kernel: Sequence[int], output: Sequence[int], at: Steps) -> np.ndarray:
    """What each output position sees of a padded array (N, C, *S): a view (N, C, *kernel, *output)."""
    spatial = wide.strides[2:]
    taps = [stride * gap for stride, gap in zip(spatial, at.dilation, strict=True)]
    places = [stride * step for stride, step in zip(spatial, at.stride, strict=True)]
    shape, strides = (*wide.shape[:2], *kernel, *output), (*wide.strides[:2], *taps, *places)
    return np.lib.stride_tricks.as_strided(wide, shape, strides, writeable=False)
