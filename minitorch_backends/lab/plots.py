"""Pictures of sweeps and audits. Importing this module imports matplotlib."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..display.figures import (
    BLUE,
    COLOURS,
    GREY,
    INK,
    MARKS,
    ORANGE,
    SHAPES,
    Drawing,
    File,
    MaxNLocator,
    PercentFormatter,
    drawing,
    place_labels,
    scale_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .audits import Audit
    from .frontier import Frontier
    from .pareto import Pareto

_MOST_BARS = 28
"""The number of layers in the picture of an audit, the worst ones."""

_MOST_LABELS = 24
"""The number of labelled points in a picture of two measures; those on the front come first."""


_MOST_INSIDE = 10
"""The number of lines whose legend is drawn inside of a user's axes; longer ones would hide the lines."""


class Line(NamedTuple):
    """The values of one measure along an axis: its label, and for each x the middle, the lower and the upper value."""

    label: str
    x: Sequence[Any]
    y: Sequence[tuple[float, float, float]]


def curves(panels: dict[str, list[Line]], x: str, y: str, file: File = None, ax: Axes | None = None) -> Any:
    """Lines of a measure with the spread of their seeds, in a panel for each title; returns the figure.

    Axes are logarithmic where values are positive and differ by more than 3 times. With `ax` the only panel is drawn
    there.
    """
    if ax is not None:
        (lines,) = panels.values()
        _draw_lines(ax, lines, x, y)
        _legend(ax, lines, outside=False)
        return ax.figure
    columns = min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    most = max(map(len, panels.values()))
    width = {1: 6.2, 2: 4.6}.get(columns, 3.9) * columns + 1.9 * math.ceil(most / 22)
    with drawing(file, (width, max(4.2 if rows == 1 else 3.4 * rows, 4))) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True, sharex=True)
        for place, (axes, (title, lines)) in enumerate(zip(grid.flat, panels.items(), strict=False)):
            _draw_lines(axes, lines, x, y)
            axes.set_title(title, fontsize=9)
            axes.label_outer()
            if place + columns >= len(panels):  # nothing stands below it
                axes.set_xlabel(x)
                axes.tick_params(axis="x", labelbottom=True)
        for axes in list(grid.flat)[len(panels) :]:
            axes.remove()
        _legend(figure, max(panels.values(), key=len), outside=True)
    return figure


def _draw_lines(axes: Axes, lines: Sequence[Line], x: str, y: str) -> None:
    numbers = all(isinstance(each, (int, float)) and not isinstance(each, bool) for line in lines for each in line.x)
    names = list(dict.fromkeys(str(each) for line in lines for each in line.x))
    for line, (colour, mark, dash) in zip(lines, _looks([line.label for line in lines]), strict=True):
        places = line.x if numbers else [names.index(str(each)) for each in line.x]
        middle, low, high = zip(*line.y, strict=True)
        style = dash if len(places) > 1 and numbers else ""
        crowded = len(places) > 30 or len(lines) > 20
        size, width = (2.5, 0.8) if crowded else (5, 1.4)
        axes.plot(places, middle, mark, linestyle=style, color=colour, label=line.label, ms=size, linewidth=width)
        if low != high and numbers and len(places) > 1:
            axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
        elif low != high:
            axes.vlines(places, low, high, color=colour, linewidth=1)
    if numbers:
        _scale_sizes(axes, sorted({each for line in lines for each in line.x}))
    else:
        aslant = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if max(map(len, names)) > 7 else {}
        shown = names if len(names) <= 40 else [name if n % 2 == 0 else "" for n, name in enumerate(names)]
        looks = {"fontsize": 8, **aslant} if len(names) < 20 else {"fontsize": 6, "rotation": 90}
        axes.set_xticks(range(len(names)), shown, **looks)
    scale_axis(axes, "y", [value for line in lines for each in line.y for value in each])
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def _scale_sizes(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis with ticks at the values themselves, where they are few and grow by factors."""
    scale_axis(axes, "x", values)
    if axes.get_xscale() == "linear":
        if all(float(value).is_integer() for value in values):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        return
    if len(values) <= 8:
        axes.set_xticks(values, [f"{value:,g}" for value in values], fontsize=8)
        axes.set_xticks([], minor=True)
    elif min(value for value in values if value) >= 1e-3 and values[-1] < 1e6:
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.xaxis.set_minor_formatter(lambda value, _: f"{value:,g}" if f"{value:e}"[0] in "25" else "")


def _looks(labels: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """The colour, mark and dash of each line: those of its precision, or the next ones that no precision has."""
    known = {label: MARKS.get(label.partition(" (")[0]) for label in labels}
    used = {look[0] for look in known.values() if look is not None}
    colours = [colour for colour in COLOURS if colour not in used]
    place = 0
    for label in labels:
        look = known[label]
        if look is not None:
            yield (*look, "-")
        else:
            mark, dash = SHAPES[(len(used) + place) % len(SHAPES)], ("-", "--", ":", "-.")[place // len(colours) % 4]
            yield colours[place % len(colours)], mark, dash
            place += 1


def _legend(on: Any, lines: Sequence[Line], outside: bool) -> None:
    if len(lines) < 2 and not (lines and lines[0].label):
        return
    handles = [each for axes in (on.axes if outside else [on]) for each in axes.get_legend_handles_labels()[0]]
    first = {each.get_label(): each for each in reversed(handles)}
    beside = not outside and len(lines) > _MOST_INSIDE
    options: dict[str, Any] = {"loc": "outside right upper" if outside else "best", "fontsize": 8}
    if len(lines) >= 12:
        options |= {"fontsize": 7, "ncols": math.ceil(len(lines) / 22)}
    if beside:  # in few narrow columns, as high as the axes
        size = 6 if len(lines) > 22 else 7
        rows = on.get_window_extent().height / on.figure.dpi * 72 // (1.3 * size)
        options |= {
            "loc": "upper left",
            "bbox_to_anchor": (1, 1),
            "fontsize": size,
            "ncols": math.ceil(len(lines) / rows),
        }
        options |= {"handlelength": 1, "handletextpad": 0.4, "columnspacing": 0.8, "labelspacing": 0.1, "borderpad": 0}
    shown = [first[line.label] for line in lines]
    legend = on.legend(shown, [line.label for line in lines], **options)
    if beside and on.figure.get_layout_engine() is None:  # nothing else makes room for it
        box, taken = on.get_position(), legend.get_window_extent().transformed(on.figure.transSubfigure.inverted())
        on.set_position((box.x0, box.y0, max(min(box.width, 0.99 - taken.width - box.x0), box.width / 4), box.height))


def scatter(several: dict[str, Pareto], file: File = None) -> Drawing:
    """Points of two measures, in a panel for each title; a line joins the best of a panel."""
    columns = min(len(several), 2)  # three would make labels too small for the width of a page
    rows = math.ceil(len(several) / columns)
    size = (8, 5) if len(several) == 1 else (5.5 * columns, 4 * rows)
    with drawing(file, size) as figure:
        grid = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes, (title, points) in zip(grid, several.items(), strict=False):
            _draw_points(axes, points)
            axes.set_title(title, fontsize=9)
        for axes in grid[len(several) :]:
            axes.remove()
        for axes, points in zip(grid, several.values(), strict=False):
            ordered = [*points.front, *(point for point in points if not point.best)]
            names = _short_labels([point.label for point in ordered])
            place_labels(axes, [(p.x, p.y) for p in ordered], names, _MOST_LABELS)
    return figure


def _short_labels(labels: Sequence[str]) -> list[str]:
    """Labels such as "n=3, fp32_precision=tf32" without the name of the last flag, where all have the same names and
    no other value is text, which would need it."""
    parts = [[each.partition("=") for each in label.split(", ")] for label in labels]
    others = [value for each in parts for _, _, value in each[:-1]]
    if len({tuple(name for name, _, _ in each) for each in parts}) > 1 or not all(map(_is_number, others)):
        return list(labels)
    plain = ("", "True", "False", "None")  # which say nothing without the name of their flag
    last = ["".join(each[-1]) if _is_number(each[-1][2]) or each[-1][2] in plain else each[-1][2] for each in parts]
    return [", ".join([*map("".join, each[:-1]), end]) for each, end in zip(parts, last, strict=True)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _draw_points(axes: Axes, points: Pareto) -> None:
    front = points.front
    axes.plot([p.x for p in front], [p.y for p in front], color=BLUE, linewidth=1, zorder=1)
    axes.scatter([p.x for p in points], [p.y for p in points], c=[BLUE if p.best else GREY for p in points], zorder=2)
    for name, measure, values in zip("xy", points.names, zip(*((p.x, p.y) for p in points), strict=True), strict=False):
        scale_axis(axes, name, values)
        getattr(axes, f"set_{name}label")(measure)
    if axes.get_xscale() == "linear":
        axes.xaxis.set_major_locator(MaxNLocator(4))  # labels such as 0.00018 do not meet in a third of the width
    axes.margins(0.15)


def audit(found: Audit, file: File = None) -> Drawing:
    """Layers by their errors at each precision, and the frontiers; layers that the policy keeps are marked."""
    top = [row["module"] for row in found.layers()[:_MOST_BARS]]
    with drawing(file, (12, 1.6 + 0.24 * max(len(top), 10))) as figure:
        bars, curve = figure.subplots(1, 2, width_ratios=(3, 2))
        names = [("* " if name in found.kept else "") + (name or "(itself)") for name in top]
        for precision, (colour, mark, _) in zip(found.precisions, _looks(found.precisions), strict=True):
            errors = {row["module"]: row["error"] for row in found.layers(precision=precision)}
            places = [place for place, name in enumerate(top) if errors.get(name)]
            bars.plot([errors[top[place]] for place in places], places, mark, color=colour, label=precision)
        bars.set_yticks(range(len(names)), names, fontsize=8)
        bars.set_ylim(len(names) - 0.5, -0.5)
        if len(found.layers()) > len(top):
            bars.set_ylabel(f"the {len(top)} of {len(found.layers())} layers with the largest errors")
        drawn = [error for line in bars.lines for error in line.get_xdata()]
        scale_axis(bars, "x", drawn)
        if not drawn:
            bars.text(0.5, 0.5, "no error is above 0", ha="center", transform=bars.transAxes)
        bars.tick_params(axis="x", which="both", labelsize=8)
        bars.set_xlabel(
            "relative error of the outputs, this layer alone" + ("; * keeps a higher precision" if found.kept else "")
        )
        bars.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(found.precisions))
        _draw_frontiers(curve, [found.frontier(product=each) for each in found.products])
    return figure


def frontier(points: Frontier, file: File = None) -> Drawing:
    """The predicted curve, and the points that were measured."""
    with drawing(file, (7, 4.5)) as figure:
        _draw_frontiers(figure.add_subplot(), [points])
    return figure


def _draw_frontiers(axes: Axes, several: Sequence[Frontier]) -> None:
    for points, colour in zip(several, (BLUE, ORANGE, "#009E73"), strict=False):
        places = [point.share if point.milliseconds is None else point.milliseconds for point in points]
        measured = [(x, p.measured) for x, p in zip(places, points, strict=True) if p.measured is not None]
        label = f"{points.product}: error of {points.subject}"
        axes.plot(places, [p.predicted for p in points], color=colour, label=label)
        axes.plot(*zip(*measured, strict=True), "o", color=colour, clip_on=False, zorder=3)
    axes.plot([], [], "o", color=INK, label="measured")
    axes.set_ylabel("relative error")
    if several[0].device:
        axes.set_xlabel(f"milliseconds of products on {several[0].device}, at least")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
        axes.tick_params(axis="x", labelsize=7)
    else:
        axes.set_xlabel(f"share of the product's operations at {several[0].precision}")
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
