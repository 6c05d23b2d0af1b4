"""The plots of the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from . import devices, laboratory, overview, speeds
from .style import STYLE, Plot

__all__ = ["PLOTS", "Plot", "draw"]

PLOTS = {**overview.PLOTS, **laboratory.PLOTS, **devices.PLOTS, **speeds.PLOTS}
"""By part, in the order of the report; "overview" is the first screen."""


def draw(plot: Plot, result: dict[str, Any], folder: Path) -> Path:
    """Draw one plot into `folder`, and return the path of the picture."""
    path = folder / f"{plot.name}.png"
    with rc_context(STYLE):
        figure = Figure(figsize=plot.size, layout="constrained")
        plot.draw(figure, result)
        figure.savefig(path)
    return path
