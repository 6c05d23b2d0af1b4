"""Self-contained HTML pages: one style, tables, pictures as data URIs. A page loads nothing else."""

from __future__ import annotations

import base64
import os
import string
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

__all__ = ["picture", "table", "write_page"]

_PAGE = string.Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
  body { max-width: $width; margin: 2rem auto; padding: 0 1.25rem; color: #1d2129;
         font: 16px/1.55 system-ui, "Segoe UI", sans-serif; }
  h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; font-size: 1.2rem; }
  img { max-width: 100%; border: 1px solid #dfe3e8; border-radius: 6px; }
  .wide { overflow-x: auto; }
  table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
  th, td { padding: .3rem .75rem; border-bottom: 1px solid #dfe3e8; text-align: left; white-space: nowrap; }
  .soft { color: #5b6472; font-size: .9rem; }
$style</style>
</head>
<body>
<h1>$title</h1>
<p class="soft">$subtitle</p>
$body
</body>
</html>
""")


def write_page(
    path: str | os.PathLike[str],
    title: str,
    subtitle: str,
    body: Iterable[str],
    *,
    style: str = "",
    width: str = "64rem",
) -> None:
    """Write a page. `title` and `subtitle` are text, the parts of the body HTML, `style` additional CSS rules."""
    page = _PAGE.substitute(
        title=escape(title), subtitle=escape(subtitle), body="\n".join(body), style=style, width=width
    )
    Path(path).write_text(page, encoding="utf-8")


def table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of text."""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f'<div class="wide"><table><tr>{names}</tr>{"".join(f"<tr>{line}</tr>" for line in lines)}</table></div>'


def picture(png: bytes, caption: str) -> str:
    """A picture with its caption below."""
    data = base64.b64encode(png).decode("ascii")
    return f'<img alt="{escape(caption)}" src="data:image/png;base64,{data}">\n<p class="soft">{escape(caption)}</p>'
