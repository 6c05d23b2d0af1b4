"""Sums, products, means and extrema of the elements scattered to one place: scatter_reduce and index_reduce."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch.op import Array, composite, op
from ...tensor.dtypes import COMPLEX
from ...tensor.tensor import Tensor, adopt, not_a_tensor
from ..dims import wrap_dim
from ..gradients import conjugate
from ..views.shape import ravel
from .accumulate import add_at, flat_positions
from .index import read
from .lookup import places_along, refuse_source
from .scatter import coordinates, source_of

__all__ = ["index_reduce", "scatter_reduce"]


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


@op(gradients=_combined_gradients, method=False, called="scatter_reduce", batch="loop: places in one sample")
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
    gradients=_extreme_gradients, method=False, takes="bif", called="scatter_reduce", batch="loop: places in one sample"
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
