"""Docstrings as Markdown: code stays code, lists of arguments become lists, and nothing else is marked up."""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
from typing import Any

__all__ = ["markdown", "signature"]

_SECTION = re.compile(r"^(Arguments|Attributes|Fields|Keywords|Parameters|Returns|Raises):$")
_ITEM = re.compile(r"^ {4}(\S[^:]*): (.*)$")


def markdown(docstring: str) -> str:
    """The text of a docstring, cleaned by `inspect.getdoc`, as Markdown."""
    lines: list[str] = []
    for block in _blocks(docstring.splitlines()):
        lines += [*_of_block(block), ""]
    return "\n".join(lines).strip()


def _blocks(lines: list[str]) -> list[list[str]]:
    """Paragraphs; indented ones that follow each other without a line of prose between them stay together."""
    blocks: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            blocks[-1].append(line.rstrip())
        elif blocks[-1]:
            blocks.append([])
    joined: list[list[str]] = []
    for block in filter(None, blocks):
        if joined and _indent(block) and (_indent(joined[-1]) or _SECTION.match(joined[-1][0])):
            joined[-1] += ["", *block]
        else:
            joined.append(block)
    return joined


def _indent(block: list[str]) -> bool:
    return all(line.startswith("  ") for line in block if line)


def _of_block(block: list[str]) -> list[str]:
    if _SECTION.match(block[0]):
        return [f"**{block[0][:-1]}**", "", *_items(block[1:])]
    if _indent(block):
        return _code(textwrap.dedent("\n".join(block)))
    return [_escape(line) for line in block]


def _items(lines: list[str]) -> list[str]:
    """The lines `    name: text` of a section as a list."""
    found: list[str] = []
    for line in lines:
        item = _ITEM.match(line)
        if item:
            names = ", ".join(f"`{name.strip('`* ')}`" for name in item[1].split(","))
            found.append(f"* {names}: {_escape(item[2])}")
        else:
            found.append(f"  {_escape(line.strip())}" if line.strip() else "")
    return found


def _code(text: str) -> list[str]:
    try:
        ast.parse(text)
    except SyntaxError:
        return ["```text", *text.splitlines(), "```"]
    return ["```python", *text.splitlines(), "```"]


def _escape(line: str) -> str:
    """Prose in which only `code` is marked up, and lists that begin with "* " or "- "."""
    start = re.match(r"^\s*(?:[*-] )?", line)
    begin, rest = line[: start.end()], line[start.end() :]  # type: ignore[union-attr]
    parts = re.split(r"(`[^`]*`)", rest)
    plain = (part if part.startswith("`") else re.sub(r"([*_<>\[\]$#|~{}])", r"\\\1", part) for part in parts)
    return begin + "".join(plain)


def signature(found: Any, skip_first: bool = False) -> str:
    """The parameters of a callable, with their defaults and without types, and what it returns."""
    try:
        parameters = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):
        return "(...)"
    shown = [each.replace(annotation=each.empty, default=_default(each)) for each in parameters[int(skip_first) :]]
    try:
        text = str(inspect.Signature(shown))
    except ValueError:  # the first parameter was positional-only
        return "(...)"
    return text if len(text) < 400 else "(...)"


class _Shown:
    """A default that has no literal, by its name."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _default(parameter: inspect.Parameter) -> Any:
    value = parameter.default
    if value is parameter.empty or isinstance(value, (bool, int, float, str, type(None))):
        return _Shown("inf") if value == math.inf else value
    text = repr(value)
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return _Shown(getattr(value, "__name__", "..."))
    return _Shown(text.replace("minitorch_backends.", "mt."))
