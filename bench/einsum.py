"""Einsum beside its peers: 8 x 8 matrices, and contractions that people make."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.lab.race import Contestant

from . import peers, speed
from .networks import Network, networks
from .presentation import number, paragraphs
from .session import Session

TITLE = "Einsum beside other libraries"

STRATEGY = "auto-hq"
SMALL = ("ij,jk->ik", "ij,jk,kl->il", "ij,jk,kl,lm->im", "ij,jk,kl,lm,mn->in")
"""Equations of 8 x 8 matrices."""

THREADED_FLOPS = 1e6
"""Contractions above are given a rest after each sample, since their products wake the threads of a BLAS, which spin on
for a while."""

GROUPS = {
    "8 x 8": "Einsum of 8 x 8 matrices",
    "contractions": "Contractions that people make, in the order that each library finds",
}
"""Titles of the tables."""


def run(session: Session) -> dict[str, Any]:
    """Time each contraction by the plan of one strategy, beside what the peers find by themselves."""
    groups: dict[str, list[Network]] = {
        "8 x 8": [Network(each, each, ((8, 8),) * (each.count(",") + 1), "") for each in SMALL],
        "contractions": list(networks(session.quick, session.seed)),
    }
    jobs = {
        f"{group}: {network.name}": partial(_cell, session, network, group)
        for group, listed in groups.items()
        for network in listed
    }
    return speed.run(session, TITLE, jobs)


def _cell(session: Session, network: Network, group: str) -> speed.Cell:
    """One network by every library."""
    plan = mt.einsum_plan(network.equation, *network.shapes, strategy=STRATEGY)
    arrays = network.operands(session.seed)
    tensors = [mt.from_numpy(each) for each in arrays]
    exact = plan.run(*(tensor.double() for tensor in tensors)).numpy()
    error = float(np.linalg.norm(plan.run(*tensors).numpy() - exact) / np.linalg.norm(exact))
    contestants = _contestants(network.equation, arrays)
    if plan.flops <= THREADED_FLOPS:
        contestants = [each._replace(rest=0.0) for each in contestants]
    facts = {"operands": str(len(network.shapes)), "MFLOP": number(plan.flops / 1e6), "error": f"{error:.0e}"}
    return speed.Cell(GROUPS[group], network.name, contestants, facts=facts)


def _search_by_strategy() -> None:
    backends.opt_einsum.enabled, backends.opt_einsum.strategy = True, STRATEGY


def _contestants(equation: str, arrays: list[np.ndarray]) -> list[Contestant]:
    """Each with the order that it finds by itself; NumPy only where its search takes less than seconds."""
    from opt_einsum import contract

    ours = partial(mt.einsum, equation, *map(mt.from_numpy, arrays))
    by_numpy = [peers.by_numpy("NumPy", partial(np.einsum, optimize=True), equation, *arrays)]
    return [
        Contestant("mt", ours, peers.blas_rest(), _search_by_strategy),
        peers.by_numpy("opt_einsum", contract, equation, *arrays),
        *(by_numpy if len(arrays) <= 12 else []),
        *peers.by_torch(lambda torch: partial(torch.einsum, equation, *map(torch.from_numpy, arrays))),
    ]


tables = speed.tables


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    text = """
        Normal variates, float32, ieee. Plans are kept, so that a call of ours searches for an order once; torch and
        opt_einsum search in every call.
    """
    return [*paragraphs(text), *speed.sentences(result)]
