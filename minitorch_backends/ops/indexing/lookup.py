"""Look-ups and writes by positions along one dimension, by positions in the flattened tensor, and by mask."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dispatch.op import Array, composite, op
from ...tensor.dtypes import INTEGER, bool_, int64
from ...tensor.tensor import Tensor, adopt, not_a_tensor
from ..dims import shape_of, wrap_dim
from ..samples import between, sample, strided_matrix
from ..views.broadcasting import broadcast_shapes, broadcast_tensors
from ..views.shape import ravel, reshape
from .fill import number_as
from .index import read, read_where
from .index_parts import index_arrays, refuse_index_dtype
from .writes import assigning, at_least_vector, checked_positions

__all__ = [
    "argwhere", "index_add", "index_copy", "index_fill", "index_put", "index_select", "masked_scatter",
    "masked_select", "nonzero", "put", "take", "unravel_index",
]  # fmt: skip


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


def _select_samples() -> Any:
    a = between(-2, 2, 3, 4)
    yield sample(a, 0, np.array([2, 0, 2]))
    yield sample(a, -1, np.array([1]))
    yield sample(strided_matrix(), 1, np.array([1, 0, 1]))
    yield sample(a, 0, np.empty(0, np.int64))
    yield sample(between(-2, 2, 0, 3), 1, np.array([2]))


@composite(reference=lambda input, dim, index: np.take(input, index, dim), samples=_select_samples)
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """A copy of the elements of dimension `dim` that the vector `index` names. Raises IndexError out of bounds."""
    places = places_along("index_select", input, dim, index, error=IndexError)
    result = read(at_least_vector(input), places)
    return result if input._array.ndim else reshape(result, ())


def _write_samples(*more: Any) -> Any:
    def samples() -> Any:
        a = between(-2, 2, 3, 4)
        yield sample(a, 0, np.array([2, 0]), between(-3, 3, 2, 4))
        yield sample(a, -1, np.array([1, 3, 0]), between(-3, 3, 3, 3))
        yield sample(strided_matrix(), 1, np.array([1]), between(-3, 3, 3, 1))
        yield sample(a, 0, np.empty(0, np.int64), between(-3, 3, 0, 4))
        yield from more

    return samples


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


def _add_reference(
    input: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, *, alpha: float = 1
) -> np.ndarray:
    out = np.moveaxis(input.copy(), dim, 0)
    for position, rows in zip(index, np.moveaxis(source, dim, 0), strict=True):
        out[position] += alpha * rows
    return np.moveaxis(out, 0, dim)


@assigning(
    takes="bifc",
    reference=_add_reference,
    samples=_write_samples(
        sample(between(-2, 2, 3, 4), 0, np.array([1, 1, 0]), between(-3, 3, 3, 4)),
        sample(between(-2, 2, 3, 4), 0, np.array([1, 1]), between(-3, 3, 2, 4), alpha=-2),
    ),
)
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


def _copy_reference(input: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray) -> np.ndarray:
    out = input.copy()
    np.moveaxis(out, dim, 0)[index] = np.moveaxis(source, dim, 0)
    return out


@assigning(reference=_copy_reference, samples=_write_samples())
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    """A copy with `source` written to the positions `index` of dimension `dim`. Raises as `index_add` does."""
    places = places_along("index_copy", input, dim, index, error=IndexError, dtypes=(int64,))
    refuse_source("index_copy", input, dim, index, source)
    return source, places, False


def _fill_samples() -> Any:
    for (array, dim, index, _), _ in _write_samples()():
        yield sample(array, dim, index, 1.5)
    yield sample(between(-2, 2, 3, 4), 0, np.array([1]), between(-3, 3))


def _fill_reference(input: np.ndarray, dim: int, index: np.ndarray, value: Any) -> np.ndarray:
    out = input.copy()
    np.moveaxis(out, dim, 0)[index] = value
    return out


@assigning(reference=_fill_reference, samples=_fill_samples)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Any:
    """A copy with `value`, a number or a 0-dim tensor, at the positions `index` (possibly negative) of dimension
    `dim`."""
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


def _put_samples() -> Any:
    a, rows, columns = between(-2, 2, 3, 4), np.array([2, 0]), np.array([1, -1])
    yield sample(a, (rows,), between(-3, 3, 2, 4))
    yield sample(a, (rows,), between(-3, 3, 4))
    yield sample(a, (rows, columns), between(-3, 3, 2))
    yield sample(a, (a > 0,), between(-3, 3))
    yield sample(a, (np.array([1, 1, 0]),), between(-3, 3, 3, 4), accumulate=True)
    yield sample(strided_matrix(), (rows,), between(-3, 3, 2, 2))
    yield sample(a, (np.empty(0, np.int64),), between(-3, 3, 0, 4))


def _put_reference(input: np.ndarray, indices: Any, values: np.ndarray, accumulate: bool = False) -> np.ndarray:
    out = input.copy()
    places = np.arange(out.size).reshape(out.shape)[tuple(indices)]
    for place, value in zip(places.flat, np.broadcast_to(values, places.shape).flat, strict=True):
        out.flat[place] = value + (out.flat[place] if accumulate else 0)
    return out


@assigning(reference=_put_reference, samples=_put_samples)
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    """A copy with the elements at `indices`, a tuple of index tensors, overwritten by `values` or increased by them.

    If places repeat with `accumulate=False`, one of their values is kept. Raises RuntimeError for values of another
    dtype or of a shape that does not broadcast, IndexError for indices out of bounds.
    """
    arrays = index_arrays(indices, input._array.shape)
    if not arrays:
        raise IndexError("index_put takes at least one index, got none; use copy_ to write to the whole tensor")
    return values, arrays, accumulate


def _take_samples() -> Any:
    for array in (between(-2, 2, 3, 4), strided_matrix()):
        yield sample(array, np.array([[0, 5], [-1, 5]]))
    yield sample(between(-2, 2), np.array(0))
    yield sample(between(-2, 2, 0, 3), np.empty(0, np.int64))


@composite(reference=np.take, samples=_take_samples)
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at positions in the flattened tensor, in the shape of `index`. Raises IndexError out of bounds."""
    refuse_index_dtype("take", "index", index._array, (int64,))
    return read(ravel(input), (index._array,))


def _write_flat_samples() -> Any:
    yield sample(between(-2, 2, 3, 4), np.array([[0, 5], [-1, 7]]), between(-3, 3, 2, 2))
    yield sample(between(-2, 2, 3, 4), np.array([3, 3, -9]), between(-3, 3, 3), True)
    yield sample(strided_matrix(), np.array([4, 1]), between(-3, 3, 2, 1))
    yield sample(between(-2, 2), np.array([0, 0]), between(-3, 3, 2), accumulate=True)
    yield sample(between(-2, 2, 0, 3), np.empty(0, np.int64), between(-3, 3, 0))


def _write_flat_reference(input: np.ndarray, index: np.ndarray, source: np.ndarray, accumulate: bool = False) -> Any:
    return _put_reference(input.flatten(), (index.reshape(-1),), source.reshape(-1), accumulate).reshape(input.shape)


@assigning(reference=_write_flat_reference, samples=_write_flat_samples)
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


def _unravel_samples() -> Any:
    yield sample(np.array([[4, 11], [0, 7]]), (3, 4))
    yield sample(np.array(11), [2, 3, 2])
    yield sample(np.array([3, 1]), 5)
    yield sample(np.empty(0, np.int64), (3, 0))


@composite(
    method=False,
    takes="i",
    also="bfc",
    reference=lambda indices, shape: tuple(np.array(each) for each in np.unravel_index(indices, shape)),
    samples=_unravel_samples,
)
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The indices along each dimension of `shape`, an int or a sequence, at positions in the flattened tensor: int64.

    As in torch, positions out of bounds wrap around. Raises TypeError for positions and sizes that are not integers,
    ValueError for negative sizes.
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


def _masks() -> Any:
    a = between(-2, 2, 3, 4)
    yield a, a > 0.5
    yield a, a[0] > 0
    yield a[0], a > 0
    yield strided_matrix(), strided_matrix() > 0
    yield between(-2, 2), np.array(True)
    yield between(-2, 2, 0, 3), np.zeros((0, 3), bool)


def _masked_select_samples() -> Any:
    for array, mask in _masks():
        yield sample(array, mask)


def _refuse_mask(name: str, mask: Any) -> None:
    if not isinstance(mask, Tensor) or mask._array.dtype != bool:
        kind = repr(mask.dtype) if isinstance(mask, Tensor) else type(mask).__name__
        raise RuntimeError(f"{name}: expected a boolean tensor for mask, got {kind}; use mask.bool()")


@composite(
    reference=lambda input, mask: (input + np.zeros(mask.shape))[mask & np.ones(input.shape, bool)],
    samples=_masked_select_samples,
)
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where `mask` is true, in one dimension; the two broadcast.

    Raises RuntimeError for a mask that is not boolean.
    """
    _refuse_mask("masked_select", mask)
    wide, chosen = broadcast_tensors(at_least_vector(input), mask)
    return read_where(wide, chosen._array)


def _masked_scatter_samples() -> Any:
    for array, mask in _masks():
        if array.ndim >= mask.ndim:
            yield sample(array, mask, between(-3, 3, max(array.size, 1) + 1))


def _masked_scatter_reference(input: np.ndarray, mask: np.ndarray, source: np.ndarray) -> np.ndarray:
    out, mask = input.copy(), mask & np.ones(input.shape, bool)
    out[mask] = source.flatten()[: mask.sum()]
    return out


def _expanded_to_mask(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    _refuse_mask("masked_scatter", mask)
    return input.expand(broadcast_shapes(input._array.shape, mask._array.shape))


@assigning(expanded=_expanded_to_mask, reference=_masked_scatter_reference, samples=_masked_scatter_samples)
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


def _nonzero_samples() -> Any:
    for array, mask in _masks():
        yield sample(np.where(np.broadcast_to(mask, array.shape) if mask.size == array.size else True, array, 0.0))


def _nonzero_reference(input: np.ndarray, *, as_tuple: bool = False) -> Any:
    return np.argwhere(input)


@op(widen=False, warns=False, reference=np.argwhere, samples=_nonzero_samples)
def argwhere(input: Array):
    """The indices of the elements that are not zero, one row of int64 for each, in row-major order."""
    return np.argwhere(input)


@composite(reference=_nonzero_reference, samples=_nonzero_samples)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """`argwhere`, or with `as_tuple` its columns as a tuple of vectors, one for each dimension, to index with."""
    if not as_tuple:
        return argwhere(input)
    return tuple(adopt(each) for each in at_least_vector(input)._array.nonzero())
