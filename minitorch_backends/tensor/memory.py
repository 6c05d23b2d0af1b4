"""torch's `device`, `layout` and `memory_format`: where a tensor's memory is, and its order of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.runtime.workspace import empty

_TYPES = frozenset({
    "cpu", "cuda", "fpga", "hip", "hpu", "ideep", "ipu", "lazy", "maia", "meta", "mkldnn", "mps", "mtia", "opencl",
    "opengl", "privateuseone", "ve", "vulkan", "xla", "xpu",
})  # fmt: skip
"""torch's device types."""


class device:
    """The device of a tensor: `device("cpu")`, `device("cuda", 1)`, `device("cuda:1")`, or `device(1)` for the latter.

    Every torch device can be named and compared, but tensors live on the CPU. A function called with another device
    raises, and so does `with device(...):`. `with device("cpu"):` has no effect.
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        if isinstance(type, int) and not isinstance(type, bool):
            type, index = "cuda", type
        elif not isinstance(type, (str, device)) and not hasattr(type, "type"):
            raise TypeError(f"device(): type must be a str, an int or a device, got {type!r}")
        name, colon, number = str(type).partition(":")
        if name not in _TYPES or (colon and (index is not None or not number.isdecimal())):
            raise RuntimeError(f"device must be 'cpu' or another of torch's device types, got {str(type)!r}")
        self.type, self.index = name, int(number) if colon else index
        if self.index is not None and self.index < 0:
            raise RuntimeError(f"device(): index must not be negative, got {self.index}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type={self.type!r}{'' if self.index is None else f', index={self.index}'})"

    def __reduce__(self) -> tuple:
        return device, (self.type, self.index)

    def __enter__(self) -> device:
        refuse_device(self)
        return self

    def __exit__(self, *exception: object) -> None:
        pass


CPU = device("cpu")


def refuse_device(where: Any) -> None:
    """Raise for a device other than the CPU: AssertionError for CUDA, as torch without CUDA does, otherwise
    RuntimeError."""
    if where is None or where is CPU or where == "cpu" or (asked := device(where)).type == "cpu":
        return
    error = AssertionError if asked.type == "cuda" else RuntimeError
    raise error(
        f"device must be 'cpu', got {str(asked)!r}; leave it out, and choose the emulated arithmetic with the "
        "flags of mt.backends"
    )


class _Named:
    """A constant under one of torch's names, equal only to itself."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"mt.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class layout(_Named):
    """The memory layout of a tensor, always `strided`."""

    __slots__ = ()


class memory_format(_Named):
    """An order of elements in memory, such as `channels_last`, for functions that take `memory_format`."""

    __slots__ = ()


strided = layout("strided")
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")

_DIMS = {channels_last: 4, channels_last_3d: 5}


def _channels_at_end(name: str, array: np.ndarray, wanted: Any) -> np.ndarray:
    """A view with channels last. Raises TypeError for a value that is not a memory format, and RuntimeError for a wrong
    number of dimensions."""
    if not isinstance(wanted, memory_format):
        raise TypeError(f"{name}(): memory_format must be a memory format, got {wanted!r}; use mt.channels_last")
    if wanted not in _DIMS:
        return array
    if array.ndim != _DIMS[wanted]:
        raise RuntimeError(f"{name}(): {wanted!r} requires {_DIMS[wanted]} dimensions, got {array.ndim}")
    return np.moveaxis(array, 1, -1)


def is_in_format(array: np.ndarray, wanted: Any) -> bool:
    """Whether the elements lie in memory in the order of `contiguous_format` or `channels_last`."""
    if wanted in _DIMS and array.ndim != _DIMS[wanted]:
        return False
    return _channels_at_end("is_contiguous", array, wanted).flags.c_contiguous


def in_format(name: str, array: np.ndarray, wanted: Any) -> np.ndarray:
    """Copy into new memory in format `wanted`; `preserve_format` keeps the strides. `name` is the caller, for
    errors.

    With channels last it begins on a cache line, which vectors of channels then do not cross: depthwise convolutions of
    images of 14 x 14 take 0.6 of the time.
    """
    view = _channels_at_end(name, array, wanted)
    if wanted not in _DIMS:
        return view.copy("K" if wanted is preserve_format else "C")
    copied = empty(view.shape, view.dtype)
    copied[...] = view
    return np.moveaxis(copied, -1, 1)
