"""The Pareto front: the settings that no other setting beats in both of two measures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple


class Point(NamedTuple):
    """A setting of flags with the medians of two measures over its rows."""

    label: str
    x: float
    y: float
    best: bool


class Pareto(list[Point]):
    """The points of a sweep, least x first; `best` are those that no other beats in both measures."""

    def __init__(self, points: Sequence[Point], x: str, y: str) -> None:
        super().__init__(points)
        self.names = x, y

    @property
    def front(self) -> list[Point]:
        return [point for point in self if point.best]

    def __str__(self) -> str:
        lines = [f"{'':2}{self.names[0]:>12} {self.names[1]:>12}  setting"]
        lines += [f"{'*' if point.best else '':2}{point.x:12.4g} {point.y:12.4g}  {point.label}" for point in self]
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write a picture of the points, and a line through the best."""
        from .plots import scatter

        scatter(self, path)


def pareto(groups: dict[str, list[dict[str, Any]]], x: str, y: str) -> Pareto:
    """Points of groups of rows by their labels."""
    from statistics import median

    found: list[tuple[str, float, float]] = []
    for label, rows in groups.items():
        pairs = [(row[x], row[y]) for row in rows if row.get("exception") is None]
        pairs = [pair for pair in pairs if None not in pair]
        if pairs:
            first, second = (float(median(values)) for values in zip(*pairs, strict=True))
            found.append((label, first, second))
    found.sort(key=lambda point: point[1:])
    points, least = [], float("inf")
    for label, first, second in found:
        points.append(Point(label, first, second, second < least))
        least = min(least, second)
    return Pareto(points, x, y)
