"""Rejects code compiled by inductor: its products would neither run here nor be recorded.

Functions from `torch.compile` run uncompiled under torch's dispatch modes. AOTInductor packages and separately compiled
graphs do not.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...kernels.locks import lock

_CLASSES = (
    ("torch.export.pt2_archive._package", "AOTICompiledModel"),
    ("torch._inductor.output_code", "CompiledAOTI"),
    ("torch._inductor.output_code", "CompiledFxGraph"),
)
"""What runs compiled code when it is called, by the module that defines it."""

_threads = Counter[int]()
"""The number of blocks that reject compiled code, by thread."""

_patched: dict[type, Callable[..., Any]] = {}
"""The calls of classes that are replaced meanwhile."""

_lock = lock()


@contextmanager
def refuse_compiled_code() -> Iterator[None]:
    """Raise RuntimeError where this thread calls compiled code while the block runs.

    Classes of torch that are not loaded when the block begins are left as they are.
    """
    thread = threading.get_ident()
    with _lock:
        _threads[thread] += 1
        for module, name in _CLASSES:
            kind = getattr(sys.modules.get(module), name, None)
            if kind is not None and kind not in _patched:
                _patched[kind] = kind.__call__
                kind.__call__ = _refusing(kind.__call__)
    try:
        yield
    finally:
        with _lock:
            _threads[thread] -= 1
            if not _threads.total():
                _restore()


def _restore() -> None:
    _threads.clear()
    while _patched:
        kind, call = _patched.popitem()
        type.__setattr__(kind, "__call__", call)


def _refusing(call: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _threads[threading.get_ident()]:
            raise RuntimeError(
                f"emulate(): models must not be compiled by inductor, got a call of {type(self).__name__}; call the "
                "module that it was compiled from"
            )
        return call(self, *args, **kwargs)

    return refuse
