"""Bare products: speed and error of each precision beside NumPy's product and torch's."""

from __future__ import annotations

import functools
import math
import time
from timeit import Timer
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from minitorch_backends.display.figures import MARKS, plain_numbers, show_sizes
from minitorch_backends.kernels.gemm import matmul

from . import peers
from .presentation import Plot, Table, error, number, paragraphs, ratio
from .session import PRECISIONS, Session
from .timing import time_interleaved

__all__ = ["PLOTS", "TITLE", "run", "summary", "tables"]

TITLE = "Bare products beside other libraries"

SIZES = {"quick": (256, 512), "usual": (256, 512, 1024, 2048), "full": (256, 512, 1024, 2048, 4096)}
ROUNDS = 5
SAMPLE_SECONDS = 5e-3
"""Least duration of a sample, of several calls where one is shorter: threads that sleep take 0.05 ms to wake."""

BUSY = 1.6
"""A median time this many times the fastest means that something else used the cores."""


def run(session: Session) -> dict[str, Any]:
    """Multiply square matrices of normal variates."""
    sizes, rows = SIZES[session.extent], []
    with session.progress(TITLE) as report:
        for done, size in enumerate(sizes):
            report(done / len(sizes), f"n = {size:,}")
            rows += _time_size(session, size)
    return {"rows": rows}


def _time_size(session: Session, size: int) -> list[dict[str, Any]]:
    random = np.random.default_rng([session.seed, size])
    a, b = (random.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    by_numpy = peers.numpy_product(a, b)
    candidates = [*_ours(a, b), by_numpy, *peers.torch_products(a, b)]
    exact = a.astype(np.float64) @ b.astype(np.float64)
    errors = {each.name: float(np.sqrt(np.mean((each.run() - exact) ** 2) / size)) for each in candidates}
    time.sleep(peers.blas_rest())
    timings = time_interleaved(
        {each.name: each.timer for each in candidates},
        seconds=session.choose(0.2, 4.0, 8.0), shortest=SAMPLE_SECONDS, rounds=ROUNDS,
        rests={each.name: each.rest for each in candidates},
    )  # fmt: skip
    base = timings[by_numpy.name].median
    return [
        {
            "n": size,
            "name": name,
            "rms_error": errors[name],
            **timing._asdict(),
            "gflops": 2e-9 * size**3 / timing.median,
            "speed_relative_to_numpy": base / timing.median,
        }
        for name, timing in timings.items()
    ]


def _ours(a: np.ndarray, b: np.ndarray) -> list[peers.Product]:
    products = []
    for precision in PRECISIONS:
        by_blas = matmul.decide(a, b, precision=precision).candidates[0].name == "blas"
        run = functools.partial(matmul, a, b, precision=precision)
        products.append(peers.Product(f"mt {precision}", run, Timer(run), peers.blas_rest() if by_blas else 0.0))
    return products


def tables(result: dict[str, Any]) -> list[Table]:
    speeds: dict[str, list[str]] = {}
    for row in result["rows"]:
        cell = f"{number(row['gflops'])} ({ratio(row['speed_relative_to_numpy'])})"
        speeds.setdefault(row["name"], []).append(cell)
    errors = {row["name"]: row["rms_error"] for row in result["rows"]}
    rows = [(name, error(errors[name]), *row) for name, row in speeds.items()]
    columns = ("product", "rms error / sqrt(n)", *(f"n = {size:,}" for size in _sizes(result)))
    return [Table("GFLOP/s (and speed relative to NumPy's)", columns, rows)]


def _sizes(result: dict[str, Any]) -> list[int]:
    return list(dict.fromkeys(row["n"] for row in result["rows"]))


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    last = _sizes(result)[-1]
    speeds = ", ".join(
        f"{row['name']} {ratio(row['speed_relative_to_numpy'])}" for row in result["rows"] if row["n"] == last
    )
    text = f"""
        Speed at n = {last:,} relative to NumPy's fp32 product: {speeds}.

        Times are medians of interleaved samples, with rests between thread pools; operands are float32 in memory, and
        conversions are included. GFLOP/s counts 2 n^3 operations, whatever a precision really does. torch's bf16
        tensors are converted beforehand, and their result is rounded to bf16 as well.
    """
    disturbed = max(row["median"] / row["minimum"] for row in result["rows"])
    if disturbed > BUSY:
        text += f"""\n
        The machine was busy: the median time of one product is {disturbed:.1f} times its fastest (results.json has
        both). Speeds need a quieter machine.
        """
    return paragraphs(text)


PEER_MARKS = {
    "NumPy fp32": ("#5f5f5f", "P"),
    "torch fp32": ("#6b6b6b", "X"),
    "torch bf16 tensors": ("#6b6b6b", "*"),
    "torch mkldnn bf16": ("#6b6b6b", "h"),
}


def _mark(name: str) -> tuple[str, str]:
    return MARKS[name.removeprefix("mt ")] if name.startswith("mt ") else PEER_MARKS[name]


def _close(row: dict[str, Any], other: dict[str, Any], top: float) -> bool:
    decades = abs(math.log10(row["rms_error"] / other["rms_error"]))
    return decades < 0.7 and abs(row["gflops"] - other["gflops"]) < 0.08 * top


def _draw_tradeoff(figure: Figure, result: dict[str, Any]) -> None:
    axes, size = figure.subplots(), max(size for size in _sizes(result) if size <= 1024)
    rows = [row for row in result["rows"] if row["n"] == size]
    top = 1.12 * max(row["gflops"] for row in rows)
    groups: list[list[dict[str, Any]]] = []  # points whose names would cover each other
    for row in sorted(rows, key=lambda row: row["gflops"]):
        colour, mark = _mark(row["name"])
        axes.plot(row["rms_error"], row["gflops"], mark, color=colour, markersize=11, mec="white", mew=0.5)
        near = [group for group in groups if all(_close(row, other, top) for other in group)]
        if near:
            near[0].append(row)
        else:
            groups.append([row])
    for group in groups:  # names stand beside the group, in the order of speeds, around its middle
        right = max(row["rms_error"] for row in group)
        middle = sum(row["gflops"] for row in group) / len(group)
        for place, row in enumerate(group):
            shift = 14 * (place - (len(group) - 1) / 2) - 3
            axes.annotate(
                row["name"].removeprefix("mt "), (right, middle), xytext=(10, shift), textcoords="offset points",
                fontsize=10, color=_mark(row["name"])[0],
            )  # fmt: skip
    axes.set(
        title=f"Speed against error, n = {size:,}", xscale="log", ylim=(0, top), ylabel="GFLOP/s (2 n³ counted)",
        xlabel="rms error relative to sqrt(n)",
    )  # fmt: skip
    axes.set_xlim(right=30 * max(row["rms_error"] for row in rows))  # for the names


def _draw_speed(figure: Figure, result: dict[str, Any]) -> None:
    axes, sizes = figure.subplots(), _sizes(result)
    for name in dict.fromkeys(row["name"] for row in result["rows"]):
        colour, mark = _mark(name)
        speeds = [row["gflops"] for row in result["rows"] if row["name"] == name]
        axes.plot(sizes, speeds, ":" if name in PEER_MARKS else "-", color=colour, marker=mark, label=name)
    axes.set(title="Speed of n x n x n products", ylabel="GFLOP/s", xlabel="n")
    plain_numbers(axes)
    show_sizes(axes, sizes)
    axes.legend(ncols=2)


PLOTS = [
    Plot("products-tradeoff", "Up is faster, left is more accurate.", (7, 4.2), _draw_tradeoff),
    Plot("products-speed", "Up is faster. Grey marks are other libraries.", (9, 5.0), _draw_speed),
]
