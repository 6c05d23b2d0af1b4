"""Linear algebra: factorisations and solvers beside their peers, batches of small matrices, refined solutions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from timeit import Timer
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import minitorch_backends as mt
from minitorch_backends import explain, linalg
from minitorch_backends.display.figures import BLUE, ORANGE, SHAPES, plain_numbers
from minitorch_backends.lab.race import OPENBLAS_REST

from . import peers
from .presentation import Plot, Table, error, paragraphs, ratio, seconds, show_names
from .session import Session
from .timing import OPENMP_REST, time_interleaved

__all__ = ["PLOTS", "TITLE", "run", "summary", "tables"]

TITLE = "Linear algebra"

LARGE_BARS = {"cholesky": 1.0, "lu_factor": 1.0, "solve": 1.0, "inv": 1.0, "qr": 1.0, "eigh": 0.6, "svd": 0.6}
"""How many times as long torch is to take, from n = 512 on."""

BATCHED_BARS = {"cholesky": 2.0, "lu_factor": 2.0, "solve": 2.0, "inv": 2.0, "eigh": 1.5, "svd": 1.5}

REFINED_BAR, REFINED_AT = 1.5, ("bf16x3", "tf32")

SIZES = (256, 512, 1024, 2048)
SMALL_SIZES = (8, 16, 32)
BATCH = 1024
DTYPES = ("float32", "float64")
_SLOW = {"eigh": 8.0, "svd": 20.0}
"""Rough cost in units of n**3, where the others count as 1."""


def _matrices(seed: int, task: str, *shape: int, dtype: str) -> tuple[np.ndarray, ...]:
    """What a task is given: random, for cholesky and eigh symmetric, and definite for cholesky."""
    random = np.random.default_rng([seed, *shape])
    a, n = random.standard_normal(shape), shape[-1]
    if task == "eigh":
        a = (a + a.swapaxes(-1, -2)) / 2
    if task == "cholesky":
        a = a @ a.swapaxes(-1, -2) / n + np.eye(n)
    return tuple(
        each.astype(dtype) for each in ((a, random.standard_normal((*shape[:-1], 1))) if task == "solve" else (a,))
    )


def _torchs(task: str, arrays: tuple[np.ndarray, ...]) -> dict[str, Callable[[], Any]]:
    torch = peers.torch_if_installed()
    if torch is None:
        return {}
    call = partial(torch.linalg.svd, full_matrices=False) if task == "svd" else getattr(torch.linalg, task)
    return {"torch": partial(call, *map(torch.from_numpy, arrays))}


def _numpys(task: str, arrays: tuple[np.ndarray, ...]) -> dict[str, Callable[[], Any]]:
    if task == "lu_factor":  # NumPy has none
        import scipy.linalg

        return {"SciPy": partial(scipy.linalg.lu_factor, *arrays)}
    call = partial(np.linalg.svd, full_matrices=False) if task == "svd" else getattr(np.linalg, task)
    return {"NumPy": partial(call, *arrays)}


def _time_task(session: Session, task: str, *shape: int, dtype: str) -> dict[str, Any]:
    """Median times of one task by library, and the family that this engine used."""
    arrays = _matrices(session.seed, task, *shape, dtype=dtype)
    call = partial(linalg.svd, full_matrices=False) if task == "svd" else getattr(linalg, task)
    own = partial(call, *map(mt.from_numpy, arrays))
    runs = {"ours": own, **_torchs(task, arrays), **_numpys(task, arrays)}
    with explain.record() as log:
        own()
    cost = _SLOW.get(task, 1.0) * math.prod(shape) * shape[-1]
    timings = time_interleaved(
        {name: Timer(each) for name, each in runs.items()},
        seconds=0.0,
        shortest=1e-3 if session.quick else 1e-2,  # several calls after one that wakes the threads
        rounds=3 if session.quick or cost > 2e10 else 7,
        rests={"torch": OPENMP_REST, "NumPy": peers.blas_rest(), "SciPy": OPENBLAS_REST},
    )
    medians = {name: timing.median for name, timing in timings.items()}
    peer = medians.get("torch")
    return {
        "task": task,
        "shape": list(shape),
        "dtype": dtype,
        "implementation": log[0].implementation,
        "median_seconds": medians,
        "torch_relative_to_ours": None if peer is None else peer / medians["ours"],
    }


def _backward_error(a: np.ndarray, x: np.ndarray, b: np.ndarray) -> float:
    """Normwise, in the norm of the largest magnitude, in float64."""
    norm = np.abs(a).sum(1).max()
    return float(np.abs(b - a.astype(np.float64) @ x).max() / (norm * np.abs(x).max() + np.abs(b).max()))


def _refine_study(session: Session, n: int) -> list[dict[str, Any]]:
    """`solve` in float32 at each precision that the flags may allow."""
    a, b = _matrices(session.seed, "solve", n, n, dtype="float32")
    A, B = mt.from_numpy(a), mt.from_numpy(b)
    runs: dict[str, Callable[[], Any]] = {
        name: partial(linalg.solve, A, B, precision=name) for name in ("ieee", "bf16x6", "bf16x3", "tf32", "bf16")
    } | _torchs("solve", (a, b))
    timings = time_interleaved(
        {name: Timer(each) for name, each in runs.items()},
        seconds=0.0,
        rounds=3 if session.quick else 9,
        rests={"torch": OPENMP_REST},
    )
    rows = []
    for name, each in runs.items():
        with explain.record() as log:
            x = each()
        report = dict(log[0].options) if log else {}
        rows.append(
            {
                "precision": name,
                "n": n,
                "median_seconds": timings[name].median,
                "torch_relative_to_ours": timings["torch"].median / timings[name].median if "torch" in runs else None,
                "backward_error": _backward_error(a, x.numpy(), b),
                "refinements": report.get("refinements"),
                "solved_again_in_ieee": report.get("solved_again_in_ieee"),
            }
        )
    return rows


def run(session: Session) -> dict[str, Any]:
    """Time large matrices, batches of small ones, and refined solutions."""
    sizes, small, dtypes = session.choose(
        ((96,), (8,), DTYPES[:1]), (SIZES[1:3], SMALL_SIZES[::2], DTYPES[:1]), (SIZES, SMALL_SIZES, DTYPES)
    )
    large_cases = [(task, (n, n), dtype) for dtype in dtypes for n in sizes for task in LARGE_BARS]
    batch = session.choose(64, BATCH, BATCH)
    small_cases = [(task, (batch, n, n), dtype) for dtype in dtypes for n in small for task in BATCHED_BARS]
    found = []
    with session.progress(TITLE) as report:
        for done, (task, shape, dtype) in enumerate(large_cases + small_cases):
            report(done / (len(large_cases) + len(small_cases) + 1), f"{task} {shape} {dtype}")
            found.append(_time_task(session, task, *shape, dtype=dtype))
        refined = _refine_study(session, sizes[-1])
    count = len(large_cases)
    return {
        "compared_with_torch": peers.torch_is_installed(),
        "large": found[:count],
        "batched": found[count:],
        "refined": refined,
    }


def _label(row: dict[str, Any]) -> str:
    return f"{row['task']} {'x'.join(map(str, row['shape']))} {row['dtype']}"


def tables(result: dict[str, Any]) -> list[Table]:
    found = []
    for key, title in (("large", "One matrix"), ("batched", "Batches of small matrices")):
        rows = [
            (
                _label(row),
                row["implementation"],
                *(seconds(row["median_seconds"].get(name)) for name in ("ours", "torch", "NumPy", "SciPy")),
                ratio(row["torch_relative_to_ours"]),
            )
            for row in result[key]
        ]
        columns = ("task", "family", "ours", "torch", "NumPy", "SciPy", "torch / ours")
        found.append(Table(f"{title}: median times", columns, rows, names=2))
    rows = [
        (
            row["precision"],
            seconds(row["median_seconds"]),
            ratio(row["torch_relative_to_ours"]),
            error(row["backward_error"]),
            "" if row["refinements"] is None else str(row["refinements"]),
            "yes" if row["solved_again_in_ieee"] else "",
        )
        for row in result["refined"]
    ]
    n = result["refined"][0]["n"]
    columns = ("precision", "time", "torch / this", "backward error", "refinements", "again in ieee")
    return [*found, Table(f"solve of float32, n = {n}, one right side, factored at each precision", columns, rows)]


def _missed_targets(result: dict[str, Any]) -> list[str]:
    found = []
    for key, bars, least in (("large", LARGE_BARS, 512), ("batched", BATCHED_BARS, 0)):
        for row in result[key]:
            lead = row["torch_relative_to_ours"]
            if row["shape"][-1] >= least and lead < bars[row["task"]]:
                found.append(f"{_label(row)} {lead:.2f} of {bars[row['task']]:g}")
    return found


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    text = """
        Matrices are of standard normal numbers; those of cholesky are positive definite, those of eigh symmetric. The
        family is the one that cuda.preferred_linalg_library = "default" takes. svd is the reduced one, solve has one
        right side. Times are medians of interleaved samples.
    """
    if not result["compared_with_torch"]:
        text += "\n\ntorch is not installed here; its CPU build is enough to compare with: pip install torch."
        return paragraphs(text)
    bars = ", ".join(f"{task} {bar:g}" for task, bar in LARGE_BARS.items())
    small = ", ".join(f"{task} {bar:g}" for task, bar in BATCHED_BARS.items())
    missed = _missed_targets(result)
    text += f"""\n
        torch is to take so many times as long, from n = 512 on: {bars}; for batches: {small}.
        {"Missed: " + "; ".join(missed) if missed else "All are met"}.
    """
    rows = {row["precision"]: row for row in result["refined"]}
    best = max(rows[name]["torch_relative_to_ours"] for name in REFINED_AT)
    text += f"""\n
        A refined solve takes {best:.2f} times less than torch's float32 (to be {REFINED_BAR:g} at n = 2048); backward
        errors: {", ".join(f"{name} {rows[name]['backward_error']:.1e}" for name in (*REFINED_AT, "torch"))}.
    """
    return paragraphs(text)


# The picture

DTYPE_COLOURS = {"float32": BLUE, "float64": ORANGE}


def _draw(figure: Figure, result: dict[str, Any]) -> None:
    panels = figure.subplots(1, 2, sharey=True)
    titles = ("One n x n matrix", f"Batches of {result['batched'][0]['shape'][0]:,} n x n matrices")
    for axes, key, title in zip(panels, ("large", "batched"), titles, strict=True):
        rows = result[key]
        tasks = list(dict.fromkeys(row["task"] for row in rows))
        series = sorted({(row["dtype"], row["shape"][-1]) for row in rows})
        shapes = dict(zip(sorted({size for _, size in series}), SHAPES, strict=False))
        for place, (dtype, size) in enumerate(series):
            some = [row for row in rows if (row["dtype"], row["shape"][-1]) == (dtype, size) and _others(row)]
            beside = (place - (len(series) - 1) / 2) * 0.6 / len(series)
            axes.plot(
                [tasks.index(row["task"]) + beside for row in some],
                [min(_others(row)) / row["median_seconds"]["ours"] for row in some],
                shapes[size], color=DTYPE_COLOURS[dtype], markersize=7, label=f"n = {size:,}, {dtype}",
            )  # fmt: skip
        plain_numbers(axes)
        axes.axhline(1, color="#999999", linewidth=1)
        axes.set(title=title)
        show_names(axes, tasks)
        axes.legend()
    panels[0].set_ylabel("time of the best other / ours")


def _others(row: dict[str, Any]) -> list[float]:
    return [value for name, value in row["median_seconds"].items() if name != "ours"]


PLOTS = [
    Plot(
        "linalg-speed",
        "Above the line this engine is faster than every other library that is installed.",
        (12, 4.6),
        _draw,
    )
]
