"""Pictures of sweeps. Importing this module imports matplotlib."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from .pareto import Pareto

__all__ = ["scatter"]

_BEST, _OTHER, _INK = "#0072b2", "#9aa3ad", "#1d2129"


def scatter(points: Pareto, path: str | os.PathLike[str]) -> None:
    """Points of two measures, on logarithmic scales where all are positive; a line joins the best."""
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
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    figure.savefig(path, dpi=150)
