"""One self-contained HTML page of a sweep."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from .pages import Section, Table, draw_picture, write_page

if TYPE_CHECKING:
    from .sweeps import Sweep


def write(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Write the Pareto picture, medians by parameters and flags, failures, and the machines."""
    sections = []
    points = sweep.pareto() if sweep.rows and "seconds" in sweep.rows[0] else None
    if points:
        from .plots import scatter

        caption = f"{points.names[1]} against {points.names[0]}, medians; blue settings are on the Pareto front"
        picture = draw_picture(functools.partial(scatter, points), caption)
        sections.append(Section("Cost and error of each setting", [picture]))
    names = sweep.parameters()
    head, *lines = sweep.cells()
    sections.append(Section("Medians", [Table("", head, lines, names=len(names) + 1)]))
    failed = [row for row in sweep.rows if row["exception"] is not None]
    if failed:
        columns = (*names, "flags", "seed", "exception")
        cells = [tuple(str(row[name]) for name in columns) for row in failed]
        sections.append(Section("Failures", [Table("", columns, cells, names=len(columns))]))
    where = sorted({f"{row['host']}: {row['cpu']}, {row['capability']}" for row in sweep.rows if "host" in row})
    write_page(path, f"Sweep of {sweep.name}", f"{len(sweep)} rows; {'; '.join(where)}", sections)
