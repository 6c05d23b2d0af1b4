"""Thresholds of a family of kernels as one row, which tests and measurements replace for a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

Row = TypeVar("Row", bound=Any)  # a NamedTuple


class Thresholds(Generic[Row]):
    """The row in force in this process. Code reads `row` at each use, and stores nothing that follows from it unless
    `when_changed` has a function that drops what is stored."""

    def __init__(self, row: Row, when_changed: list[Callable[[], Any]] | None = None) -> None:
        self.row = row
        self.when_changed = [] if when_changed is None else when_changed

    @contextmanager
    def override(self, **fields: Any) -> Iterator[Row]:
        """Replace fields of the row in the whole process while the block runs."""
        before = self.row
        self._set(before._replace(**fields))
        try:
            yield self.row
        finally:
            self._set(before)

    def _set(self, row: Row) -> None:
        self.row = row
        for forget in self.when_changed:
            forget()
