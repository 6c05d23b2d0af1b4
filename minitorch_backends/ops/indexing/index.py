"""Indexing: `x[index]`, `x[index] = value`, and the ops behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.mutation import is_plain, write_plainly
from ...autograd.views import made_view
from ...dispatch.op import Array, op
from ...dispatch.promotion import EVERY_CATEGORY, EVERY_DTYPE, refusal_of_dtype
from ...kernels.arrays.elementwise import in_order, is_half
from ...tensor.call_errors import install
from ...tensor.dtypes import dtype_of
from ...tensor.tensor import Tensor, adopt
from ..gradients import no_derivative
from ..views.shape import reshape
from ..views.slices import getitem
from .accumulate import add_at, apply_at, selected_ndim
from .fill import number_as
from .index_parsing import parse, plain, refusal

__all__: list[str] = []


@op(
    takes=EVERY_DTYPE,
    input=lambda g, input_shape, indices: index_embed(g, input_shape, indices),
    traits="unwidened silent function",
    batch="look_up",
)
def look_up(input: Array, indices: Any) -> Array:
    """A copy of the elements at integer arrays, one for each of the first dimensions (or a slice of everything), in
    rows."""
    indices = plain(indices)
    try:
        if len(indices) == 1 or (type(indices[0]) is slice and all(type(each) is slice for each in indices[:-1])):
            return input.take(indices[-1], len(indices) - 1)
        found = input[indices]
    except IndexError:
        raise refusal(indices, input.shape) from None
    found = np.asarray(found)
    return found if found.flags.c_contiguous else in_order(found)


@op(takes="bifcn", value=lambda g, indices: look_up(g, indices), traits="function", batch="loop: places in one sample")
def index_embed(value: Array, shape: Any, indices: Any) -> Array:
    """Zeros of `shape` with `value` added at `indices`, once per occurrence of a place: the adjoint of `look_up`."""
    out = np.zeros(shape, value.dtype)
    add_at(out, plain(indices), value)
    return out


@op(
    takes=EVERY_DTYPE,
    input=lambda g, indices, accumulate: g if accumulate else index_assign(g, _zero(g), indices),
    values=lambda g, indices: look_up(g, indices),
    traits="mutates unwidened inplace function",
    batch="loop: places in one sample",
)
def index_assign(input: Array, values: Array, indices: tuple[Any, ...], accumulate: bool = False) -> None:
    """A copy with `values` written to the elements at `indices`, or added to them as often as each place is named."""
    if input.dtype != values.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {dtype_of(input)!r} for the "
            f"destination and {dtype_of(values)!r} for the source; use values.to(input.dtype)"
        )
    indices = plain(indices)
    if accumulate and (dtype := dtype_of(input)).letter in "np":
        raise refusal_of_dtype("index_put", dtype, EVERY_CATEGORY)
    try:
        if accumulate and input.dtype.itemsize == 2 and input.dtype.kind not in "iu":
            sums = input.astype(np.float32)
            add_at(sums, indices, values.astype(np.float32))
            input[...] = sums
        elif accumulate:
            add_at(input, indices, values)
        else:
            input[indices] = values
    except IndexError:
        raise refusal(indices, input.shape) from None
    except ValueError:
        selected = [list(each.shape) for each in indices if isinstance(each, np.ndarray)]
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to the elements of a "
            f"tensor of shape {list(input.shape)} at indices of shapes {selected}"
        ) from None


@op(
    input=no_derivative("scatter with reduce='multiply'"),
    values=no_derivative("scatter with reduce='multiply'"),
    traits="mutates unwidened inplace function",
    name=("index_multiply", "scatter"),
    batch="loop: places in one sample",
)
def index_multiply(input: Array, values: Array, indices: Any) -> None:
    """A copy with the elements at `indices` multiplied by `values`, once per occurrence of a place."""
    if input.dtype != values.dtype:
        raise RuntimeError(
            f"scatter(): src must have the dtype of input, {dtype_of(input)!r}, got {dtype_of(values)!r}; use "
            "src.to(input.dtype)"
        )
    if is_half(input.dtype):
        products = input.astype(np.float32)
        apply_at(np.multiply, products, indices, values.astype(np.float32))
        input[...] = products
    else:
        apply_at(np.multiply, input, indices, values)


def _zero(like: Tensor) -> Tensor:
    return adopt(np.zeros((), like._array.dtype))


def copy_written(arrays: tuple[Any, ...], *tensors: Any) -> tuple[Any, ...]:
    """Index arrays as a backward pass may need them: copies, so that later writes to them do not matter."""
    if not [each for each in tensors if isinstance(each, Tensor) and each._node is not None]:
        return arrays
    return tuple(each.copy() if isinstance(each, np.ndarray) else each for each in arrays)


def read(tensor: Tensor, arrays: tuple[Any, ...]) -> Tensor:
    """`look_up` that saves the tensors for a backward pass."""
    return look_up(tensor, copy_written(arrays, tensor))


def read_where(tensor: Tensor, mask: np.ndarray) -> Tensor:
    """The elements where `mask`, a boolean array of the tensor's shape, holds, in one dimension.

    As rows, since NumPy takes twice as long to find and to read places of two dimensions.
    """
    return read(tensor if tensor._array.ndim == 1 else reshape(tensor, -1), (np.flatnonzero(mask),))


def _is_mask(key: Any, shape: tuple[int, ...]) -> bool:
    """Whether a key is a mask of elements of this shape."""
    return type(key) is Tensor and bool(shape) and key._array.shape == shape and key._array.dtype.kind == "b"


def _holds_mask(key: Any) -> bool:
    """Whether a part of an index is a mask."""
    parts = key if type(key) is tuple else (key,)
    return any(np.asarray(each).dtype == bool for each in parts if isinstance(each, (Tensor, np.ndarray, list)))


def _getitem(self: Tensor, key: Any) -> Tensor:
    """The elements at an index: a view for ints, slices, None and Ellipsis; a copy for tensors, arrays or lists.

    Raises IndexError for indices out of bounds or of a wrong type, ValueError for slices with steps below 1.
    """
    if _is_mask(key, self._array.shape):
        return read_where(self, key._array)
    basic, arrays = parse(key, self._array.shape)
    view = self if basic is None else getitem(self, basic)
    return view if arrays is None else read(view, arrays)


def _setitem(self: Tensor, key: Any, value: Any) -> None:
    """Write a tensor or a number to the elements at an index, broadcast and cast to this tensor's dtype.

    Raises the errors of reading. Raises TypeError for other values, and RuntimeError for shapes that do not broadcast
    and where in-place writes are forbidden. On an error nothing has changed.
    """
    is_number = not isinstance(value, Tensor)
    if is_number:
        value = number_as(value, self, "value", finite=False)
    if value._array.size == 1 and type(key) is Tensor and _is_mask(key, self._array.shape[: key._array.ndim]):
        mask = reshape(key, (*key._array.shape, *(1,) * (self._array.ndim - key._array.ndim)))
        self.masked_fill_(mask, reshape(value, ()))
        return
    basic, arrays = parse(key, self._array.shape)
    if is_number and arrays is None and is_plain(self):
        write_plainly(self, self._array if basic is None else getitem.op.forward(self._array, basic), value._array)
        return
    view = self
    if arrays is not None and basic is not None:
        view = getitem(self, basic)
    elif basic is not None:
        # Not recorded: a completely overwritten view needs no gradient path to its old value.
        view = made_view(getitem.op, {"index": basic}, self, getitem.op.forward(self._array, basic), None)
    extra = value._array.ndim - selected_ndim(view._array, arrays)
    if extra > 0 and value._array.shape[:extra] == (1,) * extra:
        value = value.reshape(value._array.shape[extra:])
    if arrays is None:
        view.copy_(value)
    else:
        if value._array.size == 1 and value.dtype is not view.dtype and _holds_mask(key):
            value = value.to(view.dtype)
        view.index_assign_(value, copy_written(arrays, view, value))


install(__setitem__=_setitem)
Tensor.__getitem__ = _getitem  # type: ignore[assignment]
