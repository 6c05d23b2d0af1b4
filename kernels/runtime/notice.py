"""One line on stderr for a call that compiles longer than a second: the function, the level, and the store's
location."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from types import CodeType

from . import cpu, store

VARIABLE = "MINITORCH_COMPILE_NOTICE"
"""Environment variable: "0" for no such lines, "1" for lines wherever stderr goes; otherwise they go to terminals."""

_PATIENCE = 1.0
_PACKAGE = __name__.partition(".")[0]
_BETWEEN = {_PACKAGE, "numba", "contextlib", "functools"}


class _OfThread(threading.local):
    inside = False
    call: tuple[CodeType, int] | None = None
    seconds = 0.0  # that this call has compiled for


_thread = _OfThread()


@contextlib.contextmanager
def compiling(module: str) -> Iterator[None]:
    """Compile a function of a module in the block."""
    if _thread.inside or not _wants_notice():
        yield
        return
    call = _current_call()
    if call != _thread.call:
        _thread.call, _thread.seconds = call, 0.0
    due, start = _PATIENCE - _thread.seconds, time.perf_counter()
    timer = threading.Timer(due, _write, [module]) if due > 0 else None
    _thread.inside = True
    try:
        if timer is not None:
            timer.daemon = True
            with contextlib.suppress(RuntimeError):  # no more threads for this process
                timer.start()
        yield
    finally:
        _thread.inside = False
        _thread.seconds += time.perf_counter() - start
        if timer is not None:
            timer.cancel()


def _wants_notice() -> bool:
    asked = os.environ.get(VARIABLE, "").strip()
    return asked != "0" and sys.stderr is not None and (asked == "1" or sys.stderr.isatty())


def _current_call() -> tuple[CodeType, int] | None:
    """The place in the user's code from where this package was called."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lasti)


def _write(module: str) -> None:
    what = module.partition(".kernels.")[2].split(".")[-2:][0] or module
    sys.stderr.write(
        f"{_PACKAGE}: compiling {what} kernels for {cpu.capability()}, once on this machine; they are kept in "
        f"{store.cache_folder()} ({VARIABLE}=0 hides this line)\n"
    )
