"""Locks that are open in a forked child, whichever thread held them when it was forked: that thread is not there."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

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


def cached_property(function: Callable[[Any], Any]) -> functools.cached_property:
    """A `functools.cached_property`, which up to Python 3.11 holds a lock while the function runs."""
    made = functools.cached_property(function)
    if hasattr(made, "lock"):
        open_in_children(made.lock)
    return made


def open_in_children(*locks: Any) -> None:
    """The same for locks of other libraries."""
    for each in locks:
        _made.add(each)


def _open_in_child() -> None:
    for each in list(_made):
        each._at_fork_reinit()  # what the standard library's own locks do in a child
    _forget_half_imported()


def _forget_half_imported() -> None:
    """Have what missing threads were importing when they imported modules of this package imported anew: they hold the
    locks of those modules for ever."""
    package, all_locks = (
        __package__.partition(".")[0],
        getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {}),
    )
    owners = {name: getattr(reference(), "owner", None) for name, reference in list(all_locks.items())}
    missing = {owner for name, owner in owners.items() if name.partition(".")[0] == package}
    for name, owner in owners.items():
        if owner in missing - {None, threading.get_ident()}:
            del all_locks[name]
            if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
                del sys.modules[name]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_in_child)
