"""Look-ups and writes by an index of as many dimensions as the tensor, which counts along one of them."""

from __future__ import annotations

import math
from operator import index as as_int
from typing import Any

import numpy as np

from ...autograd.views import walk
from ...dispatch.op import Array, composite, op
from ...dispatch.promotion import EVERY_DTYPE
from ...kernels.arrays.gathering import gather as kernel
from ...tensor.dtypes import COMPLEX, int64
from ...tensor.tensor import Tensor, adopt, not_a_tensor
from ..dims import wrap_dim
from ..gradients import conjugate
from ..views.broadcasting import broadcast_shapes
from ..views.shape import expand, ravel, reshape
from ..views.slices import diagonal, getitem, slice_index
from ..views.strided import refuse_overlaps, strided_window, window_of
from ..views.view_replay import view_scatter
from .accumulate import add_at, flat_positions
from .fill import number_as
from .index import index_embed, read
from .index_functions import assigning, at_least_vector, checked_positions, places_along, refuse_source
from .index_parsing import plain, refuse_index_dtype

__all__ = [
    "as_strided_scatter", "diagonal_scatter", "gather", "index_reduce", "scatter", "scatter_add", "scatter_reduce",
    "select_scatter", "slice_scatter", "take_along_dim",
]  # fmt: skip


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
    name=("gather_along", "gather"),
    traits="unwidened silent function",
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


# Sums, products, means and extrema of the elements scattered to one place: scatter_reduce and index_reduce


def _counts(places: np.ndarray, chosen: Any, size: int) -> np.ndarray:
    """The number of selected elements for each place."""
    return np.bincount(places.reshape(-1), np.broadcast_to(chosen, places.shape).reshape(-1), size).astype(np.int64)


def _is_destination(places: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return where elements of a tensor of this shape are named by flat positions: bool, of the same shape."""
    found = np.zeros(shape, bool)
    found.reshape(-1)[places.reshape(-1)] = True
    return found


def _start(input: np.ndarray, places: np.ndarray, include_self: bool, neutral: Any) -> np.ndarray:
    """A copy of the input, with `neutral` at places that receive elements without including their own."""
    out = np.array(input, order="C")
    if not include_self:
        out.reshape(-1)[places.reshape(-1)] = neutral
    return out


# Sums, products and means


def _zeros(item: Tensor) -> Tensor:
    return adopt(item._array == 0)


def _product_gradients(g: Tensor, input: Tensor, src: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of a product with respect to one factor: the product of the others.

    For nonzero elements the product is divided by the element. Zeros are counted, and enter as factors of their own if
    there are one or two, so that the second derivative is right too. `lone` is their sum, which is 0.
    """
    size, shape = input._array.size, input._array.shape
    both = (input, src)
    zero = tuple(map(_zeros, both))
    count = _counts(places._array, zero[1]._array, size).reshape(shape) + zero[0]._array
    product = combine_at(*(each.where(~is_zero, 1) for each, is_zero in zip(both, zero, strict=True)), places, "prod")
    if not count.any():
        return tuple(
            at * conjugate(p / each)
            for at, p, each in ((g, product, input), (_take_flat(g, places), _take_flat(product, places), src))
        )
    lone = combine_at(*(each.where(is_zero, 0) for each, is_zero in zip(both, zero, strict=True)), places, "sum")

    def gradient(at: Any, each: Tensor, is_zero: Tensor) -> Tensor:
        number, p, other = adopt(np.asarray(at(adopt(count))._array)), at(product), at(lone)
        beside_zero = (p / each.where(~is_zero, 1)) * other.where(number == 1, 0).where(number != 0, 1)
        of_zero = p * (other - each).where(number == 2, 0).where(number != 1, 1)
        return at(g) * conjugate(of_zero.where(is_zero, beside_zero))

    return gradient(lambda x: x, input, zero[0]), gradient(lambda x: _take_flat(x, places), src, zero[1])


def _take_flat(value: Tensor, places: Tensor) -> Tensor:
    """The elements of `value`, flattened, at the places."""
    return read(ravel(value), (places._array,))


def _beside(g: Tensor, gradient: Tensor, input: Tensor, places: Tensor, include_self: bool) -> Tensor:
    """The gradient of the input: that of its own part in the result, if any, and `g` at places without elements."""
    touched = adopt(_is_destination(places._array, input._array.shape))
    return (gradient if include_self else adopt(np.zeros((), g._array.dtype))).where(touched, g)


def _combined_gradients(
    g: Tensor, input: Tensor, src: Tensor, places: Tensor, reduce: str, include_self: bool
) -> tuple[Tensor, Tensor, None]:
    if reduce == "prod":
        items = input if include_self else input.where(~adopt(_is_destination(places._array, input._array.shape)), 1)
        of_input, of_src = _product_gradients(g, items, src, places)
        return _beside(g, of_input, input, places, include_self), of_src, None
    if reduce == "mean":
        count = _counts(places._array, True, input._array.size).reshape(input._array.shape) + include_self
        share = g / adopt(np.maximum(count, 1).astype(np.float64 if g._array.itemsize > 4 else np.float32)).to(g.dtype)
        return _beside(g, share, input, places, include_self), _take_flat(share, places), None
    return _beside(g, g, input, places, include_self), _take_flat(g, places), None


@op(
    gradients=_combined_gradients,
    traits="function",
    name=("combine_at", "scatter_reduce"),
    batch="loop: places in one sample",
)
def combine_at(input: Array, src: Array, places: Array, reduce: Any, include_self: bool = True) -> Array:
    """A copy of `input` with each element reduced (sum, product or mean) over the elements of `src` sent to its flat
    place.

    With `include_self` the element itself takes part.
    """
    if input.dtype.kind == "b" and reduce == "mean":
        raise NotImplementedError("scatter_reduce(): the mean is not implemented for booleans; use sum")
    out = _start(input, places, include_self, 1 if reduce == "prod" else 0)
    flat, at, values = out.reshape(-1), places.reshape(-1), src.reshape(-1)
    if reduce == "prod":
        np.multiply.at(flat, at, values)
        return out
    add_at(flat, (at,), values)
    if reduce == "mean":
        count = _counts(places, True, flat.size) + include_self
        count[(count == 0) | (_counts(places, True, flat.size) == 0)] = 1
        flat[...] = flat // count if flat.dtype.kind in "iu" else flat / count
    return out


# Extrema


def _extreme_gradients(
    g: Tensor, input: Tensor, src: Tensor, out: Tensor, places: Tensor, include_self: bool
) -> tuple[Tensor, Tensor, None]:
    """Divide the gradient equally among all elements that are equal to the result."""
    found, values = out._array, src._array
    equal = [_same(input._array, found), _same(values, found.reshape(-1)[places._array])]
    count = _counts(places._array, equal[1], found.size).reshape(found.shape) + (equal[0] if include_self else 0)
    share = g / adopt(np.maximum(count, 1).astype(np.float64 if g._array.itemsize > 4 else np.float32)).to(g.dtype)
    of_input = share.where(adopt(np.asarray(equal[0])), 0)
    return _beside(g, of_input, input, places, include_self), _take_flat(share, places).where(adopt(equal[1]), 0), None


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray((a == b) | ((a != a) & (b != b)))


def _limit(dtype: np.dtype, largest: bool) -> Any:
    """Return the identity of a maximum or a minimum: the smallest or the largest value of a dtype."""
    if dtype.kind in "biu":
        lowest, highest = (False, True) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return lowest if largest else highest
    return -np.inf if largest else np.inf


@op(
    gradients=_extreme_gradients,
    traits="function",
    takes="bif",
    name=("extreme_at", "scatter_reduce"),
    batch="loop: places in one sample",
)
def extreme_at(input: Array, src: Array, places: Array, reduce: Any, include_self: bool = True) -> Array:
    """`combine_at` of the largest ("amax") or smallest ("amin") element. NaN wins."""
    out = _start(input, places, include_self, _limit(input.dtype, reduce == "amax"))
    ufunc = np.maximum if reduce == "amax" else np.minimum
    ufunc.at(out.reshape(-1), places.reshape(-1), src.reshape(-1))
    return out


def _reduce_elements(input: Tensor, src: Tensor, places: np.ndarray, reduce: str, include_self: bool) -> Tensor:
    function = extreme_at if reduce in ("amax", "amin") else combine_at
    return function(input, src, adopt(places), reduce, include_self)


# What users call


def _refuse(name: str, input: Tensor, src: Any, reduce: Any, known: tuple[str, ...], argument: str) -> None:
    if not isinstance(src, Tensor):
        raise not_a_tensor(name, argument, src)
    if reduce not in known:
        raise RuntimeError(f"{name}(): reduce must be one of {', '.join(known)}, got {reduce!r}")
    if src.dtype is not input.dtype:
        raise RuntimeError(f"{name}(): {argument} must be of the input's dtype {input.dtype!r}, got {src.dtype!r}")


@composite(inplace=True, takes="bif")
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy with each element reduced over the elements of `src` that `index` sends to it along `dim`, as in
    `scatter`.

    `reduce` is "sum", "prod", "mean", "amax" or "amin". Without `include_self` an element itself counts only if it
    receives nothing. Means of integers are rounded down. Raises RuntimeError for mismatched shapes, an index out of
    bounds and other dtypes.
    """
    _refuse("scatter_reduce", input, src, reduce, ("sum", "prod", "mean", "amax", "amin"), "src")
    places = coordinates("scatter_reduce", input, dim, index)
    flat = flat_positions(places, input._array.shape or (1,))
    given = source_of("scatter_reduce", src if src._array.ndim else ravel(src), adopt(np.atleast_1d(index._array)))
    return _reduce_elements(input, given, np.asarray(flat), reduce, include_self)


@composite(inplace=True, takes="if")
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy with the elements at the positions `index` of dimension `dim` reduced over those of `source`, as in
    `index_add`.

    `reduce` is "prod", "mean", "amax" or "amin"; otherwise as `scatter_reduce`. Raises IndexError for positions out of
    bounds, RuntimeError for mismatched shapes and dtypes, NotImplementedError for booleans and complex numbers.
    """
    _refuse("index_reduce", input, source, reduce, ("prod", "mean", "amax", "amin"), "source")
    if input.dtype.category in (0, COMPLEX):
        raise NotImplementedError(f"index_reduce() is not implemented for {input.dtype!r}; use scatter_reduce")
    along = places_along("index_reduce", input, dim, index, error=IndexError)
    refuse_source("index_reduce", input, dim, index, source)
    shape = input._array.shape or (1,)
    places = np.arange(input._array.size).reshape(shape).take(along[-1], wrap_dim(dim, len(shape)))
    return _reduce_elements(input, source.reshape(places.shape), places, reduce, include_self)


# Functional assignment: copies with a slice, an index, a diagonal or a window overwritten


def _overwritten(name: str, input: Tensor, src: Tensor, view: Any, **metadata: Any) -> Tensor:
    """A copy of `input` with `src` where the op `view` would look.

    Raises RuntimeError for a source of another shape.
    """
    step = (view.op, metadata, None)
    wanted = walk(input._array, (step,)).shape
    if src._array.shape != wanted:
        raise RuntimeError(
            f"{name} expected src of shape {list(wanted)}, that of the part to overwrite, got {list(src.shape)}"
        )
    return view_scatter(input, src, (step,))


@composite()
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy with `src` at one `index` of dimension `dim`.

    Raises IndexError out of range, RuntimeError for other shapes.
    """
    ndim = input._array.ndim
    part = (*slice_index(ndim, wrap_dim(dim, ndim), as_int(index)), ...)
    return _overwritten("select_scatter", input, src, getitem, index=part)


@composite()
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy with `src` at `start:end:step` of dimension `dim`.

    Raises RuntimeError for shapes and steps that do not fit.
    """
    if step < 1:
        raise RuntimeError(f"slice step must be positive, got {step}; use flip to reverse the order")
    ndim = input._array.ndim
    part = slice_index(ndim, wrap_dim(dim, ndim), slice(start, end, step))
    return _overwritten("slice_scatter", input, src, getitem, index=part)


@composite()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy with `src` on the `offset`-th diagonal of two dimensions.

    Raises RuntimeError for a source of another shape.
    """
    return _overwritten("diagonal_scatter", input, src, diagonal, offset=offset, dim1=dim1, dim2=dim2)


@composite(batch="copies")
def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A copy with `src` written to the window of `as_strided`.

    Raises RuntimeError for another shape of `src`, for overlapping windows, and for windows outside the elements of
    `input`.
    """
    window = window_of("as_strided_scatter", input, size, stride, storage_offset, input, whole=True)
    refuse_overlaps("as_strided_scatter", walk(input._array, ((strided_window.op, window, None),)))
    return _overwritten("as_strided_scatter", input, src.to(input.dtype), strided_window, **window)
