"""Legal values of flags: names, True and False, whole numbers, permutations of names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


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
