"""Tensors by the layout of their memory: unwritten ones of any strides, and vectors on the memory of other objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.call_errors import argument_errors, install
from ...tensor.dtypes import dtype_or_default, to_dtype
from ...tensor.size import addressable
from ...tensor.tensor import Tensor
from ..dims import shape_of
from .factories import from_numpy, new, shape_given
from .options import factory, finish

__all__ = ["empty_permuted", "empty_strided", "frombuffer"]


@argument_errors
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A vector on the memory of an object with Python's buffer protocol.

    It has `count` elements (-1: all remaining) starting at the byte `offset`. Raises ValueError for an empty buffer,
    and for a size that is not a multiple of the element size.
    """
    array = np.frombuffer(buffer, to_dtype(dtype).dtype, count, offset)
    return finish(from_numpy(array)._array, None, requires_grad)


@factory(takes_out=False)
def empty_strided(size: Any, stride: Any, *, dtype: Any = None) -> np.ndarray:
    """An uninitialised tensor with the given strides, in elements.

    Raises RuntimeError for negative sizes and strides, and if their numbers differ.
    """
    shape, steps = shape_given((), size), shape_given((), stride)
    if len(shape) != len(steps):
        raise RuntimeError(f"empty_strided(): size and stride must be of one length, got {shape} and {steps}")
    wanted = dtype_or_default(dtype).dtype
    last = -1 if 0 in shape else sum((count - 1) * step for count, step in zip(shape, steps, strict=True))
    memory = np.empty(addressable((last + 1,)), wanted)
    return np.ndarray(shape, wanted, memory, 0, tuple(step * wanted.itemsize for step in steps))


@factory(takes_out=False)
def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any = None) -> np.ndarray:
    """An uninitialised tensor whose dimensions lie in memory in the order `physical_layout`, outermost first.

    Raises RuntimeError unless the layout names each dimension once.
    """
    shape, order = shape_given((), size), shape_of((physical_layout,))
    if sorted(order) != list(range(len(shape))):
        raise RuntimeError(f"empty_permuted(): physical_layout must order {len(shape)} dimensions, got {order}")
    memory = np.empty([shape[dim] for dim in order], dtype_or_default(dtype).dtype)
    return memory.transpose(np.argsort(order))


Tensor.new_empty_strided = new(empty_strided)  # type: ignore[method-assign]


def _share_memory_(self: Tensor) -> Tensor:
    """Move the elements to memory shared with other processes. Aliases of the old memory keep it."""
    from ...serialization.shared_memory import share

    share(self)
    return self


def _is_shared(self: Tensor) -> bool:
    """Whether the memory is shared with other processes."""
    from ...serialization.shared_memory import is_shared

    return is_shared(self)


install(share_memory_=_share_memory_, is_shared=_is_shared)
