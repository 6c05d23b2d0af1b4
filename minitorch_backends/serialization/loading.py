"""Reading: storages on demand from the archive, below a restricted or a full unpickler."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
from collections.abc import Mapping
from typing import Any

from .archive import Archive
from .legacy import MAGIC, load_legacy
from .restricted import restricted_load
from .storages import Storages, Unpickler, refuse_device


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
