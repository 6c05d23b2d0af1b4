"""Einsum beside its peers: 8 x 8 matrices, contractions that people make, and the networks of einsum_benchmark."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from timeit import Timer
from typing import Any

import numpy as np

import minitorch_backends as mt
from minitorch_backends.backends import Snapshot
from minitorch_backends.ops.einsum.user_plan import EinsumPlan

from . import peers
from .networks import Network, networks
from .presentation import Table, number, paragraphs, ratio, seconds
from .session import Session
from .timing import OPENMP_REST, time_interleaved

__all__ = ["TITLE", "run", "summary", "tables"]

TITLE = "Einsum beside other libraries"

STRATEGY = "auto-hq"
SMALL = ("ij,jk->ik", "ij,jk,kl->il", "ij,jk,kl,lm->im", "ij,jk,kl,lm,mn->in")
"""Equations of 8 x 8 matrices."""

THREADED_FLOPS = 1e6
"""Contractions above are given a rest after each sample, since their products wake the threads of a BLAS, which spin on
for a while."""

MOST_FLOPS, MOST_ELEMENTS = 5e9, 1 << 26
"""What a network may cost; larger ones are left out in words."""

GIVEN = "einsum_benchmark"
GROUPS = {
    "8 x 8": "Einsum of 8 x 8 matrices",
    "contractions": "Contractions that people make, in the order that each library finds",
    GIVEN: "Networks of einsum_benchmark, along one path",
}
"""Titles of the tables."""


def run(session: Session) -> dict[str, Any]:
    """Time each contraction by the plan of one strategy, beside what the peers find by themselves."""
    groups: dict[str, list[Network]] = {
        "8 x 8": [Network(each, each, ((8, 8),) * (each.count(",") + 1), "") for each in SMALL],
        "contractions": list(networks(session.quick, session.seed)),
        GIVEN: list(_instances(session.quick)),
    }
    total, done, rows = sum(map(len, groups.values())), 0, []
    with Snapshot(()), mt.no_grad(), session.progress(TITLE) as report:
        for group, listed in groups.items():
            for network in listed:
                report(done / total, network.name)
                rows.append(_beside_peers(network, group, session))
                done += 1
    return {"compared_with_torch": peers.torch_is_installed(), "rows": [row for row in rows if row is not None]}


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


def _beside_peers(network: Network, group: str, session: Session) -> dict[str, Any] | None:
    """One network by every library; None for one that is too large."""
    plan = mt.einsum_plan(network.equation, *network.shapes, strategy=STRATEGY)
    if plan.flops > MOST_FLOPS or plan.peak_elements > MOST_ELEMENTS:
        session.say(f"{network.name} is left out: {plan.flops:.2g} FLOPs, {plan.peak_elements:,} elements at once")
        return None
    arrays = network.operands(session.seed)
    tensors = [mt.from_numpy(each) for each in arrays]
    exact = plan.run(*(tensor.double() for tensor in tensors)).numpy()
    error = float(np.linalg.norm(plan.run(*tensors).numpy() - exact) / np.linalg.norm(exact))
    timers = _along_one_path(network, plan, arrays) if group == GIVEN else _by_own_order(network, arrays)
    wakes_threads = plan.flops > THREADED_FLOPS
    rests = {name: OPENMP_REST if name == "torch" else peers.blas_rest() for name in timers} if wakes_threads else {}
    shortest = 0.0 if wakes_threads else 1e-3
    with mt.backends.opt_einsum.flags(enabled=True, strategy=STRATEGY):
        taken = time_interleaved(
            timers, seconds=session.choose(0.1, 0.5, 1.0), rounds=3, shortest=shortest, rests=rests
        )
    return {
        "group": group,
        "name": network.name,
        "operands": len(network.shapes),
        "flops": plan.flops,
        "error": error,
        "seconds": {name: timing.median for name, timing in taken.items()},
    }


def _by_own_order(network: Network, arrays: list[np.ndarray]) -> dict[str, Timer]:
    """Each with the order that it finds by itself; NumPy only where its search takes less than seconds."""
    from opt_einsum import contract

    equation = network.equation
    timers = {"mt": Timer(functools.partial(mt.einsum, equation, *map(mt.from_numpy, arrays)))}
    timers["opt_einsum"] = Timer(functools.partial(contract, equation, *arrays))
    if len(arrays) <= 12:
        timers["NumPy"] = Timer(functools.partial(np.einsum, equation, *arrays, optimize=True))
    torch = peers.torch_if_installed()
    if torch is not None:
        timers["torch"] = Timer(functools.partial(torch.einsum, equation, *map(torch.from_numpy, arrays)))
    return timers


def _along_one_path(network: Network, plan: EinsumPlan, arrays: list[np.ndarray]) -> dict[str, Timer]:
    """All along the path of our plan: no search is timed."""
    import opt_einsum

    expression = opt_einsum.contract_expression(network.equation, *network.shapes, optimize=list(plan.path))
    timers = {"mt": Timer(functools.partial(plan.run, *map(mt.from_numpy, arrays)))}
    timers["opt_einsum"] = Timer(functools.partial(expression, *arrays))
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
    groups = {group: [row for row in result["rows"] if row["group"] == group] for group in GROUPS}
    return [_table(group, rows) for group, rows in groups.items() if rows]


def _table(group: str, rows: list[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row["seconds"]))
    cells = []
    for row in rows:
        counts = str(row["operands"]), number(row["flops"] / 1e6), f"{row['error']:.0e}"
        cells.append((row["name"], *counts, *(seconds(row["seconds"].get(name)) for name in names), ratio(_lead(row))))
    return Table(GROUPS[group], ("network", "operands", "MFLOP", "error", *names, "best other / mt"), cells)


def _lead(row: dict[str, Any]) -> float:
    """How many times as long the fastest of the others takes."""
    times = row["seconds"]
    return min(value for name, value in times.items() if name != "mt") / times["mt"]


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    leads = ", ".join(
        f"{group} {min(found):.2f} to {max(found):.2f}"
        for group in GROUPS
        if (found := [_lead(row) for row in result["rows"] if row["group"] == group])
    )
    return paragraphs(f"""
        The fastest of the other libraries takes so many times as long: {leads}.

        Normal variates, float32, ieee. Plans are kept, so that a call of ours searches for an order once; torch and
        opt_einsum search in every call. The networks of einsum_benchmark, which its generators make, are contracted
        along one path by all, and no search is timed.
    """)
