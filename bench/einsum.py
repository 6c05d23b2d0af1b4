"""Orders of contraction: what each strategy costs in FLOPs, memory, search and time, and what each precision does."""

from __future__ import annotations

import functools
import math
import time
from timeit import Timer
from typing import Any

import numpy as np

import minitorch_backends as mt
from minitorch_backends import backends

from . import peers
from .lab import Lab
from .networks import Network, networks
from .tables import Table, number, paragraphs, ratio, seconds
from .timing import OPENMP_REST, interleaved

__all__ = ["TITLE", "run", "summary", "tables"]

TITLE = "Einsum"

STRATEGIES = (None, "greedy", "dp", "auto-hq", "random-greedy")
QUICK_STRATEGIES = (None, "greedy", "auto")
USUAL_STRATEGIES = (None, "greedy", "auto-hq", "random-greedy")
PRECISIONS = ("ieee", "tf32", "bf16")

MOST_FLOPS, MOST_BYTES = 2e10, 2e9
"""What one contraction may cost; orders beyond are shown and not run."""

THREADED_FLOPS = 1e6
"""Contractions above are given a rest after each sample, since their products wake the threads of a BLAS, which spin on
for a while."""

SMALL = {
    2: "ij,jk->ik",
    3: "ij,jk,kl->il",
    4: "ij,jk,kl,lm->im",
    5: "ij,jk,kl,lm,mn->in",
}
"""By the number of operands, the equations of 8 x 8 matrices whose overhead is measured."""


def run(lab: Lab) -> dict[str, Any]:
    """Time small einsums beside the peers, then every network by every strategy at every precision."""
    listed = list(networks(lab.quick, lab.seed))
    with lab.progress(TITLE) as report:
        report(0, "8 x 8 matrices")
        small = [_small(lab, count, equation) for count, equation in SMALL.items()]
        measured = []
        for done, network in enumerate(listed, 1):
            report(done / (len(listed) + 1), network.name)
            measured.append(_measure(lab, network))
    return {"compared_with_torch": peers.torch_is_installed(), "small": small, "networks": measured}


def _operands(network: Network, seed: int) -> list[np.ndarray]:
    """Normal variates, scaled so that products neither grow nor vanish."""
    random = np.random.default_rng(seed)
    return [(random.standard_normal(shape) / math.prod(shape) ** 0.25).astype(np.float32) for shape in network.shapes]


def _peer_timers(equation: str, arrays: list[np.ndarray]) -> dict[str, Timer]:
    """The others, each with the order that it finds by itself; NumPy only where its own limit of operands allows."""
    from opt_einsum import contract

    timers = {"opt_einsum": Timer(functools.partial(contract, equation, *arrays))}
    if len(arrays) <= 12:  # np.einsum's search by `optimize=True` takes seconds for more
        timers["NumPy"] = Timer(functools.partial(np.einsum, equation, *arrays, optimize=True))
    torch = peers.torch_if_installed()
    if torch is not None:
        timers["torch"] = Timer(functools.partial(torch.einsum, equation, *map(torch.from_numpy, arrays)))
    return timers


def _small(lab: Lab, count: int, equation: str) -> dict[str, Any]:
    network = Network("8 x 8", equation, ((8, 8),) * count, "")
    arrays = _operands(network, lab.seed)
    timers = {"minitorch": Timer(functools.partial(mt.einsum, equation, *map(mt.tensor, arrays)))}
    timers |= _peer_timers(equation, arrays)
    taken = interleaved(timers, seconds=0.1 if lab.quick else 0.5, shortest=1e-3, rounds=5)
    medians = {name: timing.median for name, timing in taken.items()}
    return {"operands": count, "equation": equation, "median_seconds": medians}


def _measure(lab: Lab, network: Network) -> dict[str, Any]:
    arrays = _operands(network, lab.seed)
    tensors = [mt.tensor(array) for array in arrays]
    runs: list[dict[str, Any]] = []
    timers: dict[str, Timer] = {}
    exact: np.ndarray | None = None
    for strategy in lab.choose(QUICK_STRATEGIES, USUAL_STRATEGIES, STRATEGIES):
        plan = mt.einsum_plan(network.equation, *network.shapes, strategy=strategy)
        feasible = plan.flops <= MOST_FLOPS and 8 * plan.peak_elements <= MOST_BYTES
        if feasible and exact is None:
            exact = plan.execute(*(tensor.double() for tensor in tensors)).numpy()
        for precision in PRECISIONS if feasible else PRECISIONS[:1]:
            row: dict[str, Any] = {
                "strategy": str(strategy),
                "precision": precision,
                "flops": plan.flops,
                "predicted_peak_bytes": 4 * plan.peak_elements,
                "search_seconds": plan.search_seconds,
                "error": None,
                "measured_peak_bytes": None,
                "median_seconds": None,
            }
            runs.append(row)
            if feasible and exact is not None:
                result = plan.execute(*tensors, precision=precision).numpy()
                row["error"] = float(np.linalg.norm(result - exact) / np.linalg.norm(exact))
                row["measured_peak_bytes"] = plan.measured[-1].peak
                timers[f"{strategy} {precision}"] = Timer(_flagged(network, tensors, strategy, precision))
    time.sleep(peers.blas_rest())
    others = _peer_timers(network.equation, arrays)
    least = min(row["flops"] for row in runs)
    threaded = {f"{row['strategy']} {row['precision']}" for row in runs if _wakes_blas(row)}
    threaded |= set(others) if least > THREADED_FLOPS else set()
    rests = {name: OPENMP_REST if name == "torch" else peers.blas_rest() for name in threaded}
    taken = interleaved(timers | others, seconds=lab.choose(0.1, 0.3, 1.0), rounds=3, rests=rests)
    for row in runs:
        timing = taken.get(f"{row['strategy']} {row['precision']}")
        row["median_seconds"] = timing.median if timing else None
    return {
        "name": network.name,
        "source": network.source,
        "equation": network.equation,
        "operands": len(arrays),
        "runs": runs,
        "peer_seconds": {name: taken[name].median for name in others},
    }


def _wakes_blas(row: dict[str, Any]) -> bool:
    """Whether the products of a run are large, and made by BLAS; other precisions leave no thread spinning."""
    return row["precision"] == "ieee" and row["flops"] > THREADED_FLOPS


def _flagged(network: Network, tensors: list[mt.Tensor], strategy: str | None, precision: str) -> Any:
    """The contraction with both flags set; entering the scopes takes microseconds."""

    def contract() -> mt.Tensor:
        with backends.opt_einsum.flags(enabled=strategy is not None, strategy=strategy):
            return mt.einsum(network.equation, *tensors, precision=precision)

    return contract


def tables(result: dict[str, Any]) -> list[Table]:
    measured = result["networks"]
    return [_small_table(result["small"]), _cost_table(measured), _time_table(measured), _peer_table(measured)]


def _small_table(small: list[dict[str, Any]]) -> Table:
    names = list(small[0]["median_seconds"])
    rows = [
        (entry["equation"], *(seconds(entry["median_seconds"].get(name)) for name in names), *_leads(entry))
        for entry in small
    ]
    return Table("Einsum of 8 x 8 matrices", ("equation", *names, "torch / mt", "best other / mt"), rows)


def _leads(entry: dict[str, Any]) -> tuple[str, str]:
    """How many times longer torch takes, and the faster of the others."""
    times = entry["median_seconds"]
    others = min(value for name, value in times.items() if name not in ("minitorch", "torch"))
    torch = ratio(times["torch"] / times["minitorch"]) if "torch" in times else ""
    return torch, ratio(others / times["minitorch"])


def _cost_table(measured: list[dict[str, Any]]) -> Table:
    rows = []
    for entry in measured:
        for row in (row for row in entry["runs"] if row["precision"] == "ieee"):
            peak = row["measured_peak_bytes"]
            costs = (row["flops"] / 1e6, row["predicted_peak_bytes"] / 1e6, None if peak is None else peak / 1e6)
            rows.append((entry["name"], row["strategy"], seconds(row["search_seconds"]), *map(number, costs)))
    return Table("Costs of orders", ("network", "strategy", "search", "MFLOP", "peak MB", "measured"), rows, names=2)


def _time_table(measured: list[dict[str, Any]]) -> Table:
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for entry in measured:
        for row in entry["runs"]:
            took = row["median_seconds"]
            text = "too large" if took is None else f"{seconds(took)} ({row['error']:.0e})"
            cells.setdefault((entry["name"], row["strategy"]), {})[row["precision"]] = text
    rows = [(*names, *(by.get(precision, "") for precision in PRECISIONS)) for names, by in cells.items()]
    return Table("Time (and error) at each precision", ("network", "strategy", *PRECISIONS), rows, names=2)


def _peer_table(measured: list[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for entry in measured for name in entry["peer_seconds"]))
    rows = []
    for entry in measured:
        best = _best(entry)
        others = [seconds(entry["peer_seconds"].get(name)) for name in names]
        lead = min(entry["peer_seconds"].values()) / best["median_seconds"] if best else None
        rows.append((entry["name"], seconds(best["median_seconds"] if best else None), *others, ratio(lead)))
    return Table("Best strategy at ieee beside other libraries", ("network", "mt", *names, "best other / mt"), rows)


def _best(entry: dict[str, Any]) -> dict[str, Any] | None:
    """The fastest run at ieee."""
    run = [row for row in entry["runs"] if row["precision"] == "ieee" and row["median_seconds"] is not None]
    return min(run, key=lambda row: row["median_seconds"], default=None)


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    sources = "; ".join(f"{entry['name']}: {entry['source']}" for entry in result["networks"])
    leads = [_leads(entry) for entry in result["small"]]
    small = f"no other library takes less than {min(float(best) for _, best in leads):.2f} times as long"
    if result["compared_with_torch"]:
        small += f", and torch {min(float(torch) for torch, _ in leads):.2f} times or more"
    return paragraphs(
        f"""
        For 8 x 8 matrices, {small}. Plans are kept, so that a call searches for an order once; torch and opt_einsum
        search in every call.

        Strategy None contracts from left to right. FLOPs count multiplications and additions; the peak is that of all
        intermediates at once, predicted from shapes and measured (packed operands of the kernels
        included). Errors are those of the whole result, relative to its norm, against float64. Orders beyond
        {MOST_FLOPS:.0e} FLOPs or {MOST_BYTES / 1e9:g} GB are not run. Search times are those of one search.

        {sources}.
        """
    )
