"""Writing: a pickle with torch's names, then each storage once."""

from __future__ import annotations

import io
import math
import os
import pickle
import types
from collections import OrderedDict
from typing import Any

import numpy as np

from ..kernels.runtime.files import write_file
from ..tensor.dtypes import DType
from ..tensor.size import Size
from ..tensor.tensor import Parameter, Tensor, sharing
from .archive import write_archive
from .safe_globals import (
    NAMES,
    TORCH,
    UNTYPED,
    Storage,
    StorageType,
    rebuild_parameter,
    rebuild_tensor,
    rebuild_tensor_of_dtype,
    storage_type,
)

_PythonPickler: Any = pickle._Pickler  # type checkers do not see the methods of the pickler in Python


def save_to(obj: Any, f: Any) -> None:
    """Implement `save`. Every check is made before the first byte is written."""
    if not isinstance(f, str | os.PathLike) and not hasattr(f, "write"):
        raise TypeError(f"save(): f must be a path or a file with a method write, got {type(f).__name__}")
    pickled = io.BytesIO()
    pickler = _Pickler(pickled)
    try:
        pickler.dump(obj)
    except RecursionError:
        raise RuntimeError("save(): obj is nested too deeply to be pickled") from None
    storages = {storage.key: storage.bytes._array for storage in pickler.storages.values()}
    if hasattr(f, "write"):
        write_archive(f, pickled.getvalue(), storages)
        return
    write_file(f, lambda file: write_archive(file, pickled.getvalue(), storages))


class _Pickler(_PythonPickler):
    """Python's pickler with globals that need not be importable: torch's names are written directly."""

    def __init__(self, file: Any) -> None:
        super().__init__(file, protocol=2)  # the protocol that torch reads with weights_only=True
        self.storages: dict[tuple[Any, ...], Storage] = {}

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, DType | StorageType | types.FunctionType | type):
            return NAMES.get(obj, NotImplemented)
        if type(obj) is Tensor:
            parts = self._parts(obj)
            untyped = parts[0].kind is UNTYPED
            return (rebuild_tensor_of_dtype, (*parts, obj.dtype)) if untyped else (rebuild_tensor, parts)
        if type(obj) is Parameter:
            return rebuild_parameter, (sharing(obj, obj._array), obj.requires_grad, OrderedDict())
        if type(obj) is Size:
            return Size, (tuple(obj),)
        return NotImplemented

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if name not in TORCH:
            super().save_global(obj, name)
            return
        module, _, attribute = name.rpartition(".")
        self.write(pickle.GLOBAL + f"{module}\n{attribute}\n".encode())
        self.memoize(obj)

    def persistent_id(self, obj: Any) -> Any:
        return ("storage", obj.kind, obj.key, "cpu", obj.numel) if isinstance(obj, Storage) else None

    def _parts(self, tensor: Tensor) -> tuple[Any, ...]:
        """The arguments of `rebuild_tensor`: storage, offset, size, stride in elements, requires_grad, hooks."""
        array, each = tensor._array, tensor._array.itemsize
        memory = _memory_of(array)
        if memory is None:
            array = np.array(array, order="C")
            memory = array.reshape(-1).view(np.uint8)
        start = _address(array) - _address(memory) if array.size else 0
        storage = self._storage(memory, storage_type(tensor.dtype))
        strides = _strides(array)
        return storage, start // each, array.shape, strides, tensor.requires_grad, OrderedDict()

    def _storage(self, memory: np.ndarray, kind: StorageType) -> Storage:
        """The storage of this memory, created on first use. Raises RuntimeError if its dtype differs."""
        place = (_address(memory), memory.nbytes) if memory.nbytes else (kind,)
        storage = self.storages.get(place)
        if storage is None:
            storage = self.storages[place] = Storage(memory, kind, str(len(self.storages)))
        if storage.kind != kind:
            raise RuntimeError(
                f"save(): tensors that share memory must have one dtype, got {storage.dtype!r} and {kind.dtype!r}; "
                "clone one of them"
            )
        return storage


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _strides(array: np.ndarray) -> tuple[int, ...]:
    """Strides in elements; those of a contiguous tensor if the array is empty."""
    if array.size == 0:
        return tuple(math.prod(max(size, 1) for size in array.shape[dim + 1 :]) for dim in range(array.ndim))
    return tuple(max(step // array.itemsize, 0) for step in array.strides)


def _memory_of(array: np.ndarray) -> np.ndarray | None:
    """The bytes of the allocation that an array is a view of; None if torch's strides could not describe the view."""
    memory = array
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    flat = memory.ravel("K")
    each, start = array.itemsize, _address(array) - _address(flat)
    gaps = not np.may_share_memory(flat, memory) or not 0 <= start <= memory.nbytes - (each if array.size else 0)
    uneven = start % each or memory.nbytes % each
    steps = [step for size, step in zip(array.shape, array.strides, strict=True) if size > 1]
    if gaps or uneven or any(step < 0 or step % each for step in steps):
        return None
    return flat.view(np.ndarray).view(np.uint8)
