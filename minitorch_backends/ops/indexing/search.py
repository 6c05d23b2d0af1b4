"""Places of values among others: in sorted ones, in sets, and distinct ones."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, composite, op
from ...dispatch.promotion import refusal_of_dtype
from ...kernels.arrays.elementwise import is_half
from ...tensor.dtypes import dtype_of
from ...tensor.tensor import Tensor, adopt, not_a_tensor
from ..dims import wrap_dim
from ..gradients import no_derivative

__all__ = ["bucketize", "isin", "searchsorted", "unique", "unique_consecutive"]


# In sorted values


@op(promote=True, traits="unwidened silent function", takes="bif", batch="loop: the elements of one sample")
def places_in_order(
    sorted_sequence: Array, input: Array, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Any = None,
) -> Array:  # fmt: skip
    """`searchsorted` of an array. bfloat16 is searched in float32, since NumPy mishandles its NaN."""
    sorted_sequence, input = (x.astype(np.float32) if is_half(x.dtype) else x for x in (sorted_sequence, input))
    order = sorter
    if sorted_sequence.ndim > 1 and sorted_sequence.shape[:-1] != input.shape[:-1]:
        raise RuntimeError(
            "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor "
            f"and input value tensor must match, but we got boundaries tensor {list(sorted_sequence.shape)} and input "
            f"value tensor {list(input.shape)}"
        )
    if not sorted_sequence.ndim:
        raise RuntimeError("searchsorted(): boundaries tensor should have positive dimension, got a number")
    if side is not None and (side not in ("left", "right") or (side == "left" and right)):
        raise RuntimeError(f"searchsorted(): side must be 'left' or 'right', as right says, got {side!r}, {right}")
    where: Any = "right" if right or side == "right" else "left"
    dtype = np.int32 if out_int32 else np.int64
    if sorted_sequence.ndim == 1:
        return np.searchsorted(sorted_sequence, input, where, order).astype(dtype)
    out = np.empty(input.shape, dtype)
    count = math.prod(input.shape[:-1])
    rows = zip(*(x.reshape(count, x.shape[-1]) for x in (sorted_sequence, input, out)), strict=True)
    orders = None if order is None else order.reshape(count, order.shape[-1])
    for number, (edges, values, places) in enumerate(rows):
        places[:] = np.searchsorted(edges, values, where, None if orders is None else orders[number])
    return out


def _array_of(name: str, argument: str, value: Any) -> np.ndarray:
    """The array of a tensor or a number. Raises TypeError for others."""
    if isinstance(value, Tensor):
        return value._array
    if not isinstance(value, (bool, int, float, np.generic)):
        raise not_a_tensor(name, argument, value, "a Tensor or a number")
    return np.asarray(value)


def _refuse_no_places(order: np.ndarray, shape: tuple[int, ...]) -> None:
    if order.shape != shape:
        raise RuntimeError(
            f"searchsorted(): boundary and sorter must have the same size, got {list(shape)} and {list(order.shape)}"
        )
    if order.dtype != np.int64:
        raise RuntimeError(f"searchsorted(): sorter must be a tensor of mt.int64, got {dtype_of(order)!r}")
    if order.size and not 0 <= order.min() <= order.max() < order.shape[-1]:
        raise RuntimeError(
            f"searchsorted(): sorter index out of range: expected 0 to {order.shape[-1] - 1}, got {order.min()} to "
            f"{order.max()}"
        )


@composite(method=False, takes="bif", aliases={"self": "input"})
def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The insertion positions of values in a sorted sequence: before equal elements, or behind them with `right`.

    sorted_sequence: (n), or (..., n) with input (..., m); `sorter` holds the positions that sort it. Returns the
    input's shape, int64 or int32. Raises RuntimeError for mismatched shapes, and for a sorter with invalid positions.
    """
    if not isinstance(sorted_sequence, Tensor):
        raise not_a_tensor("searchsorted", "sorted_sequence", sorted_sequence)
    values = _array_of("searchsorted", "input", input)
    if not isinstance(input, Tensor) and not (values.dtype.kind == "f" and not sorted_sequence.is_floating_point()):
        values = np.asarray(input, sorted_sequence._array.dtype)
    if sorter is not None:
        _refuse_no_places(sorter._array, sorted_sequence._array.shape)
    return places_in_order(
        sorted_sequence,
        input if isinstance(input, Tensor) else adopt(values),
        out_int32=out_int32,
        right=right,
        side=side,
        sorter=None if sorter is None else sorter._array,
    )


@composite(method=False, takes="bif")
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The interval of each value between sorted boundaries: boundaries[i - 1] < value <= boundaries[i], or with `right`
    boundaries[i - 1] <= value < boundaries[i]. Raises RuntimeError for boundaries other than a vector."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# In sets


@composite(method=False, takes="if", aliases={"element": "elements", "test_element": "test_elements"})
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is among the test elements, or with `invert` is not; one of the two may be a number. Raises
    TypeError for two numbers."""
    if not (isinstance(elements, Tensor) or isinstance(test_elements, Tensor)):
        raise TypeError("isin(): expected a Tensor among elements and test_elements, got none")
    arrays = [_array_of("isin", *each) for each in (("elements", elements), ("test_elements", test_elements))]
    for each in arrays:
        if (dtype := dtype_of(each)).letter not in "if":
            raise refusal_of_dtype("isin", dtype, "if")
    first, second = (each.astype(np.float32) if each.dtype.kind == "V" else each for each in arrays)
    return adopt(np.isin(first, second, invert=invert))


# Distinct values


def _refuse_complex(name: str, input: Tensor) -> None:
    if input.is_complex():
        raise NotImplementedError(f"{name}() is not implemented for {input.dtype!r}; expected real tensors")


def _select_results(made: Any, return_inverse: bool, return_counts: bool) -> Any:
    values, inverse, counts = made
    chosen = [values, *[inverse] * return_inverse, *[counts] * return_counts]
    return chosen[0] if len(chosen) == 1 else tuple(chosen)


def _dim_of_parts(name: str, input: Tensor, dim: int | None) -> int | None:
    """From the front. Raises IndexError for a tensor without dimensions, RuntimeError for parts without elements."""
    if dim is None:
        return None
    shape = input._array.shape
    axis = wrap_dim(dim, len(shape))
    if not shape:
        raise IndexError(f"{name}(): dim={dim} of a tensor that has no dimensions; leave dim out")
    if 0 in shape[:axis] + shape[axis + 1 :]:
        raise RuntimeError(f"{name}(): the parts of {list(shape)} along {dim=} have no elements; expected some")
    return axis


def _unique(input: np.ndarray, dim: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values, inverse, counts = np.unique(input, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)
    return values, inverse.reshape(input.shape if dim is None else -1), counts


def _parts(input: np.ndarray, dim: int) -> np.ndarray:
    """Those along a dimension, as rows."""
    count = input.shape[dim]
    return np.moveaxis(input, dim, 0).reshape(count, input.size // max(count, 1))


def _runs(input: np.ndarray, dim: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = input.reshape(-1, 1) if dim is None else _parts(input, dim)
    begins = np.ones(len(rows), bool)
    begins[1:] = (rows[1:] != rows[:-1]).any(1)
    firsts = np.flatnonzero(begins)
    inverse, counts = np.cumsum(begins) - 1, np.diff(np.append(firsts, len(rows)))
    values = input.reshape(-1)[firsts] if dim is None else np.take(input, firsts, dim)
    return values, inverse.reshape(input.shape if dim is None else -1), counts


class Distinct(NamedTuple):
    values: Any
    inverse: Any
    counts: Any


@op(
    input=no_derivative("unique"),
    traits="function unwidened silent",
    takes="bif",
    batch="loop: a size that depends on values",
)
def distinct(input: Array, dim: int | None = None, consecutive: bool = False) -> Distinct:
    """What `unique` and `unique_consecutive` may return, all of it."""
    if consecutive:
        return Distinct(*_runs(input, dim))
    values, inverse, counts = _unique(input if input.dtype.kind != "V" else input.astype(np.float32), dim)
    return Distinct(values.astype(input.dtype), inverse, counts)


@composite(takes="bif")
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The distinct elements, or the distinct slices along `dim`, in ascending order.

    `return_inverse` adds the index of each input element in the result, `return_counts` the number of occurrences. The
    result is sorted whatever `sorted` is; NaN equals nothing. Raises RuntimeError for empty slices.
    """
    _refuse_complex("unique", input)
    return _select_results(distinct(input, _dim_of_parts("unique", input, dim)), return_inverse, return_counts)


@composite(takes="bif")
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equal elements, or of equal slices along `dim`. The other results are those of
    `unique`."""
    _refuse_complex("unique_consecutive", input)
    axis = _dim_of_parts("unique_consecutive", input, dim)
    return _select_results(distinct(input, axis, consecutive=True), return_inverse, return_counts)
