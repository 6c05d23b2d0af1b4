"""Results as HTML for notebooks, in the colours of the page around them, light or dark."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import repeat

_MOST_ROWS = 60
"""Rows of a table in a notebook; a line below it counts the others."""


class Lines(str):
    """Text whose lines stay lines: a program, or its output."""


_NUMBER = re.compile(r"-?[0-9.,]+(e[+-][0-9]+)?%?")
_EXPONENT = re.compile(r"[0-9.]+e[+-][0-9]+")
"""Numbers, alone and within text, which browsers would otherwise break after the sign of the exponent."""


class Rows(list[Sequence[str]]):
    """A table: its head, then its rows.

    Attributes:
        names: the number of first columns that are names, aligned left.
        tip, tips: the column whose cells have tooltips, and the tooltip of each row.
    """

    def __init__(self, rows: Iterable[Sequence[str]], names: int = 1, tip: int = 0, tips: Iterable[str] = ()) -> None:
        super().__init__(rows)
        self.names, self.tip, self.tips = names, tip, tips or repeat("")

    def html(self) -> str:
        head, *rows = self
        more = len(rows) - _MOST_ROWS
        lines = (self._line("td", row, tip) for row, tip in zip(rows[:_MOST_ROWS], self.tips, strict=False))
        below = f"<p>and {more} more rows</p>" if more > 0 else ""
        return f"<table><thead>{self._line('th', head)}</thead><tbody>{''.join(lines)}</tbody></table>{below}"

    def _line(self, tag: str, row: Sequence[str], tip: str = "") -> str:
        openings = [f'{tag} class="name"' if place < self.names else tag for place in range(len(row))]
        texts = [*map(escape, row)]
        for place in range(self.names, len(row)):
            if _NUMBER.fullmatch(row[place]):
                openings[place] += ' class="number"'
            else:
                texts[place] = _EXPONENT.sub(r'<span class="number">\g<0></span>', texts[place])
        if tip:
            openings[self.tip] += f' title="{escape(tip)}"'
        cells = (f"<{opening}>{text}</{tag}>" for opening, text in zip(openings, texts, strict=True))
        return f"<tr>{''.join(cells)}</tr>"


def as_html(*parts: str | Lines | Rows) -> str:
    """Paragraphs, lines and tables as one element, with its style."""
    found = [f"<style>{resource('notebook.css')}</style>"]
    for part in parts:
        tag = "pre" if isinstance(part, Lines) else "p"
        found.append(part.html() if isinstance(part, Rows) else f"<{tag}>{escape(part)}</{tag}>")
    return f'<div class="minitorch">{"".join(found)}</div>'


@functools.cache
def resource(name: str) -> str:
    """The text of a file beside this module."""
    from importlib.resources import files

    return files(__package__).joinpath(name).read_text(encoding="utf-8")
