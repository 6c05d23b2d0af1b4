"""The ops behind the histories of views: replay of the steps from a base, and writes back along them.

`autograd.views` and `inplace` use them by their names in the registry. A step is (op, metadata, index of the result).
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ...autograd.views import shares_memory, walk
from ...dispatch.op import Array, op
from ...dispatch.promotion import EVERY_DTYPE
from ...kernels.arrays.elementwise import is_half
from ...kernels.precisions.float8 import is_float8
from ...tensor.casting import cast_unchecked
from ...tensor.tensor import adopt
from ..indexing.accumulate import add_at

__all__ = ["embed_adjoint", "overlaps", "scatter"]


def overlaps(array: np.ndarray) -> bool:
    """Whether two elements of `array` may share one place in memory. False is always right; True for all expanded
    arrays.

    Ordered by stride, each dimension must step over everything that the previous ones reach.
    """
    reach = 0
    for stride, size in sorted(
        (abs(stride), size) for stride, size in zip(array.strides, array.shape, strict=True) if size > 1
    ):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def _positions(shape: tuple[int, ...], steps: tuple) -> np.ndarray:
    """Where in a base of `shape`, flattened, the elements of the view lie."""
    return walk(np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape), steps)


def _new(shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...] | None) -> np.ndarray:
    """Zeros in the memory layout of these strides, so that the steps from such a base are views. Viewing real numbers
    as complex ones, for example, needs both parts adjacent."""
    if strides is None or all(map(operator.ge, strides, strides[1:])):
        return np.zeros(shape, dtype)
    order = sorted(range(len(shape)), key=lambda dim: -abs(strides[dim]))
    return np.zeros([shape[dim] for dim in order], dtype).transpose(np.argsort(order))


def _laid_out(array: np.ndarray, strides: tuple[int, ...]) -> np.ndarray:
    """A copy whose dimensions lie in memory in the order of these strides."""
    out = _new(array.shape, array.dtype, strides)
    out[...] = array
    return out


def scatter(base: np.ndarray, value: np.ndarray, steps: tuple, strides: tuple[int, ...] | None = None) -> np.ndarray:
    """A copy of `base` with `value` written to the view that `steps` lead to."""
    out = base.copy("K") if strides is None or strides == base.strides else _laid_out(base, strides)
    view = walk(out, steps)
    if shares_memory(view, out):
        view[...] = value
        return out
    # The copy's memory is laid out in another way than the base's was when the view was made.
    out = base.copy("C")
    out.reshape(-1)[_positions(base.shape, steps)] = value
    return out


def embed_adjoint(
    value: np.ndarray,
    shape: tuple[int, ...],
    steps: tuple,
    dtype: np.dtype | None = None,
    strides: tuple[int, ...] | None = None,
) -> np.ndarray:
    """Zeros of `shape` with `value` added where `steps` lead: the adjoint of replaying them."""
    out = _new(shape, value.dtype if dtype is None else dtype, strides)
    view = walk(out, steps)
    apart = not shares_memory(view, out)
    if (is_half(out.dtype) or is_float8(out.dtype)) and (apart or overlaps(view)):  # so that sums are rounded once
        single = np.dtype(np.float32)
        return cast_unchecked(embed_adjoint(cast_unchecked(value, single), shape, steps, single, strides), out.dtype)
    if apart:
        add_at(out.reshape(-1), (_positions(shape, steps),), value)
    elif overlaps(view):
        _add(out, view, value)
    else:
        view[...] = value
    return out


def _add(out: np.ndarray, view: np.ndarray, value: np.ndarray) -> None:
    """Add `value` to the places of a view of `out`, which may repeat. One of the two may be complex."""
    places = np.full(view.shape, view.ctypes.data - out.ctypes.data)
    for dim, (size, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        places += (np.arange(size) * stride).reshape(-1, *(1,) * (view.ndim - dim - 1))
    parts = (value.real, value.imag) if value.dtype.kind == "c" else (value,)
    numbers = np.lib.stride_tricks.as_strided(out, (out.size,), (out.itemsize,)).view(parts[0].dtype)
    for index, part in enumerate(parts):  # in float64, rounded once
        found = np.bincount((places // numbers.itemsize + index).ravel(), part.ravel(), numbers.size)
        numbers += found.astype(numbers.dtype)


@op(
    base=lambda g, base_shape, base_dtype, steps, strides: view_embed(g, base_shape, steps, base_dtype, strides),
    traits="view function unwidened silent",
    batch="loop: the memory of one sample",
)
def view_steps(base: Array, steps: Any, strides: Any = None) -> Array:
    """The view of `base` to which `steps` lead, as a new result. `strides` are those of a base on which the steps are
    views, in case this one has another layout."""
    try:
        return walk(base, steps)
    except RuntimeError:
        if strides is None:
            raise
    return walk(_laid_out(base, strides), steps)


@op(
    takes=EVERY_DTYPE,
    value=lambda g, steps, strides: view_steps(g, steps, strides),
    traits="function unwidened",
    batch="loop: the memory of one sample",
)
def view_embed(value: Array, shape: Any, steps: Any, dtype: Any = None, strides: Any = None) -> Array:
    """Zeros of `shape` (and of `dtype`, by default that of `value`) with `value` added where `steps` lead. They have
    the memory layout of `strides`."""
    return embed_adjoint(value, shape, steps, dtype, strides)


@op(
    takes=EVERY_DTYPE,
    base=lambda g, base_strides, value_shape, value_dtype, steps, strides: view_scatter(
        g, adopt(np.zeros(value_shape, value_dtype)), steps, base_strides if strides is None else strides
    ),
    value=lambda g, base_strides, steps, strides: view_steps(g, steps, base_strides if strides is None else strides),
    traits="function unwidened",
    batch="loop: the memory of one sample",
)
def view_scatter(base: Array, value: Array, steps: Any, strides: Any = None) -> Array:
    """A copy of `base` with `value` written to the view that `steps` lead to. It has the memory layout of `strides`, by
    default those of the base."""
    return scatter(base, value, steps, strides)
