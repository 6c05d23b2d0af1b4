"""Changes of torch's own functions, which hold for the process while blocks of any thread run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from ...kernels.runtime.locks import lock


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
