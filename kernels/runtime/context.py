"""Variables of the current thread or task that a failed call leaves as they were.

A scope is closed by Python code, and Python delivers a signal wherever a function starts: Ctrl-C at the start of an
`__exit__` would leave its scope open, and with it flags, modes or observers. So a function that opens scopes of its own
is decorated with `restore_on_failure`. It holds a copy of the context from before the call, which costs nothing more
than a reference, and where the call fails, by whatever exception, it puts the variables back.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, NamedTuple, ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Restorable(NamedTuple):
    variable: ContextVar[Any]
    default: Any
    depth: Callable[[Any], int] | None
    count: Callable[[int], None] | None

    def assign(self, value: Any) -> None:
        """Set the variable, and count the blocks that its value opens or closes."""
        old = self.variable.get()
        if value is not old:
            if self.depth is not None and self.count is not None and (change := self.depth(value) - self.depth(old)):
                self.count(change)
            self.variable.set(value)


restorables: list[Restorable] = []


def restorable(
    variable: ContextVar[Any], depth: Callable[[Any], int] | None = None, count: Callable[[int], None] | None = None
) -> Restorable:
    """Have failed calls put a variable back. Where the open blocks of all threads are counted, `depth` is the number of
    blocks of a value, and `count` changes the sum."""
    restorables.append(Restorable(variable, Context().run(variable.get), depth, count))
    return restorables[-1]


class Binding:
    """Set a variable while a block runs. A generator would end late where its exit is interrupted."""

    __slots__ = ("_outer", "_value", "_variable")

    def __init__(self, variable: ContextVar[Any], value: Any) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> None:
        self._outer = self._variable.get()
        self._variable.set(self._value)

    def __exit__(self, *exception: object) -> None:
        self._variable.set(self._outer)


def restore_on_failure(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Decorate a function that opens scopes of its own: if it raises, no scope stays open that was opened in it."""

    @functools.wraps(function)
    def call(*args: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        before = copy_context()
        try:
            return function(*args, **named)
        except BaseException:
            _restore(before)
            raise

    return call


def _restore(before: Context) -> None:
    for each in restorables:
        each.assign(before.get(each.variable, each.default))


def chain_length(level: Any) -> int:
    """The number of levels from one to the outermost, by their `parent`."""
    length = 0
    while level is not None:
        level, length = level.parent, length + 1
    return length


_reason: ContextVar[str | None] = ContextVar("kernel_calls_reason", default=None)


def because(sentence: str) -> Binding:
    """Report why kernels are called, with the origin of the precision, to observers of the calls in the block."""
    return Binding(_reason, sentence)


def with_reason(decided_by: str | None) -> str | None:
    """The origin of the precision, and the reason of the block, if given."""
    return "; ".join(each for each in (decided_by, _reason.get()) if each) or None


restorable(_reason)


_BETWEEN = {__name__.partition(".")[0], "contextlib", "functools", "torch"}


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of a user, whatever of this package stands between."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
