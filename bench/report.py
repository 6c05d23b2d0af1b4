"""One HTML file with everything: sentences, tables, plots as data URIs, the environment. It loads nothing else."""

from __future__ import annotations

import base64
import string
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import NamedTuple

from .tables import Table

__all__ = ["Picture", "Section", "write"]


class Picture(NamedTuple):
    """A PNG file and what it shows."""

    path: Path
    caption: str


class Section(NamedTuple):
    """One part of the report."""

    name: str
    title: str
    sentences: list[str]
    tables: list[Table]
    pictures: list[Picture]


_PAGE = string.Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
  :root { --ink: #1d2129; --soft: #5b6472; --line: #dfe3e8; --band: #f6f7f9; --accent: #0072b2; }
  * { box-sizing: border-box; }
  body { margin: 0; color: var(--ink); background: #fff; font: 16px/1.55 system-ui, "Segoe UI", sans-serif; }
  header { background: var(--band); border-bottom: 1px solid var(--line); }
  header > div, main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1.25rem; }
  h1 { margin: 0 0 .25rem; font-size: 1.7rem; line-height: 1.25; }
  h2 { margin: 2.75rem 0 .5rem; padding-top: .5rem; font-size: 1.35rem; border-top: 3px solid var(--accent); }
  h3 { margin: 1.75rem 0 .5rem; font-size: 1rem; }
  p { margin: .5rem 0; max-width: 48rem; }
  .soft { color: var(--soft); font-size: .9rem; }
  nav a { margin-right: 1.1rem; color: var(--accent); text-decoration: none; }
  nav a:hover { text-decoration: underline; }
  figure { margin: 1.5rem 0; }
  figure img { display: block; width: 100%; height: auto; padding: .5rem; }
  figure img { border: 1px solid var(--line); border-radius: 6px; }
  figcaption { margin-top: .4rem; color: var(--soft); font-size: .9rem; }
  .wide { overflow-x: auto; }
  table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
  th, td { padding: .3rem .75rem; text-align: right; vertical-align: top; white-space: nowrap; }
  th { border-bottom: 2px solid var(--line); vertical-align: bottom; font-weight: 600; }
  td { border-bottom: 1px solid var(--line); }
  tr.rule td { border-top: 2px solid #aab1bb; }
  .name { text-align: left; }
  .facts td { white-space: normal; }
  .facts td:first-child { white-space: nowrap; font-weight: 600; }
  @media print { h2 { break-after: avoid; } figure, table { break-inside: avoid; } }
</style>
</head>
<body>
<header><div>
<h1>$title</h1>
<p class="soft">$subtitle</p>
<nav>$links</nav>
</div></header>
<main>
$body
</main>
</body>
</html>
""")


def write(path: Path, title: str, subtitle: str, sections: Iterable[Section]) -> None:
    """Write the report. Pictures are embedded, so that the file can be sent and kept by itself."""
    sections = list(sections)
    links = "".join(f'<a href="#{escape(section.name)}">{escape(section.title)}</a>' for section in sections)
    body = "\n".join(map(_section, sections))
    page = _PAGE.substitute(title=escape(title), subtitle=escape(subtitle), links=links, body=body)
    path.write_text(page, encoding="utf-8")


def _section(section: Section) -> str:
    parts = [f'<h2 id="{escape(section.name)}">{escape(section.title)}</h2>']
    parts += [f"<p>{escape(sentence)}</p>" for sentence in section.sentences]
    parts += map(_picture, section.pictures)
    parts += map(_table, section.tables)
    return "\n".join(parts)


def _picture(picture: Picture) -> str:
    data = base64.b64encode(picture.path.read_bytes()).decode("ascii")
    caption = escape(picture.caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}"><figcaption>{caption}</figcaption></figure>'
    )


def _table(table: Table) -> str:
    facts = not any(table.columns)
    head = "" if facts else f"<thead><tr>{_cells('th', table.columns, table)}</tr></thead>"
    rows, opening = [], "<tr>"
    for row in table.rows:
        if row:
            rows.append(f"{opening}{_cells('td', row, table)}</tr>")
        opening = "<tr>" if row else '<tr class="rule">'
    opening = '<table class="facts">' if facts else "<table>"
    body = "\n".join(rows)
    return f'<h3>{escape(table.title)}</h3>\n<div class="wide">{opening}{head}\n<tbody>\n{body}\n</tbody></table></div>'


def _cells(tag: str, cells: Iterable[str], table: Table) -> str:
    return "".join(
        f'<{tag} class="name">{escape(cell)}</{tag}>' if position < table.names else f"<{tag}>{escape(cell)}</{tag}>"
        for position, cell in enumerate(cells)
    )
