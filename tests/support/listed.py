"""Whether the compiled functions of kernels that this process has loaded are listed for wheels (`kernels/ahead`)."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

_checked: set[tuple[int, Any]] = set()
_count = 0


@functools.cache
def _listing() -> dict[int, set[str]]:
    from minitorch_backends.kernels.ahead.entries import signatures
    from minitorch_backends.kernels.runtime import native

    found: dict[int, set[str]] = {}
    for entry, kinds in signatures():
        found.setdefault(id(entry), set()).add(native.text(kinds))
    return found


def _new(jit: Any) -> Iterator[tuple[Any, tuple]]:
    """Entries of modules of the kernels, with the kinds that were not seen before."""
    for name, module in list(sys.modules.items()):
        if name.startswith("minitorch_backends.kernels."):
            for entry in [each for each in vars(module).values() if isinstance(each, jit.Entry)]:
                for kinds in [kinds for kinds in entry.signatures if (id(entry), kinds) not in _checked]:
                    _checked.add((id(entry), kinds))
                    yield entry, kinds


def _has_general_code(text: str) -> bool:
    """Whether another leaf serves as well: that of any window for usual ones, and kernels that only tests use."""
    return (".Window" in text and "_0_0_0_0_" not in text) or ".Odd" in text


def missing() -> list[str]:
    """What was loaded since the last call, or compiled, and is in no list."""
    global _count
    store = sys.modules.get("minitorch_backends.kernels.runtime.store")
    if store is None or (count := store.activity.compiled + store.activity.loaded) == _count:
        return []
    _count = count
    from minitorch_backends.kernels.runtime import jit, native

    found = [(entry, native.text(kinds)) for entry, kinds in _new(jit)]
    return [
        f"{entry.py_func.__module__}.{entry.py_func.__qualname__}({text})"
        for entry, text in found
        if text not in _listing().get(id(entry), ()) and not _has_general_code(text)
    ]
