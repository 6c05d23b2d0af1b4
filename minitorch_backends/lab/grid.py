"""The cells of a sweep: every combination of parameters, flags and seeds, each with a unique key."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import backends
from ..backends import Snapshot
from ..kernels.runtime.context import restore_on_failure

_PLAIN = (bool, int, float, str, type(None))

Flags = Mapping[str, Any] | Snapshot


class Cell(NamedTuple):
    """One run of the function.

    Attributes:
        parameters: its keyword arguments.
        given: the flags as the user set them.
        flags: all flags in effect during the run.
        seed: the number of the repetition; None for functions that run once.
    """

    parameters: dict[str, Any]
    given: dict[str, Any]
    flags: Snapshot
    seed: int | None

    @property
    def draw(self) -> str:
        """Identifies the random numbers of the cell: parameters and seed, so that all flags use the same ones."""
        return _digest(self.parameters, self.seed)

    def is_of(self, row: Mapping[str, Any]) -> bool:
        """Whether a row describes this cell, also one that was stored."""
        own = {**self.parameters, "flags": self.given, "seed": self.seed}
        return _digest(own) == _digest({name: row.get(name) for name in own})

    def row_of_death(self) -> dict[str, Any]:
        """The row where worker processes died of the cell."""
        own = {**self.parameters, "flags": self.given, "seed": self.seed}
        return {**own, "error": None, "exception": "the worker process died"}

    @property
    def key(self) -> str:
        """Identifies the cell in a store, independently of the other cells."""
        return _digest(self.parameters, self.seed, [[path, repr(value)] for path, value in self.flags.values])


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def cells(
    over: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]],
    flags: Mapping[str, Iterable[Any]] | Iterable[Flags] | None,
    seeds: int | Iterable[int] | None,
) -> list[Cell]:
    """All cells, seeds fastest, then flags. Raises ValueError for values that a store cannot hold."""
    points = _product("over", over) if isinstance(over, Mapping) else [dict(point) for point in over]
    for point in points:
        for name, value in point.items():
            _check(name, value)
    settings = _settings(flags)
    if isinstance(seeds, int) and (isinstance(seeds, bool) or seeds < 1):
        raise ValueError(f"sweep(): seeds must be a positive number, a list of numbers or None, got {seeds!r}")
    numbers = [None] if seeds is None else range(seeds) if isinstance(seeds, int) else [int(each) for each in seeds]
    return [Cell(point, *setting, seed) for point in points for setting in settings for seed in numbers]


def _product(name: str, axes: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    for axis, values in axes.items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise ValueError(f"sweep(): {name}[{axis!r}] must be a list of values, got {values!r}")
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def _check(name: str, value: Any) -> None:
    if isinstance(value, (list, tuple)):
        for each in value:
            _check(name, each)
    elif not isinstance(value, _PLAIN):
        raise ValueError(
            f"sweep(): values of parameter {name!r} must be numbers, strings, None, or lists of these, got "
            f"{type(value).__name__}; pass a name, and look it up in the function"
        )


@restore_on_failure
def _settings(flags: Mapping[str, Iterable[Any]] | Iterable[Flags] | None) -> list[tuple[dict[str, Any], Snapshot]]:
    if flags is None:
        return [({}, backends.snapshot())]
    listed: Sequence[Flags] = _product("flags", flags) if isinstance(flags, Mapping) else list(flags)
    found = []
    for setting in listed:
        if isinstance(setting, Snapshot):
            found.append((setting.as_dict(), setting))
        else:
            with backends.flags(**setting):
                found.append((dict(setting), backends.snapshot()))
    return found
