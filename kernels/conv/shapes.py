"""Sizes, layouts and windows of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


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


def transposed_size(size: Sequence[int], kernel: Sequence[int], at: Steps) -> tuple[int, ...]:
    """Spatial sizes of a transposed convolution's output: (size - 1) stride - 2 padding + dilation (kernel - 1) + 1 for
    each, the least that `output_size` brings back to `size`. Output padding is added to it."""
    return tuple(
        (length - 1) * step - 2 * pad + gap * (taps - 1) + 1
        for length, taps, step, pad, gap in zip(size, kernel, *at, strict=True)
    )


def require(
    kernel: str, first: Any, second: Any, bias: Any = None, *, groups: int = 1, input_size: Sequence[int] = (),
    kernel_size: Sequence[int] = (), **keywords: Any,
) -> None:  # fmt: skip
    """Raise ValueError unless the arrays of a call have the shapes of one convolution.

    These are x (N, C, *S), w (O, C/groups, *K) and y (N, O, *out), two of them for each of the three kernels, and a
    bias (O,).
    """
    y: tuple[int, ...] | None = None
    if kernel == "conv":
        x, w = first.shape, second.shape
    elif kernel == "conv_input_gradient":
        w, y = second.shape, first.shape
        x = (*y[:1], *(n * groups for n in w[1:2]), *input_size)
    else:
        x, y = first.shape, second.shape
        w = (*y[1:2], *(n // max(groups, 1) for n in x[1:2]), *kernel_size)
    dims = len(w) - 2
    at = steps(dims, *(keywords.get(name, ()) for name in Steps._fields))
    fits = 1 <= dims <= 3 and len(x) == len(w) and all(len(each) == dims for each in at)
    fits = fits and groups > 0 and x[1] == w[1] * groups and w[0] % groups == 0
    fits = fits and min(*at.stride, *at.dilation) > 0 and min(at.padding) >= 0
    if fits:
        sizes = output_size(x[2:], w[2:], at)
        fits = min(sizes) >= 0 if y is None else y == (x[0], w[0], *sizes)
    if not fits or (bias is not None and bias.shape != w[:1]):
        others = ("" if y is None else f" and the result {list(y)}") + (
            "" if bias is None else f" and the bias {list(bias.shape)}"
        )
        raise ValueError(
            f"the input {list(x)}, the weight {list(w)}{others} are not those of one convolution with "
            f"{at._asdict() | {'groups': groups}}; expected (N, C, *sizes), (O, C/groups, *kernel) and "
            f"(N, O, *output sizes) for one to three dimensions, and a bias of (O,)"
        )


def is_channels_last(x: np.ndarray) -> bool:
    """Whether the channels of an array (N, C, *S) are neighbours in memory, and its columns are not."""
    return x.strides[1] == x.itemsize and x.shape[1] > 1 and not x.flags.c_contiguous


def empty_output(shape: tuple[int, ...], dtype: np.dtype, channels_last: bool) -> np.ndarray:
    """An uninitialised array (N, C, *S) of either layout."""
    if not channels_last:
        return np.empty(shape, dtype)
    return np.moveaxis(np.empty((shape[0], *shape[2:], shape[1]), dtype), -1, 1)


def is_weight_last(x: np.ndarray) -> bool:
    """Whether the gradient of a weight has its channels last in memory, as images x of two or three dimensions have."""
    return x.ndim > 3 and is_channels_last(x)


def lay_out_weight(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A gradient (O, C, *K) contiguous, or with its channels last: itself, or a copy."""
    if not is_weight_last(x):
        return np.ascontiguousarray(weight)
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(weight, 1, -1)), -1, 1)


def pad(x: np.ndarray, padding: Sequence[int]) -> np.ndarray:
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
