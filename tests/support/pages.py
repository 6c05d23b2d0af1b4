"""Pages of Markdown whose Python runs: their programs, the output that they show, and how the two are compared."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

_MARK = "\x1e"
"""Printed at the end of each block."""

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+)(?!\w|\.\w)")
"""A number that arithmetic gave; whole numbers are counts, and compared as they are."""

_FACTOR = 1.6
"""Between a number that is shown and one that is printed: kernels of other CPUs sum in another order."""


class Page(NamedTuple):
    """A page.

    Attributes:
        program: its Python blocks, at their own line numbers; the end of each prints a mark.
        shown: for each block the output that the page shows after it in a block of text, or None.
        requires: modules that the page needs, from `requires:` in its first lines.
    """

    program: str
    shown: list[str | None]
    requires: list[str]

    def shows_numbers(self) -> bool:
        """Whether its output has numbers that arithmetic gave, which could depend on the CPU."""
        return any(_NUMBER.search(each) for each in self.shown if each is not None)

    def differences(self, printed: str) -> list[str]:
        """In words, where the output that is shown is not what was printed; "..." stands for any lines."""
        outputs = printed.split(f"{_MARK}\n")
        return [
            f"the page shows\n{shown}\nand this was printed:\n{output}"
            for shown, output in zip(self.shown, outputs, strict=False)
            if shown is not None and not _agree(shown, output)
        ]


def read(path: Path) -> Page:
    """The page in a file."""
    source = path.read_text(encoding="utf-8")
    lines: list[str] = []
    shown: list[str | None] = []
    language: str | None = None
    text: list[str] = []
    follows = False
    for line in source.splitlines():
        fence = line.startswith("```")
        lines.append(line if language == "python" and not fence else "")
        if not fence:
            text.append(line)
        elif language is None:  # a block begins
            follows, language, text = not any(text), line[3:], []
        else:
            if language == "python":
                lines[-1] = f"print({_MARK!r})"
                shown.append(None)
            elif language == "text" and follows and shown:
                shown[-1] = "\n".join(text)
            language, text = None, []
    head = re.match(r"---\nrequires: (.*)\n---\n", source)
    return Page("\n".join(lines), shown, head[1].split(", ") if head else [])


def _agree(shown: str, printed: str) -> bool:
    """Whether all lines that are shown were printed, in order, numbers within a factor."""
    printed_lines, place, anywhere = [line.rstrip() for line in printed.splitlines()], 0, False
    for line in shown.splitlines():
        if line.strip() == "...":
            anywhere = True
            continue
        found = [n for n, other in enumerate(printed_lines[place:], place) if _line_agrees(line.rstrip(), other)]
        if not found or (found[0] != place and not anywhere):
            return False
        place, anywhere = found[0] + 1, False
    return anywhere or place == len(printed_lines)


def _line_agrees(shown: str, printed: str) -> bool:
    if " ".join(_NUMBER.sub("#", shown).split()) != " ".join(_NUMBER.sub("#", printed).split()):
        return False
    pairs = zip(map(float, _NUMBER.findall(shown)), map(float, _NUMBER.findall(printed)), strict=True)
    return all(a == b or (a * b > 0 and 1 / _FACTOR <= a / b <= _FACTOR) for a, b in pairs)
