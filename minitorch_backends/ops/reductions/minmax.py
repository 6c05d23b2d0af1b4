"""The largest and the smallest elements, over some or all dimensions, and where they are."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, composite, op
from ...kernels.arrays.elementwise import in_order
from ...tensor.tensor import Tensor
from ..dims import wrap_dim
from ..elementwise.comparison import maximum, minimum
from ..gradients import axes_of, shared_among_ties
from ..indexing.sorting import ValuesIndices, of_selected
from .reduce import join_elements

__all__ = ["amax", "amin", "aminmax", "argmax", "argmin", "max", "min"]


def refuse_empty(name: str, input: np.ndarray, axes: tuple[int, ...] | None) -> None:
    """Raise torch's errors for extrema of nothing."""
    if axes is None:
        if not input.size:
            error = IndexError if name.startswith("arg") else RuntimeError
            raise error(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0, "
                f"and the shape is {list(input.shape)}; pass a dim of non-zero size"
            )
        return
    for axis in axes:
        if input.ndim and not input.shape[axis]:
            raise IndexError(
                f"{name}(): Expected reduction dim {axis} to have non-zero size, "
                f"and the shape is {list(input.shape)}; pass another dim"
            )


# Values


def _largest(input: np.ndarray) -> np.ndarray:
    refuse_empty("amax", input, None)
    return join_elements("Largest", np.maximum, input)


def _smallest(input: np.ndarray) -> np.ndarray:
    refuse_empty("amin", input, None)
    return join_elements("Smallest", np.minimum, input)


_extreme = functools.partial(op, traits="row_major silent", takes="bif")


@_extreme(input=shared_among_ties, ufunc=_largest, traits="silent row_major unwidened", batch="reduce")
def amax(input: Array, dim: int | Sequence[int] = (), keepdim: bool = False) -> Array:
    """The largest element over `dim`, an int or several; over all dimensions by default; NaN if any is NaN.

    Ties share the gradient equally. Raises RuntimeError or IndexError for empty dimensions.
    """
    axes = axes_of(dim, input.ndim)
    refuse_empty("amax", input, axes)
    return join_elements("Largest", np.maximum, input, axes, keepdim)


@_extreme(input=shared_among_ties, ufunc=_smallest, traits="silent row_major unwidened", batch="reduce")
def amin(input: Array, dim: int | Sequence[int] = (), keepdim: bool = False) -> Array:
    """The smallest element over `dim`, an int or several; over all dimensions by default; NaN if any is NaN.

    Ties share the gradient equally. Raises RuntimeError or IndexError for empty dimensions.
    """
    axes = axes_of(dim, input.ndim)
    refuse_empty("amin", input, axes)
    return join_elements("Smallest", np.minimum, input, axes, keepdim)


# Values and places along one dimension

_LEAST_TURNED = 1 << 14
"""Minimum number of elements for which transposing the array first makes the search faster."""


def _places(arg: Any, input: np.ndarray, axis: int | None, keepdim: bool) -> Any:
    """np.argmax or np.argmin."""
    if axis is None or axis == input.ndim - 1 or input.size < _LEAST_TURNED:
        return arg(input, axis=axis, keepdims=keepdim)
    found = arg(in_order(np.moveaxis(input, axis, -1)), axis=-1)
    return np.expand_dims(found, axis) if keepdim else found


def _first(reduce: Any, arg: Any, name: str, input: np.ndarray, dim: Any, keepdim: bool) -> ValuesIndices:
    if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)):
        raise TypeError(f"{name}() takes one dim, an int, got {dim!r}; use a{name} for several, which gives no indices")
    axis = wrap_dim(int(dim), input.ndim)
    refuse_empty(name, input, (axis,))
    if not input.ndim:
        return ValuesIndices(input.copy(), np.zeros((), np.int64))
    return ValuesIndices(reduce(input, axis=axis, keepdims=keepdim), _places(arg, input, axis, keepdim))


@_extreme(
    input=lambda g, indices, input_shape, dim: of_selected(g[0], indices, input_shape, dim),
    traits="silent row_major function",
    batch="along",
)
def max_along(input: Array, dim: int, keepdim: bool = False) -> ValuesIndices:
    """The largest element along `dim`, and the index of the first one, which gets the gradient."""
    return _first(functools.partial(join_elements, "Largest", np.maximum), np.argmax, "max", input, dim, keepdim)


@_extreme(
    input=lambda g, indices, input_shape, dim: of_selected(g[0], indices, input_shape, dim),
    traits="silent row_major function",
    batch="along",
)
def min_along(input: Array, dim: int, keepdim: bool = False) -> ValuesIndices:
    """The smallest element along `dim`, and the index of the first one, which gets the gradient."""
    return _first(functools.partial(join_elements, "Smallest", np.minimum), np.argmin, "min", input, dim, keepdim)


def _form(all_of_it: Any, along: Any, elementwise: Any, input: Tensor, dim: Any, keepdim: bool, other: Any) -> Any:
    other = dim if isinstance(dim, Tensor) else other
    if other is not None:
        return elementwise(input, other)
    if dim is not None:
        return along(input, dim, keepdim)
    if keepdim:
        raise TypeError("keepdim=True needs a dim; use amax() or amin() to reduce all dimensions and keep them")
    return all_of_it(input)


@composite(takes="bif")
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """The largest of all elements; or along `dim`, with the indices; or of two tensors, as `maximum`.

    Along `dim` the first of equal elements gets the gradient; in the other forms they share it equally. Raises
    RuntimeError or IndexError for empty dimensions.
    """
    return _form(amax, max_along, maximum, input, dim, keepdim, other)


@composite(takes="bif")
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """The smallest of all elements; or along `dim`, with the indices; or of two tensors, as `minimum`.

    Along `dim` the first of equal elements gets the gradient; in the other forms they share it equally. Raises
    RuntimeError or IndexError for empty dimensions.
    """
    return _form(amin, min_along, minimum, input, dim, keepdim, other)


class MinMax(NamedTuple):
    """The smallest and the largest elements."""

    min: Any
    max: Any


@composite(takes="bif")
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """`amin` and `amax`."""
    return MinMax(amin(input, dim, keepdim), amax(input, dim, keepdim))


# Places


def _place(arg: Any, name: str, input: np.ndarray, dim: Any, keepdim: bool) -> Any:
    axis = None if dim is None else wrap_dim(dim, input.ndim)
    refuse_empty(name, input, None if axis is None else (axis,))
    return _places(arg, input, axis if input.ndim else None, keepdim)


@op(traits="silent", takes="if", batch="along")
def argmax(input: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """The index of the first largest element along `dim`, or in row-major order among all; NaN counts as largest.

    Raises IndexError for empty dimensions.
    """
    return _place(np.argmax, "argmax", input, dim, keepdim)


@op(traits="silent", takes="if", batch="along")
def argmin(input: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """The index of the first smallest element along `dim`, or in row-major order among all; NaN counts as smallest.

    Raises IndexError for empty dimensions.
    """
    return _place(np.argmin, "argmin", input, dim, keepdim)
