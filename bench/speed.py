"""Times beside other libraries. A part lists its cells; measuring, tables, means, sentences and picture are the same
for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from minitorch_backends import backends
from minitorch_backends.display.figures import COLOURS, plain_numbers
from minitorch_backends.lab.race import Contestant, race

from . import peers
from .presentation import Plot, Table, number, ratio, seconds, show_names
from .session import NoCellError, Session


class Cell(NamedTuple):
    """One comparison.

    Attributes:
        group: the table in which it stands.
        name: its row there.
        contestants: ours first.
        against: for names of ours, whom each is compared with; the first of the contestants with the fastest other,
            where nothing is said.
        wanted: for names of ours, a peer, and how many times as long that is to take at the least.
        operations: of one call; speeds are shown where it is known, else times.
        facts: more columns of the row, by their heading.
    """

    group: str
    name: str
    contestants: Iterable[Contestant]
    against: Mapping[str, str] = {}
    wanted: Mapping[str, tuple[str, float]] = {}
    operations: float | None = None
    facts: Mapping[str, str] = {}


Jobs = Mapping[str, Callable[[], Cell]]
"""Functions that make a cell each, by the label that the progress shows."""


def run(session: Session, title: str, jobs: Jobs) -> dict[str, Any]:
    """Measure cells one by one, those whose label has the text that the run was asked for.

    Raises NoCellError where none has it.
    """
    chosen = {label: make for label, make in jobs.items() if session.cells in label}
    if not chosen:
        some = ", ".join(map(repr, [*jobs][:5]))
        raise NoCellError(f"{session.cells!r} is in no label of {title!r}; expected a part of one of {some} ...")
    rows = []
    before = backends.snapshot()
    try:
        with session.progress(title) as report:
            for done, (label, make) in enumerate(chosen.items()):
                report(done / len(chosen), label)
                rows.append(_measure(session, make()))
    finally:
        backends.restore(before)  # timers set flags for the whole process
    return {"compared_with_torch": peers.torch_is_installed(), "rows": rows}


def _measure(session: Session, cell: Cell) -> dict[str, Any]:
    rounds, least = session.choose((2, 1e-4), (5, 5e-3), (9, 1e-2))
    taken = race(cell.contestants, rounds, warm=0.0, least=least)
    medians = {name: timing.median for name, timing in taken.items()}
    first = next(iter(medians))
    best = min((name for name in medians if name != first), key=medians.__getitem__, default="")
    pairs = (cell.against or {first: best}).items()
    ratios = {ours: medians[other] / medians[ours] for ours, other in pairs if {ours, other} <= medians.keys()}
    return {
        "group": cell.group,
        "name": cell.name,
        "facts": dict(cell.facts),
        "operations": cell.operations,
        "seconds": medians,
        "least_seconds": {name: timing.minimum for name, timing in taken.items()},
        "ratios": ratios,
        "wanted": dict(cell.wanted),
    }


def tables(result: dict[str, Any]) -> list[Table]:
    """A table for each group, and one of the means."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in result["rows"]:
        groups.setdefault(row["group"], []).append(row)
    found = [_table(group, rows) for group, rows in groups.items()]
    averages = [(*of, ratio(mean), ratio(least), ratio(most)) for of, (mean, least, most) in means(result).items()]
    columns = ("cells", "ours", "geometric mean", "least", "most")
    return [*found, Table("Time of the other over ours", columns, averages, names=2)] if averages else found


def _table(group: str, rows: list[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row["seconds"]))
    facts = list(dict.fromkeys(fact for row in rows for fact in row["facts"]))
    cells = [
        (row["name"], *(row["facts"].get(fact, "") for fact in facts), *(_text(row, name) for name in names))
        for row in rows
    ]
    what = "GFLOP/s" if rows[0]["operations"] else "times"
    compared = " (and how many times as long the other takes)" if any(row["ratios"] for row in rows) else ""
    return Table(f"{group}: {what}{compared}", ("", *facts, *names), cells, names=1 + len(facts))


def _text(row: dict[str, Any], name: str) -> str:
    taken, operations = row["seconds"].get(name), row["operations"]
    if taken is None:
        return ""
    text = number(1e-9 * operations / taken) if operations else seconds(taken)
    return f"{text} ({ratio(row['ratios'][name])})" if name in row["ratios"] else text


def means(result: dict[str, Any]) -> dict[tuple[str, str], tuple[float, float, float]]:
    """The geometric mean of the ratios, the least and the most, by group and name of ours."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in result["rows"]:
        for name, value in row["ratios"].items():
            found.setdefault((row["group"], name), []).append(value)
    return {of: (math.exp(sum(map(math.log, each)) / len(each)), min(each), max(each)) for of, each in found.items()}


def sentences(result: dict[str, Any]) -> list[str]:
    """How times were taken, and which cells are slower than they are wanted, the slowest first."""
    found = [
        "Times are medians of turns in which the libraries follow one another; a call that is not timed begins a turn."
    ]
    if not result["compared_with_torch"]:
        found.append("torch is not installed here; its CPU build is enough to compare with: pip install torch.")
    reached = [
        (row["seconds"][peer] / row["seconds"][name] / least, row["name"], name, peer, least)
        for row in result["rows"]
        for name, (peer, least) in row["wanted"].items()
        if {name, peer} <= row["seconds"].keys()
    ]
    missed = sorted(each for each in reached if each[0] < 1)
    if missed:
        listed = "; ".join(
            f"{cell}: {name} {ratio(part * least)} of {ratio(least)} ({peer})"
            for part, cell, name, peer, least in missed[:12]
        )
        found.append(f"Missed by {len(missed)} of {len(reached)}, most by: {listed}.")
    elif reached:
        found.append("All cells are as fast as they are wanted.")
    return found


def plot(name: str) -> Plot:
    """The ratios of all cells of a part, as dots, and their geometric means, as lines."""
    caption = "A dot is a cell, a line the geometric mean; above 1 this engine is faster."
    return Plot(name, caption, (11, 5), _draw, lambda result: bool(means(result)))


def _draw(figure: Figure, result: dict[str, Any]) -> None:
    axes, averages = figure.subplots(), means(result)
    groups, names = (list(dict.fromkeys(each)) for each in zip(*averages, strict=True))
    width = 0.8 / len(names)
    for place, name in enumerate(names):
        colour = COLOURS[place % len(COLOURS)]
        for group in groups:
            if (group, name) not in averages:
                continue
            x = groups.index(group) + (place + 0.5) * width - 0.4
            dots = [row["ratios"][name] for row in result["rows"] if row["group"] == group and name in row["ratios"]]
            axes.plot([x] * len(dots), dots, "o", color=colour, alpha=0.6, markersize=5)
            axes.hlines(averages[group, name][0], x - 0.4 * width, x + 0.4 * width, color=colour, linewidth=2)
        axes.plot([], [], "o", color=colour, label=name)
    plain_numbers(axes)
    axes.axhline(1, color="#999999", linewidth=1)
    axes.set(ylabel="time of the other / ours")
    show_names(axes, groups)
    if len(names) > 1:
        figure.legend(loc="outside upper center", ncols=len(names))
