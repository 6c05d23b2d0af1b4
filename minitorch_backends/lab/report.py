"""One self-contained HTML page of a sweep."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from .pages import picture, table, write_page

if TYPE_CHECKING:
    from .sweeps import Sweep

__all__ = ["write"]


def write(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Write the Pareto picture, medians by parameters and flags, failures, and the machines."""
    body = []
    points = sweep.pareto() if sweep.rows and "seconds" in sweep.rows[0] else None
    if points:
        from .plots import scatter

        buffer = io.BytesIO()
        scatter(points, buffer)  # type: ignore[arg-type]
        caption = f"{points.names[1]} against {points.names[0]}, medians; blue settings are on the Pareto front"
        body += ["<h2>Cost and error of each setting</h2>", picture(buffer.getvalue(), caption)]
    head, *lines = sweep.cells()
    body += ["<h2>Medians</h2>", table(head, lines)]
    failed = [row for row in sweep.rows if row["exception"] is not None]
    if failed:
        names = [*sweep.parameters(), "flags", "seed", "exception"]
        body += ["<h2>Failures</h2>", table(names, [[str(row[name]) for name in names] for row in failed])]
    where = sorted({f"{row['host']}: {row['cpu']}, {row['capability']}" for row in sweep.rows if "host" in row})
    write_page(path, f"Sweep of {sweep.name}", f"{len(sweep)} rows; {'; '.join(where)}", body)
