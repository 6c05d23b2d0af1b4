"""Pictures of sweeps and audits. Importing this module imports matplotlib."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .audits import Audit
    from .frontier import Frontier
    from .pareto import Pareto

__all__ = ["audit", "frontier", "scatter"]

_BEST, _SECOND, _OTHER, _INK = "#0072b2", "#d55e00", "#9aa3ad", "#1d2129"

_MOST_BARS = 28
"""The number of layers in the picture of an audit, the worst ones."""


def scatter(points: Pareto, path: str | os.PathLike[str]) -> None:
    """Points of two measures, on logarithmic scales if all are positive; a line joins the best."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    front = points.front
    axes.plot([p.x for p in front], [p.y for p in front], color=_BEST, linewidth=1, zorder=1)
    colours = [_BEST if point.best else _OTHER for point in points]
    axes.scatter([p.x for p in points], [p.y for p in points], c=colours, zorder=2)
    for place, point in enumerate(points):
        side, shift = ("left", 6) if 2 * place < len(points) else ("right", -6)  # labels stay inside the frame
        text: dict[str, Any] = {
            "xytext": (shift, 5),
            "textcoords": "offset points",
            "ha": side,
            "fontsize": 8,
            "color": _INK,
        }
        axes.annotate(point.label, (point.x, point.y), **text)
    for name, values, scale in (
        (points.names[0], [p.x for p in points], axes.set_xscale),
        (points.names[1], [p.y for p in points], axes.set_yscale),
    ):
        if values and min(values) > 0 and max(values) > 3 * min(values):
            scale("log")
        (axes.set_xlabel if name == points.names[0] else axes.set_ylabel)(name)
    axes.margins(0.15)
    _tidy(axes)
    figure.savefig(path, dpi=150)


def audit(found: Audit, path: str | os.PathLike[str]) -> None:
    """Layers by their errors at each precision, and the frontier; layers that the policy keeps are marked."""
    top = [row["module"] for row in found.layers()[:_MOST_BARS]]
    figure = Figure(figsize=(12, 1.6 + 0.24 * max(len(top), 10)), layout="constrained")
    FigureCanvasAgg(figure)
    bars, curve = figure.subplots(1, 2, width_ratios=(3, 2))
    names = [("* " if name in found.kept else "") + (name or "(itself)") for name in top]
    for precision, colour in zip(found.precisions, (_BEST, _SECOND, _OTHER, _INK), strict=False):
        errors = {row["module"]: row["error"] for row in found.layers(precision=precision)}
        places = [place for place, name in enumerate(top) if errors.get(name)]
        bars.plot([errors[top[place]] for place in places], places, "o", color=colour, label=precision)
    bars.set_yticks(range(len(names)), names, fontsize=8)
    bars.set_ylim(len(names) - 0.5, -0.5)
    bars.set_xscale("log")
    bars.tick_params(axis="x", which="both", labelsize=8)
    bars.set_xlabel(
        "relative error of the outputs, this layer alone" + ("; * keeps a higher precision" if found.kept else "")
    )
    bars.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(found.precisions))
    _draw_frontier(curve, found.frontier(), f"share of operations at {found.precisions[0]}")
    _tidy(bars, curve)
    figure.savefig(path, dpi=130)


def frontier(points: Frontier, path: str | os.PathLike[str]) -> None:
    """The predicted curve, and the points that were measured."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _draw_frontier(axes, points, "share of operations at low precision")
    _tidy(axes)
    figure.savefig(path, dpi=150)


def _draw_frontier(axes: Axes, points: Frontier, label: str) -> None:
    measured = [(point.share, point.measured) for point in points if point.measured is not None]
    axes.plot([p.share for p in points], [p.predicted for p in points], color=_BEST, label="predicted")
    axes.plot(*zip(*measured, strict=True), "o", color=_INK, label="measured", clip_on=False, zorder=3)
    axes.set_xlabel(label)
    axes.set_ylabel("relative error of the outputs")
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


def _tidy(*several: Axes) -> None:
    for axes in several:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
