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
        milliseconds: the least time of the product's operations on the audit's device, if it has one (`lab.devices`).
    """

    share: float
    predicted: float
    measured: float | None
    kept: tuple[str, ...]
    milliseconds: float | None = None


class Frontier(list[Point]):
    """Points from no layer to all layers at low precision, in order of error per operation.

    Attributes:
        product: the one that runs at low precision.
        precision: that precision.
        device: the name of the device whose times are predicted, or "".
    """

    def __init__(self, points: Sequence[Point], product: str, precision: str, device: str = "") -> None:
        super().__init__(points)
        self.product, self.precision, self.device = product, precision, device

    @property
    def subject(self) -> str:
        """The subject of the errors: "outputs" or "gradients"."""
        return "outputs" if self.product == "forward" else "gradients"

    def cells(self) -> list[tuple[str, ...]]:
        """The head of the table and its lines."""
        head = ("share", "predicted", "measured", "kept")
        rows: list[tuple[str, ...]] = [(*head, f"ms at least, {self.device}") if self.device else head]
        for point in self:
            measured = "" if point.measured is None else f"{point.measured:.3e}"
            line = (f"{point.share:.1%}", f"{point.predicted:.3e}", measured, f"{len(point.kept)} layers")
            rows.append(line if point.milliseconds is None else (*line, f"{point.milliseconds:.3g}"))
        return rows

    def __str__(self) -> str:
        return "\n".join(
            f"{share:>7} {predicted:>10} {measured:>10}  " + "  ".join(rest)
            for share, predicted, measured, *rest in self.cells()
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
    times = "predicted_seconds" in rows[0] if rows else False
    taken = sum(row["predicted_before"] for row in rows) if times else 0.0
    points = [Point(0.0, 0.0, 0.0, tuple(names), 1e3 * taken if times else None)]
    for count, row in enumerate(rows, 1):
        flops, square = flops + row["flops"], square + row["error"] ** 2
        taken += row["predicted_seconds"] - row["predicted_before"] if times else 0.0
        points.append(Point(flops / total, square**0.5, None, tuple(names[count:]), 1e3 * taken if times else None))
    return points
