"""Declarations: a flag is one row, and what it takes, how it is read and how it is written follow from the row."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .choices import Choices, Names, Order, Truth, Whole

if TYPE_CHECKING:
    from .state import State

__all__ = ["NO_OPINION", "Flag", "ReadOnly", "nearest", "public_name", "read_only", "rows"]

NO_OPINION = "none"
"""The value of an inheriting flag that leaves the decision to its parent."""

rows: dict[str, Flag] = {}
"""Every flag by path, in the order of declaration, which is that of torch's `flags()` within a group."""

read_only: dict[str, ReadOnly] = {}
"""Every attribute of a group that can be read and not set, by path."""


class Flag:
    """One row of the table of flags.

    Arguments:
        path: the name below `minitorch_backends.backends`, with dots.
        default: the effective value while neither this flag nor one it inherits from is set.
        choices: the legal values: a tuple of names, `bool` for exactly True and False, a `Whole` or an `Order`.
        doc: what it acts on, in one line.
        inherits: the path that answers while this flag is unset or "none".
        aliases: other spellings of legal values, each with the value that is stored.
        unknown, mistyped: what is raised for a value of the right type that is no choice, and for one of another type;
            as in torch, a RuntimeError, but a TypeError where a flag that takes names or numbers gets another type.
        of: for a flag that is a view of others, the path of the first of them. Then `reads(state)` gives the value,
            and `writes(value)` the paths and values to store.
        permits: it permits something only when somebody has set it, were it to its default.
        accepts: turns a value into what `writes` takes, or what is stored, or raises; by default the value must be a
            choice.
        inert: why the flag is stored and changes nothing; None for a flag that acts. A test holds that a flag without
            a reason changes a kernel, a bit or a trace.
    """

    __slots__ = (
        "accepts",
        "aliases",
        "choices",
        "default",
        "doc",
        "inert",
        "inherits",
        "mistyped",
        "of",
        "path",
        "permits",
        "reads",
        "unknown",
        "writes",
    )

    def __init__(
        self,
        path: str,
        default: Any,
        choices: tuple[str | None, ...] | type[bool] | Choices,
        doc: str,
        *,
        inherits: str | None = None,
        aliases: Mapping[str, Any] | None = None,
        unknown: type[Exception] = RuntimeError,
        mistyped: type[Exception] | None = None,
        permits: bool = False,
        of: str | None = None,
        reads: Callable[[State], Any] | None = None,
        writes: Callable[[Any], dict[str, Any]] | None = None,
        accepts: Callable[[Any], Any] | None = None,
        inert: str | None = None,
    ) -> None:
        self.choices = _choices(choices)
        self.path, self.default, self.doc, self.inherits = path, default, doc, inherits
        self.aliases, self.unknown, self.permits = dict(aliases or {}), unknown, permits
        self.mistyped = mistyped or (RuntimeError if isinstance(choices, type) else TypeError)
        self.of, self.reads, self.writes, self.accepts, self.inert = of, reads, writes, accepts, inert
        rows[path] = self

    @property
    def environment(self) -> str:
        """The environment variable that sets this flag when the package is imported."""
        return "MINITORCH_" + self.path.upper().replace(".", "_")

    @property
    def takes_none(self) -> bool:
        """Whether None is a value of this flag; elsewhere `flags()` takes it for "leave this one alone"."""
        return self.choices.has(None)

    def validated(self, value: Any) -> Any:
        """`value` as `writes` takes it, or as it is stored; raises what torch raises for one that is not legal."""
        if self.accepts is not None:
            return self.accepts(value)
        value = value.decode() if isinstance(value, bytes) else str(value) if isinstance(value, str) else value
        if self.choices.has(value):
            return value
        if isinstance(value, str) and value in self.aliases:
            return self.aliases[value]
        one_of = "one of " if isinstance(self.choices, (Names, Truth)) else ""
        legal = one_of + ", ".join((self.choices.legal, *map(repr, self.aliases)))
        if type(value) is self.choices.kind:
            meant = nearest(value, self.choices.examples)
            raise self.unknown(f"{self.path} = {value!r} is unknown{meant}; expected {legal}")
        raise self.mistyped(f"{self.path} takes {legal}, got {value!r} of type {type(value).__name__}")

    def parsed(self, text: str) -> Any:
        """The legal value that an environment variable's text stands for."""
        value = self.choices.parsed(text.strip())
        self.validated(value)
        return value

    def __repr__(self) -> str:
        return f"<flag {self.path}: {self.choices.legal}; {self.default!r} by default>"


def _choices(choices: tuple[str | None, ...] | type[bool] | Choices) -> Choices:
    if isinstance(choices, type):
        return Truth()
    return choices if isinstance(choices, (Names, Truth, Whole, Order)) else Names(choices)


class ReadOnly:
    """An attribute of a group that is computed from the flags, or constant, and cannot be set.

    Arguments:
        path: the name below `minitorch_backends.backends`, with dots.
        reads: gives the value from the state in force.
        doc: why it has the value that it has, in one line.
        error: what an assignment raises.
    """

    __slots__ = ("doc", "error", "path", "reads")

    def __init__(
        self, path: str, reads: Callable[[State], Any], doc: str, error: type[Exception] = AttributeError
    ) -> None:
        self.path, self.reads, self.doc, self.error = path, reads, doc, error
        read_only[path] = self


def nearest(name: Any, names: Iterable[Any]) -> str:
    """The name that was perhaps meant, as a remark in an error."""
    if not isinstance(name, str):
        return ""
    close = difflib.get_close_matches(name, [each for each in names if isinstance(each, str)], 1, 0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def public_name(group: str) -> str:
    """A group's name as users write it."""
    return "minitorch_backends.backends" + (f".{group}" if group else "")
