"""Reading: storages on demand from the archive, below a restricted or a full unpickler."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import struct
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..tensor.tensor import Tensor
from .archive import Archive
from .restricted import refuse_unsupported, restricted_load
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


# Torch's format from before version 1.6: five pickles, then the numbers of each storage.
# The pickles are a magic number, the version 1001, the writer's byte order, the object, and the keys of its storages
# in the order in which their numbers follow: a count of elements (int64), and the elements. Tensors are rebuilt
# before the numbers are there. So a storage gets memory when the object names it, if the file is large enough for it,
# and is filled at the end.


MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""The pickled magic number, with which a file starts."""

_VERSION = 1001


class _Declared:
    """The storages that the object names, with memory for their numbers. It takes the place of an archive."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._sizes: dict[str, tuple[int, int]] = {}
        self._data: dict[str, np.ndarray] = {}

    def declare(self, key: str, size: int, itemsize: int) -> None:
        """Note a storage. Raises RuntimeError if the file is too small for all of them."""
        name = f"data/{key}"
        if name not in self._sizes:
            self._room -= size
            if size < 0 or self._room < 0:
                raise RuntimeError(f"load(): the storage {key[:40]!r} of {size} bytes does not fit into the file")
            self._sizes[name] = size, itemsize

    def size_of(self, name: str) -> int | None:
        return self._sizes[name][0] if name in self._sizes else None

    def read(self, name: str) -> np.ndarray:
        self._data[name] = np.empty(self._sizes[name][0], np.uint8)
        return self._data[name]

    def fill(self, file: Any, keys: Any) -> None:
        """Read the numbers of all storages. Raises RuntimeError for other keys and counts than those declared."""
        names = [f"data/{key}" for key in keys] if type(keys) is list else []
        if sorted(names) != sorted(self._data):
            raise RuntimeError("load(): the file's list of storages does not match its object; it is damaged")
        for name in names:
            data, itemsize = self._data[name], self._sizes[name][1]
            count = file.read(8)
            if len(count) != 8 or struct.unpack("<q", count)[0] * itemsize != data.nbytes:
                raise RuntimeError(f"load(): the storage {name[5:45]!r} has another size than the object says")
            if file.readinto(data.data) != data.nbytes:
                raise RuntimeError(f"load(): the file ended within the storage {name[5:45]!r}; it is truncated")


class _Bounded:
    """A file whose reads end with it, whatever length a pickle declares."""

    def __init__(self, file: Any, size: int) -> None:
        self._file, self._size = file, size
        self.readline, self.tell = file.readline, file.tell

    def read(self, count: int) -> bytes:
        return self._file.read(min(count, self._size - self._file.tell()))


def load_legacy(file: Any, map_location: Any, weights_only: bool) -> Any:
    """Implement `load` for a file that starts with `MAGIC`."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    archive = _Declared(size)
    storages = Storages(archive, map_location, False)
    bounded = _Bounded(file, size)
    _, version, system = (restricted_load(bounded, _refuse) for _ in range(3))
    if version != _VERSION or type(system) is not dict:
        raise RuntimeError(f"load(): the file's version must be {_VERSION}, got {version!r:.40}; it is damaged")
    if system.get("little_endian") is not (sys.byteorder == "little"):
        raise RuntimeError(f"load(): the file's byte order must be {sys.byteorder!r}")

    def persistent_load(pid: Any) -> Storage:
        match pid:
            case ("storage", StorageType() as kind, str() as key, str(), int() as numel, view):
                archive.declare(key, numel * kind.dtype.itemsize, kind.dtype.itemsize)
                root = storages.persistent_load(pid[:5])
                return root if view is None else _part(root, view)
            case _:
                raise pickle.UnpicklingError("load(): the pickle has a persistent id that does not name a storage")

    if weights_only:
        found = restricted_load(bounded, persistent_load)
    else:
        unpickler = Unpickler(file)
        unpickler.persistent_load = persistent_load  # type: ignore[method-assign]
        found = unpickler.load()
    archive.fill(file, restricted_load(bounded, _refuse))
    return found


def _refuse(pid: Any) -> Any:
    raise pickle.UnpicklingError("load(): the pickle has a storage outside of the object; it is damaged")


def _part(root: Storage, view: Any) -> Storage:
    """The elements of a storage that was a view of another one, by its key, offset and size."""
    match view:
        case (str() as key, int() as offset, int() as count) if offset >= 0 and 0 <= count <= root.numel - offset:
            each = root.dtype.itemsize
            return Storage(root.bytes._array[offset * each : (offset + count) * each], root.kind, key)
        case _:
            raise pickle.UnpicklingError("load(): the pickle has a view of a storage that does not lie in it")


def load_from(f: Any, map_location: Any, weights_only: bool, mmap: bool) -> Any:
    """Implement `load`."""
    is_path = isinstance(f, str | os.PathLike)
    if not is_path and not (hasattr(f, "readinto") and hasattr(f, "seek")):
        raise TypeError(f"load(): f must be a path or a binary file that can seek, got {type(f).__name__}")
    if mmap and not is_path:
        raise ValueError(f"load(): f must be a path with mmap=True, got {type(f).__name__}")
    if not (map_location is None or callable(map_location) or isinstance(map_location, Mapping)):
        refuse_device(str(map_location))
    with open(f, "rb") if is_path else contextlib.nullcontext(f) as file:
        try:
            return _load(file, map_location, weights_only, mmap)
        except (RuntimeError, pickle.UnpicklingError) as error:
            if is_path and str(error).startswith("load(): "):
                error.args = (f"{error} (in {os.fspath(f)!r})",)
            raise


def _load(file: Any, map_location: Any, weights_only: bool, mmap: bool) -> Any:
    file.seek(0)
    if file.read(len(MAGIC)) == MAGIC:
        if mmap:
            raise RuntimeError(
                "load(): mmap=True needs the zip format, and the file has torch's from before version 1.6; load it "
                "without mmap, and save it again"
            )
        return load_legacy(file, map_location, weights_only)
    archive = Archive(file)
    storages = Storages(archive, map_location, mmap)
    pickled = archive.read("data.pkl").tobytes()
    if weights_only:
        return restricted_load(pickled, storages.persistent_load)
    unpickler = Unpickler(io.BytesIO(pickled))
    unpickler.persistent_load = storages.persistent_load  # type: ignore[method-assign]
    return unpickler.load()
