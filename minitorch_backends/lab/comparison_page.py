"""One self-contained HTML page of two runs: a line for each call, bars of errors, and filters."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

from ..display.html import resource
from ..explain.records import as_text, as_words
from .divergence import FACTOR, find_divergence
from .pages import Markup, Section, Soft, Table, write_page

if TYPE_CHECKING:
    from .comparison import Comparison

_LEAST, _MOST = -8, 0
"""Powers of ten at which a bar is empty, and full."""

_HEAD = ("a", "b", "status", "error", "", "module", "kernel", "shapes", "direction", "precision", "implementation",
         "ms a", "ms b", "also changed")  # fmt: skip


def write(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write the page: differences of the runs as a whole, the filters, and the calls in order."""
    counts = ", ".join(f"{count} {status}" for status, count in comparison.counts().items())
    settings = [(name, str(a), str(b)) for name, (a, b) in comparison.settings().items()]
    sections = [Section("Settings that differ", [Table("", ("", "a", "b"), settings, names=3)])] if settings else []
    calls = [_filters(comparison.calls), _calls(comparison), f"<script>\n{resource('comparison.js')}</script>"]
    first, skipped = find_divergence(comparison.calls, FACTOR)
    found = f"The first that differs: {first}." if first else "No result differs by more than the precisions explain."
    soft = [Soft(f"Skipped, since the runs compute them by different kernels: {skipped}")] if skipped else []
    sections.insert(0, Section("Where the runs part", [found, *comparison.remarks(), *soft]))
    sections.append(Section("Calls", [_legend(comparison), *map(Markup, calls)]))
    title = f"{comparison.first.path.name} and {comparison.second.path.name}"
    write_page(path, title, f"a: {comparison.first.path}, b: {comparison.second.path}; {counts}", sections,
               style="comparison.css", width="none")  # fmt: skip


def _legend(comparison: Comparison) -> Soft:
    sources = {row["error_from"] for row in comparison.calls if row["status"] == "differs"}
    how = "estimated from sketches, to about 6 %" if "sketch" in sources else "of the values"
    text = (
        f"Errors are relative to a in the Frobenius norm, {how}; bars range from "
        f"1e\N{NON-BREAKING HYPHEN}{-_LEAST} to 1, and are red beyond."
    )
    if sources <= {"hash"}:
        text = "The runs hold hashes only, which detect differences but not their size."
    return Soft(text)


def _filters(calls: list[dict[str, Any]]) -> str:
    modules = sorted({prefix for row in calls for prefix in _prefixes(row["module"])})
    kernels, directions = ([*dict.fromkeys(row[name] for row in calls)] for name in ("kernel", "direction"))
    status = [
        ("", "all"),
        ("any", "any difference"),
        *((each, each) for each in ("differs", "inserted", "removed", "same")),
    ]
    parts = [
        _choice("module", [("", "all"), *((name, name) for name in modules)]),
        _choice("kernel", [("", "all"), *((name, name) for name in kernels)]),
        _choice("direction", [("", "both"), *((name, name) for name in directions)]),
        _choice("status", status),
        _choice("order", [("calls", "of calls"), ("worst", "worst first")]),
        '<label>text <input name="text" type="search"></label> <span class="soft" id="shown"></span>',
    ]
    return f"<form>{''.join(parts)}</form>"


def _prefixes(module: str | None) -> Iterable[str]:
    """A module and the modules that contain it."""
    parts = module.split(".") if module else []
    return (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def _choice(name: str, options: Iterable[tuple[str, str]]) -> str:
    listed = "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in options)
    return f'<label>{name} <select name="{name}">{listed}</select></label>'


def _calls(comparison: Comparison) -> str:
    ranks = {(row["a"], row["b"]): rank for rank, row in enumerate(comparison.rows)}
    lines = (_line(row, ranks[row["a"], row["b"]]) for row in comparison.calls)
    head = "".join(f"<th>{name}</th>" for name in _HEAD)
    return (
        f'<div class="wide"><table id="calls"><thead><tr>{head}</tr></thead><tbody>\n'
        + "\n".join(lines)
        + "\n</tbody></table></div>"
    )


def _line(row: dict[str, Any], rank: int) -> str:
    data = {"module": row["module"] or "", "rank": rank} | {
        name: row[name] for name in ("kernel", "direction", "status")
    }
    attributes = "".join(f' data-{name}="{escape(str(value))}"' for name, value in data.items())
    others = [
        f"{name}: {as_words(row[f'{name}_a'])} → {as_words(row[f'{name}_b'])}"
        for name in ("dtypes", "options")
        if name in row["changed"]
    ]
    cells = [
        _number("" if row["a"] is None else str(row["a"])),
        _number("" if row["b"] is None else str(row["b"])),
        _cell(row["status"]),
        _number("" if row["error"] is None or row["status"] == "same" else f"{row['error']:.2e}"),
        f'<td class="bar">{_bar(row["error"])}</td>',
        _cell(row["module"] or ""),
        _cell(row["kernel"]),
        f'<td class="shapes">{escape(as_text(row["shapes"]))}</td>',
        _cell(row["direction"]),
        _cell(_both(row, "precision"), _both(row, "decided_by")),
        _cell(_both(row, "implementation")),
        *(_number("" if row[f"seconds_{side}"] is None else f"{row[f'seconds_{side}'] * 1e3:.3f}") for side in "ab"),
        _cell("; ".join(others)),
    ]
    return f'<tr class="{row["status"]}"{attributes}>{"".join(cells)}</tr>'


def _bar(error: float | None) -> str:
    if not error:
        return ""
    power = math.inf if error == math.inf else math.log10(error)
    width = min(max((power - _LEAST) / (_MOST - _LEAST), 0.01), 1.0)
    return f'<i style="width:{100 * width:.0f}%"{" class=infinite" if power > _MOST else ""}></i>'


def _both(row: dict[str, Any], name: str) -> str:
    values = dict.fromkeys(str(row[f"{name}_{side}"]) for side in "ab" if row[f"{name}_{side}"] is not None)
    return " → ".join(values)


def _cell(text: str, tip: str = "") -> str:
    return f'<td title="{escape(tip)}">{escape(text)}</td>' if tip else f"<td>{escape(text)}</td>"


def _number(text: str) -> str:
    return f'<td class="number">{text}</td>'
