"""The frontier of an audit: the error of outputs or gradients against the share of operations at low precision."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Point(NamedTuple):
    """A number of layers at low precision.

    Attributes:
        share: their share of the operations of the product.
        predicted: the relative error: the root of the sum of squares of the layers' errors.
        measured: the relative error from a run, if one was made; otherwise None.
        kept: the layers that stay at the higher precision.
    """

    share: float
    predicted: float
    measured: float | None
    kept: tuple[str, ...]


class Frontier(list[Point]):
    """Points from no layer to all layers at low precision, in order of error per operation.

    Attributes:
        product: the one that runs at low precision.
        precision: that precision.
    """

    def __init__(self, points: Sequence[Point], product: str, precision: str) -> None:
        super().__init__(points)
        self.product, self.precision = product, precision

    @property
    def subject(self) -> str:
        """The subject of the errors: "outputs" or "gradients"."""
        return "outputs" if self.product == "forward" else "gradients"

    def cells(self) -> list[tuple[str, ...]]:
        """The head of the table and its lines."""
        rows: list[tuple[str, ...]] = [("share", "predicted", "measured", "kept")]
        for point in self:
            measured = "" if point.measured is None else f"{point.measured:.3e}"
            rows.append((f"{point.share:.1%}", f"{point.predicted:.3e}", measured, f"{len(point.kept)} layers"))
        return rows

    def __str__(self) -> str:
        return "\n".join(
            f"{share:>7} {predicted:>10} {measured:>10}  {kept}" for share, predicted, measured, kept in self.cells()
        )

    def _repr_html_(self) -> str:
        from ..display.html import Rows, as_html

        return as_html(Rows(self.cells(), names=0))

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the curve and the measured points; returns the figure.

        With `path` it is also written, as PNG, PDF or SVG by the end of the name.
        """
        from .plots import frontier

        return frontier(self, path)


def sort_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of layers by squared error per operation, smallest first; ties by name."""
    return sorted(rows, key=lambda row: (row["error"] ** 2 / max(row["flops"], 1), row["module"]))


def predictions(rows: Sequence[dict[str, Any]]) -> list[Point]:
    """The points as layers are lowered one after another. Errors of layers add in quadrature, like independent
    perturbations."""
    total = sum(row["flops"] for row in rows) or 1
    flops, square = 0, 0.0
    names = [row["module"] for row in rows]
    points = [Point(0.0, 0.0, 0.0, tuple(names))]
    for count, row in enumerate(rows, 1):
        flops, square = flops + row["flops"], square + row["error"] ** 2
        points.append(Point(flops / total, square**0.5, None, tuple(names[count:])))
    return points
