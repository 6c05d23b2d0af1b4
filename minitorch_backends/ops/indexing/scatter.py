"""Look-ups and writes by an index of as many dimensions as the tensor, which counts along one of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dispatch.op import Array, composite, op
from ...dispatch.promotion import EVERY_DTYPE
from ...kernels.arrays.gathering import gather as kernel
from ...tensor.dtypes import int64
from ...tensor.tensor import Tensor, adopt, not_a_tensor
from ..dims import wrap_dim
from ..views.broadcasting import broadcast_shapes
from ..views.shape import expand, ravel, reshape
from ..views.slices import getitem
from .fill import number_as
from .index import index_embed
from .index_parts import plain, refuse_index_dtype
from .writes import assigning, at_least_vector, checked_positions

__all__ = ["gather", "scatter", "scatter_add", "take_along_dim"]


def coordinates(name: str, input: Tensor, dim: int, given: Tensor) -> tuple[np.ndarray, ...]:
    """Index arrays for the elements that `given` names along `dim`, at their own coordinates in the other dimensions.

    Raises RuntimeError for an index of another number of dimensions, or larger than the tensor in those other
    dimensions.
    """
    shape: tuple[int, ...] = input._array.shape or (1,)
    dim = wrap_dim(dim, input._array.ndim)
    if isinstance(given, Tensor) and not given._array.size:
        given = given.long()
    positions = checked_positions(name, given, shape[dim], dim)
    positions = positions if positions.ndim else positions.reshape(1)
    _refuse_sizes(name, positions, shape, dim)
    return _along(positions, dim)


def _refuse_sizes(name: str, positions: np.ndarray, shape: tuple[int, ...], dim: int) -> None:
    if positions.ndim != len(shape):
        raise RuntimeError(
            f"{name}(): Index tensor must have the same number of dimensions as input tensor, got shapes "
            f"{list(positions.shape)} and {list(shape)}"
        )
    sizes = zip(positions.shape, shape, strict=True)
    if [axis for axis, (size, limit) in enumerate(sizes) if size > limit and axis != dim]:
        raise RuntimeError(
            f"{name}(): Expected index {list(positions.shape)} to be no larger than self {list(shape)} apart from "
            f"dimension {dim}"
        )


def _along(positions: np.ndarray, dim: int) -> tuple[np.ndarray, ...]:
    """`positions` along `dim`, beside the coordinates in the other dimensions."""
    [positions] = plain((positions,))
    after = positions.ndim - 1
    return tuple(
        [
            positions if axis == dim else np.arange(size).reshape(-1, *(1,) * (after - axis))
            for axis, size in enumerate(positions.shape)
        ]
    )


@op(
    takes=EVERY_DTYPE,
    input=lambda g, input_shape, dim, index: index_embed(g, input_shape, _along(index, dim)),
    called="gather",
    widen=False,
    warns=False,
    method=False,
    batch="gather",
)
def gather_along(input: Array, dim: int, index: Any) -> Array:
    """`gather` by an integer array of as many dimensions."""
    [index], shape = plain((index,)), input.shape
    others = (*index.shape[:dim], shape[dim], *index.shape[dim + 1 :])
    values = input if shape == others else input[tuple(map(slice, others))]
    if values.flags.c_contiguous and values.itemsize <= 8:
        outer, inner = math.prod(index.shape[:dim]), math.prod(index.shape[dim + 1 :])
        places = index.astype(np.int64, copy=False).reshape(outer, index.shape[dim], inner)
        found = kernel(values.reshape(outer, values.shape[dim], inner), places)
        if found is not None:
            return found.reshape(index.shape)
    checked_positions("gather", adopt(index), shape[dim], dim)
    return input[_along(index, dim)]


@composite()
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """The elements that `index` names along `dim`: out[i][j] = input[index[i][j]][j] for dim 0. The result has the
    index's shape.

    Raises RuntimeError for an index of other dimensions, of a wrong dtype, or out of bounds.
    """
    if not isinstance(index, Tensor):
        raise not_a_tensor("gather", "index", index)
    if not index._array.size:
        return reshape(ravel(input)[:0], index._array.shape)
    refuse_index_dtype("gather", "index", index._array)
    source, dim, positions = at_least_vector(input), wrap_dim(dim, input._array.ndim), index._array
    positions = positions if positions.ndim else positions.reshape(1)
    _refuse_sizes("gather", positions, source._array.shape, dim)
    result = gather_along(source, dim, positions if source._node is None else positions.copy())
    return result if index._array.ndim else reshape(result, ())


def source_of(name: str, src: Any, given: Tensor) -> Tensor:
    """The part of `src` that an index speaks of. Raises RuntimeError when `src` is smaller than the index."""
    if not isinstance(src, Tensor):
        raise not_a_tensor(name, "src", src)
    sizes, wanted = src._array.shape, given._array.shape
    if len(sizes) != len(wanted) or any(size < want for size, want in zip(sizes, wanted, strict=True)):
        raise RuntimeError(
            f"{name}(): Expected index {list(wanted)} to be no larger size than src {list(sizes)} in every dimension"
        )
    return src if sizes == wanted else getitem(src, tuple(map(slice, wanted)))


@assigning()
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Any:
    """A copy with elements of `src` (or a number) at the places along `dim` in `index`: out[index[i][j]][j] = src[i][j]
    for dim 0.

    If a place repeats, one of its values is kept. With `reduce="add"` all values are added to the element there; with
    "multiply" they multiply it, without derivative (see `scatter_reduce`). Raises RuntimeError for mismatched shapes
    and an index out of bounds, TypeError unless one of `src` and `value` is given.
    """
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError(f"scatter(): reduce must be None, 'add' or 'multiply', got {reduce!r}; see scatter_reduce")
    if (src is None) == (value is None):
        raise TypeError(
            "scatter() takes either a tensor src or a number value, got " + ("neither" if src is None else "both")
        )
    places = coordinates("scatter", input, dim, index)
    source = src if value is None else value
    return (
        (source_of("scatter", source, index) if isinstance(source, Tensor) else number_as(source, input, "value")),
        places,
        "multiply" if reduce == "multiply" else reduce is not None,
    )


@assigning()
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    """`scatter` that adds to the elements, once per occurrence of a place."""
    return source_of("scatter_add", src, index), coordinates("scatter_add", input, dim, index), True


@composite()
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` with broadcasting in the other dimensions, and indices that may count from the end.

    Without `dim`, both are flattened. Raises RuntimeError for mismatched shapes and indices out of bounds, IndexError
    for a `dim` of 0-dim tensors.
    """
    refuse_index_dtype("take_along_dim", "indices", indices._array, (int64,))
    if dim is None:
        return take_along_dim(ravel(input), ravel(indices), 0)
    ndim = input._array.ndim
    if indices._array.ndim != ndim:
        raise RuntimeError(
            "take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{list(input.shape)} and {list(indices.shape)}"
        )
    dim = wrap_dim(dim, ndim)
    if not ndim:
        raise IndexError(f"take_along_dim: dimension specified as {dim} but tensor has no dimensions; leave dim out")
    size = input._array.shape[dim]
    others = broadcast_shapes(
        *(tuple(1 if axis == dim else each for axis, each in enumerate(x.shape)) for x in (input, indices))
    )
    input = expand(input, (*others[:dim], size, *others[dim + 1 :]))
    wanted = np.broadcast_to(indices._array, (*others[:dim], indices._array.shape[dim], *others[dim + 1 :]))
    return gather(input, dim, adopt(np.where(wanted < 0, wanted + size, wanted)))
