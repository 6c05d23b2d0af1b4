"""One self-contained HTML page of a sweep."""

from __future__ import annotations

import base64
import io
import os
import string
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .sweeps import Sweep

__all__ = ["write"]

_PAGE = string.Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
  body { max-width: 64rem; margin: 2rem auto; padding: 0 1.25rem; color: #1d2129;
         font: 16px/1.55 system-ui, "Segoe UI", sans-serif; }
  h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; font-size: 1.2rem; }
  img { max-width: 100%; border: 1px solid #dfe3e8; border-radius: 6px; }
  .wide { overflow-x: auto; }
  table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
  th, td { padding: .3rem .75rem; border-bottom: 1px solid #dfe3e8; text-align: left; white-space: nowrap; }
  .soft { color: #5b6472; font-size: .9rem; }
</style>
</head>
<body>
<h1>$title</h1>
<p class="soft">$subtitle</p>
$body
</body>
</html>
""")


def write(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """The Pareto picture, medians by parameters and flags, failures, and where it ran."""
    body = []
    points = sweep.pareto() if sweep.rows and "seconds" in sweep.rows[0] else None
    if points:
        from .plots import scatter

        buffer = io.BytesIO()
        scatter(points, buffer)  # type: ignore[arg-type]
        data = base64.b64encode(buffer.getvalue()).decode()
        caption = f"{points.names[1]} against {points.names[0]}, medians; blue is what no other setting beats in both"
        body.append(
            f'<h2>What each setting costs and gives</h2><img alt="{caption}" src="data:image/png;base64,{data}">'
        )
        body.append(f'<p class="soft">{escape(caption)}</p>')
    head, *lines = sweep.cells()
    body += ["<h2>Medians</h2>", _table(head, lines)]
    failed = [row for row in sweep.rows if row["exception"] is not None]
    if failed:
        names = [*sweep.parameters(), "flags", "seed", "exception"]
        body += ["<h2>Failures</h2>", _table(names, [[str(row[name]) for name in names] for row in failed])]
    where = sorted({f"{row['host']}: {row['cpu']}, {row['capability']}" for row in sweep.rows if "host" in row})
    subtitle = f"{len(sweep)} rows; {'; '.join(where)}"
    page = _PAGE.substitute(title=escape(f"Sweep of {sweep.name}"), subtitle=escape(subtitle), body="\n".join(body))
    Path(path).write_text(page, encoding="utf-8")


def _table(head: list[str] | tuple[str, ...], rows: list) -> str:
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f'<div class="wide"><table><tr>{names}</tr>{"".join(f"<tr>{line}</tr>" for line in lines)}</table></div>'
