"""Functions of elements, indexing, shapes, products and sets of the standard that are not ours under another name."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ... import linalg
from ...ops import names as ops
from ...tensor.dtypes import FLOATING, int64
from ...tensor.tensor import Tensor
from .renaming import alike

__all__ = [
    "broadcast_shapes", "broadcast_to", "clip", "concat", "expand_dims", "expm1", "flip", "isin", "matrix_transpose",
    "nonzero", "repeat", "reshape", "roll", "round", "searchsorted", "sign", "sort", "squeeze", "stack", "take",
    "take_along_axis", "tensordot", "tile", "unique_all", "unique_counts", "unique_inverse", "unique_values", "vecdot",
    "where",
]  # fmt: skip

Axes = int | tuple[int, ...] | None

# Elements


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """The elements within limits, numbers or arrays that broadcast, in the dtype of `x`."""
    for limit in (min, max):
        if isinstance(limit, Tensor):
            x = ops.broadcast_to(x, ops.broadcast_shapes(x.shape, limit.shape))
    low, high = (limit.to(x.dtype) if isinstance(limit, Tensor) else limit for limit in (min, max))
    if low is not None:
        x = ops.maximum(x, ops.full_like(x, low) if not isinstance(low, Tensor) else low)
    if high is not None:
        x = ops.minimum(x, ops.full_like(x, high) if not isinstance(high, Tensor) else high)
    return x


def expm1(x: Tensor, /) -> Tensor:
    """exp(x) - 1, exact near 0, and of infinite complex numbers as C99 has it."""
    out = ops.expm1(x)
    return ops.where(ops.isfinite(x), out, ops.exp(x) - 1) if x.is_complex() else out


def floor_quotient(x1: Tensor, x2: Tensor, /) -> Tensor:
    """`floor_divide`, and beside infinities the floor of the quotient, where Python and torch give NaN or -1."""
    out = ops.floor_divide(x1, x2)
    if not out.is_floating_point():
        return out
    return ops.where(ops.isfinite(x1) & ops.isfinite(x2), out, ops.floor(ops.divide(x1, x2)))


def round(x: Tensor, /) -> Tensor:
    """The nearest integers, even ones at ties; of complex numbers in both parts."""
    return ops.complex(ops.round(x.real), ops.round(x.imag)) if x.is_complex() else ops.round(x)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1 as numbers are below, at or above 0; complex ones divided by their magnitude; NaN of NaN."""
    return ops.where(ops.isnan(x), x, ops.sgn(x))


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Elements of `x1` where `condition` is true, and of `x2` elsewhere."""
    return ops.where(condition, *alike(x1, x2))


# Indexing and shapes


def take(x: Tensor, indices: Tensor, /, axis: int | None = None) -> Tensor:
    """The elements at 1-dim `indices` along an axis; an axis must be given unless `x` has one only."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"take(): axis must be given for an array of {x.ndim} dimensions")
    return x.movedim(axis or 0, 0)[indices].movedim(0, axis or 0)


def take_along_axis(x: Tensor, indices: Tensor, /, axis: int = -1) -> Tensor:
    """The elements at `indices` along an axis, for each place in the others, over which the two broadcast."""
    size = x.shape[axis]
    return ops.take_along_dim(x, ops.where(indices < 0, indices + size, indices).to(int64), axis)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which these broadcast. Raises ValueError if they do not."""
    try:
        return tuple(ops.broadcast_shapes(*shapes))
    except RuntimeError as error:
        raise ValueError(f"broadcast_shapes(): {error}") from None


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """A view of `x` repeated to `shape`."""
    return ops.broadcast_to(x, shape)


def concat(arrays: Any, /, axis: int | None = 0) -> Tensor:
    """The arrays one after another along an axis, or flattened if it is None."""
    arrays = alike(*arrays)
    return ops.cat([each.flatten() for each in arrays], 0) if axis is None else ops.cat(arrays, axis)


def stack(arrays: Any, /, axis: int = 0) -> Tensor:
    """The arrays along a new axis."""
    return ops.stack(alike(*arrays), axis)


def expand_dims(x: Tensor, /, axis: Axes) -> Tensor:
    """A view with axes of size 1 at these places of the result."""
    axes = (axis,) if isinstance(axis, int) else axis or ()
    ndim = x.ndim + len(axes)
    if wrong := [each for each in axes if not -ndim <= each < ndim]:
        raise IndexError(f"expand_dims(): axis must be from {-ndim} to {ndim - 1}, got {wrong[0]}")
    places = sorted(each % ndim for each in axes)
    if len(set(places)) < len(places):
        raise ValueError(f"expand_dims(): axis must name each place once, got {axes}")
    return functools.reduce(ops.unsqueeze, places, x)


def squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """A view without these axes. Raises ValueError for one whose size is not 1."""
    axes = (axis,) if isinstance(axis, int) else axis or ()
    if wrong := [each for each in axes if x.shape[each] != 1]:
        raise ValueError(f"squeeze(): axis must be of size 1, got {wrong[0]} of size {x.shape[wrong[0]]}")
    return ops.squeeze(x, axes)


def flip(x: Tensor, /, axis: Axes = None) -> Tensor:
    """The elements in reverse order along some axes, or all."""
    return ops.flip(x, tuple(range(x.ndim)) if axis is None else axis)


def repeat(x: Tensor, repeats: Any, /, axis: int | None = None) -> Tensor:
    """Each element (along an axis, or of the flattened array) `repeats` times."""
    return ops.repeat_interleave(x, repeats.to(int64) if isinstance(repeats, Tensor) else repeats, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in another shape. Raises ValueError if that takes a copy and `copy` is False."""
    if copy:
        return x.clone().reshape(shape)
    try:
        return x.reshape(shape) if copy is None else x.view(shape)
    except RuntimeError:
        if copy is None:
            raise
        raise ValueError(f"reshape(): shape must keep the layout with copy=False, got {shape}") from None


def roll(x: Tensor, /, shift: Any, axis: Axes = None) -> Tensor:
    """The elements shifted cyclically along some axes, or in the flattened array."""
    if axis is not None and not isinstance(axis, int) and isinstance(shift, int):
        shift = (shift,) * len(axis)
    return ops.roll(x, shift, () if axis is None else axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The array repeated along each axis."""
    return ops.tile(x, repetitions)


# Products


def tensordot(x1: Tensor, x2: Tensor, /, axes: Any = 2) -> Tensor:
    """The product summed over the last and first `axes` axes, or over pairs of named ones."""
    return ops.tensordot(*alike(x1, x2), dims=axes)


def vecdot(x1: Tensor, x2: Tensor, /, axis: int = -1) -> Tensor:
    """The dot product over an axis that is counted from the end, the first factor conjugated."""
    x1, x2 = alike(x1, x2)
    shortest = min(x1.ndim, x2.ndim)
    if not -shortest <= axis <= -1:
        raise ValueError(f"vecdot(): axis must be from {-shortest} to -1, got {axis}")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot(): sizes along axis must be equal, got {x1.shape[axis]} and {x2.shape[axis]}")
    if x1.dtype.category >= FLOATING:
        return linalg.vecdot(x1, x2, dim=axis)
    return ops.matmul(x1.movedim(axis, -1)[..., None, :], x2.movedim(axis, -1)[..., None])[..., 0, 0]


def matrix_transpose(x: Tensor, /) -> Tensor:
    """A view with the last two axes exchanged."""
    return x.mT


# Searching, sorting and sets


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The places of elements that are not 0, by axes. Raises ValueError for an array without axes."""
    if x.ndim == 0:
        raise ValueError("nonzero(): x must have at least one axis, got none")
    return ops.nonzero(x, as_tuple=True)


def searchsorted(x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where the elements of `x2` would go into the sorted `x1`."""
    return ops.searchsorted(*alike(x1, x2), side=side, sorter=sorter)


def sort(x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis."""
    return ops.sort(x, axis, descending, stable).values


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Which elements of `x1` are in `x2`."""
    return ops.isin(*alike(x1, x2), invert=invert)


class UniqueAll(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The values in order, where each stands first in the flattened array, which one each element is, and how often."""
    values, inverse, counts = _unique(x)
    indices = ops.argsort(inverse.flatten(), stable=True)[counts.cumsum(0) - counts]
    return UniqueAll(values, indices, inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The values in order, and how often each occurs."""
    values, _, counts = _unique(x)
    return UniqueCounts(values, counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The values in order, and which one each element is."""
    values, inverse, _ = _unique(x)
    return UniqueInverse(values, inverse)


def unique_values(x: Tensor, /) -> Tensor:
    """The values in order."""
    return _unique(x)[0]


def _unique(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The values in order, complex ones by their parts, with their inverse and counts."""
    if not x.is_complex():
        return ops.unique(x, return_inverse=True, return_counts=True)
    parts = ops.view_as_real(x.flatten())
    values, inverse, counts = ops.unique(parts, return_inverse=True, return_counts=True, dim=0)
    return ops.view_as_complex(values), inverse.reshape(x.shape), counts
