"""Operators that look values up and replace them."""

from __future__ import annotations

import math
from typing import Any

from ...ops import names as ops
from ...ops.dims import wrap_dim
from ...tensor.dtypes import int64
from ...tensor.tensor import Tensor
from .table import choice, operator

_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
"""This package's names for the ways of combining values at one place."""


@operator("Gather")
def gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Slices of x at places of an axis; negative ones count from the end."""
    if not indices.ndim:
        return ops.select(x, axis, indices.item())
    return x[(slice(None),) * wrap_dim(axis, x.ndim) + (indices.to(int64),)]


@operator("GatherElements")
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return ops.gather(x, axis, _from_front(indices, x.shape[axis]))


def _from_front(indices: Tensor, length: int) -> Tensor:
    """Indices counted from the front. Those out of range are unchanged."""
    indices = indices.to(int64)
    return ops.where(indices < 0, indices + length, indices)


@operator("ScatterElements", "Scatter")
def scatter_elements(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none") -> Tensor:
    places = _from_front(indices, x.shape[axis])
    if reduction == "none":
        return ops.scatter(x, axis, places, updates)
    return ops.scatter_reduce(x, axis, places, updates, choice(_REDUCTIONS, reduction, "reduction"))


@operator("GatherND")
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """The slices at places whose coordinates are the last axis of `indices`, after axes that both have."""
    shape, depth, count = tuple(indices.shape[:-1]), indices.shape[-1], math.prod(x.shape[:batch_dims])
    slices = ops.reshape(x, (count, *x.shape[batch_dims:]))
    places = ops.reshape(indices.to(int64), (count, math.prod(shape[batch_dims:]), depth))
    found = slices[(ops.arange(count).unsqueeze(1), *places.unbind(-1))]
    return ops.reshape(found, (*shape, *x.shape[batch_dims + depth :]))


@operator("ScatterND")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """x with slices replaced at places whose coordinates are the last axis of `indices`."""
    depth = indices.shape[-1]
    if reduction == "none":
        return ops.index_put(x, tuple(indices.unbind(-1)), updates)
    flat = ops.reshape(x, (math.prod(x.shape[:depth]), -1))
    steps = [math.prod(x.shape[place + 1 : depth]) for place in range(depth)]
    places = sum(_from_front(each, x.shape[place]) * steps[place] for place, each in enumerate(indices.unbind(-1)))
    rows = ops.reshape(places, (-1, 1)).expand(-1, flat.shape[1])
    found = ops.scatter_reduce(
        flat, 0, rows, ops.reshape(updates, tuple(rows.shape)), choice(_REDUCTIONS, reduction, "reduction")
    )
    return ops.reshape(found, tuple(x.shape))


@operator("OneHot")
def one_hot(indices: Tensor, depth: Tensor, values: Tensor, *, axis: int = -1) -> Tensor:
    """values[1] at the places and values[0] elsewhere, along a new axis; places out of range set nothing."""
    count = int(depth.item())
    dim = wrap_dim(axis, indices.ndim + 1)
    counted = ops.where(indices < 0, indices + count, indices).unsqueeze(dim)
    shape = [1] * counted.ndim
    shape[dim] = count
    hot = counted == ops.arange(count, dtype=counted.dtype).reshape(shape)
    return ops.where(hot, values[1], values[0])


@operator("NonZero")
def non_zero(x: Tensor) -> Tensor:
    """The coordinates of all values but zero, a row for each axis."""
    return ops.nonzero(x).T


@operator("Compress")
def compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """The slices of an axis where the condition is true; of the flattened x without an axis."""
    places = ops.nonzero(condition).reshape(-1)
    return ops.index_select(x.reshape(-1) if axis is None else x, axis or 0, places)


@operator("Unique")
def unique(x: Tensor, *, axis: int | None = None, sorted: int = 1) -> Any:
    """The different values (slices along an axis), the first place of each, the number of each place, and counts; in
    the order of first places unless `sorted`."""
    values, inverse, counts = ops.unique(x, return_inverse=True, return_counts=True, dim=axis)
    flat = inverse.reshape(-1)
    first = ops.full((len(counts),), len(flat), dtype=int64)
    first = ops.scatter_reduce(first, 0, flat, ops.arange(len(flat)), "amin")
    if sorted:
        return values, first, flat, counts
    order = ops.argsort(first)
    values = ops.index_select(values, axis or 0, order)
    return values, first[order], ops.argsort(order)[flat], counts[order]
