"""Declarations of flags. One row defines a flag's legal values, how it is read and how it is written."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from .state import State


@dataclass(frozen=True)
class Names:
    """A fixed set of names, possibly with None, in `any_case` if so declared. The sequence may be extended later."""

    names: Sequence[str | None]
    any_case: bool = False

    kind: ClassVar[type] = str

    def has(self, value: Any) -> bool:
        return (value is None or isinstance(value, str)) and value in self.names

    def canonical(self, value: Any) -> Any:
        """The name that differs from a value in case only, where that is allowed; otherwise the value."""
        if not self.any_case or not isinstance(value, str) or value in self.names:
            return value
        return next((name for name in self.names if name is not None and name.lower() == value.lower()), value)

    @property
    def legal(self) -> str:
        return ", ".join(map(repr, self.names))

    @property
    def examples(self) -> tuple:
        return tuple(self.names)

    def parse(self, text: str) -> Any:
        return None if None in self.names and text.lower() == "none" else text


@dataclass(frozen=True)
class Truth:
    """Exactly True or False: neither numbers nor NumPy bools, as in torch."""

    kind: ClassVar[type] = bool
    legal: ClassVar[str] = "True, False"
    examples: ClassVar[tuple] = (True, False)

    def has(self, value: Any) -> bool:
        return value is True or value is False

    def parse(self, text: str) -> Any:
        return {"1": True, "true": True, "0": False, "false": False}.get(text.lower(), text)


@dataclass(frozen=True)
class Whole:
    """Integers not below `least`, and None if `or_none`."""

    least: int
    or_none: bool = False

    kind: ClassVar[type] = int

    def has(self, value: Any) -> bool:
        return (self.or_none and value is None) or (type(value) is int and value >= self.least)

    @property
    def legal(self) -> str:
        return ("None or " if self.or_none else "") + f"an integer >= {self.least}"

    @property
    def examples(self) -> tuple:
        return (*((None,) if self.or_none else ()), self.least, self.least + 7)

    def parse(self, text: str) -> Any:
        return int(text) if text.isdecimal() else None if self.or_none and text.lower() == "none" else text


@dataclass(frozen=True)
class Order:
    """A permutation of some names, separated by commas: "b,a"."""

    names: tuple[str, ...]

    kind: ClassVar[type] = str

    def has(self, value: Any) -> bool:
        return isinstance(value, str) and sorted(value.split(",")) == sorted(self.names)

    @property
    def legal(self) -> str:
        return f"{', '.join(self.names)} in any order, with commas and no spaces"

    @property
    def examples(self) -> tuple:
        return ",".join(self.names), ",".join(reversed(self.names))

    def parse(self, text: str) -> Any:
        return text


Choices = Names | Truth | Whole | Order


NO_OPINION = "none"
"""The value with which an inheriting flag defers to its parent."""

rows: dict[str, Flag] = {}
"""Every flag by path, in declaration order, which is the order of torch's `flags()` within a group."""

read_only: dict[str, ReadOnly] = {}
"""Every read-only attribute of a group, by path."""


class Flag:
    """One row of the table of flags.

    Arguments:
        path: the name below `minitorch_backends.backends`, with dots.
        default: the effective value while neither this flag nor one that it inherits from is set.
        choices: the legal values: a tuple of names, `bool` for exactly True and False, a `Whole` or an `Order`.
        doc: one line on what the flag controls.
        inherits: the path of the flag that supplies the value while this one is unset or "none".
        aliases: other spellings of legal values, each with the stored value.
        unknown, mistyped: the exception for an illegal value of the right type, and for a value of a wrong type. As in
            torch this is RuntimeError, but TypeError for a wrong type where a flag takes names or numbers.
        of: for a flag derived from others, the path of the first of them. `reads(state)` then returns the value, and
            `writes(value)` the paths and values to store.
        permits: the flag permits something only when it was set explicitly, even to its default.
        accepts: converts a value to the argument of `writes` or to the stored value, or raises. By default the value
            must be one of the choices.
        wakes: called when a value other than the default is first written: what each call would otherwise have to ask.
        inert: why the flag is stored without any effect; None for a flag that acts. A test checks that every other flag
            changes a kernel, a bit or a trace.
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
        "wakes",
        "writes",
    )

    def __init__(  # noqa: PLR0913 (a row says all that is known of it)
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
        wakes: Callable[[], None] | None = None,
        inert: str | None = None,
    ) -> None:
        self.choices = _choices(choices)
        self.path, self.default, self.doc, self.inherits = path, default, doc, inherits
        self.aliases, self.unknown, self.permits = dict(aliases or {}), unknown, permits
        self.mistyped = mistyped or (RuntimeError if isinstance(choices, type) else TypeError)
        self.of, self.reads, self.writes, self.accepts, self.wakes, self.inert = (
            of,
            reads,
            writes,
            accepts,
            wakes,
            inert,
        )
        rows[path] = self

    @property
    def environment(self) -> str:
        """The environment variable that sets this flag when the package is imported."""
        return "MINITORCH_" + self.path.upper().replace(".", "_")

    @property
    def takes_none(self) -> bool:
        """Whether None is a legal value of this flag. For other flags `flags()` reads None as "unchanged"."""
        return self.choices.has(None)

    def validate(self, value: Any) -> Any:
        """`value` as stored, or as `writes` takes it. Raises torch's exception for an illegal value."""
        if self.accepts is not None:
            return self.accepts(value)
        value = value.decode() if isinstance(value, bytes) else str(value) if isinstance(value, str) else value
        if isinstance(self.choices, Names):
            value = self.choices.canonical(value)
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

    def parse(self, text: str) -> Any:
        """The legal value for an environment variable's text."""
        value = self.choices.parse(text.strip())
        self.validate(value)
        return value

    def __repr__(self) -> str:
        return f"<flag {self.path}: {self.choices.legal}; {self.default!r} by default>"


def _choices(choices: tuple[str | None, ...] | type[bool] | Choices) -> Choices:
    if isinstance(choices, type):
        return Truth()
    return choices if isinstance(choices, (Names, Truth, Whole, Order)) else Names(choices)


class ReadOnly:
    """A constant or computed attribute of a group that cannot be set.

    Arguments:
        path: the name below `minitorch_backends.backends`, with dots.
        reads: returns the value from the current state.
        doc: one line on why it has this value.
        error: the message of the exception for an assignment.
    """

    __slots__ = ("doc", "error", "path", "reads")

    def __init__(
        self, path: str, reads: Callable[[State], Any], doc: str, error: type[Exception] = AttributeError
    ) -> None:
        self.path, self.reads, self.doc, self.error = path, reads, doc, error
        read_only[path] = self


def nearest(name: Any, names: Iterable[Any]) -> str:
    """A "did you mean" remark for an error, or an empty string. Case and punctuation do not count; "fp32" is "ieee"."""
    if not isinstance(name, str):
        return ""
    plain = {_plain(each): each for each in names if isinstance(each, str)}
    close = difflib.get_close_matches(_plain(name).replace("fp32", "ieee" if "ieee" in plain else "fp32"), plain, 1)
    return f" (did you mean {plain[close[0]]!r}?)" if close else ""


def _plain(name: str) -> str:
    return "".join(each for each in name.lower() if each.isalnum())


def public_name(group: str) -> str:
    """A group's public name."""
    return "minitorch_backends.backends" + (f".{group}" if group else "")
