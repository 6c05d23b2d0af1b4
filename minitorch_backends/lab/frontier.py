"""The frontier of an audit: the error of the answers against the share of operations at low precision."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["Frontier", "Point", "ordered", "predictions"]


class Point(NamedTuple):
    """A number of layers at low precision.

    Attributes:
        share: of the operations of the forward pass that these layers make.
        predicted: the relative error of the answers, the root of the sum of the squares of the layers' errors.
        measured: the same of a run, where one was made; None elsewhere.
        kept: the layers that stay at the higher precision.
    """

    share: float
    predicted: float
    measured: float | None
    kept: tuple[str, ...]


class Frontier(list[Point]):
    """Points from no layer to all layers at low precision; those go first that cost least error by operation."""

    def __str__(self) -> str:
        lines = [f"{'share':>7} {'predicted':>10} {'measured':>10}  kept"]
        for point in self:
            measured = "" if point.measured is None else f"{point.measured:.3e}"
            lines.append(f"{point.share:7.1%} {point.predicted:10.3e} {measured:>10}  {len(point.kept)} layers")
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write a picture of the curve, and of the points that were measured."""
        from .plots import frontier

        frontier(self, path)


def ordered(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of layers by their squared error for each operation, least first; equal ones by name."""
    return sorted(rows, key=lambda row: (row["error"] ** 2 / max(row["flops"], 1), row["module"]))


def predictions(rows: Sequence[dict[str, Any]]) -> list[Point]:
    """The points of layers that are lowered one after another. Errors of layers add in quadrature, as independent
    perturbations do: of first order in each, and uncorrelated."""
    total = sum(row["flops"] for row in rows) or 1
    flops, square = 0, 0.0
    names = [row["module"] for row in rows]
    points = [Point(0.0, 0.0, 0.0, tuple(names))]
    for count, row in enumerate(rows, 1):
        flops, square = flops + row["flops"], square + row["error"] ** 2
        points.append(Point(flops / total, square**0.5, None, tuple(names[count:])))
    return points
