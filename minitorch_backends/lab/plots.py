"""Pictures of sweeps and audits. Importing this module imports matplotlib."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from matplotlib.ticker import PercentFormatter

from .style import BLUE, GREY, INK, MARKS, ORANGE, SHAPES, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .audits import Audit
    from .frontier import Frontier
    from .pareto import Pareto

File = str | os.PathLike[str] | IO[bytes]

_MOST_BARS = 28
"""The number of layers in the picture of an audit, the worst ones."""


def scatter(points: Pareto, file: File) -> None:
    """Points of two measures, on logarithmic scales if all are positive; a line joins the best."""
    with drawing(file, (8, 5)) as figure:
        axes = figure.add_subplot()
        front = points.front
        axes.plot([p.x for p in front], [p.y for p in front], color=BLUE, linewidth=1, zorder=1)
        colours = [BLUE if point.best else GREY for point in points]
        axes.scatter([p.x for p in points], [p.y for p in points], c=colours, zorder=2)
        for place, point in enumerate(points):
            side, shift = ("left", 6) if 2 * place < len(points) else ("right", -6)  # labels stay inside the frame
            text: dict[str, Any] = {"xytext": (shift, 5), "textcoords": "offset points", "ha": side}
            axes.annotate(point.label, (point.x, point.y), fontsize=8, color=INK, **text)
        for name, values, scale, label in (
            (points.names[0], [p.x for p in points], axes.set_xscale, axes.set_xlabel),
            (points.names[1], [p.y for p in points], axes.set_yscale, axes.set_ylabel),
        ):
            if values and min(values) > 0 and max(values) > 3 * min(values):
                scale("log")
            label(name)
        axes.margins(0.15)


def audit(found: Audit, file: File) -> None:
    """Layers by their errors at each precision, and the frontiers; layers that the policy keeps are marked."""
    top = [row["module"] for row in found.layers()[:_MOST_BARS]]
    with drawing(file, (12, 1.6 + 0.24 * max(len(top), 10))) as figure:
        bars, curve = figure.subplots(1, 2, width_ratios=(3, 2))
        names = [("* " if name in found.kept else "") + (name or "(itself)") for name in top]
        for place, precision in enumerate(found.precisions):
            colour, mark = MARKS.get(precision, (GREY, SHAPES[place]))
            errors = {row["module"]: row["error"] for row in found.layers(precision=precision)}
            places = [place for place, name in enumerate(top) if errors.get(name)]
            bars.plot([errors[top[place]] for place in places], places, mark, color=colour, label=precision)
        bars.set_yticks(range(len(names)), names, fontsize=8)
        bars.set_ylim(len(names) - 0.5, -0.5)
        bars.set_xscale("log")
        bars.tick_params(axis="x", which="both", labelsize=8)
        bars.set_xlabel(
            "relative error of the outputs, this layer alone" + ("; * keeps a higher precision" if found.kept else "")
        )
        bars.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(found.precisions))
        _draw_frontiers(curve, [found.frontier(product=each) for each in found.products])


def frontier(points: Frontier, file: File) -> None:
    """The predicted curve, and the points that were measured."""
    with drawing(file, (7, 4.5)) as figure:
        _draw_frontiers(figure.add_subplot(), [points])


def _draw_frontiers(axes: Axes, several: Sequence[Frontier]) -> None:
    for points, colour in zip(several, (BLUE, ORANGE, "#009E73"), strict=False):
        measured = [(point.share, point.measured) for point in points if point.measured is not None]
        label = f"{points.product}: error of {points.subject}"
        axes.plot([p.share for p in points], [p.predicted for p in points], color=colour, label=label)
        axes.plot(*zip(*measured, strict=True), "o", color=colour, clip_on=False, zorder=3)
    axes.plot([], [], "o", color=INK, label="measured")
    axes.set_xlabel(f"share of the product's operations at {several[0].precision}")
    axes.set_ylabel("relative error")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
