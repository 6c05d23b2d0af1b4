"""Tensors of torch as tensors of ours in the same memory, and results of ours in memory that torch allocates.

torch's programs resize results, write into them, and view them by strides that torch's own kernels have. A result
therefore never shares memory with an operand or another result, its storage belongs to torch, and its strides are
those of torch's kernel for the same operands (`layouts`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...kernels.runtime.workspace import offer
from ...tensor.dtypes import bfloat16, dtypes
from ...tensor.tensor import Tensor, adopt

_WITHOUT_NAME = {getattr(torch, each.name): each for each in dtypes.values() if each is bfloat16 or each.letter in "np"}
"""Types that torch's arrays have no name for in NumPy, and ours."""

_TYPE_STRINGS = {
    getattr(torch, each.name): np.dtype(f"u{each.itemsize}" if each in _WITHOUT_NAME.values() else each.dtype).str
    for each in dtypes.values()
}


class _Memory:
    """The memory of a tensor, for NumPy. `Tensor.numpy()` would forbid torch to resize it."""

    __slots__ = ("__array_interface__", "tensor")

    def __init__(self, x: torch.Tensor) -> None:
        size = x.itemsize
        self.tensor: torch.Tensor | None
        self.tensor, self.__array_interface__ = (
            x,
            {
                "version": 3,
                "typestr": _TYPE_STRINGS[x.dtype],
                "shape": tuple(x.shape),
                "strides": None if x.is_contiguous() else tuple([size * step for step in x.stride()]),
                "data": (x.data_ptr(), False),
            },
        )


def to_array(x: torch.Tensor) -> np.ndarray:
    """An array over the memory of a plain CPU tensor; lazy views (conjugate, negative, zero) are computed first."""
    if x._is_zerotensor():
        x = torch.zeros(x.shape, dtype=x.dtype)
    if x.is_conj() or x.is_neg():
        x = x.resolve_conj().resolve_neg()
    array, dtype = np.asarray(_Memory(x)), _WITHOUT_NAME.get(x.dtype)
    return array if dtype is None else array.view(dtype.dtype)


def unowned_array(x: torch.Tensor) -> np.ndarray:
    """The same of a tensor without lazy views, without a reference to it: only valid while something else has one."""
    memory = _Memory(x)
    array, dtype = np.asarray(memory), _WITHOUT_NAME.get(x.dtype)
    memory.tensor = None
    return array if dtype is None else array.view(dtype.dtype)


def to_ours(x: torch.Tensor) -> Tensor:
    """A tensor of ours over the memory of a plain CPU tensor, as in `to_array`."""
    return adopt(to_array(x))


class Layout(NamedTuple):
    """Shape, strides and type of a result of torch's kernel.

    Attributes:
        dense: the number of elements, if they fill their memory; else 0.
        array: the type of a C-contiguous array in this layout that torch takes as it is; None without such a type.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    dense: int
    array: np.dtype | None

    @classmethod
    def of(cls, x: torch.Tensor) -> Layout:
        """The layout of a tensor."""
        named = x.numel() > 0 and x.is_contiguous() and x.dtype not in _WITHOUT_NAME
        array = np.dtype(_TYPE_STRINGS[x.dtype]) if named and x.dtype in _TYPE_STRINGS else None
        return cls(tuple(x.shape), x.stride(), x.dtype, _dense_size(x.shape, x.stride()), array)


def to_torch(x: Any, layouts: Sequence[Layout | None] = ()) -> Any:
    """A tensor of torch with the values of one of ours, in memory of its own. Tuples become tuples, None stays None.

    `layouts` has the strides of each result, where they are known; others are dense, in the order of ours.
    """
    if isinstance(x, (tuple, list)):
        missing = (None,) * (len(x) - len(layouts))
        return tuple(to_torch(each, (layout,)) for each, layout in zip(x, (*layouts, *missing), strict=True))
    if not isinstance(x, Tensor):
        return x
    layout, array = layouts[0] if layouts else None, x._array
    if layout is not None and array.dtype is layout.array and array.flags.carray and array.shape == layout.shape:
        return torch.from_numpy(array).clone()
    dtype = getattr(torch, x.dtype.name)
    if x.dtype in _WITHOUT_NAME.values():
        array = array.view(np.int16 if x.dtype.itemsize == 2 else np.uint8)
    if not array.flags.writeable or any(step < 0 or step % array.itemsize for step in array.strides):
        array = array.copy()  # torch has no such
    found = torch.from_numpy(array)
    if found.dtype is not dtype:
        found = found.view(dtype)
    if layout is None or layout.shape != found.shape:
        return found.clone()
    return torch.empty_strided(*layout[:2], dtype=dtype).copy_(found)


def in_layout(x: torch.Tensor | None, layout: Layout | None) -> torch.Tensor | None:
    """A tensor of torch with the strides of a layout, differentiably; itself if it has them."""
    if x is None or layout is None or x.shape != layout.shape or x.stride() == layout.stride:
        return x
    return torch.empty_strided(*layout[:2], dtype=x.dtype).copy_(x)


_OFFERED_BYTES = 1 << 16
"""Smaller results are copied, which takes less time than offering memory."""


def in_torch_memory(compute: Callable[[], Any], layouts: Sequence[Layout | None]) -> Any:
    """The results of ours as torch's tensors. A large first result is computed in memory of torch where a kernel takes
    the offer, and copied otherwise."""
    layout = layouts[0] if layouts else None
    if layout is None or layout.dense * layout.dtype.itemsize < _OFFERED_BYTES:
        return to_torch(compute(), layouts)
    target = torch.empty_strided(*layout[:2], dtype=layout.dtype)
    ours = to_ours(target.as_strided((layout.dense,), (1,)))._array
    with offer(ours):
        found = compute()
    first = found[0] if isinstance(found, (tuple, list)) else found
    if not _is_in(first, ours, layout):
        return to_torch(found, layouts)
    if first is found:
        return target
    return target, *to_torch(tuple(found[1:]), layouts[1:])


def _dense_size(shape: Sequence[int], stride: Sequence[int]) -> int:
    size = 1
    for step, length in sorted(zip(stride, shape, strict=True)):
        if length != 1:
            if step != size:
                return 0
            size *= length
    return size


def _is_in(result: Any, memory: np.ndarray, layout: Layout) -> bool:
    """Whether a result of ours lies in this memory as it should."""
    if not isinstance(result, Tensor) or result._array.dtype != memory.dtype or result._array.shape != layout.shape:
        return False
    array = result._array
    strides = (step // array.itemsize for step in array.strides)
    dense = all(a == b or n == 1 for a, b, n in zip(strides, layout.stride, layout.shape, strict=True))
    return dense and array.__array_interface__["data"][0] == memory.__array_interface__["data"][0]


_COLUMNS = {
    torch.ops.aten._linalg_svd.default: 2, torch.ops.aten.linalg_eig.default: 1,
}  # fmt: skip
"""Results that LAPACK returns by columns, and whose rules are those of a GPU too."""

_CONVOLUTION = torch.ops.aten.convolution.default


def layouts_of(operator: Any, args: tuple, kwargs: dict, found: Any) -> tuple[Layout | None, ...]:
    """The layouts of the results of an operator of torch, by its own rules for tensors without memory; empty where it
    has none. `found` are our results."""
    if operator is _CONVOLUTION:  # whose rule for tensors without memory is that of a GPU
        last = torch.channels_last if found.ndim == 4 else torch.channels_last_3d
        channels_last = found.ndim > 3 and any(
            each.is_contiguous(memory_format=last) and not each.is_contiguous() for each in args[:2]
        )
        results: Any = torch.empty(
            found.shape, dtype=args[0].dtype, device="meta", memory_format=last if channels_last else None
        )
    else:
        given = {name: _without_memory(each) for name, each in kwargs.items()}
        try:
            results = operator(*map(_without_memory, args), **given)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return ()
    tensors = results if isinstance(results, (tuple, list)) else (results,)
    place = _COLUMNS.get(operator)
    if place is not None and tensors[place].numel():
        tensors = (*tensors[:place], tensors[place].mT.contiguous().mT, *tensors[place + 1 :])
    return tuple(Layout.of(each) if isinstance(each, torch.Tensor) else None for each in tensors)


def _without_memory(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        return made.conj() if value.is_conj() else made  # `solve_triangular` reads it in place
    if isinstance(value, (list, tuple)):
        return type(value)(map(_without_memory, value))
    return value
