"""Medians and modes, of all elements or along one dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dispatch.op import Array, composite, op
from ...tensor.tensor import Tensor
from ..dims import wrap_dim
from ..gradients import kept_shape, shared_among_ties
from ..indexing.sorting import ValuesIndices, of_selected, select_rank, sorted_pair, take_along

__all__ = ["median", "mode", "nanmedian"]


def _axis_of(name: str, input: np.ndarray, dim: int) -> int:
    """`dim` counted from the front. Raises IndexError for a dimension without elements."""
    axis = wrap_dim(dim, input.ndim)
    if input.ndim and not input.shape[axis]:
        raise IndexError(
            f"{name}(): Expected reduction dim {axis} to have non-zero size, got shape {list(input.shape)}"
        )
    return axis


def _reduced_shape(shape: tuple[int, ...], axis: int, keepdim: bool) -> tuple[int, ...]:
    return kept_shape(shape, axis) if keepdim else tuple(size for each, size in enumerate(shape) if each != axis)


# Medians


def _median_with_nan(array: np.ndarray, axis: int) -> ValuesIndices:
    """The median of the non-NaN values in each sorted row, which come first."""
    found = sorted_pair(array, axis, False)
    last = np.maximum((~np.isnan(array)).sum(axis, keepdims=True) - 1, 0) // 2
    return ValuesIndices(*(take_along(each, last, axis) for each in found))


@op(
    input=lambda g, indices, input_shape, dim: of_selected(g[0], indices, input_shape, dim),
    method=False,
    warns=False,
    takes="if",
    called="median",
    batch="along",
)
def median_along(input: Array, dim: int, keepdim: bool = False, ignore_nan: bool = False) -> ValuesIndices:
    """The lower median along `dim` and its index. NaN if any element is NaN, or with `ignore_nan` if all are."""
    axis, array = _axis_of("median", input, dim), np.atleast_1d(input)
    missing = np.isnan(array) if input.dtype.kind == "f" else np.zeros((), bool)
    if ignore_nan and missing.any():
        values, indices = _median_with_nan(array, axis)
        shape = _reduced_shape(input.shape, axis, keepdim)
        return ValuesIndices(values.reshape(shape), indices.reshape(shape))
    values, indices = select_rank(array, (array.shape[axis] + 1) // 2, axis, keepdim, input.shape)
    if missing.any():
        first, unknown = (find(missing, axis=axis).reshape(indices.shape) for find in (np.argmax, np.any))
        return ValuesIndices(np.where(unknown, np.nan, values).astype(input.dtype), np.where(unknown, first, indices))
    return ValuesIndices(values, indices)


@op(
    input=lambda g, input, out: shared_among_ties(g, input, out, None),
    method=False,
    warns=False,
    takes="if",
    called="median",
    batch="loop: the elements of one sample",
)
def median_of_all(input: Array, ignore_nan: bool = False) -> Array:
    """The lower median of all elements. NaN if any element is NaN, or if there are none; ties share the gradient.

    With `ignore_nan`, the median of the elements that are not NaN.
    """
    values = input[~np.isnan(input)] if ignore_nan and input.dtype.kind == "f" else input
    if not values.size:
        if input.dtype.kind in "iu":
            raise NotImplementedError(f"median() of no elements is not implemented for {input.dtype}; use float()")
        return np.array(math.nan, input.dtype)
    middle, last = (values.size - 1) // 2, values.size - 1
    found = np.partition(values, [middle, last], None)
    return found[last] if found[last] != found[last] else found[middle]  # NaN is the largest


@composite(takes="if")
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements, or along `dim` with its indices. NaN if any element is NaN."""
    return median_of_all(input) if dim is None else median_along(input, dim, keepdim)


@composite(takes="if")
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """`median` of the elements that are not NaN; NaN if there are none."""
    return median_of_all(input, True) if dim is None else median_along(input, dim, keepdim, True)


# Modes


@op(
    input=lambda g, indices, input_shape, dim: of_selected(g[0], indices, input_shape, dim),
    warns=False,
    takes="bif",
    batch="along",
)
def mode(input: Array, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The most frequent element along `dim`, of several the smallest, and the index of its last occurrence.

    Raises IndexError for a dimension without elements.
    """
    axis = _axis_of("mode", input, dim)
    values, places = (np.moveaxis(each, axis, -1) for each in sorted_pair(np.atleast_1d(input), axis, False))
    index = np.arange(values.shape[-1])
    begins = np.ones(values.shape, bool)
    begins[..., 1:] = values[..., 1:] != values[..., :-1]
    run = index - np.maximum.accumulate(np.where(begins, index, 0), -1)  # number of equal elements before each
    last = run.argmax(-1)[..., None]
    shape = _reduced_shape(input.shape, axis, keepdim)
    return ValuesIndices(*(take_along(each, last, values.ndim - 1).reshape(shape) for each in (values, places)))
