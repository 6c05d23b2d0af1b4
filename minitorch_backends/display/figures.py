"""How pictures look. Colour-blind readers tell the colours apart (after Okabe and Ito), and the marks differ.

Importing this module imports matplotlib.
"""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

try:
    from matplotlib import rc_context
except ModuleNotFoundError:
    raise ImportError("pictures need matplotlib: pip install 'minitorch-backends[lab]'") from None
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation, MaxNLocator, PercentFormatter  # noqa: F401 (for other modules)
from matplotlib.transforms import Bbox

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

COLOURS = (BLUE, ORANGE, "#009E73", "#AA4499", "#E69F00", "#56B4E9", "#882255", "#000000", "#999933", "#777777")
"""Colours of lines without a precision, in order."""

File = str | os.PathLike[str] | IO[bytes] | None

_FORMATS = ("png", "pdf", "svg")

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
    "svg.hashsalt": "minitorch",  # the same bytes for the same picture
}


class Drawing(Figure):
    """A figure that notebooks show without pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=150)
        return buffer.getvalue()


@contextmanager
def drawing(file: File, size: tuple[float, float], caller: str = "plot") -> Iterator[Drawing]:
    """A figure of a size in inches, which the block draws. It is then saved: by its name's end as PNG, PDF or SVG; as
    PNG in a file that is open; not at all for None. Raises ValueError for other names."""
    kind = "png"
    if isinstance(file, (str, os.PathLike)):
        kind = Path(file).suffix[1:].lower()
        if kind not in _FORMATS:
            ends = ", ".join(f".{each}" for each in _FORMATS)
            raise ValueError(f"{caller}(): path must end in one of {ends}, got {os.fspath(file)!r}")
    with rc_context(_STYLE):
        figure = Drawing(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        if file is not None:
            figure.savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else None)


def place_labels(axes: Axes, points: Sequence[tuple[float, float]], labels: Sequence[str], most: int) -> int:
    """Write a label beside each point, the first ones first, so that none meets another, a point or the frame.

    Where there is room, none crosses a line that was drawn before. A label that finds no place near its point is left
    out. A thin line leads to one that is not beside it. Returns the number of labels that were written, at most `most`.
    """
    figure: Any = axes.get_figure()
    figure.draw_without_rendering()
    renderer, frame = figure.canvas.get_renderer(), axes.get_window_extent()
    unit = figure.dpi / 72
    spots = [axes.transData.transform(point) for point in points]
    taken = [Bbox.from_bounds(x - 4 * unit, y - 4 * unit, 8 * unit, 8 * unit) for x, y in spots]
    drawn = [line.get_path().transformed(line.get_transform()) for line in axes.lines]
    written = 0
    for (x, y), point, label in zip(spots, points, labels, strict=True):
        text = axes.annotate(
            label, point, xytext=(0, 0), textcoords="offset points", fontsize=8, color=INK, va="bottom"
        )
        text.set_in_layout(False)
        box = text.get_window_extent(renderer)
        for lines, (far, down, side) in itertools.product((drawn, ()), _PLACES):
            left = x + (far * unit if side > 0 else -far * unit - box.width if side < 0 else -box.width / 2)
            low = y + down * unit - box.height / 2
            wanted = Bbox.from_bounds(left, low, box.width, box.height).padded(unit)
            crossed = any(line.intersects_bbox(wanted, filled=False) for line in lines)
            if not crossed and _contains(frame, wanted) and not any(wanted.overlaps(other) for other in taken):
                break
        else:
            text.remove()
            continue
        taken.append(wanted)
        text.set_position(((left - x) / unit, (low - y) / unit))
        if max(far, abs(down)) > 18:
            edge = min(max(x, left), left + box.width), min(max(y, low), low + box.height)
            ends = axes.transData.inverted().transform([(x, y), edge])
            axes.plot(*zip(*ends, strict=True), color=GREY, linewidth=0.6, zorder=0, scalex=False, scaley=False)
        written += 1
        if written == most:
            break
    return written


_PLACES = [
    (far, down, side)
    for far, downs in ((7, (4, -4, 10, -10)), (10, (18, -18, 28, -28)), (24, (0, 18, -18, 40, -40)))
    for down, side in itertools.product(downs, (1, -1))
] + [(0, down, 0) for down in (12, -12, 24, -24, 38, -38)]  # fmt: skip
"""Places of a label: its distance aside and upwards, in points, and the side of the point where it stands."""


def _contains(frame: Any, box: Bbox) -> bool:
    return frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1


def scale_axis(axes: Axes, name: str, values: Sequence[float]) -> None:
    """Make the axis `name` ("x" or "y") logarithmic where values are positive and differ by more than 3 times, and
    linear below the least positive one where some are zero."""
    positive = [value for value in values if value > 0]
    if not positive or min(values) < 0 or max(positive) <= 3 * min(positive):
        return
    set_scale, axis = getattr(axes, f"set_{name}scale"), getattr(axes, f"{name}axis")
    set_scale("log") if len(positive) == len(values) else set_scale("symlog", linthresh=min(positive))
    wide = max(positive) > 100 * min(positive)  # otherwise 2 and 5 are labelled between powers of ten
    label = LogFormatterSciNotation(labelOnlyBase=False)
    axis.set_minor_formatter(lambda value, place: "" if wide or f"{value:e}"[0] not in "25" else label(value, place))
    label.set_axis(axis)


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
