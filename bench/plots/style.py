"""How plots look. Colour-blind readers tell the colours apart (after Okabe and Ito), and the marks differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["MARKS", "PEER_MARKS", "STYLE", "Plot", "plain_numbers", "show_sizes"]

STYLE = {
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
    "savefig.dpi": 160,
}

MARKS = {
    "ieee": ("#000000", "o"),
    "tf32": ("#0072B2", "s"),
    "bf16": ("#D55E00", "D"),
    "bf16x3": ("#009E73", "^"),
    "bf16x6": ("#AA4499", "v"),
}
PEER_MARKS = {
    "NumPy fp32": ("#5f5f5f", "P"),
    "torch fp32": ("#8a8a8a", "X"),
    "torch bf16 tensors": ("#8a8a8a", "*"),
    "torch mkldnn bf16": ("#8a8a8a", "h"),
}


class Plot(NamedTuple):
    """One picture: the name of its file, what it shows in a sentence, and how it is drawn from a part's result."""

    name: str
    caption: str
    size: tuple[float, float]
    draw: Callable[[Figure, Any], None]


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
