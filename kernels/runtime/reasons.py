"""Why kernels are called, where that is not for the flags to say: `because(sentence)` around the calls."""

from __future__ import annotations

from contextvars import ContextVar

from .context import Binding, restorable

_reason: ContextVar[str | None] = ContextVar("kernel_calls_reason", default=None)
restorable(_reason)


def because(sentence: str) -> Binding:
    """Report the reason, with the origin of the precision, to observers of kernel calls in the block."""
    return Binding(_reason, sentence)


def with_reason(decided_by: str | None) -> str | None:
    """The origin of the precision, and the reason of the block, if given."""
    return "; ".join(each for each in (decided_by, _reason.get()) if each) or None
