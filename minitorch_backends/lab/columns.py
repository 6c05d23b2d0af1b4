"""The rows of a sweep by column: flat records for tables, and lines for curves."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .plots import Line

Row = dict[str, Any]

MOST_PANELS = 12
"""Panels in one picture."""


class Setting(dict[str, Any]):
    """Values by name in a cell of a row, such as its flags. It is hashable, so that tables can group by it; do not
    change it."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(str(self))

    def __lt__(self, other: Any) -> bool:
        return str(self) < str(other)

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.items()) or "defaults"


def with_settings(row: Mapping[str, Any]) -> Row:
    return {name: Setting(value) if isinstance(value, dict) else value for name, value in row.items()}


def flat(row: Row, taken: Any = ()) -> Row:
    """One level of columns: flags by their own names, other dicts as `name_key`, and the kernels as text.

    A name that another column has, or that is an attribute of `taken`, gets an underscore at its end.
    """
    found: Row = {}
    for name, value in row.items():
        if name == "kernels" and isinstance(value, dict):
            parts = {name: ", ".join(f"{kernel} x{count}" for kernel, count in value.items())}
        elif isinstance(value, dict):
            parts = {key if name == "flags" else f"{name}_{key}": each for key, each in value.items()}
        else:
            parts = {name: value}
        for key, each in parts.items():
            key = key.replace(".", "_")
            while key in found or (name == "flags" and key in row) or hasattr(taken, key):
                key += "_"
            found[key] = each
    return found


def axes_of(rows: Sequence[Row], parameters: Sequence[str]) -> dict[str, list[Any]]:
    """The parameters and flags that vary, with their values in order; flags under names of their own.

    Raises nothing for a flag that only some rows set: their value is "unset".
    """
    names = [*parameters, *dict.fromkeys(name for row in rows for name in row["flags"])]
    found = {name: list(dict.fromkeys(value_of(row, name) for row in rows)) for name in names}
    return {name: values for name, values in found.items() if len(values) > 1}


def value_of(row: Row, name: str) -> Any:
    """A parameter or another column of a row, hashable, or one of its flags."""
    value = row[name] if name in row and name != "flags" else row["flags"].get(name, "unset")
    return tuple(value) if isinstance(value, list) else value


def quantile(values: Sequence[float], share: float) -> float:
    """By linear interpolation between the sorted values."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


SPREADS = {"quantiles": (0.25, 0.75), "range": (0.0, 1.0), None: (0.5, 0.5)}
"""The lower and upper quantile of a curve's band, over seeds."""


def panels(
    rows: Sequence[Row], axes: Iterable[str], x: str, y: str, by: Sequence[str], spread: str | None
) -> dict[str, list[Line]]:
    """For each combination of the axes that are neither `x` nor in `by` a panel, and in it a line for each of `by`.

    Rows without the measure are left out, and their number is part of the line's label.
    """
    from .plots import Line

    others = [name for name in axes if name != x and name not in by]
    grouped: dict[str, dict[str, dict[Any, list[float]]]] = {}
    failed: dict[tuple[str, str], int] = {}
    for row in rows:
        panel, line = label_of(row, others), label_of(row, by)
        points = grouped.setdefault(panel, {}).setdefault(line, {})
        if row.get(y) is None:
            failed[panel, line] = failed.get((panel, line), 0) + 1
        else:
            points.setdefault(value_of(row, x), []).append(row[y])

    def lines(panel: str) -> Iterator[Line]:
        low, high = SPREADS[spread]
        for line, points in grouped[panel].items():
            places = list(points)  # names in their own order, numbers by size
            if all(isinstance(each, (int, float)) for each in places):
                places.sort()
            bands = [
                (statistics.median(points[p]), quantile(points[p], low), quantile(points[p], high)) for p in places
            ]
            lost = failed.get((panel, line), 0)
            if places:
                yield Line(line + (f" ({lost} rows without it)" if lost else ""), places, bands)

    found = {panel: list(lines(panel)) for panel in grouped}
    return {panel: each for panel, each in found.items() if each}


def label_of(row: Row, names: Sequence[str]) -> str:
    """The values of some axes with their names; the text of a single flag, such as a precision, alone."""
    if len(names) == 1 and names[0] not in row and isinstance(value_of(row, names[0]), str):
        return str(value_of(row, names[0]))
    return ", ".join(f"{name}={value_of(row, name)}" for name in names)


def place_of(value: Any) -> tuple[bool, float, str]:
    """The sort key of a value: numbers by size, then text in its own order."""
    is_number = isinstance(value, (int, float))
    return not is_number, value if is_number else 0.0, str(value)


def to_markdown(cells: Sequence[Sequence[str]], names: int) -> str:
    """A table in Markdown; the first `names` columns are names, aligned left."""
    head, *rows = ([cell.replace("|", "\\|") for cell in row] for row in cells)
    rule = ["---" if place < names else "---:" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows)) + "\n"


_LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def to_latex(cells: Sequence[Sequence[str]], names: int) -> str:
    """A tabular of booktabs; numbers with an exponent are in math mode."""

    def text(cell: str) -> str:
        number, e, power = cell.partition("e")
        if e and power.lstrip("+-").isdigit():
            return rf"${number} \times 10^{{{int(power)}}}$"
        return "".join(_LATEX.get(character, character) for character in cell)

    head, *rows = (" & ".join(map(text, row)) + r" \\" for row in cells)
    columns = "l" * names + "r" * (len(cells[0]) - names)
    return "\n".join((rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule",
                      r"\end{tabular}")) + "\n"  # fmt: skip
