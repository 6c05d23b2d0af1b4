"""Sorting, the k largest and the k-th smallest, along one dimension; `medians` has what builds on them."""

from __future__ import annotations

import math
from operator import index as as_int
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, composite, op
from ...kernels.arrays import selection
from ...tensor.tensor import Tensor, adopt
from ..dims import wrap_dim
from ..gradients import kept_shape, restore_dims

__all__ = ["argsort", "kthvalue", "msort", "sort", "topk"]


class ValuesIndices(NamedTuple):
    """Elements, and where along the dimension they were, as int64."""

    values: Any
    indices: Any


def of_selected(g: Tensor, indices: Tensor, shape: tuple[int, ...], dim: int) -> Tensor:
    """The gradient of a selection of one element along `dim` from `shape`: g at its place and 0 elsewhere."""
    if not shape:
        return g
    axis = wrap_dim(dim, len(shape))
    places = np.arange(shape[axis]).reshape(-1, *(1,) * (len(shape) - axis - 1))
    chosen = places == indices._array.reshape(kept_shape(shape, axis))
    return restore_dims(g, shape, axis).where(adopt(chosen), 0)


def _of_many(g: Tensor, indices: Tensor, shape: tuple[int, ...], dim: int) -> Tensor:
    """The gradient of a selection of several elements along `dim` from `shape`, none of them twice."""
    return adopt(np.zeros(shape, g._array.dtype)).scatter(dim, indices, g)


def _in_three(array: np.ndarray, axis: int) -> np.ndarray:
    """The array with the dimensions before `axis` as one, and those behind it."""
    shape = array.shape
    return array.reshape(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


def take_along(array: np.ndarray, order: np.ndarray, axis: int) -> np.ndarray:
    """A faster np.take_along_axis, also for arrays of more than 32 dimensions, which NumPy rejects."""
    if array.ndim == 1:
        return array[order]
    if array.ndim > 32:
        return np.take_along_axis(_in_three(array, axis), _in_three(order, axis), 1).reshape(order.shape)
    if axis < array.ndim - 1 or not array.size or not array.flags.c_contiguous:
        return np.take_along_axis(array, order, axis)
    starts = np.arange(0, array.size, array.shape[-1]).reshape(*array.shape[:-1], 1)
    return array.reshape(-1).take(order + starts)


_LEAST_NUMBERED = 1 << 11
"""Minimum number of elements for sorting 64-bit pairs of a key and a position instead of positions."""


def _keys(array: np.ndarray) -> np.ndarray | None:
    """Numbers of 32 bits in the order of the elements, equal where these are; None for elements of more bits."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if size > 4 or kind == "c":
        return None
    if kind in "bu":
        return array.astype(np.uint32)
    if kind == "i":
        return array.astype(np.int32).view(np.uint32) ^ np.uint32(1 << 31)
    numbers = array.astype(np.float32) + np.float32(0)  # of the two zeros one
    bits = numbers.view(np.uint32)
    keys = bits ^ ((numbers.view(np.int32) >> 31).view(np.uint32) | np.uint32(1 << 31))
    keys[np.isnan(numbers)] = 0xFFFFFFFF
    return keys


def _sorted_by_number(array: np.ndarray, keys: np.ndarray, axis: int, descending: bool) -> ValuesIndices:
    """`sorted_pair`: a key in the upper half of a number and the place in the lower one leave no two equal."""
    places = np.arange(array.shape[axis], dtype=np.uint64).reshape(-1, *(1,) * (array.ndim - axis - 1))
    numbers = (~keys if descending else keys).astype(np.uint64)
    numbers <<= np.uint64(32)
    numbers |= places
    numbers.sort(axis)
    order = (numbers & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return ValuesIndices(take_along(array, order, axis), order)


def sorted_pair(array: np.ndarray, axis: int, descending: bool) -> ValuesIndices:
    """The elements sorted along `axis`, equal ones in their order, and their indices; NaN is larger than any number.

    Distinct elements have one order only, which NumPy's default sort finds 7 times faster than its stable one (50,000
    float32).
    """
    if array.ndim > 32:  # which NumPy does not sort
        return _reshape_pair(sorted_pair(_in_three(array, axis), 1, descending), array.shape)
    if array.size >= _LEAST_NUMBERED and (keys := _keys(array)) is not None:
        return _sorted_by_number(array, keys, axis, descending)
    order = np.argsort(array, axis=axis)
    values = take_along(array, order, axis)
    before = (slice(None),) * axis
    if (values[(*before, slice(1, None))] > values[(*before, slice(-1))]).all():
        found = ValuesIndices(values, order)
        return _part(found, slice(None, None, -1), axis) if descending else found
    if descending:
        turned = (*before, slice(None, None, -1))
        order = array.shape[axis] - 1 - np.argsort(array[turned], axis=axis, kind="stable")[turned]
    else:
        order = np.argsort(array, axis=axis, kind="stable")
    return ValuesIndices(take_along(array, order, axis), order)


def _part(pair: ValuesIndices, part: slice, axis: int) -> ValuesIndices:
    return ValuesIndices(*(each[(slice(None),) * axis + (part,)] for each in pair))


def _reshape_pair(pair: ValuesIndices, shape: tuple[int, ...]) -> ValuesIndices:
    return ValuesIndices(pair.values.reshape(shape), pair.indices.reshape(shape))


@op(
    traits="row_major function silent",
    input=lambda g, indices, input_shape, dim: _of_many(g[0], indices, input_shape, dim),
    takes="bif",
    batch="along",
)
def sorted_along(input: Array, dim: int, descending: bool) -> ValuesIndices:
    """The elements sorted along `dim` and their indices, equal ones in their order."""
    axis, array = wrap_dim(dim, input.ndim), np.atleast_1d(input)
    return _reshape_pair(sorted_pair(array, axis, descending), input.shape)


@composite(takes="bif")
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> ValuesIndices:
    """The elements sorted along `dim`, and their indices; equal ones keep their order always, NaN is the largest."""
    return sorted_along(input, dim, descending)


@op(traits="row_major silent", takes="bif", batch="along")
def argsort(input: Array, dim: int = -1, descending: bool = False, stable: bool = False) -> Array:
    """The indices that sort along `dim`; equal elements always keep their order, and NaN is the largest."""
    axis = wrap_dim(dim, input.ndim)
    return sorted_pair(np.atleast_1d(input), axis, descending).indices.reshape(input.shape)


@composite(takes="bif")
def msort(input: Tensor) -> Tensor:
    """The elements sorted along the first dimension."""
    return sorted_along(input, 0, False).values


# The k largest


_FEW = 128
"""Up to this size a full sort finds the k largest."""


def leading(array: np.ndarray, k: int, axis: int, largest: bool, few: int = _FEW) -> ValuesIndices:
    """The k largest or smallest elements along `axis` in order, the first of equal ones, and their indices.

    A few are found in one pass, those of more than `few` elements by a partition. If an element that the partition
    left out equals the last one that it took, the choice among ties may be wrong. Then all elements are sorted, as they
    are if NaN was taken.
    """
    size = array.shape[axis]
    if selection.takes(array, k):
        last = axis == array.ndim - 1
        rows = array if last else np.moveaxis(array, axis, -1)
        found = [each.reshape(*rows.shape[:-1], k) for each in selection.leading(rows.reshape(-1, size), k, largest)]
        return ValuesIndices(*(found if last else [np.moveaxis(each, -1, axis) for each in found]))
    if 0 < k < size and size > few:
        part = np.argpartition(array, size - k if largest else k - 1, axis=axis)
        kept = (slice(None),) * axis + (slice(size - k, None) if largest else slice(k),)
        taken = np.sort(part[kept], axis=axis)
        values = take_along(array, taken, axis)
        last = (np.min if largest else np.max)(values, axis=axis, keepdims=True)
        if ((array == last).sum(axis=axis) == (values == last).sum(axis=axis)).all() and not np.isnan(last).any():
            values, order = sorted_pair(values, axis, largest)
            return ValuesIndices(values, take_along(taken, order, axis))
    return _part(sorted_pair(array, axis, largest), slice(k), axis)


@op(
    traits="row_major silent",
    input=lambda g, indices, input_shape, dim: _of_many(g[0], indices, input_shape, dim),
    takes="if",
    batch="along",
)
def topk(input: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """The `k` largest (or smallest) elements along `dim` in order, and their indices; of equal elements the first ones.

    Raises RuntimeError for a k that is negative, or larger than the dimension.
    """
    axis, array, k = wrap_dim(dim, input.ndim), input if input.ndim else input.reshape(1), as_int(k)
    if not 0 <= k <= array.shape[axis] or (not k and not input.ndim):
        raise RuntimeError(
            f"topk(): selected index k out of range, {k} of {array.shape[axis]} along {dim=}; pass 0 to its size"
        )
    found = leading(array, k, axis, largest)
    return found if input.ndim else _reshape_pair(found, ())


# The k-th smallest


def select_rank(array: np.ndarray, k: int, axis: int, keepdim: bool, original: tuple[int, ...]) -> ValuesIndices:
    """The k-th smallest along `axis`, of equal elements the k-th one, counted from 1."""
    kept = kept_shape(original, axis)
    if array.shape[axis] > _FEW:
        pair = _ranked_among_many(array, k, axis)
    else:
        pair = _part(sorted_pair(array, axis, False), slice(k - 1, k), axis)
        pair = ValuesIndices(pair.values.copy(), pair.indices.copy())  # which does not keep all of them alive
    return _reshape_pair(pair, kept if keepdim else tuple(size for each, size in enumerate(original) if each != axis))


def _ranked_among_many(array: np.ndarray, k: int, axis: int) -> ValuesIndices:
    """By a partition, ten times faster than by a sort; the index by counting the elements that are equal."""
    values = np.partition(array, k - 1, axis).take([k - 1], axis)
    equal, below = array == values, array < values
    if array.dtype.kind not in "biu" and (missing := np.isnan(values)).any():  # NaN is the largest, and equal to itself
        unknown = np.isnan(array)
        equal, below = np.where(missing, unknown, equal), np.where(missing, ~unknown, below)
    place = k - below.sum(axis, keepdims=True)  # among equal ones
    indices = (np.add.accumulate(equal, axis=axis, dtype=np.intp) == place).argmax(axis, keepdims=True)
    return ValuesIndices(values, indices)


@op(
    input=lambda g, indices, input_shape, dim: of_selected(g[0], indices, input_shape, dim),
    traits="silent",
    takes="bif",
    batch="along",
)
def kthvalue(input: Array, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The `k`-th smallest element along `dim`, counted from 1, and its index. Raises RuntimeError if `k` is out of
    range."""
    axis, array = wrap_dim(dim, input.ndim), np.atleast_1d(input)
    if not 1 <= k <= array.shape[axis]:
        raise RuntimeError(
            f"kthvalue(): selected number k out of range, {k} of {array.shape[axis]} along {dim=}; pass 1 to its size"
        )
    return select_rank(array, k, axis, keepdim, input.shape)
