"""The storages of a file that is read, and the full unpickler."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from ..tensor.tensor import Tensor
from .restricted import refuse_unsupported
from .safe_globals import TORCH, Storage, StorageType


def refuse_device(location: str) -> None:
    """Raise RuntimeError for a device other than the CPU."""
    if location.partition(":")[0] != "cpu":
        raise RuntimeError(
            f"load(): tensors must be put on the CPU, got the device {location[:40]!r}; use map_location='cpu'"
        )


class Storages:
    """The storages of one file, each read on first use."""

    def __init__(self, archive: Any, map_location: Any, mmap: bool) -> None:
        self._archive, self._map_location = archive, map_location
        self._read = archive.map if mmap else archive.read
        self._found: dict[str, Storage] = {}

    def persistent_load(self, pid: Any) -> Storage:
        """The storage of a persistent id. Raises RuntimeError, before allocating memory, if the file does not hold
        it."""
        match pid:
            case ("storage", StorageType() as kind, str() as key, str() as location, int() as numel):
                pass
            case _:
                raise pickle.UnpicklingError("load(): the pickle has a persistent id that does not name a storage")
        size = self._archive.size_of(f"data/{key}")
        if size != numel * kind.dtype.itemsize:
            has = "is not in the archive" if size is None else f"has {size} bytes"
            raise RuntimeError(f"load(): the storage {key[:40]!r} of {numel} elements of {kind.dtype!r} {has}")
        storage = self._found.get(key)
        if storage is None:
            storage = self._found[key] = self._storage(kind, key, location)
        if storage.kind != kind:
            raise RuntimeError(f"load(): the storage {key!r} has two dtypes, {storage.kind.dtype!r} and {kind.dtype!r}")
        return storage

    def _storage(self, kind: StorageType, key: str, location: str) -> Storage:
        choice = self._map_location
        if not callable(choice):
            target = choice.get(location, location) if isinstance(choice, Mapping) else choice or location
            refuse_device(str(target))
        data = self._read(f"data/{key}")
        if data.__array_interface__["data"][0] % kind.dtype.itemsize:  # a mapped record that was not aligned
            data = data.copy()
        storage = Storage(data, kind, key)
        if callable(choice):
            moved = choice(storage.bytes, location)
            if moved is None:
                refuse_device(location)
            elif moved is not storage.bytes:
                found = "another Tensor" if isinstance(moved, Tensor) else type(moved).__name__
                raise TypeError(f"load(): map_location must return the storage that it is given, or None, got {found}")
        return storage


class Unpickler(pickle.Unpickler):
    """Python's unpickler, for trusted files, with torch's names mapped to those here."""

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        refuse_unsupported(full)
        if full in TORCH:
            return TORCH[full]
        if module.partition(".")[0] == "torch":
            raise pickle.UnpicklingError(
                f"load(): the file has a torch object, {full}; load it in torch and save its state_dict"
            )
        return super().find_class(module, name)
