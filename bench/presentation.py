"""How a part presents what it measured: cells of tables, paragraphs, pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from minitorch_backends.display.figures import drawing
from minitorch_backends.lab.pages import Table  # noqa: F401 (for the parts)


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text that empty lines divide, each as one line."""
    return [" ".join(block.split()) for block in text.strip().split("\n\n")]


class Plot(NamedTuple):
    """One picture: the name of its file, what it shows in a sentence, its size, how a part's result is drawn, and
    whether there is something to draw.
    """

    name: str
    caption: str
    size: tuple[float, float]
    draw: Callable[[Figure, Any], None]
    shows: Callable[[Any], bool] = lambda result: True


def plot(name: str, caption: str, size: tuple[float, float], *shows: Callable[[Any], bool]) -> Callable[..., Plot]:
    """Decorate the function that draws a picture: the `Plot` takes its place."""
    return lambda draw: Plot(name, caption, size, draw, *shows)


def draw(plot: Plot, result: Any, folder: Path) -> Path:
    """Draw a plot into `folder`, and return the path of the picture."""
    path = folder / f"{plot.name}.png"
    with drawing(path, plot.size) as figure:
        plot.draw(figure, result)
    return path


def seconds(value: float | None) -> str:
    """A duration with three digits and its unit."""
    if value is None:
        return ""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1:
            return f"{number(value * factor)} {unit}"
    return f"{number(value * 1e9)} ns"


def number(value: float | None) -> str:
    """A positive number near one, with three digits where it has fewer before the point."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value < 1 else f"{value:.{2 if value < 10 else 1}f}"


def error(value: float | None) -> str:
    """A number of any size, with three digits."""
    return "" if value is None else "0" if value == 0 else f"{value:.2e}"


def ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f} %"


def show_names(axes: Axes, names: list[str]) -> None:
    """An axis of names, aslant where they are long."""
    aslant = {"rotation": 35, "ha": "right", "rotation_mode": "anchor", "fontsize": 9}
    axes.set_xticks(range(len(names)), names, **(aslant if max(map(len, names)) > 9 else {}))
    axes.margins(x=0.08)
