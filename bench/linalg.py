"""Linear algebra: factorisations and solvers beside their peers, batches of small matrices, refined solutions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.linalg

import minitorch_backends as mt
from minitorch_backends import explain, linalg
from minitorch_backends.lab.race import Contestant

from . import peers, speed
from .presentation import paragraphs
from .session import Session

TITLE = "Linear algebra"

LARGE = {"cholesky": 1.0, "lu_factor": 1.0, "solve": 1.0, "inv": 1.0, "qr": 1.0, "eigh": 0.6, "svd": 0.6}
"""How many times as long torch is to take, from n = 512 on."""

BATCHED = {"cholesky": 2.0, "lu_factor": 2.0, "solve": 2.0, "inv": 2.0, "eigh": 1.5, "svd": 1.5}

REFINED = {"ieee": 1.0, "bf16x6": 1.0, "bf16x3": 1.5, "tf32": 1.5, "bf16": 1.0}
"""The same of a solve in float32 by the precision of its factors."""

SIZES = (256, 512, 1024, 2048)
SMALL_SIZES = (8, 16, 32)
BATCH = 1024
DTYPES = ("float32", "float64")


def _matrices(seed: int, task: str, *shape: int, dtype: str) -> list[np.ndarray]:
    """What a task is given: random, for cholesky and eigh symmetric, and definite for cholesky."""
    random = np.random.default_rng([seed, *shape])
    a, n = random.standard_normal(shape), shape[-1]
    if task == "eigh":
        a = (a + a.swapaxes(-1, -2)) / 2
    if task == "cholesky":
        a = a @ a.swapaxes(-1, -2) / n + np.eye(n)
    given = (a, random.standard_normal((*shape[:-1], 1))) if task == "solve" else (a,)
    return [each.astype(dtype) for each in given]


def _function(library: Any, task: str) -> Any:
    return partial(library.svd, full_matrices=False) if task == "svd" else getattr(library, task)


def _torch(task: str, arrays: list[np.ndarray]) -> list[Contestant]:
    return peers.by_torch(lambda torch: partial(_function(torch.linalg, task), *map(torch.from_numpy, arrays)))


def _cell(seed: int, task: str, *shape: int, dtype: str) -> speed.Cell:
    """One task by each library, and the family that this engine used."""
    arrays = _matrices(seed, task, *shape, dtype=dtype)
    own = partial(_function(linalg, task), *map(mt.from_numpy, arrays))
    name, library = ("SciPy", scipy.linalg) if task == "lu_factor" else ("NumPy", np.linalg)  # NumPy has no LU
    contestants = [
        Contestant("mt", own), *_torch(task, arrays), peers.by_numpy(name, _function(library, task), *arrays)
    ]  # fmt: skip
    with explain.record() as log:
        own()
    batched = len(shape) == 3
    group = f"{'Batches of small matrices' if batched else 'One matrix'}, {dtype}"
    wanted = BATCHED[task] if batched else LARGE[task] if shape[-1] >= 512 else None
    return speed.Cell(
        group, f"{task} {'x'.join(map(str, shape))}", contestants, {"mt": "torch"},
        {} if wanted is None else {"mt": ("torch", wanted)}, facts={"family": log[0].implementation},
    )  # fmt: skip


def _refined_solve(seed: int, n: int) -> speed.Cell:
    """`solve` in float32 at each precision that the flags may allow."""
    arrays = _matrices(seed, "solve", n, n, dtype="float32")
    A, B = map(mt.from_numpy, arrays)
    contestants = [Contestant(name, partial(linalg.solve, A, B, precision=name)) for name in REFINED]
    against = dict.fromkeys(REFINED, "torch")
    wanted = {name: ("torch", least) for name, least in REFINED.items()} if n >= 2048 else {}
    group = "A solve by the precision of its factors"
    return speed.Cell(group, f"n = {n}", [*contestants, *_torch("solve", arrays)], against, wanted)


def run(session: Session) -> dict[str, Any]:
    """Time large matrices, batches of small ones, and refined solutions."""
    sizes, small, dtypes = session.choose(
        ((96,), (8,), DTYPES[:1]), (SIZES[1:3], SMALL_SIZES[::2], DTYPES[:1]), (SIZES, SMALL_SIZES, DTYPES)
    )
    batch = session.choose(64, BATCH, BATCH)
    given = [(task, (n, n)) for n in sizes for task in LARGE] + [
        (task, (batch, n, n)) for n in small for task in BATCHED
    ]
    jobs: dict[str, Any] = {
        f"{task} {shape} {dtype}": partial(_cell, session.seed, task, *shape, dtype=dtype)
        for dtype in dtypes
        for task, shape in given
    }
    return speed.run(
        session, TITLE, jobs | {f"refined {n}": partial(_refined_solve, session.seed, n) for n in sizes[-1:]}
    )


tables = speed.tables


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    text = """
        Matrices are of standard normal numbers; those of cholesky are positive definite, those of eigh symmetric. The
        family is the one that cuda.preferred_linalg_library = "default" takes. svd is the reduced one, solve has one
        right side. The part `solvers` has the errors of refined solutions.
    """
    return [*paragraphs(text), *speed.sentences(result)]


PLOTS = [speed.plot("linalg-speed")]
