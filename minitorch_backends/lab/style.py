"""How pictures look. Colour-blind readers tell the colours apart (after Okabe and Ito), and the marks differ.

Importing this module imports matplotlib.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import IO

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

BLUE, ORANGE, GREY, INK = "#0072B2", "#D55E00", "#9AA3AD", "#1D2129"

MARKS = {
    "ieee": ("#000000", "o"),
    "tf32": (BLUE, "s"),
    "bf16": (ORANGE, "D"),
    "bf16x3": ("#009E73", "^"),
    "bf16x6": ("#AA4499", "v"),
}
"""Colour and mark of precisions."""

SHAPES = "osD^vPX*<>p"
"""Marks of points without a precision."""

_STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "savefig.dpi": 150,
}


@contextlib.contextmanager
def drawing(path: str | os.PathLike[str] | IO[bytes], size: tuple[float, float]) -> Iterator[Figure]:
    """A figure of a size in inches, which the block draws, and which is then saved as PNG."""
    with rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        figure.savefig(path, format="png")


def show_sizes(axes: Axes, sizes: list[int]) -> None:
    """An axis of sizes that double."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.margins(x=0.08)


def plain_numbers(axes: Axes) -> None:
    """A logarithmic y axis with 0.5, 1, 2, 5, 10 ... written out."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.yaxis.set_minor_formatter(lambda value, _: f"{value:,g}" if f"{value:e}"[0] in "25" else "")
