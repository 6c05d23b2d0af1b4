"""Views by sizes and strides: windows on the memory of a tensor.

A window is recorded relative to the tensor that owns the history: by the distance of its first element from the lowest
address of that tensor, and by the strides that the tensor had (`layout`). When the history is replayed on an array that
is laid out otherwise, the elements are first put where they were. Every window is compared with the memory of the array
that it looks at before that memory is touched.
"""

from __future__ import annotations

from operator import index as as_int
from typing import Any

import numpy as np

from ...autograd.modes import derives_from
from ...autograd.views import View
from ...dispatch.op import Array, composite, op
from ...kernels.runtime.shapes import strided_view
from ...tensor.size import addressable
from ...tensor.tensor import Tensor
from .slices import embed
from .view_replay import overlaps

__all__ = ["as_strided"]

Numbers = tuple[int, ...]


def _memory(array: np.ndarray) -> tuple[int, int]:
    """The first and last address of the memory behind an array."""
    memory, owner = array, array.base
    while owner is not None:
        memory = owner if isinstance(owner, np.ndarray) else memory
        owner = getattr(owner, "base", None)
    return np.lib.array_utils.byte_bounds(memory)


def _strides(array: np.ndarray) -> Numbers:
    """Return the strides in elements; 0 for dimensions of at most one element."""
    pairs = zip(array.strides, array.shape, strict=True)
    return tuple(stride // array.itemsize if size > 1 else 0 for stride, size in pairs)


def _reach(size: Numbers, stride: Numbers) -> tuple[int, int]:
    """The number of elements before and after the first element of a window."""
    ends = [(count - 1) * step for count, step in zip(size, stride, strict=True)]
    return sum(-end for end in ends if end < 0), sum(end for end in ends if end > 0)


def _refuse_outside(name: str, array: np.ndarray, size: Numbers, stride: Numbers, start: int) -> None:
    """Raise RuntimeError for a window, whose first element lies `start` elements from that of `array`, that is not
    within the memory of the array."""
    (low, high), (front, back) = _memory(array), _reach(size, stride)
    first = (array.ctypes.data - low) // array.itemsize + start
    if 0 not in size and not 0 <= first - front <= first + back < (high - low) // array.itemsize:
        raise RuntimeError(
            f"{name}(): sizes {list(size)} and strides {list(stride)} at storage offset {first} are out of bounds for "
            f"a storage of {(high - low) // array.itemsize} elements"
        )


def _at(array: np.ndarray, size: Numbers, stride: Numbers, start: int) -> np.ndarray:
    """A window within the memory of `array`, already checked."""
    first = strided_view(array, (2,), (start * array.itemsize,))[1:]
    return strided_view(first, size, tuple(step * array.itemsize for step in stride))


def _laid_out(array: np.ndarray, layout: Numbers) -> np.ndarray:
    """Copy the array into memory with these strides."""
    front, back = _reach(array.shape, layout)
    memory = np.zeros(front + back + 1, array.dtype)
    copied = _at(memory, array.shape, layout, front)
    copied[...] = array
    return copied


@op(
    input=lambda g, input_shape, size, stride, offset, layout: embed(
        strided_window, g, input_shape, size=size, stride=stride, offset=offset, layout=layout
    ),
    traits="view unwidened silent function",
    name=("strided_window", "as_strided"),
    batch="loop: the memory of one sample",
)
def strided_window(input: Array, size: Any, stride: Any, offset: int, layout: Any = None) -> Array:
    """The view of `size` and `stride` that begins `offset` elements behind the lowest address of `input`, when that has
    the strides `layout`.

    Raises RuntimeError for a window that is not within the memory of `input`.
    """
    if layout is not None and layout != _strides(input):
        input = _laid_out(input, layout)
    start = offset - _reach(input.shape, _strides(input))[0] if input.size else offset
    _refuse_outside("as_strided", input, size, stride, start)
    return np.empty(size, input.dtype) if 0 in size else _at(input, size, stride, start)


def _numbers(name: str, argument: str, given: Any) -> Numbers:
    if not isinstance(given, (tuple, list)):
        raise TypeError(f"{name}(): argument {argument!r} must be a tuple of ints, got {type(given).__name__}")
    try:
        return tuple(map(as_int, given))
    except TypeError:
        raise TypeError(f"{name}(): argument {argument!r} must be a tuple of ints, got {given!r}") from None


def _covers(array: np.ndarray, window: dict[str, Any]) -> bool:
    """Whether all elements of a window are elements of `array`, rather than gaps or neighbours."""
    layout, size = _strides(array), window["size"]
    front, back = _reach(array.shape, layout)
    marks = np.zeros(front + back + 1, bool)
    _at(marks, array.shape, layout, front)[...] = True
    first, last = window["offset"], window["offset"] + _reach(size, window["stride"])[1]
    return 0 <= first <= last < marks.size and bool(_at(marks, size, window["stride"], first).all())


def window_of(
    name: str, input: Tensor, size: Any, stride: Any, storage_offset: Any, source: Tensor, whole: bool
) -> dict[str, Any]:
    """The arguments of `strided_window` for a requested window on `source`, which shares the memory of `input`.

    With `whole` the window may only contain elements of the source. Raises RuntimeError for sizes, strides and offsets
    that are negative or out of bounds, TypeError for those that are not integers.
    """
    size, stride, array = _numbers(name, "size", size), _numbers(name, "stride", stride), input._array
    if len(size) != len(stride):
        raise RuntimeError(f"{name}(): mismatch in length of strides {list(stride)} and shape {list(size)}")
    for argument, values in (("size", size), ("stride", stride)):
        if min(values, default=0) < 0:
            raise RuntimeError(f"{name}(): {argument} must not be negative, got {list(values)}")
    before = (array.ctypes.data - _memory(array)[0]) // array.itemsize
    offset = before if storage_offset is None else as_int(storage_offset)
    if offset < 0:
        raise RuntimeError(f"{name}(): storage_offset must not be negative, got {offset}")
    addressable(size)
    _refuse_outside(name, array, size, stride, offset - before)
    lowest = np.lib.array_utils.byte_bounds(source._array)[0]
    distance = offset - before + (array.ctypes.data - lowest) // array.itemsize
    window = {"size": size, "stride": stride, "offset": distance, "layout": _strides(source._array)}
    if whole and 0 not in size and not _covers(source._array, window):
        raise RuntimeError(
            f"{name}(): the window must lie on elements of the tensor that is recorded, of shape "
            f"{list(source.shape)} and strides {source.stride()}, got sizes {list(size)}, strides {list(stride)} and "
            f"storage offset {offset}; use contiguous(), or detach()"
        )
    return window


@composite(batch="copies")
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """The view of `size` with the given `stride` (in elements) in the memory of `input`, starting at `storage_offset`.

    The default offset is that of `input`. Elements may overlap; the gradient sums over all that share a place. Raises
    RuntimeError for sizes, strides and offsets that are negative or out of bounds. If the gradient is recorded, all
    elements must be elements of the tensor that `input` is a view of.
    """
    state, source = input._state, input
    if type(state) is View and state.apart is None and state.steps and state.root()._array.dtype == input._array.dtype:
        source = state.root()
    window = window_of("as_strided", input, size, stride, storage_offset, source, whole=derives_from(source))
    return strided_window(source, **window)


def storage_offset(self: Tensor, /) -> int:
    """The number of elements that lie in memory before the first one of this tensor."""
    array = self._array
    return (array.ctypes.data - _memory(array)[0]) // array.itemsize


def dim_order(self: Tensor, /, ambiguity_check: bool = False) -> tuple[int, ...]:
    """The dimensions in the order of their strides, largest first: (0, 2, 3, 1) for channels last.

    With `ambiguity_check` raises RuntimeError where strides leave the order open, as for sizes of 1.
    """
    steps = [(-stride, dim) for dim, stride in enumerate(self.stride())]
    if ambiguity_check and (1 in self.shape or len(set(self.stride())) < len(steps)):
        raise RuntimeError(
            f"dim_order(): strides must determine the order, got shape {list(self.shape)} and strides {self.stride()}"
        )
    return tuple(dim for _, dim in sorted(steps))


for _method in (storage_offset, dim_order):
    setattr(Tensor, _method.__name__, _method)


def refuse_overlaps(name: str, array: np.ndarray) -> None:
    """Raise RuntimeError for a window with two elements at one address."""
    if overlaps(array):
        raise RuntimeError(
            f"{name}(): unsupported operation: more than one element of the written-to window refers to a single "
            f"memory location, with strides {list(_strides(array))}"
        )
