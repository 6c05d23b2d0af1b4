"""Checkpoints: `save` and `load` in the zip format of torch's `.pt` files, without torch.

A file is a zip archive of stored (uncompressed) records. `data.pkl` is a pickle; its tensors are calls of
`torch._utils._rebuild_tensor_v2` on storages, and storages are persistent ids that name a record `data/<key>`.
Tensors that share memory name one storage, so that aliasing and strides survive. `safe_globals` has the names
that both directions use, `saving` writes, `loading` reads this format and that from before torch 1.6, `archive` is the
zip layer, and `restricted` runs a pickle that may name nothing else. `copying` makes deep copies, `shared_memory` sends
tensors to other processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from . import copying  # noqa: F401  (installs deep copies of tensors)
from .safe_globals import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]


def save(obj: Any, f: str | os.PathLike[str] | BinaryIO) -> None:
    """Write `obj` to a path or a binary file, in torch's `.pt` format.

    Tensors keep strides, `requires_grad` and shared memory. Whole storages are written, so clone a small view of a
    large tensor first. torch reads the file with `weights_only=True` if `obj` holds tensors, numbers, text and
    containers of these. Other objects are pickled and need `weights_only=False`. A path is replaced only when the file
    is complete.

    Raises RuntimeError for tensors of different dtypes that share memory.
    """
    from .saving import save_to

    save_to(obj, f)


def load(
    f: str | os.PathLike[str] | BinaryIO,
    map_location: str | Mapping[str, str] | Callable[[Any, str], Any] | None = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
) -> Any:
    """Read what `save` or torch wrote, in the zip format or in that from before torch 1.6.

    Args:
        f: a path, or a binary file that can seek.
        map_location: "cpu", or a dict from devices to "cpu", or a function of a storage's bytes and its device that
            returns the bytes, or None. Storages of other devices are refused unless it moves them to the CPU.
        weights_only: accept tensors, numbers, text and containers only, and what `add_safe_globals` lists, and run
            nothing else from the file. None means True. With False the file may run any code: use it on files that
            you trust.
        mmap: map the file, which must be a path, into memory. Pages are read at their first use, and writes to tensors
            do not reach the file.

    Raises pickle.UnpicklingError for a pickle that is damaged or names something that `weights_only` excludes, and
    RuntimeError for a file that is not complete, and for torch's tar format from before 0.1.10.
    """
    from .loading import load_from

    return load_from(f, map_location, weights_only is None or bool(weights_only), bool(mmap))
