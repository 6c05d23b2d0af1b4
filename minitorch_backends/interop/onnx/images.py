"""Images in other sizes. Each axis is resampled by itself: every result is a weighted sum of neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...nn import functional as F
from ...ops import names as ops
from ...ops.dims import wrap_dims
from ...ops.images.resize import Neighbours, resample
from ...ops.names import from_numpy
from ...tensor.tensor import Tensor
from .table import choice, operator


class Axis(NamedTuple):
    """One axis that is resized: its size, the size of the result, their ratio as declared, and the region of
    "tf_crop_and_resize"."""

    size: int
    length: int
    scale: float
    start: float
    end: float


class Rule(NamedTuple):
    """How an axis is resampled: the attributes of Resize."""

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    excludes_outside: bool
    antialias: bool


# Where results lie: the place in the input of the result with number x (of all of them, an array)


def _half_pixel_symmetric(x: np.ndarray, of: Axis) -> np.ndarray:
    offset = of.size / 2 * (1 - of.length / (of.scale * of.size))
    return offset + (x + 0.5) / of.scale - 0.5


def _crop(x: np.ndarray, of: Axis) -> np.ndarray:
    if of.length == 1:
        return np.full(1, 0.5 * (of.start + of.end) * (of.size - 1))
    return of.start * (of.size - 1) + x * (of.end - of.start) * (of.size - 1) / (of.length - 1)


_COORDINATES: dict[str, Callable[[np.ndarray, Axis], np.ndarray]] = {
    "half_pixel": lambda x, of: (x + 0.5) / of.scale - 0.5,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": lambda x, of: (x + 0.5) / of.scale - 0.5 if of.length > 1 else np.zeros(len(x)),
    "tf_half_pixel_for_nn": lambda x, of: (x + 0.5) / of.scale,
    "align_corners": lambda x, of: x * (of.size - 1) / max(of.length - 1, 1),
    "asymmetric": lambda x, of: x / of.scale,
    "tf_crop_and_resize": _crop,
}

_NEAREST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _linear(distance: np.ndarray, _: float) -> np.ndarray:
    return np.maximum(1 - distance, 0)


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


_KERNELS = {"linear": (_linear, 1), "cubic": (_cubic, 2)}
"""The weight of a neighbour by its distance, and the radius of the kernel."""


def _neighbours(of: Axis, rule: Rule) -> tuple[Neighbours, np.ndarray]:
    """The neighbours of each result, and where results lie (R. Keys, 1981, for cubic weights)."""
    kind = np.float32 if rule.mode == "nearest" else np.float64  # as onnxruntime, where rounding chooses a neighbour
    place = choice(_COORDINATES, rule.coordinates, "coordinate_transformation_mode")
    at = place(np.arange(of.length, dtype=kind), of).astype(np.float64)
    if rule.mode == "nearest":
        places = np.clip(choice(_NEAREST, rule.nearest, "nearest_mode")(at), 0, of.size - 1)
        return Neighbours(of.size, places[None].astype(np.int64), np.ones((1, of.length))), at
    function, reach = choice(_KERNELS, rule.mode, "mode")
    stretch = min(of.scale, 1.0) if rule.antialias else 1.0
    width = math.ceil(reach / stretch)
    places = np.floor(at)[None] + np.arange(1 - width, width + 1)[:, None]
    shares = function(np.abs(places - at) * stretch, rule.cubic)
    if rule.excludes_outside:
        shares = np.where((places < 0) | (places >= of.size), 0, shares)
    if rule.excludes_outside or rule.antialias:
        shares = shares / shares.sum(0)
    return Neighbours(of.size, np.clip(places, 0, of.size - 1).astype(np.int64), shares), at


def _resize(x: Tensor, axis: int, of: Axis, rule: Rule, extrapolation: float) -> Tensor:
    neighbours, at = _neighbours(of, rule)
    if rule.mode == "nearest":
        found = ops.index_select(x, axis, from_numpy(neighbours.places[0]))
    else:
        found = resample(x, axis, neighbours) if x.is_floating_point() else _of_integers(x, axis, neighbours)
    if rule.coordinates == "tf_crop_and_resize":
        outside = from_numpy((at < 0) | (at > of.size - 1)).reshape((-1, *[1] * (x.ndim - axis - 1)))
        found = ops.where(outside, ops.full((), extrapolation, dtype=x.dtype), found)
    return found


def _of_integers(x: Tensor, axis: int, at: Neighbours) -> Tensor:
    return ops.trunc(resample(x.double(), axis, at)).to(x.dtype)


def _target(
    lengths: Sequence[int], scales: list[float] | None, sizes: list[int] | None, policy: str
) -> list[tuple[int, float]]:
    """The size of each result, and its ratio to the input's."""
    if len(given := sizes or scales or ()) != len(lengths) or min(sizes or (1,)) < 0:
        raise ValueError(f"sizes or scales must be {len(lengths)} non-negative numbers, got {given}")
    if not sizes and not all(0 < scale < math.inf for scale in scales or ()):
        raise ValueError(f"scales must be positive and finite, got {scales}")
    if not sizes:
        return [(math.floor(size * scale), scale) for size, scale in zip(lengths, scales or (), strict=True)]
    ratios = [wanted / size for wanted, size in zip(sizes, lengths, strict=True)]
    if policy == "stretch":
        return list(zip(sizes, ratios, strict=True))
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [(math.floor(ratio * size + 0.5), ratio) for size in lengths]


@operator("Resize", since=11)
def resize(
    x: Tensor, roi: list[float] | None = None, scales: list[float] | None = None, sizes: list[int] | None = None, *,
    mode: str = "nearest", coordinate_transformation_mode: str = "half_pixel", nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0, antialias: int = 0,
    axes: list[int] | None = None, keep_aspect_ratio_policy: str = "stretch",
) -> Tensor:  # fmt: skip
    """x in other sizes, given as such or by their ratio, over all axes or over `axes`. Corners are aligned by whole
    sizes, as onnxruntime does, not by size * scale."""
    chosen = wrap_dims(axes, x.ndim) if axes else range(x.ndim)
    crop = coordinate_transformation_mode == "tf_crop_and_resize"
    rule = Rule(
        mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias)
    )
    targets = _target([x.shape[axis] for axis in chosen], scales, sizes, keep_aspect_ratio_policy)
    for place, (axis, (count, scale)) in enumerate(zip(chosen, targets, strict=True)):
        region = (roi[place], roi[len(chosen) + place]) if crop and roi else (0.0, 1.0)
        of = Axis(x.shape[axis], count, scale, *region)
        if scale != 1 or count != of.size or (crop and region != (0.0, 1.0)):
            x = _resize(x, axis, of, rule, extrapolation_value)
    return x


@operator("Resize", since=10)
@operator("Upsample")
def upsample(x: Tensor, scales: list[float], *, mode: str = "nearest") -> Tensor:
    """As before opset 11: results lie at multiples of the input's steps, and the nearest is the one before."""
    return resize(x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")


_SAMPLES = {"linear": "bilinear", "cubic": "bicubic"}
"""Names of ours for modes of GridSample since opset 20."""


@operator("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0
) -> Tensor:
    return F.grid_sample(x, grid, _SAMPLES.get(mode, mode), padding_mode, bool(align_corners))


@operator("AffineGrid")
def affine_grid(theta: Tensor, size: list[int], *, align_corners: int = 0) -> Tensor:
    return F.affine_grid(theta, size, bool(align_corners))
