"""Places of values among others: in sorted ones, in sets, and distinct ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.op import Array, composite, op
from ...dispatch.promotion import refusal_of_dtype
from ...kernels.elementwise import is_half
from ...tensor.dtypes import dtype_of
from ...tensor.tensor import Tensor, adopt, not_a_tensor
from ..dims import wrap_dim
from ..gradients import no_derivative
from ..samples import Sample, arrays_like, between, sample

__all__ = ["bucketize", "isin", "searchsorted", "unique", "unique_consecutive"]


# In sorted values


def _sorted_samples() -> Iterator[Sample]:
    edges = np.sort(between(4, 50, 6, seed=1))
    for each in arrays_like(0, 60):
        yield sample(edges, each)
    rows = np.sort(between(4, 50, 3, 5, seed=1), -1)
    yield sample(rows, between(0, 60, 3, 4), right=True)
    yield sample(np.array([1, 3, 3, 7]), np.array([[3, 0], [9, 7]]), side="right")
    yield sample(np.array([1, 3, 3, 7]), np.array([3, 3]), out_int32=True)
    yield sample(np.array([3, 1, 7, 3]), np.array([3, 2]), sorter=np.array([1, 0, 3, 2]))


def _sorted_reference(
    sorted_sequence: np.ndarray, input: np.ndarray, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Any = None,
) -> np.ndarray:  # fmt: skip
    """By counting."""
    if sorter is not None:
        sorted_sequence = np.take_along_axis(sorted_sequence, sorter, -1)
    wanted = np.asarray(input)[..., None]
    edges = sorted_sequence if sorted_sequence.ndim == 1 else sorted_sequence[..., None, :]
    below = edges <= wanted if right or side == "right" else edges < wanted
    return below.sum(-1).astype(np.int32 if out_int32 else np.int64)


@op(
    promote=True,
    widen=False,
    warns=False,
    method=False,
    takes="bif",
    reference=_sorted_reference,
    samples=_sorted_samples,
)
def places_in_order(
    sorted_sequence: Array, input: Array, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Any = None,
):  # fmt: skip
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


@composite(method=False, takes="bif", reference=_sorted_reference, samples=_sorted_samples, aliases={"self": "input"})
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


def _bucket_samples() -> Iterator[Sample]:
    edges = np.sort(between(4, 50, 6, seed=1))
    for each in arrays_like(0, 60):
        yield sample(each, edges)
    yield sample(between(0, 60, 3, 4), edges, right=True)
    yield sample(np.array([[3, 0], [9, 7]]), np.array([1, 3, 3, 7]), out_int32=True)


@composite(
    method=False,
    takes="bif",
    reference=lambda input, boundaries, *, out_int32=False, right=False: _sorted_reference(
        boundaries, input, out_int32=out_int32, right=right
    ),
    samples=_bucket_samples,
)
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The interval of each value between sorted boundaries: boundaries[i - 1] < value <= boundaries[i], or with `right`
    boundaries[i - 1] <= value < boundaries[i]."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# In sets


@composite(
    method=False,
    takes="if",
    reference=lambda elements, test_elements, *, assume_unique=False, invert=False: np.isin(
        elements, test_elements, invert=invert
    ),
    samples=lambda: iter(
        [
            sample(between(-2, 2, 3, 4), between(-2, 2, 12)[::3]),
            sample(between(-2, 2, 4, 6)[::2, ::-2].T, between(-2, 2, 4, 6)[0], invert=True),
            sample(between(-2, 2), between(-2, 2)),
            sample(between(-2, 2, 0, 3), between(-2, 2, 2)),
            sample(np.array([1, 2, 5]), np.array([[5, 1], [7, 7]]), assume_unique=False),
        ]
    ),
    aliases={"element": "elements", "test_element": "test_elements"},
)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is among the test elements, or with `invert` is not; one of the two may be a number."""
    if not (isinstance(elements, Tensor) or isinstance(test_elements, Tensor)):
        raise TypeError("isin(): expected a Tensor among elements and test_elements, got none")
    arrays = [_array_of("isin", *each) for each in (("elements", elements), ("test_elements", test_elements))]
    for each in arrays:
        if (dtype := dtype_of(each)).letter not in "if":
            raise refusal_of_dtype("isin", dtype, "if")
    first, second = (each.astype(np.float32) if each.dtype.kind == "V" else each for each in arrays)
    return adopt(np.isin(first, second, invert=invert))


# Distinct values


def _distinct_samples() -> Iterator[Sample]:
    yield sample(np.array([3, 1, 1, 0, 3]))
    yield sample(np.array([[3, 1], [1, 0], [3, 1]]), return_inverse=True, return_counts=True)
    yield sample(np.array([[3, 1], [1, 0], [3, 1]]), return_inverse=True, return_counts=True, dim=0)
    yield sample(between(-2, 2, 3, 4))
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, dim=1)
    yield sample(between(-2, 2))
    yield sample(between(-2, 2, 0))


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


def _unique_reference(
    input: np.ndarray, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    return _select_results(_unique(input, dim), return_inverse, return_counts)


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


def _runs_reference(
    input: np.ndarray, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """One after the other."""
    parts = [*input.reshape(-1)] if dim is None else [*np.moveaxis(input, dim, 0)]
    kept: list[Any] = []
    inverse: list[int] = []
    counts: list[int] = []
    for part in parts:
        if not kept or (part != kept[-1]).any():
            kept.append(part)
            counts.append(0)
        counts[-1] += 1
        inverse.append(len(kept) - 1)
    values = np.array(kept, input.dtype) if dim is None else np.stack(kept, dim)
    places = np.array(inverse, np.int64).reshape(input.shape if dim is None else -1)
    return _select_results((values, places, np.array(counts, np.int64)), return_inverse, return_counts)


class Distinct(NamedTuple):
    values: Any
    inverse: Any
    counts: Any


def _sets_samples() -> Iterator[Sample]:
    for array in (np.array([[3, 1], [1, 0], [3, 1]]), between(-2, 2, 4, 6)[::2, ::-2].T):
        yield sample(array)
        yield sample(array, 0)
        yield sample(array, 1, True)
    yield sample(np.array([1, 1, 3, 3, 3, 1]), None, True)
    yield sample(between(-2, 2))
    yield sample(between(-2, 2, 0))


def _sets_reference(input: np.ndarray, dim: int | None = None, consecutive: bool = False) -> Any:
    return (_runs_reference if consecutive else _unique_reference)(
        input, return_inverse=True, return_counts=True, dim=dim
    )


@op(
    input=no_derivative("unique"),
    method=False,
    widen=False,
    warns=False,
    takes="bif",
    reference=_sets_reference,
    samples=_sets_samples,
)
def distinct(input: Array, dim: int | None = None, consecutive: bool = False) -> Distinct:
    """What `unique` and `unique_consecutive` may return, all of it."""
    if consecutive:
        return Distinct(*_runs(input, dim))
    values, inverse, counts = _unique(input if input.dtype.kind != "V" else input.astype(np.float32), dim)
    return Distinct(values.astype(input.dtype), inverse, counts)


@composite(takes="bif", reference=_unique_reference, samples=_distinct_samples)
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


def _run_samples() -> Iterator[Sample]:
    yield sample(np.array([1, 1, 3, 3, 3, 1]), return_inverse=True, return_counts=True)
    yield sample(np.array([[3, 1], [3, 1], [1, 0]]), return_inverse=True, return_counts=True, dim=0)
    yield sample(np.array([[3, 1], [1, 0]]), return_counts=True)
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, dim=1)
    yield sample(between(-2, 2))
    yield sample(between(-2, 2, 0))


@composite(takes="bif", reference=_runs_reference, samples=_run_samples)
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equal elements, or of equal slices along `dim`. The other results are those of
    `unique`."""
    _refuse_complex("unique_consecutive", input)
    axis = _dim_of_parts("unique_consecutive", input, dim)
    return _select_results(distinct(input, axis, consecutive=True), return_inverse, return_counts)
