"""Changes of torch's own functions, which hold for the process while blocks of any thread run: threads that are started
compute as the thread does that starts them, and transformer encoders pad as they do without modes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack

from ...kernels.runtime.locks import lock
from .operands import PLAIN_TYPES


def shared_block(change: Callable[[], Iterator[None]]) -> Callable[[], AbstractContextManager[None]]:
    """`contextmanager` for a change that the first of several open blocks makes and the last one takes back."""
    guard, make = lock(), contextmanager(change)
    blocks, made = 0, make()

    @contextmanager
    def block() -> Iterator[None]:
        nonlocal blocks, made
        with guard:
            blocks += 1
            if blocks == 1:
                made = make()
                made.__enter__()
        try:
            yield
        finally:
            with guard:
                blocks -= 1
                if not blocks:
                    made.__exit__(None, None, None)

    return block


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


# Transformer encoders of torch pad as they do without modes.
# In inference `nn.TransformerEncoder` computes padded batches as nested tensors, and fills padded rows with zeros. It
# does not under function modes, for which it takes the way through modules. Both are the same up to the padding.


def _has_torch_function(tensors: Any) -> bool:
    """torch's answer; False where only our modes are the reason, and the encoder's choice of its way depends on it."""
    if not torch._C._has_torch_function(tensors):
        return False
    if not all(each is None or type(each) in PLAIN_TYPES for each in tensors):
        return True
    if any(type(mode).__module__.rpartition(".")[0] != __package__ for mode in _get_current_function_mode_stack()):
        return True
    is_encoder = sys._getframe(1).f_code is torch.nn.TransformerEncoder.forward.__code__
    return not is_encoder and not any(each is not None and each.is_nested for each in tensors)


@shared_block
def pad_as_torch() -> Iterator[None]:
    """Let encoders compute padded batches as nested tensors while the block runs."""
    before = torch.overrides.has_torch_function
    torch.overrides.has_torch_function = _has_torch_function
    yield
    torch.overrides.has_torch_function = before
