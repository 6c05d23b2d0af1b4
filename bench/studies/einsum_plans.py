"""Plans of einsum: costs of slices under a memory limit, and a precision per step."""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Iterator
from timeit import Timer
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import minitorch_backends as mt
from minitorch_backends.display.figures import MARKS
from minitorch_backends.ops.einsum.precision_plan import unit_cost
from minitorch_backends.ops.einsum.user_plan import EinsumPlan

from ..networks import Network, networks
from ..presentation import Plot, Table, number, paragraphs, seconds
from ..session import Session
from ..timing import time_interleaved

__all__ = ["PLOTS", "TITLE", "run", "summary", "tables"]

TITLE = "Plans of einsum"

PARTS_OF_PEAK = (5, 20)
"""Limits of memory, as parts of the peak that is not sliced."""

SLICED = ("random 3-regular", "PEPS lattice")
MIXED = "matrix chain"
"""Networks that are sliced, and the one whose steps get precisions of their own."""

UNIFORM = ("ieee", "bf16x6", "tf32", "bf16x3", "bf16")
BUDGETS = (3e-3, 3e-4, 5e-6)
"""Errors below which `lower_within` finds the cheapest mixed precisions."""


def run(session: Session) -> dict[str, Any]:
    """Slice two networks, and mix the precisions of a third."""
    large = networks(False, session.seed)  # small peaks would be lost among Python's objects
    by_name = {network.name: network for network in large}
    with session.progress(TITLE) as report:
        report(0.0, "slices")
        sliced = [row for name in SLICED for row in _slice_study(by_name[name], session)]
        report(0.3, "precisions")
        mixed = _mixed_study(by_name[MIXED], session)
    return {"sliced": sliced, "mixed": mixed}


# Slices


def _slice_study(network: Network, session: Session) -> Iterator[dict[str, Any]]:
    tensors = [mt.from_numpy(each) for each in network.operands(session.seed)]
    whole = mt.einsum_plan(network.equation, *network.shapes, strategy="greedy")
    for part in PARTS_OF_PEAK:
        options: dict[str, Any] = {"strategy": whole.path, "memory_limit": 4 * whole.peak_elements // part}
        start = time.perf_counter()
        plan = mt.einsum_plan(network.equation, *network.shapes, slices="auto", **options)
        search = time.perf_counter() - start
        for each in (whole, plan):
            each.execute(*tensors)
        assert plan.slicing is not None
        yield {
            "network": network.name,
            "part": part,
            "slices": plan.slicing.count,
            "flops": plan.flops / whole.flops,
            "cotengra_flops": _flops_of_cotengra(network, whole, options),
            "search_seconds": search,
            "predicted_peak_bytes": 4 * plan.peak_elements,
            "measured_peak_bytes": plan.measured[-1].peak,
            "whole_seconds": whole.measured[-1].seconds,
            "seconds": plan.measured[-1].seconds,
        }


def _flops_of_cotengra(network: Network, whole: EinsumPlan, options: dict[str, Any]) -> float | None:
    """FLOPs with the slices that cotengra finds; None where it finds none, or is not installed."""
    if importlib.util.find_spec("cotengra") is None:
        return None
    try:
        theirs = mt.einsum_plan(network.equation, *network.shapes, slices="cotengra", **options)
    except RuntimeError:
        return None
    return theirs.flops / whole.flops


# Precisions of steps


def _mixed_study(network: Network, session: Session) -> dict[str, Any]:
    tensors = [mt.from_numpy(each) for each in network.operands(session.seed)]
    plan = mt.einsum_plan(network.equation, *network.shapes, strategy="dp")
    assignments: dict[str, tuple[str, ...]] = {name: (name,) * len(plan.steps) for name in UNIFORM}
    for budget in BUDGETS:
        assignments[f"at most {budget:g}"] = plan.lower_within(budget)
    exact = plan.run(*(tensor.double() for tensor in tensors)).numpy()
    timers, rows = {}, []
    for name, precisions in assignments.items():
        found = plan.run(*tensors, precision=precisions).numpy()
        rows.append(
            {
                "name": name,
                "precisions": precisions,
                "cost": _cost(plan, precisions) / _cost(plan, assignments["ieee"]),
                "error": float(np.linalg.norm(found - exact) / np.linalg.norm(exact)),
                "predicted_error": plan.error_estimate(precisions),
            }
        )
        timers[name] = Timer(functools.partial(plan.run, *tensors, precision=precisions))
    taken = time_interleaved(timers, seconds=session.choose(0.1, 0.5, 2.0), rounds=3)
    for row in rows:
        row["median_seconds"] = taken[row["name"]].median
    return {"network": network.name, "steps": [step.equation for step in plan.steps], "rows": rows}


def _cost(plan: EinsumPlan, precisions: tuple[str, ...]) -> float:
    """Time by the matrix units of devices, in a unit of its own."""
    pairs = zip(plan.steps, precisions, strict=True)
    return sum(step.flops * unit_cost(name) for step, name in pairs if step.matrices is not None)


# What is shown


def tables(result: dict[str, Any]) -> list[Table]:
    return [_slice_table(result["sliced"]), _mixed_table(result["mixed"])]


def _slice_table(rows: list[dict[str, Any]]) -> Table:
    cells = [
        (
            row["network"],
            f"1/{row['part']}",
            f"{row['slices']:,}",
            number(row["flops"]),
            number(row["cotengra_flops"]),
            number(row["predicted_peak_bytes"] / 1e6),
            number(row["measured_peak_bytes"] / 1e6),
            seconds(row["search_seconds"]),
            seconds(row["whole_seconds"]),
            seconds(row["seconds"]),
        )
        for row in rows
    ]
    costs = "slices", "FLOPs / whole", "by cotengra", "peak MB", "measured"
    columns = "network", "limit / peak", *costs, "search", "whole", "sliced"
    return Table("Slices under a memory limit", columns, cells, names=2)


def _mixed_table(mixed: dict[str, Any]) -> Table:
    cells = [
        (
            row["name"],
            " ".join(row["precisions"]) if len(set(row["precisions"])) > 1 else f"all {row['precisions'][0]}",
            number(row["cost"]),
            f"{row['predicted_error']:.2e}",
            f"{row['error']:.2e}",
            seconds(row["median_seconds"]),
        )
        for row in mixed["rows"]
    ]
    columns = "assignment", "precisions of steps", "cost / ieee", "predicted error", "measured", "time here"
    return Table(f"A precision per step of the {mixed['network']}", columns, cells, names=2)


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    peaks = [row["measured_peak_bytes"] / row["predicted_peak_bytes"] for row in result["sliced"]]
    ratios = [row["error"] / row["predicted_error"] for row in result["mixed"]["rows"]]
    text = f"""
        Slices obey the limit by prediction; measured peaks are {min(peaks):.2f} to {max(peaks):.2f} of the predicted
        ones, the more the smaller they are, since some 12 KB are Python's objects. cotengra's finder slices to single
        indices and bounds the largest intermediate; its FLOPs are given where it meets the same limit of the peak.

        Errors of results are {min(ratios):.2f} to {max(ratios):.2f} of the predicted ones. Costs are those of matrix
        units of devices, relative to fp32 on vector units; times are those of this machine.
        """
    return paragraphs(text)


def _draw(figure: Figure, result: dict[str, Any]) -> None:
    """Error over cost: uniform precisions, and those that a budget chose for each step."""
    axes = figure.subplots()
    rows = sorted(result["mixed"]["rows"], key=lambda row: row["cost"])
    for row in rows:
        uniform = len(set(row["precisions"])) == 1
        colour, marker = MARKS[row["precisions"][0]] if uniform else ("#D55E00", "*")
        size = 9 if uniform else 14
        axes.plot(row["cost"], row["error"], marker, color=colour, markersize=size, zorder=3)
        axes.plot(
            row["cost"],
            row["predicted_error"],
            marker,
            color=colour,
            markersize=size + 7,
            markerfacecolor="none",
            zorder=2,
        )
        label = row["name"] if uniform else f"{row['name']}: {', '.join(row['precisions'])}"
        last = row["cost"] > 0.4
        axes.annotate(
            label, (row["cost"], row["error"]), xytext=(-13 if last else 13, 6), textcoords="offset points", fontsize=9,
            ha="right" if last else "left",
        )  # fmt: skip
    axes.plot([], [], "o", color="#555555", label="measured")
    axes.plot([], [], "o", color="#555555", markerfacecolor="none", markersize=13, label="predicted")
    axes.set(
        xscale="log", yscale="log", xlabel="cost by matrix units of devices, relative to ieee", ylabel="relative error",
        title=f"Precisions of the {len(result['mixed']['steps'])} steps of the {result['mixed']['network']}",
    )  # fmt: skip
    axes.margins(x=0.15, y=0.12)
    axes.legend(loc="upper right")


PLOTS = [
    Plot(
        "einsum-assignments",
        "Left is cheaper, down is more accurate; stars are precisions that lower_within chose for each step.",
        (10, 5.0),
        _draw,
    )
]
