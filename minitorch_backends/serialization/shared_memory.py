"""Tensors whose elements several processes see: they lie in a file in memory that is mapped into each.

A forked process has the map of its parent. A spawned one, or one that gets the tensor by a queue, receives the file's
descriptor (`multiprocessing.reduction`) and maps it itself. Pickles to files hold the values.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from multiprocessing import reduction
from typing import Any

import numpy as np

from ..tensor.tensor import Parameter, Tensor, _rebuild


class _Memory(mmap.mmap):
    """A map of a whole file, whose descriptor stays open as long."""

    descriptor: int
    of_several_processes = True

    def __del__(self) -> None:
        os.close(self.descriptor)


def _map(descriptor: int) -> _Memory:
    memory = _Memory(descriptor, os.fstat(descriptor).st_size)
    memory.descriptor = descriptor
    return memory


def _memory_of(array: np.ndarray) -> _Memory | None:
    """The shared memory of the elements; None if it is not shared."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, _Memory) else None


def is_shared(tensor: Tensor) -> bool:
    """Implement `Tensor.is_shared`."""
    return _memory_of(tensor._array) is not None


def share(tensor: Tensor) -> None:
    """Implement `Tensor.share_memory_`."""
    array = tensor._array
    if _memory_of(array) is not None or not array.size:
        return
    directory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    descriptor, path = tempfile.mkstemp(dir=directory)
    os.unlink(path)
    os.truncate(descriptor, array.nbytes)
    compact = np.empty_like(array, order="K")
    shared = np.ndarray(array.shape, array.dtype, _map(descriptor), 0, compact.strides)
    shared[...] = array
    tensor._array = shared


def _attach(kind: type[Tensor], descriptor: Any, place: tuple[Any, ...], requires_grad: bool) -> Tensor:
    """The tensor in a process that received the descriptor of its file."""
    shape, dtype, offset, strides = place
    return _rebuild(kind, np.ndarray(shape, dtype, _map(descriptor.detach()), offset, strides), requires_grad)


def _reduce(tensor: Tensor) -> tuple[Any, ...]:
    """How `multiprocessing` sends a tensor: by descriptor where it is shared, by value otherwise."""
    array, memory = tensor._array, _memory_of(tensor._array)
    if memory is None:
        return tensor.__reduce__()
    offset = array.__array_interface__["data"][0] - np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    place = (array.shape, array.dtype, offset, array.strides)
    return _attach, (type(tensor), reduction.DupFd(memory.descriptor), place, tensor.requires_grad)


for _kind in (Tensor, Parameter):
    reduction.ForkingPickler.register(_kind, _reduce)
