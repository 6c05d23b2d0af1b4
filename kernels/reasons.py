"""Why kernels are called, where that is not for the flags to say: `because(sentence)` around the calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_reason: ContextVar[str | None] = ContextVar("kernel_calls_reason", default=None)


@contextmanager
def because(sentence: str) -> Iterator[None]:
    """Report the reason, with the origin of the precision, to observers of kernel calls in the block."""
    token = _reason.set(sentence)
    try:
        yield
    finally:
        _reason.reset(token)


def with_reason(decided_by: str | None) -> str | None:
    """The origin of the precision, and the reason of the block, if given."""
    return "; ".join(each for each in (decided_by, _reason.get()) if each) or None
