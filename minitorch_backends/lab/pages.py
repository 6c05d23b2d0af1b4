"""Self-contained HTML pages of sweeps, audits and comparisons: one style; paragraphs, tables, pictures as data URIs. A
page loads nothing else."""

from __future__ import annotations

import base64
import functools
import io
import math
import os
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from ..display.html import resource
from ..explain.records import as_text, as_words
from ..kernels.runtime.files import write_file
from .columns import MOST_PANELS
from .divergence import FACTOR, find_divergence
from .machine import machine

if TYPE_CHECKING:
    from .audits import Audit
    from .comparison import Comparison
    from .sweeps import Sweep


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


def write_sweep(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Write the curves, the costs beside errors, medians by parameters and flags, failures, and the machines."""
    sections = []
    if pictures := [*_curves(sweep)]:
        sections.append(Section("Error", pictures))
    if pictures := [*_costs(sweep)]:
        sections.append(Section("Cost and error of each setting", pictures))
    names = sweep.parameters()
    head, *lines = sweep.cells()
    sections.append(Section("Medians", [Table("", head, lines, names=len(names) + 1)]))
    failed = [row for row in sweep.rows if row["exception"] is not None]
    if failed:
        columns = (*names, "flags", "seed", "exception")
        cells = [tuple(str(row[name]) for name in columns) for row in failed]
        sections.append(Section("Failures", [Table("", columns, cells, names=len(columns))]))
    where = sorted({f"{row['host']}: {row['cpu']}, {row['capability']}" for row in sweep.rows if "host" in row})
    write_page(path, f"Sweep of {sweep.name}", "; ".join([f"{len(sweep)} rows", *where]), sections)


def _curves(sweep: Sweep) -> Iterator[Picture]:
    if not any(row.get("error") is not None for row in sweep.rows) or not (
        sweep.parameters() or sweep.rows[0]["flags"]
    ):
        return
    from .plots import curves

    x, panels = sweep.panels(None, "error", None, "quantiles")
    caption = f"error over {x}: medians over seeds, and their middle half"
    for part in _parts(panels):
        yield draw_picture(functools.partial(curves, part, x, "error"), caption)


def _costs(sweep: Sweep) -> Iterator[Picture]:
    if not any({"seconds", "error"} <= row.keys() for row in sweep.rows):
        return
    from .plots import scatter

    caption = "error against seconds, medians over seeds; blue settings are on the Pareto front of their size"
    for part in _parts(sweep.pareto().by_parameters()):
        yield draw_picture(functools.partial(scatter, part), caption)


def _parts(panels: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The panels of each picture."""
    names = list(panels)
    for first in range(0, len(names), MOST_PANELS):
        yield {name: panels[name] for name in names[first : first + MOST_PANELS]}


_ABOUT_ERRORS = (
    "Forward rows give the error of the outputs, other rows that of all parameter gradients. The local error is "
    "the largest of a single product."
)

_COUNTS = ("overflow", "saturated", "underflow", "subnormal")


def write_audit(audit: Audit, path: str | os.PathLike[str]) -> None:
    """The summary, the picture, the policy and torch's lines for it, all rows, and the ranges of the operands."""
    from .plots import audit as draw

    caption = (
        "Left: the effect of each layer's forward pass alone on the outputs; layers with a star keep a higher "
        "precision there. Right: the error as layers are lowered, cheapest first; dots are measured"
    )
    measured = [(name, f"{value:.3g}", _error_bound(audit, name)) for name, value in audit.measured.items()]
    ranges = ("module", "product", "operand", "format", "values", *_COUNTS)
    sections = [
        Section("", [audit.summary(), draw_picture(functools.partial(draw, audit), caption)]),
        Section("Answers under the policy", [Table("", ("measure", "value", "budget"), measured)]),
        Section("Policy", [Code(str(audit.policy)), *_for_others(audit)]),
        Section("Layers", [Soft(_ABOUT_ERRORS), Table("", audit.header(), list(audit.cells()), names=3)]),
        Section("Values outside the normal range of a format", [Table("", ranges, list(_ranges(audit)), names=4)]),
    ]
    about = machine()
    subtitle = f"{about['host']}: {about['cpu']}, {about['capability']}; {about['versions']}"
    write_page(path, f"Audit of {audit.name}", subtitle, sections, style="audit.css", width="96rem")


def _for_others(audit: Audit) -> Iterator[str]:
    """The policy in the words of the programs that run such a model on a GPU."""
    if audit.is_onnx:
        yield "The same policy for ONNX Runtime and TensorRT, as far as they support it:"
        yield Code(audit.policy.onnx(layer for part in audit.parts.values() for layer in part))
    else:
        yield "The same policy for a torch model on a GPU, as far as torch supports it:"
        yield Code(audit.policy.torch())


def _error_bound(audit: Audit, name: str) -> str:
    return f"{audit.budget[name]:.3g}" if name in audit.budget else ""


def _ranges(audit: Audit) -> Iterator[tuple[str, ...]]:
    """A line for each operand and format that loses values, of the rows at the fastest precision."""
    for row in audit.rows:
        if row["precision"] != audit.precisions[0] or row["module"] is None:
            continue
        for place, operand in enumerate(row["operands"]):
            for name, counts in operand.items():
                if any(counts[each] for each in _COUNTS):
                    yield (row["module"] or "(itself)", row["product"], str(place + 1), name, *_figures(counts))


def _figures(counts: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{counts[each]:,}" for each in ("size", *_COUNTS))


_LEAST, _MOST = -8, 0
"""Powers of ten at which a bar is empty, and full."""

_HEAD = ("a", "b", "status", "error", "", "module", "kernel", "shapes", "direction", "precision", "implementation",
         "ms a", "ms b", "also changed")  # fmt: skip


def write_comparison(comparison: Comparison, path: str | os.PathLike[str]) -> None:
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
