"""Parsing of indices into a basic part that selects a view, and a part of index arrays.

torch's rules: ints select first, also beside arrays. A mask stands for the positions of its true elements. Arrays
broadcast with each other; their dimensions come first if something stands between them.
"""

from __future__ import annotations

from operator import index as as_int
from typing import Any

import numpy as np

from ...kernels.runtime.context import warn_caller
from ...kernels.runtime.shapes import broadcast_shapes
from ...tensor.dtypes import DType, dtype_of, int32, int64
from ...tensor.tensor import Tensor, is_foreign, kind_of
from ..creation.from_data import array_from, foreign_array, is_sequence

ALL = slice(None)


def parse(index: Any, shape: tuple[int, ...]) -> tuple[tuple[Any, ...] | None, tuple[Any, ...] | None]:
    """Split an index into a tensor of `shape` into (basic, arrays): the view to take, and the arrays that index that
    view.

    `basic` has ints, slices, None and one Ellipsis; it is None if the view would be the tensor itself. `arrays` has
    integer arrays, and slices for the dimensions between them; it is None without arrays.

    Raises IndexError for an invalid index, too many dimensions, and masks of another shape; ValueError for slices with
    a step of 0.
    """
    if type(index) is Tensor and index._array.ndim:
        array = index._array
        if array.dtype.kind == "i" and array.itemsize >= 4 and shape:
            return None, (array,)
        if array.dtype.kind == "b" and array.shape == shape[: array.ndim]:
            return None, array.nonzero()
    if type(index) is list and len(index) < _LONGEST_TUPLE and any(map(_selects_alone, index)):
        warn_caller("indexing with a list of sequences is deprecated; use x[tuple(index)], an index per dimension")
        index = tuple(index)
    items = index if type(index) is tuple else (index,)
    for item in items:
        kind = type(item)
        if kind is slice:
            step = item.step
            if step is not None or type(item.start) is Tensor or type(item.stop) is Tensor:
                _refuse_step(step)
                return _parse_mixed(items, shape)
        elif not (kind is int or item is None or item is Ellipsis):
            return _parse_mixed(items, shape)
    ellipses = items.count(Ellipsis)
    return ((*items, Ellipsis) if not ellipses else items if ellipses == 1 else _with_one_ellipsis(items)), None


_LONGEST_TUPLE = 32
"""A list of at least this length is always one index into the first dimension."""


def _selects_alone(item: Any) -> bool:
    """Whether an item makes the list that holds it a list of one index per dimension."""
    return item is None or item is Ellipsis or isinstance(item, (slice, Tensor, np.ndarray)) or is_sequence(item)


def _with_one_ellipsis(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index without the ellipses, after a first one, that only None and ellipses follow: they select nothing."""
    first = next((place for place, each in enumerate(items) if each is Ellipsis), len(items))
    last = max((place for place, each in enumerate(items) if each is not None and each is not Ellipsis), default=-1)
    return tuple(each for place, each in enumerate(items) if each is not Ellipsis or not first < place > last)


def _parse_mixed(
    items: tuple[Any, ...], shape: tuple[int, ...]
) -> tuple[tuple[Any, ...] | None, tuple[Any, ...] | None]:
    """`parse` for indices that hold something other than ints, plain slices, None and Ellipsis."""
    items = _with_one_ellipsis(tuple(_item(each) for each in items))
    if not any(each is Ellipsis for each in items):
        items = (*items, Ellipsis)
    missing = len(shape) - sum(_dims_consumed(each) for each in items)
    if missing < 0:
        raise IndexError(
            f"too many indices for tensor of dimension {len(shape)}: {len(shape) - missing} for shape {list(shape)}"
        )
    basic: list[Any] = []
    arrays: dict[int, np.ndarray] = {}
    source = kept = 0
    for position, item in enumerate(items):
        if not isinstance(item, np.ndarray):
            added: list[Any] = [ALL] * missing if item is Ellipsis else [item]
            source += missing if item is Ellipsis else item is not None
        else:
            positions = _positions(item, position, source, shape)
            arrays |= {kept + offset: each for offset, each in enumerate(positions)}
            added = [ALL] * len(positions) if item.ndim or item.dtype != bool else [None]
            source += _dims_consumed(item)
        basic += added
        kept += sum(type(each) is not int for each in added)
    view = None if all(type(each) is slice and each == ALL for each in basic) else (*basic, Ellipsis)
    if not arrays:
        return view or (Ellipsis,), None
    return view, tuple(arrays.get(dim, ALL) for dim in range(max(arrays) + 1))


def _item(item: Any) -> Any:
    """One part of an index as an int, a slice of ints, None, Ellipsis, or an integer or boolean array."""
    if is_foreign(item):
        item = foreign_array(item)
    kind = type(item)
    if kind is int or item is None or item is Ellipsis:
        return item
    if kind is slice:
        _refuse_step(item.step)
        return slice(*(each if each is None else as_int(each) for each in (item.start, item.stop, item.step)))
    if isinstance(item, (Tensor, np.ndarray, np.bool_, bool)):
        array = item._array if isinstance(item, Tensor) else np.asarray(item)
        if type(item) is np.ndarray and not array.size and array.dtype != bool:
            array = array.astype(np.int64)
    elif is_sequence(item):
        array = array_from(item, None) if len(item) else np.empty(0, np.int64)
        array = array.astype(np.int64) if array.size == 0 else array
    elif hasattr(kind, "__index__"):
        return as_int(item)
    else:
        error = TypeError if isinstance(item, str) else IndexError
        raise error(
            "only integers, slices (`:`), ellipsis (`...`), None, sequences and integer or boolean tensors are valid "
            f"indices, got {item!r} of type {kind.__name__}"
        )
    if array.dtype == np.uint8:
        warn_caller("indexing with dtype mt.uint8 is now deprecated, please use a dtype mt.bool instead.")
        array = array != 0
    short = isinstance(item, Tensor) and array.ndim and array.dtype.kind == "i" and array.itemsize < 4
    if array.dtype.kind not in "bi" or short:
        raise IndexError(
            f"tensors used as indices must be long, int, byte or bool tensors, got {dtype_of(array)!r}; use "
            ".long() for positions, .bool() for a mask"
        )
    return int(array) if array.ndim == 0 and array.dtype.kind == "i" else array


def _refuse_step(step: Any) -> None:
    if step is not None and step == 0:
        raise ValueError("slice step must not be 0, got 0")


def _dims_consumed(item: Any) -> int:
    """The number of the tensor's dimensions that one part of an index consumes."""
    if isinstance(item, np.ndarray):
        return item.ndim if item.dtype == bool else 1
    return int(item is not None and item is not Ellipsis)


def _positions(item: np.ndarray, position: int, source: int, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """The integer arrays that an index array stands for: itself, or for a mask those of its true elements."""
    if item.dtype != bool:
        return (item,)
    if item.ndim == 0:
        return (np.zeros(int(item), np.int64),)
    if item.shape != shape[source : source + item.ndim]:
        raise IndexError(
            f"The shape of the mask {list(item.shape)} at index {position} does not match the shape of the indexed "
            f"tensor {list(shape)} at dimension {source}"
        )
    return item.nonzero()


def refuse_index_dtype(
    name: str,
    argument: str,
    array: np.ndarray,
    expected: tuple[DType, ...] = (int32, int64),
    error: type[Exception] = RuntimeError,
) -> None:
    """Raise `error` for positions, or classes, of another dtype than the expected ones, which are torch's."""
    if (found := dtype_of(array)) not in expected:
        kinds = " or ".join(map(repr, expected))
        raise error(f"{name}(): {argument} must be a tensor of {kinds}, got {found!r}; use {argument}.long()")


_NONE = np.empty(0, np.int64)


def index_arrays(indices: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """The `indices` argument of `index_put`: tensors, one for each of the first dimensions, or None for all of one.

    Raises TypeError for anything else, IndexError for dtypes and masks that do not fit and for too many.
    """
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"indices is a tuple of Tensors, got {type(indices).__name__}; expected (index,), for example")
    arrays: list[Any] = []
    switches: list[bool] = []  # masks without dimensions, which are for all or for nothing
    for position, each in enumerate(indices):
        if each is None:
            arrays.append(ALL)
            continue
        if not isinstance(each, (Tensor, np.ndarray)):
            raise TypeError(f"indices must be a tuple of Tensors, got {kind_of(each)} at {position}; use mt.as_tensor")
        item = _item(each)
        if isinstance(item, np.ndarray) and not item.ndim and item.dtype == bool:
            switches.append(bool(item))
        elif isinstance(item, np.ndarray):
            arrays += _positions(item, position, len(arrays), shape)
        else:
            arrays.append(np.asarray(item))
    if len(arrays) > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)} (got {len(arrays)})")
    if switches and not all(switches):  # nothing is meant
        arrays = [_NONE if isinstance(each, np.ndarray) else each for each in arrays] or [_NONE]
    if switches and not arrays:
        arrays = [np.arange(shape[0]) if shape else Ellipsis]
    return tuple(arrays)


def plain(indices: tuple[Any, ...]) -> tuple[Any, ...]:
    """Indices with arrays in place of tensors."""
    return tuple([each._array if isinstance(each, Tensor) else each for each in indices])


def refusal(indices: tuple[Any, ...], shape: tuple[int, ...]) -> IndexError:
    """torch's error for an index that NumPy rejects, for a tensor of `shape`."""
    if sum(each is Ellipsis for each in indices) > 1:
        return IndexError(f"an index can only have one ellipsis ('...'), got {indices}")
    given = sum(each is not None and each is not Ellipsis for each in indices)
    if not shape and given:
        return IndexError("invalid index of a 0-dim tensor; use tensor.item() to convert a 0-dim tensor to a number")
    if given > len(shape):
        return IndexError(f"too many indices for tensor of dimension {len(shape)}: {given} for shape {list(shape)}")
    arrays = [each for each in indices if isinstance(each, np.ndarray)]
    try:
        broadcast_shapes(*(each.shape for each in arrays))
    except ValueError:
        shapes = ", ".join(str(list(each.shape)) for each in arrays)
        return IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}")
    dim = 0
    for position, each in enumerate(indices):
        if each is Ellipsis:
            dim = len(shape) - sum(later is not None for later in indices[position + 1 :])
        elif each is not None:
            outside = (
                [k for k in np.ravel(each) if not -shape[dim] <= k < shape[dim]] if not isinstance(each, slice) else []
            )
            if outside:
                return IndexError(f"index {outside[0]} is out of bounds for dimension {dim} with size {shape[dim]}")
            dim += 1
    return IndexError(f"index {indices} does not fit a tensor of shape {list(shape)}")
