"""Plans of einsum: costs of slices, a precision per step, and the networks of einsum_benchmark beside peers."""

from __future__ import annotations

import functools
import importlib.util
import math
import time
from collections.abc import Iterator
from timeit import Timer
from typing import Any

import numpy as np

import minitorch_backends as mt
from minitorch_backends.ops.einsum.plan import Plan
from minitorch_backends.ops.einsum.precision_plan import unit_cost

from . import peers
from .lab import Lab
from .networks import Network, networks
from .tables import Table, number, paragraphs, ratio, seconds
from .timing import OPENMP_REST, interleaved

__all__ = ["TITLE", "run", "summary", "tables"]

TITLE = "Plans of einsum"

PARTS_OF_PEAK = (5, 20)
"""Limits of memory, as parts of the peak that is not sliced."""

SLICED = ("random 3-regular", "PEPS lattice")
MIXED = "matrix chain"
"""Networks that are sliced, and the one whose steps get precisions of their own."""

UNIFORM = ("ieee", "bf16x6", "tf32", "bf16x3", "bf16")
BUDGETS = (3e-3, 3e-4, 5e-6)
"""Errors below which `lower_within` finds the cheapest mixed precisions."""

MOST_FLOPS, MOST_ELEMENTS = 2e9, 1 << 26
"""What a network of einsum_benchmark may cost; larger ones are left out in words."""


def run(lab: Lab) -> dict[str, Any]:
    """Slice two networks, mix the precisions of a third, and run those of einsum_benchmark beside the peers."""
    by_name = {network.name: network for network in networks(False, lab.seed)}  # small peaks would be lost in Python's
    with lab.progress(TITLE) as report:
        report(0.0, "slices")
        sliced = [row for name in SLICED for row in _sliced(by_name[name], lab)]
        report(0.3, "precisions")
        mixed = _mixed(by_name[MIXED], lab)
        report(0.5, "einsum_benchmark")
        instances = [_beside_peers(network, lab) for network in _instances(lab.quick)]
    return {"sliced": sliced, "mixed": mixed, "instances": [row for row in instances if row is not None]}


def _operands(network: Network, seed: int) -> list[mt.Tensor]:
    """Normal variates, scaled so that products neither grow nor vanish."""
    random = np.random.default_rng(seed)
    scaled = (random.standard_normal(shape) / math.prod(shape) ** 0.25 for shape in network.shapes)
    return [mt.tensor(each.astype(np.float32)) for each in scaled]


# Slices


def _sliced(network: Network, lab: Lab) -> Iterator[dict[str, Any]]:
    tensors = _operands(network, lab.seed)
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


def _flops_of_cotengra(network: Network, whole: Plan, options: dict[str, Any]) -> float | None:
    """FLOPs with the slices that cotengra finds; None where it finds none, or is not installed."""
    if importlib.util.find_spec("cotengra") is None:
        return None
    try:
        theirs = mt.einsum_plan(network.equation, *network.shapes, slices="cotengra", **options)
    except RuntimeError:
        return None
    return theirs.flops / whole.flops


# Precisions of steps


def _mixed(network: Network, lab: Lab) -> dict[str, Any]:
    tensors = _operands(network, lab.seed)
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
    taken = interleaved(timers, seconds=lab.choose(0.1, 0.5, 2.0), rounds=3)
    for row in rows:
        row["median_seconds"] = taken[row["name"]].median
    return {"network": network.name, "steps": [step.equation for step in plan.steps], "rows": rows}


def _cost(plan: Plan, precisions: tuple[str, ...]) -> float:
    """Time by the matrix units of devices, in a unit of its own."""
    pairs = zip(plan.steps, precisions, strict=True)
    return sum(step.flops * unit_cost(name) for step, name in pairs if step.matrices is not None)


# The networks of others


def _instances(quick: bool) -> Iterator[Network]:
    """What the generators of the package einsum_benchmark make, where it is installed."""
    if importlib.util.find_spec("einsum_benchmark") is None:
        return
    from einsum_benchmark.generators import language_model, quantum_computing, random, structured

    size = 1 if quick else 2
    made = {
        "lattice": structured.lattice((3 + size, 3 + size), d_min=2, d_max=4, seed=0),
        "tree": structured.tree(n=40 * size, seed=0),
        "matrix chain": structured.matrix_chain(num_matrices=8, min_dim=10, max_dim=200 * size, seed=0),
        "connected network": random.connected_network(20 * size, 2.5, number_of_output_indices=2, seed=0),
        "hypernetwork": random.connected_hypernetwork(10 * size, 2.5, 10, 5, True, 5, 3, max_axis_size=4, seed=0),
        "MPS": quantum_computing.matrix_product_state(n=20 * size, phys_dim_max=40, seed=0),
        "language model": language_model.sliding_likelihood(1, 3, 7 * size, 50),
    }
    for name, (equation, shapes) in made.items():
        yield Network(name, equation, tuple(map(tuple, shapes)), "einsum_benchmark")


def _beside_peers(network: Network, lab: Lab) -> dict[str, Any] | None:
    """One network in one order by every library; None for one that is too large."""
    plan = mt.einsum_plan(network.equation, *network.shapes, strategy="greedy")
    if plan.flops > MOST_FLOPS or plan.peak_elements > MOST_ELEMENTS:
        lab.say(f"{network.name} is left out: {plan.flops:.2g} FLOPs, {plan.peak_elements:,} elements at once")
        return None
    tensors = _operands(network, lab.seed)
    exact = plan.run(*(tensor.double() for tensor in tensors)).numpy()
    found = plan.run(*tensors).numpy()
    timers = {"mt": Timer(functools.partial(plan.run, *tensors)), **_peer_timers(network, plan, tensors)}
    rests = {name: OPENMP_REST if name == "torch" else peers.blas_rest() for name in timers}
    taken = interleaved(timers, seconds=lab.choose(0.1, 0.3, 1.0), rounds=3, rests=rests)
    return {
        "name": network.name,
        "operands": len(network.shapes),
        "flops": plan.flops,
        "error": float(np.linalg.norm(found - exact) / np.linalg.norm(exact)),
        "seconds": {name: timing.median for name, timing in taken.items()},
    }


def _peer_timers(network: Network, plan: Plan, tensors: list[mt.Tensor]) -> dict[str, Timer]:
    """The others along the same path, which is given: no search is timed."""
    import opt_einsum

    arrays = [tensor.numpy() for tensor in tensors]
    expression = opt_einsum.contract_expression(network.equation, *network.shapes, optimize=list(plan.path))
    timers = {"opt_einsum": Timer(functools.partial(expression, *arrays))}
    torch = peers.torch_if_installed()
    if torch is not None:
        timers["torch"] = Timer(functools.partial(expression, *map(torch.from_numpy, arrays)))
    if importlib.util.find_spec("cotengra") is not None:
        import cotengra

        inputs, output = network.equation.split("->")
        terms, sizes = inputs.split(","), dict[str, int]()
        for term, shape in zip(terms, network.shapes, strict=True):
            sizes.update(zip(term, shape, strict=True))
        tree = cotengra.ContractionTree.from_path(terms, output, sizes, path=plan.path)
        timers["cotengra"] = Timer(functools.partial(tree.contract, arrays))
    return timers


# What is shown


def tables(result: dict[str, Any]) -> list[Table]:
    return [_slice_table(result["sliced"]), _mixed_table(result["mixed"]), *_instance_tables(result["instances"])]


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


def _instance_tables(rows: list[dict[str, Any]]) -> list[Table]:
    if not rows:
        return []
    names = list(rows[0]["seconds"])
    cells = []
    for row in rows:
        times = row["seconds"]
        lead = min(value for name, value in times.items() if name != "mt") / times["mt"]
        counts = str(row["operands"]), number(row["flops"] / 1e6), f"{row['error']:.0e}"
        cells.append((row["name"], *counts, *(seconds(times.get(name)) for name in names), ratio(lead)))
    columns = "network", "operands", "MFLOP", "error", *names, "best other / mt"
    return [Table("Networks of einsum_benchmark, along one path", columns, cells)]


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
    if result["instances"]:
        text += """

        The networks are those that the generators of einsum_benchmark make, with normal variates. All libraries
        contract along the same path, found by opt_einsum's greedy search; no search is timed.
        """
    return paragraphs(text)
