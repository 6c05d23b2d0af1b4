"""Legal values of flags that grow: names of registered precisions, formats, recipes and profiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..kernels.precisions.products import PRECISIONS


class PrecisionNames(Sequence[str | None]):
    """Fixed names and the names of the registered precisions, slowest first, except one."""

    def __init__(self, *first: str, without: str | None = None) -> None:
        self._first, self._without = first, without

    def _names(self) -> tuple[str, ...]:
        return (*self._first, *(name for name in reversed(PRECISIONS) if name != self._without))

    def __contains__(self, name: object) -> bool:
        return name in self._first or (name in PRECISIONS and name != self._without)

    def __getitem__(self, index: Any) -> Any:
        return self._names()[index]

    def __len__(self) -> int:
        return len(self._names())


class Growing(Sequence[str | None]):
    """One fixed value, and the keys of a table of the moment."""

    def __init__(self, table: Iterable[str], first: str | None) -> None:
        self._table, self._first = table, first

    def __getitem__(self, index: Any) -> Any:
        return (self._first, *self._table)[index]

    def __len__(self) -> int:
        return len((self._first, *self._table))
