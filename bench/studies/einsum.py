"""Orders of contraction: what each strategy costs in FLOPs, memory, search and time, and what each precision does."""

from __future__ import annotations

import functools
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

import minitorch_backends as mt
from minitorch_backends.display.figures import MARKS, SHAPES, plain_numbers

from ..networks import Network, networks
from ..presentation import Table, number, paragraphs, plot, seconds
from ..session import Session

TITLE = "Orders of contraction"

STRATEGIES = {
    "quick": (None, "greedy", "auto"),
    "usual": (None, "greedy", "auto-hq"),
    "full": (None, "greedy", "dp", "auto-hq", "random-greedy"),
}
PRECISIONS = ("ieee", "tf32", "bf16")

MOST_FLOPS, MOST_BYTES = 5e9, 1e9
"""What one contraction may cost; orders beyond are shown and not run."""


@functools.cache
def _networks(quick: bool, seed: int) -> dict[str, Network]:
    return {network.name: network for network in networks(quick, seed)}


@functools.lru_cache(maxsize=1)
def _operands(network: str, quick: bool, seed: int) -> list[mt.Tensor]:
    return [mt.from_numpy(each) for each in _networks(quick, seed)[network].operands(seed)]


def contract(network: str, quick: bool, seed: int) -> mt.Tensor:
    """A network of the list, in the order that the flags choose."""
    return mt.einsum(_networks(quick, seed)[network].equation, *_operands(network, quick, seed))


def exact_contraction(network: str, quick: bool, seed: int) -> mt.Tensor:
    """The same in float64."""
    tensors = (each.double() for each in _operands(network, quick, seed))
    with mt.backends.opt_einsum.flags(enabled=True, strategy="greedy"):
        return mt.einsum(_networks(quick, seed)[network].equation, *tensors)


def _order(strategy: str | None) -> dict[str, Any]:
    """The flags of a strategy; those of None contract from left to right."""
    if strategy is None:
        return {"opt_einsum.enabled": False}
    return {"opt_einsum.enabled": True, "opt_einsum.strategy": strategy}


def run(session: Session) -> dict[str, Any]:
    """Every network by every strategy at every precision."""
    found = []
    for network in _networks(session.quick, session.seed).values():
        plans = {
            strategy: mt.einsum_plan(network.equation, *network.shapes, strategy=strategy)
            for strategy in STRATEGIES[session.extent]
        }
        feasible = [
            strategy for strategy, plan in plans.items()
            if plan.flops <= MOST_FLOPS and 8 * plan.peak_elements <= MOST_BYTES
        ]  # fmt: skip
        with mt.no_grad():
            rows = session.sweep(
                contract, over=[{"network": network.name, "quick": session.quick}], seeds=[session.seed],
                flags=[{"fp32_precision": name, **_order(each)} for each in feasible for name in PRECISIONS],
                reference=exact_contraction, repeats=session.choose(1, 3, 9),
            )  # fmt: skip
        orders = [
            {
                "strategy": str(strategy),
                "flops": plan.flops,
                "predicted_peak_bytes": 4 * plan.peak_elements,
                "search_seconds": plan.search_seconds,
            }
            for strategy, plan in plans.items()
        ]
        found.append(
            {
                "name": network.name,
                "source": network.source,
                "equation": network.equation,
                "orders": orders,
                "rows": [row | {"strategy": str(row["flags"].get("opt_einsum.strategy"))} for row in rows],
            }
        )
    return {"networks": found}


# What is shown


def tables(result: dict[str, Any]) -> list[Table]:
    return [_costs(result["networks"]), _times(result["networks"])]


def _costs(measured: list[dict[str, Any]]) -> Table:
    lines = []
    for entry in measured:
        peaks = {row["strategy"]: row["peak_bytes"] for row in entry["rows"] if _precision(row) == "ieee"}
        for order in entry["orders"]:
            peak = peaks.get(order["strategy"])
            costs = order["flops"] / 1e6, order["predicted_peak_bytes"] / 1e6, None if peak is None else peak / 1e6
            names = entry["name"], order["strategy"], seconds(order["search_seconds"])
            lines.append((*names, *map(number, costs)))
    return Table("Costs of orders", ("network", "strategy", "search", "MFLOP", "peak MB", "measured"), lines, names=2)


def _times(measured: list[dict[str, Any]]) -> Table:
    lines = []
    for entry in measured:
        found = {(row["strategy"], _precision(row)): row for row in entry["rows"]}
        for order in entry["orders"]:
            rows = [found.get((order["strategy"], precision)) for precision in PRECISIONS]
            cells = ("too large" if row is None else f"{seconds(row['seconds'])} ({row['error']:.0e})" for row in rows)
            lines.append((entry["name"], order["strategy"], *cells))
    return Table("Time (and error) at each precision", ("network", "strategy", *PRECISIONS), lines, names=2)


def _precision(row: dict[str, Any]) -> str:
    return row["flags"]["fp32_precision"]


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    sources = "; ".join(f"{entry['name']}: {entry['source']}" for entry in result["networks"])
    gains = ", ".join(
        f"{entry['name']} {max(costs) / min(costs):.3g}"
        for entry in result["networks"]
        if (costs := [order["flops"] for order in entry["orders"]])
    )
    return paragraphs(f"""
        FLOPs of the dearest order over those of the cheapest: {gains}.

        Strategy None contracts from left to right. FLOPs count multiplications and additions; the peak is that of all
        intermediates at once, predicted from shapes, and measured with packed operands of the kernels included. Errors
        are those of the whole result, relative to its norm, against float64. Orders beyond {MOST_FLOPS:.0e} FLOPs or
        {MOST_BYTES / 1e9:g} GB are not run. Search times are those of one search; later calls find the plan.

        {sources}.
    """)


@plot(
    "einsum-strategies",
    "Down is faster, left is more accurate; a mark is an order of contraction, a colour a precision.",
    (13, 7.0),
)
def by_strategy(figure: Figure, result: dict[str, Any]) -> None:
    """Time against error, one panel for each network; a mark for each strategy, a colour for each precision."""
    panels = figure.subplots(2, (len(result["networks"]) + 1) // 2, squeeze=False).ravel()
    strategies = [order["strategy"] for order in result["networks"][0]["orders"]]
    shapes = dict(zip(strategies, SHAPES, strict=False))
    for panel, entry in zip(panels, result["networks"], strict=False):
        for row in entry["rows"]:
            if row["error"]:
                colour = MARKS[_precision(row)][0]
                panel.loglog(row["error"], 1e3 * row["seconds"], shapes[row["strategy"]], color=colour)
        panel.set(title=entry["name"], xlabel="relative error", ylabel="ms")
        _whole_steps(panel)
    for panel in panels[len(result["networks"]) :]:
        panel.set_axis_off()
    handles = [Line2D([], [], color="#000000", marker=shape, ls="") for shape in shapes.values()]
    handles += [Line2D([], [], color=MARKS[precision][0], lw=4) for precision in PRECISIONS]
    figure.legend(handles, [*(f"strategy {name}" for name in strategies), *PRECISIONS], loc="lower right")


def _whole_steps(panel: Axes) -> None:
    """Have a logarithmic y axis reach from a tick of 1, 2, 5, 10 ... below all values to one above."""
    low, high = panel.get_ylim()
    ticks = [step * 10.0**power for power in range(-6, 7) for step in (1, 2, 5)]
    panel.set_ylim(max(tick for tick in ticks if tick <= low), min(tick for tick in ticks if tick >= high))
    panel.xaxis.set_major_locator(LogLocator(numticks=5))
    plain_numbers(panel)


PLOTS = [by_strategy]
