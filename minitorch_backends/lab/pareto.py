"""The Pareto front: the settings that no other setting beats in both of two measures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Point(NamedTuple):
    """A setting of flags with the medians of two measures over its rows; `at` are the parameters, such as "n=64", of
    the points that it is compared with."""

    label: str
    x: float
    y: float
    best: bool
    at: str = ""


class Pareto(list[Point]):
    """The points of a sweep, those at the same parameters together, least x first; `best` are those that no other of
    these beats in both measures."""

    def __init__(self, points: Iterable[Point], x: str, y: str) -> None:
        super().__init__(points)
        self.names = x, y

    @property
    def front(self) -> list[Point]:
        return [point for point in self if point.best]

    def by_parameters(self) -> dict[str, Pareto]:
        """The points at each combination of parameters."""
        return {at: Pareto((p for p in self if p.at == at), *self.names) for at in dict.fromkeys(p.at for p in self)}

    def cells(self) -> list[tuple[str, ...]]:
        """The head of the table and its lines; points of the front have a star."""
        has_parameters = any(point.at for point in self)
        rows: list[tuple[str, ...]] = [("", "parameters", "setting", *self.names)]
        rows += [("*" if p.best else "", p.at, p.label, f"{p.x:.4g}", f"{p.y:.4g}") for p in self]
        return rows if has_parameters else [(row[0], *row[2:]) for row in rows]

    def __str__(self) -> str:
        from ..explain.records import align_columns

        return "\n".join(align_columns(self.cells()))

    def _repr_html_(self) -> str:
        from ..display.html import Rows, as_html

        cells = self.cells()
        return as_html(Rows(cells, len(cells[0]) - 2))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the points, and a line through the best, in a panel for each combination of parameters (at most 12).

        Returns the figure; with `path` it is also written, as PNG, PDF or SVG by the end of the name. Raises ValueError
        for more of them.
        """
        from .columns import MOST_PANELS
        from .plots import scatter

        several = self.by_parameters() or {"": self}
        if len(several) > MOST_PANELS:
            raise ValueError(
                f"Pareto.plot(): points must be at no more than {MOST_PANELS} combinations of parameters, got "
                f"{len(several)}; choose rows by Sweep.where()"
            )
        return scatter(several, path)


def pareto(groups: Mapping[tuple[str, str], Sequence[dict[str, Any]]], x: str, y: str) -> Pareto:
    """Points of groups of rows by their parameters and labels."""
    found: dict[str, list[tuple[float, float, str]]] = {}
    for (at, label), rows in groups.items():
        pairs = [(row[x], row[y]) for row in rows if row.get("exception") is None]
        pairs = [pair for pair in pairs if None not in pair]
        if pairs:
            first, second = (float(median(values)) for values in zip(*pairs, strict=True))
            found.setdefault(at, []).append((first, second, label))
    points = []
    for at, measured in found.items():
        least = float("inf")
        for first, second, label in sorted(measured, key=lambda each: each[:2]):
            points.append(Point(label, first, second, second < least, at))
            least = min(least, second)
    return Pareto(points, x, y)
