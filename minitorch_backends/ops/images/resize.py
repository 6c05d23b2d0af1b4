"""Images in other sizes: interpolation."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...autograd.half_types import widen
from ...dispatch.op import Array, composite, op
from ...kernels.arrays import resampling
from ...tensor.call_errors import argument_errors, scalar
from ...tensor.dtypes import uint8
from ...tensor.size import addressable
from ...tensor.tensor import Tensor
from ..functional import functional
from ..indexing.accumulate import apply_at
from .pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

# Resampling along a dimension: weighted sums of neighbours, and the transpose. Interpolation builds on it


class Neighbours(NamedTuple):
    """The neighbours and weights of `count` results among `size` values along a dimension.

    Attributes:
        size: the number of values.
        places: the value of each part, int64 (parts, count).
        shares: its weight, (parts, count).
    """

    size: int
    places: np.ndarray
    shares: np.ndarray


def _three(input: np.ndarray, dim: int) -> np.ndarray:
    """As (lead, size, rest)."""
    shape = input.shape
    return input.reshape(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))


@op(takes="f", traits="function", input=lambda g, dim, at: resample_back(g, dim, at), batch="shift dim")
def resample(input: Array, dim: int, at: Neighbours) -> Array:
    """Along `dim`, counted from the front, of `at.size` values, the sums of `at`."""
    places, shares = at.places, at.shares.astype(input.dtype)
    if resampling.takes(input):
        found = resampling.resample(_three(input, dim), places, shares)
        return found.reshape(*input.shape[:dim], places.shape[1], *input.shape[dim + 1 :])
    weights = shares.reshape(*shares.shape, *(1,) * (input.ndim - dim - 1))
    total = input.take(places[0], dim) * weights[0]
    for part in range(1, len(places)):
        total += input.take(places[part], dim) * weights[part]
    return total


@op(
    takes="f",
    traits="function",
    grad_output=lambda g, dim, at: resample(g, dim, at),
    batch="loop: functions of it fold the batch",
)
def resample_back(grad_output: Array, dim: int, at: Neighbours) -> Array:
    """The transpose of `resample`."""
    places, shares = at.places, at.shares.astype(grad_output.dtype)
    shape = (*grad_output.shape[:dim], at.size, *grad_output.shape[dim + 1 :])
    if resampling.takes(grad_output):
        return resampling.back(_three(grad_output, dim), at.size, places, shares).reshape(shape)
    weights = shares.reshape(*shares.shape, *(1,) * (grad_output.ndim - dim - 1))
    out = np.zeros(shape)
    for part in range(len(places)):
        apply_at(np.add, out, (slice(None),) * dim + (places[part],), grad_output * weights[part])
    return out.astype(grad_output.dtype, copy=False)


_DIMS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
"""The interpolating modes, and their numbers of spatial dimensions."""

_MODES = ("nearest", "nearest-exact", *_DIMS, "area")
_AREA = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
_CUBIC = -0.75
"""The parameter of the cubic convolution (R. Keys, 1981)."""


def _steps(size: int, count: int, scale: float | None, align_corners: bool) -> float:
    """The distance of neighbouring results in input coordinates."""
    if align_corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1 / scale if scale else size / count


@functools.lru_cache(256)
def _nearest(size: int, count: int, scale: float | None, exact: bool) -> Neighbours:
    """The values that are taken; their places computed in float32, as torch does."""
    step = np.float32(1 / scale if scale else np.float32(size) / np.float32(count))
    places = np.arange(count, dtype=np.float32) + np.float32(0.5 if exact else 0)
    taken = np.minimum(np.floor(places * step).astype(np.int64), size - 1)
    return Neighbours(size, taken[None], np.ones((1, count)))


@functools.lru_cache(256)
def _neighbour_weights(size: int, count: int, scale: float | None, align_corners: bool, cubic: bool) -> Neighbours:
    """The two or four neighbours of each result, and their weights."""
    step = _steps(size, count, scale, align_corners)
    place = np.arange(count) * step if align_corners else (np.arange(count) + 0.5) * step - 0.5
    if not cubic:
        place = place.clip(0)
        first = np.minimum(np.floor(place).astype(np.int64), size - 1)
        share = place - first
        return Neighbours(size, np.stack([first, np.minimum(first + 1, size - 1)]), np.stack([1 - share, share]))
    first = np.floor(place).astype(np.int64)
    shares = cubic_weights(place - first)
    return Neighbours(size, np.stack([(first + k).clip(0, size - 1) for k in (-1, 0, 1, 2)]), np.stack(shares))


def cubic_weights(t: Any) -> tuple[Any, Any, Any, Any]:
    """Of the values at -1, 0, 1 and 2 for places at t from 0 to 1, arrays or tensors."""
    a = _CUBIC
    return (
        ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a,
        ((a + 2) * t - (a + 3)) * t * t + 1,
        ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1,
        ((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a,
    )


def _sizes(input: Tensor, size: Any, scale_factor: Any) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """The sizes of the result, and the factors where these were given."""
    spatial = tuple(input.shape[2:])
    if (size is None) == (scale_factor is None):
        which = "only one of" if size is not None else "either"
        raise ValueError(
            f"interpolate: {which} size or scale_factor should be defined; got {size=} and {scale_factor=}"
        )
    given = size if size is not None else scale_factor
    values = tuple(given) if isinstance(given, (tuple, list)) else (given,) * len(spatial)
    if len(values) != len(spatial):
        raise ValueError(
            f"interpolate: input and output must have the same number of spatial dimensions, but got input with "
            f"spatial dimensions of {list(spatial)} and {'output size' if size is not None else 'scale_factor'} of "
            f"{values}"
        )
    if size is not None:
        return tuple(map(int, values)), (None,) * len(values)
    factors = [float(scalar("interpolate", "scale_factor", each, (float, int))) for each in values]
    lengths = [n * factor for n, factor in zip(spatial, factors, strict=True)]
    if not all(abs(length) < 2**63 for length in lengths):
        raise RuntimeError(f"interpolate(): scale_factor must give sizes of at most 64 bits, got {scale_factor}")
    return tuple(map(math.floor, lengths)), tuple(factors)


def _check(input: Tensor, mode: str, align_corners: Any, antialias: bool) -> None:
    if input.ndim not in (3, 4, 5) or mode not in _MODES:
        raise NotImplementedError(
            f"interpolate: only 3D, 4D and 5D input tensors (got {input.ndim}D) and the modes {', '.join(_MODES)} are "
            f"supported (got {mode!r})"
        )
    if _DIMS.get(mode, input.ndim - 2) != input.ndim - 2:
        raise NotImplementedError(
            f"interpolate: got {input.ndim}D input, but {mode} mode needs {_DIMS[mode] + 2}D input"
        )
    if mode not in _DIMS and align_corners is not None:
        raise ValueError(
            f"interpolate: align_corners={align_corners} can only be set with the interpolating modes: "
            f"{', '.join(_DIMS)}, and the mode is {mode!r}"
        )
    if antialias:
        raise NotImplementedError("interpolate: antialias=True is not supported; expected False")


@functional
@composite(method=False, takes="if")
def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize images (N, C, ...) of one to three spatial dimensions to `size`, or to floor(size * scale_factor).

    `mode` is "nearest", "nearest-exact", "linear" (1-D), "bilinear", "bicubic" (2-D), "trilinear" (3-D) or "area". With
    `align_corners` the first and last values keep their places; otherwise values are pixel centres.
    `recompute_scale_factor` derives the step from the sizes instead of `scale_factor`. The only integer dtype is uint8,
    rounded to nearest once, halves up. Raises ValueError and NotImplementedError as torch does, RuntimeError for sizes
    of 0.
    """
    of_bytes = input.dtype is uint8
    if not (of_bytes or input.is_floating_point()):
        raise NotImplementedError(
            f"interpolate() is not implemented for {input.dtype!r}; input must be a floating or uint8 tensor"
        )
    _check(input, mode, align_corners, antialias)
    wanted, factors = _sizes(input, size, scale_factor)
    if recompute_scale_factor:
        if size is not None:
            raise ValueError("interpolate: recompute_scale_factor is not meaningful with an explicit size; pass None")
        factors = (None,) * len(wanted)
    if min((*wanted, *input.shape[1:])) < 1:
        raise RuntimeError(
            f"interpolate: input and output sizes should be greater than 0, but got input {list(input.shape)} and "
            f"output {list(wanted)}"
        )
    addressable((*input.shape[:2], *wanted))
    if mode == "area":
        return _AREA[input.ndim - 3](input, wanted)
    x = input.float() if of_bytes else widen(input)
    of_images = mode == "nearest" and input.ndim == 4  # which torch copies where a size stays
    # The last dimension first, while it is small: there each number is fetched by itself.
    for dim, count, factor in reversed(list(zip(range(2, input.ndim), wanted, factors, strict=True))):
        length = input.shape[dim]
        if mode in _DIMS:
            if count != length or (mode == "bicubic" and factor is not None):
                x = resample(x, dim, _neighbour_weights(length, count, factor, bool(align_corners), mode == "bicubic"))
        elif count != length or not (of_images or factor in (None, 1.0)):
            x = resample(x, dim, _nearest(length, count, factor, mode == "nearest-exact"))
    if of_bytes:
        x = (x + 0.5).floor().clamp(0, 255)
    return x.to(input.dtype) if x._array.dtype != input._array.dtype else x


@functional
@argument_errors
def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """`interpolate`, under its former name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


@functional
@argument_errors
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "nearest"."""
    return interpolate(input, size, scale_factor, "nearest")


@functional
@argument_errors
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "bilinear" and aligned corners."""
    return interpolate(input, size, scale_factor, "bilinear", True)
