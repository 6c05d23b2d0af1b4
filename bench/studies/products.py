"""Bare products at each precision: their errors beside theory, and the example of PyTorch's note on TF32.

The note ("TensorFloat-32 (TF32) on Ampere devices" in PyTorch's "CUDA semantics") multiplies two 10240 x 10240
matrices of normal variates on an A100, with `allow_tf32` on and off. It prints the largest error against a float64
product, and that error divided by the mean magnitude of the entries.

Theory: an operand rounded to p bits is off by a uniform error whose unit is 2**(floor(log2|x|) + 1 - p). For normal x
the mean square of 2**floor(log2|x|) is 0.5429, so an entry, a sum of k products, is off by

    sigma = sqrt(2 k 2**(2 (1 - p)) 0.5429 / 12),   p = 11 for TF32,

and the largest of N such errors is near sigma * z with z the normal quantile of 1 - 1 / (2 N).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import minitorch_backends as mt
from minitorch_backends.display.figures import MARKS, show_sizes
from minitorch_backends.kernels.precisions.products import predicted_error
from minitorch_backends.lab.metrics import Arrays

from ..presentation import Table, error, number, paragraphs, plot, ratio, seconds
from ..session import PRECISIONS, Session

TITLE = "Bare products"

SIZES = {"quick": (128, 256), "usual": (256, 512, 1024, 2048), "full": (256, 512, 1024, 2048, 4096)}

ROUNDED = ("tf32", "bf16", "bf16x3")
"""The precisions whose error comes from the operands; that of the others comes from the order of the sums."""

DOCUMENTED = {
    "size": 10240,
    "mean_magnitude": 80.7277,
    "tf32": {"largest": 0.1747, "relative": 0.0022, "seconds": 0.016},
    "ieee": {"largest": 0.0031, "relative": 0.000039, "seconds": 0.11},
}
"""What the note prints for an A100."""


@functools.lru_cache(maxsize=2)
def operands(n: int, seed: int) -> tuple[mt.Tensor, mt.Tensor]:
    """Two n x n matrices of normal variates, float32."""
    random = np.random.default_rng([seed, n])
    a, b = (random.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    return mt.from_numpy(a), mt.from_numpy(b)


def product(n: int, seed: int) -> mt.Tensor:
    """Their product."""
    a, b = operands(n, seed)
    return a @ b


def exact_product(n: int, seed: int) -> mt.Tensor:
    """The same in float64."""
    a, b = operands(n, seed)
    return a.double() @ b.double()


def entries(answer: Arrays, truth: Arrays) -> dict[str, float]:
    """The error of an entry, rms, and the mean magnitude of the entries."""
    (found,), (exact,) = answer.values(), truth.values()
    return {"rms": float(np.sqrt(np.mean((found - exact) ** 2))), "mean_magnitude": float(np.abs(exact).mean())}


def predict(precision: str, n: int) -> dict[str, float]:
    """The rms error of an entry, the largest, and that over the mean magnitude, which is sqrt(2 n / pi)."""
    expected = predicted_error(precision, n, entries=n * n)
    largest = expected.maximum
    return {"rms": expected.sigma, "largest": largest, "relative": largest / math.sqrt(2 * n / math.pi)}


def run(session: Session) -> dict[str, Any]:
    """Multiply matrices of each size at each precision."""
    with mt.no_grad():
        rows = session.sweep(
            product, over={"n": SIZES[session.extent]}, flags={"fp32_precision": PRECISIONS}, seeds=[session.seed],
            reference=exact_product, metric=entries, repeats=session.choose(1, 5, 9),
        )  # fmt: skip
    return {"rows": [row | {"predicted": predict(_precision(row), row["n"])} for row in rows]}


def _precision(row: dict[str, Any]) -> str:
    return row["flags"]["fp32_precision"]


# What is shown


def tables(result: dict[str, Any]) -> list[Table]:
    return [_errors(result["rows"]), _note(result["rows"])]


def _errors(rows: list[dict[str, Any]]) -> Table:
    cells: list[tuple[str, ...]] = []
    for row in rows:
        if row["n"] != rows[0]["n"] and _precision(row) == PRECISIONS[0]:
            cells.append(())
        scale = math.sqrt(row["n"])
        own = row["rms"], row["predicted"]["rms"], row["max_abs"], row["predicted"]["largest"]
        cells.append(
            (
                str(row["n"]),
                _precision(row),
                ", ".join(name.partition(": ")[2] for name in row["kernels"]),
                *(error(each / scale) for each in own),
                number(2e-9 * row["n"] ** 3 / row["seconds"]),
                ratio(_seconds_at(rows, row["n"], "ieee") / row["seconds"]),
            )
        )
    columns = ("n", "precision", "by", "rms error", "theory", "largest", "theory", "GFLOP/s", "speed of ieee's")
    return Table("n x n x n products: errors relative to sqrt(n)", columns, cells, names=3)


def _seconds_at(rows: list[dict[str, Any]], n: int, precision: str) -> float:
    return next(row["seconds"] for row in rows if (row["n"], _precision(row)) == (n, precision))


def _note(rows: list[dict[str, Any]]) -> Table:
    def line(n: str, precision: str, found: dict[str, float], theory: dict[str, float]) -> tuple[str, ...]:
        pairs = ((found[name], theory[name]) for name in ("largest", "relative"))
        return (n, "on" if precision == "tf32" else "off", *(error(each) for pair in pairs for each in pair),
                seconds(found["seconds"]))  # fmt: skip

    cells: list[tuple[str, ...]] = []
    for row in (row for row in rows if _precision(row) in ("tf32", "ieee")):
        relative = row["max_abs"] / row["mean_magnitude"]
        found = {"largest": row["max_abs"], "relative": relative, "seconds": row["seconds"]}
        cells.append(line(str(row["n"]), _precision(row), found, row["predicted"]))
    size = DOCUMENTED["size"]
    cells.append(())
    cells += [
        line(f"{size} (A100)", name, DOCUMENTED[name], predict(name, size))  # type: ignore[arg-type]
        for name in ("ieee", "tf32")
    ]
    columns = ("n", "TF32", "largest", "theory", "relative", "theory", "time")
    return Table("The example of PyTorch's note on TF32, and the note's own numbers", columns, cells, names=2)


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    rows = result["rows"]
    over = {True: [], False: []}  # type: dict[bool, list[float]]
    for row in rows:
        over[_precision(row) in ROUNDED].append(row["rms"] / row["predicted"]["rms"])
    theory, told = predict("tf32", DOCUMENTED["size"])["largest"], DOCUMENTED["tf32"]["largest"]  # type: ignore[index,arg-type]
    return paragraphs(f"""
        The rms errors of {", ".join(ROUNDED)} are {min(over[True]):.2f} to {max(over[True]):.2f} times the prediction.
        Those of the fp32-class precisions depend on the order of the sums, which each implementation chooses:
        {min(over[False]):.2f} to {max(over[False]):.2f} times.

        Square matrices of standard normal float32 numbers. Errors are against the product of the same matrices in
        float64, relative to sqrt(n), the standard deviation of an entry. The theory takes every rounding of an operand
        as independent, and fp32 sums as chains of 384 fused steps (`predicted_error`), with the same
        spread in every entry, though large sums round more coarsely: the largest error of fp32 sums comes out up to
        three times higher. GFLOP/s counts 2 n^3 operations, whatever a precision really does; other libraries beside
        them are in --full.

        PyTorch's note multiplies two 10240 x 10240 matrices of normal variates on an A100. For its size theory predicts
        a largest error of {theory:.3f} with TF32, and the note says {told}; operands truncated instead of rounded would
        give 0.40 at least.
    """)


@plot(
    "products-errors",
    "Measured (marks) beside theory (dashed), over the size of the product; the empty marks are the numbers in "
    "PyTorch's note.",
    (11, 4.4),
)
def by_size(figure: Figure, result: dict[str, Any]) -> None:
    left, right = figure.subplots(1, 2)
    rows = result["rows"]
    sizes = list(dict.fromkeys(row["n"] for row in rows))
    for precision in PRECISIONS:
        colour, mark = MARKS[precision]
        own = [row for row in rows if _precision(row) == precision]
        left.plot(sizes, [row["rms"] / math.sqrt(row["n"]) for row in own], mark, color=colour, label=precision)
        left.plot(sizes, [row["predicted"]["rms"] / math.sqrt(row["n"]) for row in own], "--", color=colour)
        if precision in ("ieee", "tf32"):
            right.plot(sizes, [row["max_abs"] for row in own], mark, color=colour, label=f"TF32 {_switch(precision)}")
            longer = [*sizes, DOCUMENTED["size"]]
            right.plot(longer, [predict(precision, n)["largest"] for n in longer], "--", color=colour)
            told = DOCUMENTED[precision]["largest"]  # type: ignore[index]
            right.plot(DOCUMENTED["size"], told, mark, color=colour, fillstyle="none", markersize=10)
    left.set(title="Error of an entry, relative to sqrt(n)", yscale="log", xlabel="n", ylabel="rms error")
    show_sizes(left, sizes)
    left.legend(ncols=3, loc="center right")
    right.set(title="The note's example: largest error", xscale="log", yscale="log", xlabel="n", ylabel="largest error")
    right.legend()


def _switch(precision: str) -> str:
    return "on" if precision == "tf32" else "off"


PLOTS = [by_size]
