"""Images at places between their values: what spatial transformers look up (M. Jaderberg et al., "Spatial transformer
networks", 2015)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...autograd.half_types import widen
from ...autograd.modes import derives_from
from ...dispatch.op import composite
from ...kernels.arrays import sampling
from ...tensor.size import addressable
from ...tensor.tensor import Tensor, adopt, not_a_tensor
from ..dims import integer
from ..elementwise.activations import hardtanh
from ..functional import functional
from .resize import cubic_weights

_MODES, _PADDINGS = sampling.MODES, sampling.PADDINGS


class _Tap(NamedTuple):
    """Whole numbers that count values along a dimension, and what each counts for."""

    at: Tensor
    weight: Tensor


def _reflect(place: Tensor, size: int, align_corners: bool) -> Tensor:
    """Places outside are seen in mirrors at the middles of the first and the last value, or at their outer edges."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if not span:
        return place * 0
    away = (place - low).abs()
    turns = (away.detach() / span).floor()
    rest = away - turns * span
    return hardtanh(rest.where(turns % 2 == 0, span - rest) + low, 0, size - 1)


def _inside(place: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Places in the image; on the border, where the slopes of both sides differ, the gradient is 0."""
    if padding_mode == "border":
        return hardtanh(place, 0, size - 1)
    return _reflect(place, size, align_corners) if padding_mode == "reflection" else place


def _taps(place: Tensor, size: int, mode: str, padding_mode: str, align_corners: bool) -> list[_Tap]:
    """The values around each place along one dimension; those of zeros count for nothing."""
    place = place * ((size - 1) / 2) + (size - 1) / 2 if align_corners else place * (size / 2) + (size - 1) / 2
    if padding_mode != "reflection":  # far outside, but finite
        place = place.clamp(-4, size + 3)
    if mode != "bicubic":
        place = _inside(place, size, padding_mode, align_corners)
    first = place.round() if mode == "nearest" else place.detach().floor()
    share = place - first
    if mode == "nearest":  # whose weight has a gradient, of zeros
        taps = [_Tap(first, first.masked_fill(adopt(~np.isnan(first._array)), 1.0))]
    elif mode == "bilinear":
        taps = [_Tap(first, 1 - share), _Tap(first + 1, share)]
    else:
        taps = [_Tap(first + step, weight) for step, weight in zip((-1, 0, 1, 2), cubic_weights(share), strict=True)]
        taps = [tap._replace(at=_inside(tap.at, size, padding_mode, align_corners).floor()) for tap in taps]
    return [_clamp_tap(tap, size) for tap in taps]


def _clamp_tap(tap: _Tap, size: int) -> _Tap:
    """A tap with an index in the image. Taps outside count as the first value times 0; NaN coordinates give NaN
    weights."""
    beside = adopt(~((tap.at._array >= 0) & (tap.at._array <= size - 1)))
    index = tap.at.masked_fill(beside, 0).long()
    nothing = adopt(beside._array & ~np.isnan(tap.at._array))
    return _Tap(index, tap.weight.masked_fill(nothing, 0))


@functional
@composite(method=False, takes="f", autocast="float32")
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Sample images (N, C, H, W) at the places `grid` (N, h, w, 2), giving (N, C, h, w); or volumes (N, C, D, H, W) at
    (N, d, h, w, 3).

    A place is (x, y) or (x, y, z). -1 and 1 are the outer edges of the first and last value, or their centres with
    `align_corners`. `mode` is "bilinear", "nearest", or, for images, "bicubic". Outside, the image is 0 ("zeros"), its
    edge values ("border"), or mirrored ("reflection"). Raises RuntimeError for mismatched shapes, ValueError for other
    modes.
    """
    if mode not in _MODES or padding_mode not in _PADDINGS:
        raise ValueError(
            f"grid_sample(): expected mode to be one of {', '.join(_MODES)} and padding_mode one of "
            f"{', '.join(_PADDINGS)}, got {mode!r} and {padding_mode!r}"
        )
    _check(input, grid, mode)
    values, places = widen(input), widen(grid)
    (count, channels, *sizes), around = values._array.shape, places._array.shape[1:-1]
    points, align = math.prod(around), bool(align_corners)
    if not (derives_from(input) or derives_from(grid)) and sampling.takes(values._array, places._array):
        images = values._array.reshape(count, channels, *(1,) * (3 - len(sizes)), *sizes)
        found = sampling.sample(images, places._array.reshape(count, points, len(sizes)), mode, padding_mode, align)
        made = adopt(found.reshape(count, channels, *around))
        return made if values is input else made.to(input.dtype)
    along = [
        _taps(places[..., dim].reshape(count * points, 1), size, mode, padding_mode, align)
        for dim, size in zip(reversed(range(len(sizes))), sizes, strict=True)
    ]
    rows = values.movedim(1, -1).reshape(count * math.prod(sizes), channels)  # one for each place in each image
    image = adopt(np.arange(count).repeat(points)[:, None])
    total: Any = None
    for taps in itertools.product(*along):
        index: Any = image
        weight: Any = 1.0
        for tap, size in zip(taps, sizes, strict=True):
            index, weight = index * size + tap.at, tap.weight * weight
        part = rows.index_select(0, index.reshape(-1)) * weight
        total = part if total is None else total + part
    result = total.reshape(count, *around, channels).movedim(-1, 1).contiguous()
    return result if values is input else result.to(input.dtype)


def _check(input: Tensor, grid: Tensor, mode: str) -> None:
    """Raise RuntimeError for images and places that do not go together."""
    if not isinstance(grid, Tensor):
        raise not_a_tensor("grid_sample", "grid", grid)
    shape, places = input._array.shape, grid._array.shape
    if len(shape) not in (4, 5) or len(places) != len(shape):
        raise RuntimeError(
            f"grid_sample(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes "
            f"{list(shape)} and grid with sizes {list(places)}"
        )
    if places[0] != shape[0] or places[-1] != len(shape) - 2:
        raise RuntimeError(
            f"grid_sample(): expected a grid of {shape[0]} images with {len(shape) - 2} numbers for each place, for "
            f"input with sizes {list(shape)}, but got {list(places)}"
        )
    if 0 in shape[2:]:
        raise RuntimeError(
            f"grid_sample(): expected input to have non-empty spatial dimensions, but got sizes {list(shape)}"
        )
    if grid._array.dtype != input._array.dtype:
        raise RuntimeError(f"grid_sample(): expected grid of {input.dtype!r} as the input, but got {grid.dtype!r}")
    if mode == "bicubic" and len(shape) == 5:
        raise RuntimeError("grid_sample(): bicubic interpolation only supports 4D input, got 5D")


@functional
@composite(method=False, takes="f")
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The sampling grid (N, H, W, 2) of affine maps `theta` (N, 2, 3), for `grid_sample` on images of this `size` (N,
    C, H, W).

    For volumes (N, C, D, H, W) `theta` is (N, 3, 4). Products run at full precision. Raises ValueError for mismatched
    shapes.
    """
    size = addressable([integer("affine_grid", "size", each) for each in size])
    dims = len(size) - 2
    if dims not in (2, 3) or tuple(theta.shape) != (size[0], dims, dims + 1) or min(size[1:]) < 1:
        raise ValueError(
            "affine_grid(): size must be 4 or 5 positive numbers and theta of shape (N, 2, 3) or (N, 3, 4), got "
            f"{list(size)} and {list(theta.shape)}"
        )
    maps = widen(theta)
    total = maps[:, :, dims].reshape(size[0], *(1,) * dims, dims)
    for dim in range(dims):
        length = size[-1 - dim]
        ends = 1.0 if align_corners else (length - 1) / length
        middles = np.linspace(-ends, ends, length) if length > 1 else np.zeros(1)
        along = adopt(middles.astype(maps._array.dtype).reshape(-1, *(1,) * dim, 1))
        total = total + maps[:, :, dim].reshape(size[0], *(1,) * dims, dims) * along
    return total.to(theta.dtype) if total.dtype is not theta.dtype else total
