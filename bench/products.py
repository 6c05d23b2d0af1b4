"""Bare products: error against float64 beside what theory predicts, and speed beside NumPy's and torch's."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from timeit import Timer
from typing import Any

import numpy as np

from minitorch_backends.kernels.gemm import matmul
from minitorch_backends.kernels.precision import predicted_error
from minitorch_backends.kernels.registry import Call, observe

from . import peers
from .lab import PRECISIONS, Lab
from .peers import Product
from .tables import Table, error, number, paragraphs, ratio
from .timing import interleaved

__all__ = ["TITLE", "run", "summary", "tables"]

TITLE = "Bare products"

SIZES = (256, 512, 1024, 2048)
QUICK_SIZES = (256, 512)
ROUNDS = 5
SAMPLE_SECONDS = 5e-3
"""Least duration of a sample, of several calls where one is shorter: threads that sleep take 0.05 ms to wake."""

BUSY = 1.6
"""A median time this many times the fastest means that something else used the cores."""

ROUNDED = ("tf32", "bf16", "bf16x3")
"""The precisions whose error comes from the operands; that of the others comes from the order of the sums."""

TIMING_SHARE = 0.1
"""Part of the budget in which the products of one size are timed."""


def run(lab: Lab) -> dict[str, Any]:
    """Multiply square matrices of normal variates, in sizes that grow until the budget would be exceeded."""
    sizes = QUICK_SIZES if lab.quick else SIZES
    start = time.perf_counter()
    measured: list[dict[str, Any]] = []
    with lab.progress(TITLE) as report:
        for position, size in enumerate(sizes):
            if measured and time.perf_counter() - start + _expected(measured[-1], size) > lab.budget:
                break
            measured.append(
                _measure(
                    lab, size, lambda part, doing, p=position, n=size: report((p + part) / len(sizes), f"{n}: {doing}")
                )
            )
    return {
        "budget_seconds": lab.budget,
        "sizes": [entry["size"] for entry in measured],
        "skipped_sizes": list(sizes[len(measured) :]),
        "measured": measured,
    }


def _expected(last: dict[str, Any], size: int) -> float:
    """Seconds that a size will take at least, by the work of the size before: one product for the error, three to find
    how many calls make a sample, two in each round."""
    return sum(row["median_seconds"] for row in last["products"]) * (size / last["size"]) ** 3 * (4 + 2 * ROUNDS)


def _measure(lab: Lab, size: int, report: Callable[[float, str], None]) -> dict[str, Any]:
    random = np.random.default_rng([lab.seed, size])
    a, b = (random.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    report(0, "in float64")
    exact = a.astype(np.float64) @ b.astype(np.float64)
    time.sleep(peers.blas_rest())
    by_numpy = peers.numpy_product(a, b)
    candidates = [*_ours(a, b), by_numpy, *peers.torch_products(a, b)]
    rows = []
    for done, candidate in enumerate(candidates):
        report(done / (2 * len(candidates)), f"error of {candidate.name} (the first call may compile)")
        rows.append(_compare(candidate, exact))
    timings = interleaved(
        {candidate.name: candidate.timer for candidate in candidates},
        seconds=TIMING_SHARE * lab.budget,
        shortest=SAMPLE_SECONDS,
        rounds=ROUNDS,
        rests={candidate.name: candidate.rest for candidate in candidates},
        tick=lambda: report(0.5, "timing"),
    )
    for row in rows:
        timing = timings[row["name"]]
        row |= {
            "median_seconds": timing.median,
            "minimum_seconds": timing.minimum,
            "samples": timing.samples,
            "calls_per_sample": timing.calls,
            "gflops": 2e-9 * size**3 / timing.median,
            "speed_relative_to_numpy": timings[by_numpy.name].median / timing.median,
        }
    return {"size": size, "products": rows}


def _ours(a: np.ndarray, b: np.ndarray) -> list[Product]:
    products = []
    for precision in PRECISIONS:
        run = functools.partial(matmul, a, b, precision=precision)
        by_blas = matmul.decide(a, b, precision=precision).candidates[0].name == "blas"
        products.append(Product(f"mt {precision}", precision, run, Timer(run), peers.blas_rest() if by_blas else 0.0))
    return products


def _compare(candidate: Product, exact: np.ndarray) -> dict[str, Any]:
    """Error of one product beside its prediction; relative ones are relative to the rms of the entries, sqrt(k)."""
    calls: list[Call] = []
    with observe(calls.append):
        start = time.perf_counter()
        product = candidate.run()
        first = time.perf_counter() - start
    difference = product - exact
    time.sleep(candidate.rest)
    size = len(exact)
    expected = predicted_error(candidate.precision, size, entries=exact.size)
    scale = math.sqrt(size)
    return {
        "name": candidate.name,
        "ours": bool(calls),
        "precision": candidate.precision,
        "implementation": calls[-1].implementation if calls else None,
        "first_call_seconds": first,
        "rms_error": float(np.sqrt(np.mean(difference**2))) / scale,
        "predicted_rms_error": expected.sigma * candidate.spread / scale,
        "largest_error": float(np.abs(difference).max()) / scale,
        "predicted_largest_error": expected.maximum * candidate.spread / scale,
    }


def tables(result: dict[str, Any]) -> list[Table]:
    return [_error_table(result["measured"]), _speed_table(result["measured"])]


def _error_table(measured: list[dict[str, Any]]) -> Table:
    rows: list[tuple[str, ...]] = []
    for entry in measured:
        rows += [()] if rows else []
        rows += [
            (
                str(entry["size"]),
                row["name"],
                row["implementation"] or "",
                error(row["rms_error"]),
                error(row["predicted_rms_error"]),
                error(row["largest_error"]),
                error(row["predicted_largest_error"]),
            )
            for row in entry["products"]
        ]
    columns = ("n", "product", "by", "rms error", "theory", "largest", "theory")
    return Table("Error of n x n x n products, relative to sqrt(n)", columns, rows, names=3)


def _speed_table(measured: list[dict[str, Any]]) -> Table:
    speeds: dict[str, list[str]] = {}
    for entry in measured:
        for row in entry["products"]:
            cell = f"{number(row['gflops'])} ({ratio(row['speed_relative_to_numpy'])})"
            speeds.setdefault(row["name"], []).append(cell)
    columns = ("product", *(f"n = {entry['size']}" for entry in measured))
    return Table("GFLOP/s (and speed relative to NumPy's)", columns, [(name, *cells) for name, cells in speeds.items()])


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    rows = [row for entry in result["measured"] for row in entry["products"]]
    rounded = [_over_theory(row) for row in rows if row["ours"] and row["precision"] in ROUNDED]
    summed = [_over_theory(row) for row in rows if row["ours"] and row["precision"] not in ROUNDED]
    last = result["measured"][-1]
    speeds = ", ".join(
        f"{row['precision']} {ratio(row['speed_relative_to_numpy'])}" for row in last["products"] if row["ours"]
    )
    text = f"""
        Speed at n = {last["size"]} relative to NumPy's fp32 product: {speeds}.

        The rms errors of {", ".join(ROUNDED)} are {min(rounded):.2f} to {max(rounded):.2f} times the prediction. Those
        of the fp32-class precisions depend on the order of the sums, which each implementation chooses:
        {min(summed):.2f} to {max(summed):.2f} times. The theory gives every entry the same spread, though large sums
        round more coarsely: the largest error of fp32 sums comes out up to three times higher.

        Square matrices of standard normal float32 numbers. Errors are against the product of the same matrices in
        float64, relative to sqrt(n), the standard deviation of an entry. The theory takes every rounding of an operand
        as independent, and fp32 sums as chains of 384 fused steps (kernels.precision.predicted_error).

        Times are medians of interleaved samples, with rests between thread pools; operands are float32 in memory, and
        conversions are included. GFLOP/s counts 2 n^3 operations, whatever a precision really does. torch's bf16
        tensors are converted beforehand, and their result is rounded to bf16 as well, which the theory includes.
    """
    disturbed = max(row["median_seconds"] / row["minimum_seconds"] for row in rows)
    if disturbed > BUSY:
        text += f"""\n
        The machine was busy: the median time of one product is {disturbed:.1f} times its fastest (results.json has
        both). Speeds need a quieter machine.
        """
    if result["skipped_sizes"]:
        skipped = ", ".join(map(str, result["skipped_sizes"]))
        text += f"\n\nLeft out for the budget of {result['budget_seconds']:g} s: n = {skipped}."
    return paragraphs(text)


def _over_theory(row: dict[str, Any]) -> float:
    return row["rms_error"] / row["predicted_rms_error"]
