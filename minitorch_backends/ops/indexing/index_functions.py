"""Shared parts of the functions that write by index tensors: each only maps values to places."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...dispatch.op import Array, composite, op
from ...tensor.call_errors import install
from ...tensor.dtypes import INTEGER, DType, bool_, int32, int64
from ...tensor.size import addressable
from ...tensor.tensor import Tensor, adopt, not_a_tensor
from ..dims import shape_of, wrap_dim
from ..views.broadcasting import broadcast_shapes, broadcast_tensors
from ..views.shape import ravel, reshape
from .fill import number_as
from .index import copy_written, index_assign, index_multiply, read, read_where
from .index_parsing import index_arrays, refuse_index_dtype

__all__ = [
    "argwhere", "index_add", "index_copy", "index_fill", "index_put", "index_select", "masked_scatter", "masked_select",
    "nonzero", "nonzero_static", "put", "take", "unravel_index",
]  # fmt: skip


def at_least_vector(input: Tensor) -> Any:
    """A view with one dimension for a 0-dim tensor, else the tensor itself."""
    return input if input._array.ndim else reshape(input, (1,))


def assigning(
    *, expanded: Callable[..., Tensor] | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function and its in-place form from one that returns (values, index arrays, accumulate).

    `accumulate` is False, True to add, or "multiply". `expanded` returns the tensor that the function (not the in-place
    form) copies and writes to; by default the first argument.
    """

    def declare(arguments: Callable[..., Any]) -> Callable[..., Any]:
        arguments.__annotations__["return"] = "Tensor"  # of the declared function, as users see it

        @functools.wraps(arguments)
        def function(input: Tensor, *args: Any, **named: Any) -> Tensor:
            if expanded is not None:
                input = expanded(input, *args, **named)
            values, arrays, accumulate = arguments(input, *args, **named)
            target, arrays = at_least_vector(input), copy_written(arrays, input, values)
            if accumulate == "multiply":
                result = index_multiply(target, values, arrays)
            else:
                result = index_assign(target, values, arrays, accumulate)
            return result if input._array.ndim else reshape(result, ())

        @functools.wraps(arguments)
        def in_place(self: Tensor, *args: Any, **named: Any) -> Tensor:
            values, arrays, accumulate = arguments(self, *args, **named)
            target, arrays = at_least_vector(self), copy_written(arrays, self, values)
            if accumulate == "multiply":
                target.index_multiply_(values, arrays)
            else:
                target.index_assign_(values, arrays, accumulate)
            return self

        in_place.__name__ = in_place.__qualname__ = arguments.__name__ + "_"
        in_place.__doc__ = f"`{arguments.__name__}`, written into this tensor."
        install(**{in_place.__name__: in_place})
        return composite(**options)(function)

    return declare


def checked_positions(
    name: str, given: Any, size: int, dim: int, error: type[Exception] = RuntimeError, from_end: bool = False,
    dtypes: tuple[DType, ...] = (int32, int64),
) -> np.ndarray:  # fmt: skip
    """An index tensor as an array; negative positions count from the end if allowed.

    Raises RuntimeError for dtypes outside `dtypes`, `error` for positions out of bounds.
    """
    if not isinstance(given, Tensor):
        raise not_a_tensor(name, "index", given)
    positions = given._array
    refuse_index_dtype(name, "index", positions, dtypes)
    if from_end:
        positions = np.where((positions < 0) & (positions >= -size), positions + size, positions)
    # Read as unsigned, negative positions are larger than any size.
    if positions.size and positions.view(f"u{positions.itemsize}").max() >= size:
        wrong = positions[(positions < 0) | (positions >= size)][0]
        raise error(f"{name}(): index {wrong} is out of bounds for dimension {dim} with size {size}")
    return positions


def places_along(name: str, input: Tensor, dim: int, index: Tensor, **options: Any) -> tuple[Any, ...]:
    """Index arrays for the positions `index`, a vector or a 0-dim tensor, of dimension `dim`.

    Raises, and takes options, as `checked_positions`.
    """
    shape = input._array.shape or (1,)
    dim = wrap_dim(dim, input._array.ndim)
    positions = checked_positions(name, index, shape[dim], dim, **options)
    if positions.ndim > 1:
        raise IndexError(
            f"{name}(): Index is supposed to be a vector, got shape {list(index.shape)}; use flatten, or gather"
        )
    return (*(slice(None),) * dim, positions.reshape(-1))


@composite()
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """A copy of the elements of dimension `dim` that the vector `index` names. Raises IndexError out of bounds."""
    places = places_along("index_select", input, dim, index, error=IndexError)
    result = read(at_least_vector(input), places)
    return result if input._array.ndim else reshape(result, ())


def refuse_source(name: str, input: Tensor, dim: int, index: Tensor, source: Any) -> None:
    if not isinstance(source, Tensor):
        raise not_a_tensor(name, "source", source)
    dim = wrap_dim(dim, input._array.ndim)
    wanted = list(input.shape)
    wanted[dim : dim + 1] = [index._array.size] if wanted else []
    if list(source.shape) != wanted or (not wanted and index._array.size != 1):
        raise RuntimeError(
            f"{name}(): source of shape {list(source.shape)} does not fit {index._array.size} positions of dimension "
            f"{dim} of {list(input.shape)}; expected {wanted}"
        )


@assigning(takes="bifc")
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Any:
    """A copy with `alpha * source` added at the positions `index` of dimension `dim`, once per occurrence.

    Raises RuntimeError for a source of another shape or dtype and for positions out of bounds.
    """
    places = places_along("index_add", input, dim, index)
    refuse_source("index_add", input, dim, index, source)
    if source.dtype is bool_:
        source = source & bool(alpha)
    elif alpha != 1:
        source = source * (int(alpha) if source.dtype.category == INTEGER else alpha)
    return source, places, True


@assigning(autocast="widest")
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    """A copy with `source` written to the positions `index` of dimension `dim`. Raises as `index_add` does."""
    places = places_along("index_copy", input, dim, index, error=IndexError, dtypes=(int64,))
    refuse_source("index_copy", input, dim, index, source)
    return source, places, False


@assigning()
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Any:
    """A copy with `value`, a number or a 0-dim tensor, at the positions `index` (possibly negative) of dimension `dim`.
    Raises RuntimeError for a value with dimensions."""
    if isinstance(value, Tensor) and value._array.ndim:
        raise RuntimeError(
            f"index_fill only supports a 0-dimensional value tensor, but got one of shape {list(value.shape)}"
        )
    if isinstance(index, Tensor):
        refuse_index_dtype("index_fill", "index", index._array, (int64,), IndexError)
    places = places_along("index_fill", input, dim, index, error=IndexError, from_end=True)
    if not isinstance(value, Tensor):
        return number_as(value, input, "value"), places, False
    *before, positions = places
    return value.to(input.dtype), (*before, np.unique(positions)), False  # each place once, for the gradient of value


@assigning()
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    """A copy with the elements at `indices`, a tuple of index tensors, overwritten by `values` or increased by them.

    If places repeat with `accumulate=False`, one of their values is kept. Raises RuntimeError for values of another
    dtype or of a shape that does not broadcast, IndexError for indices out of bounds.
    """
    arrays = index_arrays(indices, input._array.shape)
    if not arrays:
        raise IndexError("index_put takes at least one index, got none; use copy_ to write to the whole tensor")
    return values, arrays, accumulate


@composite()
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at positions in the flattened tensor, in the shape of `index`. Raises IndexError out of bounds."""
    refuse_index_dtype("take", "index", index._array, (int64,))
    return read(ravel(input), (index._array,))


@assigning()
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Any:
    """A copy with elements of `source` written to, or added to, positions of the flattened tensor.

    Positions may count from the end. Raises IndexError for positions out of bounds and a wrong number of elements,
    RuntimeError for other dtypes.
    """
    refuse_index_dtype("put", "index", index._array, (int64,))
    if source.dtype is not input.dtype:
        raise RuntimeError(f"put(): source must be of the input's dtype {input.dtype!r}, got {source.dtype!r}")
    if index._array.size != source._array.size:
        raise IndexError(
            f"put(): source must have as many elements as index, {index._array.size}, got {source._array.size}"
        )
    shape = input._array.shape or (1,)
    flat = checked_positions("put", ravel(index), math.prod(shape), 0, error=IndexError, from_end=True)
    return ravel(source), np.unravel_index(flat, shape), accumulate


@composite(method=False, takes="i", also="bfc")
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The indices along each dimension of `shape`, an int or a sequence, at positions in the flattened tensor: int64.

    As in torch, positions out of bounds wrap around. Raises TypeError for positions and sizes that are not integers,
    ValueError for negative sizes, RuntimeError for positions in a shape without elements.
    """
    if indices._array.dtype.kind not in "iu":
        raise TypeError(f"unravel_index(): expected 'indices' to be of an integer dtype, got {indices.dtype!r}")
    if not isinstance(shape, (int, tuple, list)):
        raise TypeError(f"unravel_index(): argument 'shape' must be an int or a sequence of ints, got {shape!r}")
    sizes = shape_of((shape,))
    if min(sizes, default=0) < 0:
        raise ValueError(f"unravel_index(): sizes must not be negative, got {sizes}")
    rest, found = indices._array.astype(np.int64), []
    if 0 in sizes and rest.size:
        raise RuntimeError(f"unravel_index(): a tensor of shape {list(sizes)} has no positions, got {rest.size}")
    for size in sizes[::-1]:
        rest, along = np.divmod(rest, size) if size else (rest, rest)
        found.append(adopt(np.asarray(along)))
    return tuple(found[::-1])


def _refuse_mask(name: str, mask: Any) -> None:
    if not isinstance(mask, Tensor) or mask._array.dtype != bool:
        kind = repr(mask.dtype) if isinstance(mask, Tensor) else type(mask).__name__
        raise RuntimeError(f"{name}: expected a boolean tensor for mask, got {kind}; use mask.bool()")


@composite()
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where `mask` is true, in one dimension; the two broadcast.

    Raises RuntimeError for a mask that is not boolean.
    """
    _refuse_mask("masked_select", mask)
    wide, chosen = broadcast_tensors(at_least_vector(input), mask)
    return read_where(wide, chosen._array)


def _expanded_to_mask(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    _refuse_mask("masked_scatter", mask)
    return input.expand(broadcast_shapes(input._array.shape, mask._array.shape))


@assigning(expanded=_expanded_to_mask)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Any:
    """A copy with the elements of `source`, one after the other, where `mask` is true. The tensor and the mask
    broadcast; the mask of `masked_scatter_` to the tensor.

    Raises RuntimeError for a mask that is not boolean and for a source with too few elements.
    """
    _refuse_mask("masked_scatter", mask)
    try:
        places = np.broadcast_to(mask._array, input._array.shape or (1,)).nonzero()
    except ValueError:
        raise RuntimeError(
            f"masked_scatter: a mask of shape {list(mask.shape)} does not broadcast to the tensor's shape "
            f"{list(input.shape)}; expand the tensor first"
        ) from None
    count = places[0].size
    if source._array.size < count:
        raise RuntimeError(
            f"masked_scatter: expected {count} elements in source, one for each true of the mask, got "
            f"{source._array.size}"
        )
    return ravel(source)[:count], places, False


@op(traits="unwidened silent", batch="loop: a size that depends on values")
def argwhere(input: Array) -> Array:
    """The indices of the elements that are not zero, one row of int64 for each, in row-major order."""
    return np.argwhere(input)


@composite()
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """`argwhere`, or with `as_tuple` its columns as a tuple of vectors, one for each dimension, to index with."""
    if not as_tuple:
        return argwhere(input)
    return tuple(adopt(each) for each in at_least_vector(input)._array.nonzero())


@composite()
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of `nonzero`, padded with `fill_value` if there are fewer.

    Raises RuntimeError for a negative size.
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static(): argument 'size' must be a non-negative integer, got {size}")
    return adopt(_pad_rows(np.argwhere(input._array), size, fill_value))


def _pad_rows(rows: np.ndarray, size: int, fill_value: int) -> np.ndarray:
    out = np.full(addressable((size, rows.shape[1])), fill_value, np.int64)
    out[: len(rows)] = rows[:size]
    return out
