"""What a part says, once for the terminal and the report: tables, how their cells are written, paragraphs."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Table", "error", "number", "paragraphs", "percent", "ratio", "seconds"]


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text that empty lines divide, each as one line."""
    return [" ".join(block.split()) for block in text.strip().split("\n\n")]


class Table(NamedTuple):
    """Cells are text. The first `names` columns are names, aligned left; the others are values, aligned right.

    An empty row is a rule between groups of rows.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    names: int = 1

    def without_empty_columns(self) -> Table:
        """The table without columns of values in which no row has one, as those of a library that is not installed."""
        columns = range(len(self.columns))
        kept = [c for c in columns if c < self.names or any(row and row[c] for row in self.rows)]
        rows = [tuple(row[c] for c in kept) if row else () for row in self.rows]
        return Table(self.title, tuple(self.columns[c] for c in kept), rows, self.names)


def seconds(value: float | None) -> str:
    """A duration with three digits and its unit."""
    if value is None:
        return ""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1:
            return f"{number(value * factor)} {unit}"
    return f"{number(value * 1e9)} ns"


def number(value: float | None) -> str:
    """A positive number near one, with three digits where it has fewer before the point."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value < 1 else f"{value:.{2 if value < 10 else 1}f}"


def error(value: float | None) -> str:
    """A number of any size, with three digits."""
    return "" if value is None else "0" if value == 0 else f"{value:.2e}"


def ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f} %"
