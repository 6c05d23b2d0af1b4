"""Locks that are open in a forked child, whichever thread held them when it was forked: that thread is not there."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

__all__ = ["lock", "open_in_children", "reentrant_lock"]

_made: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> threading.Lock:
    """A `threading.Lock`."""
    made = threading.Lock()
    _made.add(made)
    return made


def reentrant_lock() -> Any:
    """A `threading.RLock`."""
    made = threading.RLock()
    _made.add(made)
    return made


def open_in_children(*locks: Any) -> None:
    """The same for locks of other libraries."""
    for each in locks:
        _made.add(each)


def _open_in_child() -> None:
    for each in list(_made):
        each._at_fork_reinit()  # what the standard library's own locks do in a child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_in_child)
