"""One self-contained HTML page of a sweep."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .columns import MOST_PANELS
from .pages import Picture, Section, Table, draw_picture, write_page

if TYPE_CHECKING:
    from .sweeps import Sweep


def write(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Write the curves, the costs beside errors, medians by parameters and flags, failures, and the machines."""
    sections = []
    if pictures := [*_curves(sweep)]:
        sections.append(Section("Error", pictures))
    if pictures := [*_costs(sweep)]:
        sections.append(Section("Cost and error of each setting", pictures))
    names = sweep.parameters()
    head, *lines = sweep.cells()
    sections.append(Section("Medians", [Table("", head, lines, names=len(names) + 1)]))
    failed = [row for row in sweep.rows if row["exception"] is not None]
    if failed:
        columns = (*names, "flags", "seed", "exception")
        cells = [tuple(str(row[name]) for name in columns) for row in failed]
        sections.append(Section("Failures", [Table("", columns, cells, names=len(columns))]))
    where = sorted({f"{row['host']}: {row['cpu']}, {row['capability']}" for row in sweep.rows if "host" in row})
    write_page(path, f"Sweep of {sweep.name}", "; ".join([f"{len(sweep)} rows", *where]), sections)


def _curves(sweep: Sweep) -> Iterator[Picture]:
    if not any(row.get("error") is not None for row in sweep.rows) or not (
        sweep.parameters() or sweep.rows[0]["flags"]
    ):
        return
    from .plots import curves

    x, panels = sweep.panels(None, "error", None, "quantiles")
    caption = f"error over {x}: medians over seeds, and their middle half"
    for part in _parts(panels):
        yield draw_picture(functools.partial(curves, part, x, "error"), caption)


def _costs(sweep: Sweep) -> Iterator[Picture]:
    if not any({"seconds", "error"} <= row.keys() for row in sweep.rows):
        return
    from .plots import scatter

    caption = "error against seconds, medians over seeds; blue settings are on the Pareto front of their size"
    for part in _parts(sweep.pareto().by_parameters()):
        yield draw_picture(functools.partial(scatter, part), caption)


def _parts(panels: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The panels of each picture."""
    names = list(panels)
    for first in range(0, len(names), MOST_PANELS):
        yield {name: panels[name] for name in names[first : first + MOST_PANELS]}
