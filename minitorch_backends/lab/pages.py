"""Self-contained HTML pages: one style; paragraphs, tables, pictures as data URIs. A page loads nothing else."""

from __future__ import annotations

import base64
import io
import os
import string
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

from ..display.html import resource
from ..kernels.runtime.files import write_file


class Table(NamedTuple):
    """Cells are text. The first `names` columns are names, aligned left; the others are values, aligned right.

    An empty row is a rule between groups of rows. Without columns' names, the first column describes the others.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    names: int = 1

    def without_empty_columns(self) -> Table:
        """The table without columns of values in which no row has one, as those of a library that is not installed."""
        columns = range(len(self.columns))
        kept = [c for c in columns if c < self.names or any(row and row[c] for row in self.rows)]
        rows = [tuple(row[c] for c in kept) if row else () for row in self.rows]
        return Table(self.title, tuple(self.columns[c] for c in kept), rows, self.names)

    def html(self) -> str:
        is_list = not any(self.columns)
        head = "" if is_list else f"<thead><tr>{self._cells('th', self.columns)}</tr></thead>"
        rows, opening = [], "<tr>"
        for row in self.rows:
            if row:
                rows.append(f"{opening}{self._cells('td', row)}</tr>")
            opening = "<tr>" if row else '<tr class="rule">'
        title = f"<h3>{escape(self.title)}</h3>\n" if self.title else ""
        opening = '<table class="list">' if is_list else "<table>"
        body = "\n".join(rows)
        return f'{title}<div class="wide">{opening}{head}\n<tbody>\n{body}\n</tbody></table></div>'

    def _cells(self, tag: str, cells: Iterable[str]) -> str:
        opening = [f'<{tag} class="name">'] * self.names + [f"<{tag}>"] * (len(self.columns) - self.names)
        texts: Iterable[str] = map(escape, cells)
        if tag == "th":  # lines of a heading break after the underscores of a name
            texts = (text.replace("_", "_<wbr>") for text in texts)
        return "".join(f"{start}{text}</{tag}>" for start, text in zip(opening, texts, strict=True))


class Picture(NamedTuple):
    """The content of a PNG file, and what it shows."""

    png: bytes
    caption: str

    def html(self) -> str:
        data, caption = base64.b64encode(self.png).decode("ascii"), escape(self.caption)
        image = f'<div class="wide"><img alt="{caption}" src="data:image/png;base64,{data}"></div>'
        return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"


class Code(str):
    """Lines of a program, or of its output."""

    def html(self) -> str:
        return f"<pre>{escape(self)}</pre>"


class Soft(str):
    """A paragraph of lesser weight."""

    def html(self) -> str:
        return f'<p class="soft">{escape(self)}</p>'


class Markup(str):
    """HTML as it is."""

    def html(self) -> str:
        return str(self)


Part = str | Table | Picture | Code | Soft | Markup
"""Plain text is a paragraph."""


class Section(NamedTuple):
    """A part of a page under a heading, to which the head of the page links by `name`; without a title, its opening."""

    title: str
    parts: Iterable[Part]
    name: str = ""

    def html(self) -> str:
        anchor = f' id="{escape(self.name)}"' if self.name else ""
        head = [f"<h2{anchor}>{escape(self.title)}</h2>"] if self.title else []
        parts = (f"<p>{escape(part)}</p>" if type(part) is str else part.html() for part in self.parts)  # type: ignore[union-attr]
        return "\n".join([*head, *parts])


def write_page(
    path: str | os.PathLike[str], title: str, subtitle: str, sections: Iterable[Section], *, style: str = "",
    width: str = "64rem",
) -> None:  # fmt: skip
    """Write a page. Its head links to the sections that have a name; `style` is a file of more rules of CSS."""
    sections = list(sections)
    links = "".join(f'<a href="#{escape(each.name)}">{escape(each.title)}</a>' for each in sections if each.name)
    page = string.Template(resource("page.html")).substitute(
        title=escape(title),
        subtitle=escape(subtitle),
        links=f"<nav>{links}</nav>" if links else "",
        body="\n".join(section.html() for section in sections),
        style=resource("page.css") + (resource(style) if style else ""),
        width=width,
    )
    write_file(path, page)


def draw_picture(draw: Callable[[Any], Any], caption: str) -> Picture:
    """The picture that a function of `lab.plots` writes to the file that it is given."""
    buffer = io.BytesIO()
    draw(buffer)
    return Picture(buffer.getvalue(), caption)
