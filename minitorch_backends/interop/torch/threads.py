"""Threads that are started inside `emulate` compute as the thread does that starts them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

from .shared_blocks import shared_block

_innermost: ContextVar[Any] = ContextVar("emulation_of_torch", default=None)
_inherited: ContextVar[Any] = ContextVar("inherited_emulation_of_torch", default=None)
_start_of: list[Callable[[threading.Thread], None]] = [threading.Thread.start]
"""`Thread.start` itself, while it is replaced."""


def _start(thread: threading.Thread) -> None:
    """Start a thread, in a copy of this one's context if this one computes inside `emulate`.

    The replaced `run` is an attribute of the thread, so that subclasses with a `run` of their own are covered.
    """
    emulation = _innermost.get()
    if emulation is not None and emulation.is_open:
        thread.run = partial(copy_context().run, _run, thread, thread.run, emulation)  # type: ignore[method-assign]
    _start_of[0](thread)


def _run(thread: threading.Thread, run: Callable[[], None], emulation: Any) -> None:
    del thread.run  # a reference of the thread to itself
    _inherited.set(emulation)
    with emulation.scope():
        run()


def inherits(emulation: Any = None) -> bool:
    """Whether this thread computes in an open block of the thread that started it; in that of `emulation`, if given."""
    found = _inherited.get()
    return found is not None and (found.is_open if emulation is None else found is emulation)


@shared_block
def _replaced_start() -> Iterator[None]:
    _start_of[0] = threading.Thread.start
    threading.Thread.start = _start  # type: ignore[method-assign, assignment]
    yield
    if threading.Thread.start is _start:
        threading.Thread.start = _start_of[0]  # type: ignore[method-assign, assignment]


@contextmanager
def inherit(emulation: Any) -> Iterator[None]:
    """Make threads that are started while the block runs enter `emulation.scope()`."""
    token = _innermost.set(emulation)
    try:
        with _replaced_start():
            yield
    finally:
        _innermost.reset(token)
