"""Solvers at each precision: what refinement gives back, over the condition of the matrix."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import minitorch_backends as mt
from minitorch_backends import explain
from minitorch_backends.backends import Snapshot
from minitorch_backends.display.figures import MARKS

from ..presentation import Table, error, paragraphs, plot, seconds
from ..session import PRECISIONS, Session

TITLE = "Solvers"

SIZES = {"quick": 256, "usual": 512, "full": 1024}
TASKS = {"quick": ("solve",), "usual": ("solve",), "full": ("solve", "inv", "lstsq")}
CONDITIONS = (1e1, 1e2, 1e4)


@functools.lru_cache(maxsize=1)
def system(n: int, condition: float, seed: int, dtype: str = "float32") -> tuple[mt.Tensor, mt.Tensor]:
    """A matrix of a condition, n x n with singular values in a geometric sequence, and a right side, n x 1."""
    random = np.random.default_rng([seed, n])
    left, right = (np.linalg.qr(random.standard_normal((n, n)))[0] for _ in range(2))
    a = left * np.geomspace(1, 1 / condition, n) @ right
    return tuple(mt.from_numpy(each.astype(dtype)) for each in (a, random.standard_normal((n, 1))))  # type: ignore[return-value]


def solve(task: str, n: int, condition: float, refine: bool, seed: int) -> mt.Tensor:
    """The solution of a system, or the inverse of its matrix."""
    return _solution(task, *system(n, condition, seed), refine)


def exact_solution(task: str, n: int, condition: float, refine: bool, seed: int) -> mt.Tensor:
    """The same in float64."""
    a, b = system(n, condition, seed)
    found = (
        np.linalg.inv(a.double().numpy()) if task == "inv" else np.linalg.solve(a.double().numpy(), b.double().numpy())
    )
    return mt.from_numpy(found)


def _solution(task: str, a: mt.Tensor, b: mt.Tensor, refine: bool) -> mt.Tensor:
    if task == "inv":
        return mt.linalg.inv(a, refine=refine)
    if task == "lstsq":
        return mt.linalg.lstsq(a, b, refine=refine).solution
    return mt.linalg.solve(a, b, refine=refine)


def run(session: Session) -> dict[str, Any]:
    """Solve systems of each condition at each precision, with refinement and without."""
    points = [
        {"task": task, "n": SIZES[session.extent], "condition": condition, "refine": refine}
        for task in TASKS[session.extent] for condition in CONDITIONS for refine in (True, False)
    ]  # fmt: skip
    with mt.no_grad():
        rows = session.sweep(
            solve, over=points, flags={"fp32_precision": PRECISIONS}, seeds=[session.seed], reference=exact_solution,
            repeats=session.choose(1, 3, 9),
        )  # fmt: skip
        rows = [row | _refinement(row, session.seed) for row in rows if row["refine"] or _precision(row) != "ieee"]
    return {"rows": rows}


def _refinement(row: dict[str, Any], seed: int) -> dict[str, Any]:
    """How many steps of refinement the call of a row took, and whether it solved again in ieee."""
    a, b = system(row["n"], row["condition"], seed)
    with Snapshot(()), mt.backends.flags(**row["flags"]), explain.record() as log:
        _solution(row["task"], a, b, row["refine"])
    report = dict(log[0].options)
    return {name: report.get(name) for name in ("refinements", "solved_again_in_ieee")}


def _precision(row: dict[str, Any]) -> str:
    return row["flags"]["fp32_precision"]


# What is shown


def tables(result: dict[str, Any]) -> list[Table]:
    rows = result["rows"]
    found = []
    for task in dict.fromkeys(row["task"] for row in rows):
        by_cell = {(row["condition"], row["refine"], _precision(row)): row for row in rows if row["task"] == task}
        cells = [
            (f"{condition:g}", precision, *_describe(by_cell[condition, True, precision]),
             error(by_cell.get((condition, False, precision), {}).get("error")))
            for condition in CONDITIONS for precision in PRECISIONS
        ]  # fmt: skip
        columns = ("condition", "precision", "error", "time", "refinements", "again in ieee", "error, not refined")
        found.append(Table(f"{task} of float32, n = {rows[0]['n']:,}: relative errors", columns, cells, names=2))
    return found


def _describe(row: dict[str, Any]) -> tuple[str, ...]:
    steps = "" if row["refinements"] is None else str(row["refinements"])
    return error(row["error"]), seconds(row["seconds"]), steps, "yes" if row["solved_again_in_ieee"] else ""


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    worst = {
        refine: max(
            row["error"] for row in result["rows"]
            if row["refine"] == refine and row["condition"] == CONDITIONS[0] and _precision(row) == "bf16"
        )
        for refine in (True, False)
    }  # fmt: skip
    return paragraphs(f"""
        At a condition of {CONDITIONS[0]:g} and bf16 the error is {worst[False]:.1e} without refinement, and
        {worst[True]:.1e} with it.

        The products inside of a factorisation run at the precision, and the solution is refined with residuals in
        ieee, unless refine=False. What does not converge, as beyond a condition of about the reciprocal of the
        precision's error, is solved again in ieee. Matrices have singular values in a geometric sequence; errors
        are those of the solution, relative to its norm, against float64. Factorisations beside other libraries are in
        --full.
    """)


@plot("solvers", "Solutions refined (filled marks) and not (empty marks), over the condition of the matrix.", (10, 4.4))
def by_condition(figure: Figure, result: dict[str, Any]) -> None:
    tasks = list(dict.fromkeys(row["task"] for row in result["rows"]))
    for axes, task in zip(figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0], tasks, strict=True):
        for precision in PRECISIONS:
            colour, mark = MARKS[precision]
            for refine in (True, False):
                own = [
                    row for row in result["rows"]
                    if (row["task"], _precision(row), row["refine"]) == (task, precision, refine)
                ]  # fmt: skip
                style = {"fillstyle": "full" if refine else "none", "linestyle": "-" if refine else ":"}
                label = precision if refine else None
                points = [row["condition"] for row in own], [row["error"] for row in own]
                axes.loglog(*points, marker=mark, color=colour, label=label, **style)
        axes.set(title=task, xlabel="condition of the matrix")
    figure.axes[0].set_ylabel("relative error of the solution")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(PRECISIONS))


PLOTS = [by_condition]
