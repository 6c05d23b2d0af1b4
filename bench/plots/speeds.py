"""The plots of how fast kernels are beside other libraries, and what that costs in accuracy."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .style import MARKS, Plot, plain_numbers, show_sizes

__all__ = ["PLOTS"]

TENSORS = {"bfloat16": ("#CC79A7", "P"), "float64": ("#56B4E9", "p")}
"""The marks of ours on tensors of other dtypes than float32."""

PEERS = {
    "torch float32": ("#8a8a8a", "X"),
    "torch bfloat16": ("#8a8a8a", "*"),
    "torch float64": ("#8a8a8a", "p"),
    "torch": ("#8a8a8a", "X"),
    "NumPy": ("#5f5f5f", "+"),
    "SciPy": ("#5f5f5f", "1"),
    "SciPy, threads": ("#5f5f5f", "2"),
}

DTYPES = {"float32": "#0072B2", "float64": "#D55E00"}

SHAPES = "osD^vPX*<>p"


def _names(axes: Axes, names: list[str]) -> None:
    """An axis of names, aslant where they are long."""
    aslant = {"rotation": 35, "ha": "right", "rotation_mode": "anchor", "fontsize": 9}
    axes.set_xticks(range(len(names)), names, **(aslant if max(map(len, names)) > 9 else {}))
    axes.margins(x=0.08)


# Attention


def _attention(figure: Figure, result: dict[str, Any]) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    cases = result["forward"]
    for name in cases[0]["median_seconds"]:
        colour, marker = (MARKS | TENSORS | PEERS)[name]
        speeds = [1e-9 * entry["operations"] / entry["median_seconds"][name] for entry in cases]
        label = f"{name} tensors" if name in TENSORS else name
        left.plot(speeds, ":" if name in PEERS else "-", marker=marker, color=colour, markersize=7, label=label)
    left.set(title="Speed of the flash kernel", ylabel="GFLOP/s of the two products", ylim=(0, None))
    _names(left, [entry["case"] for entry in cases])
    left.legend(ncols=2)
    for place, kernel in enumerate(("flash", "efficient", "math")):
        errors = [row[kernel] for row in result["errors"]]
        size = 8 + 3 * place  # equal errors stand inside each other
        right.plot(errors, SHAPES[place], color="#333333", fillstyle="none", markersize=size, label=kernel)
    right.set(title="Error of each kernel", ylabel="relative to the result, against float64", yscale="log")
    _names(right, [row["precision"] for row in result["errors"]])
    right.legend()


# Convolutions


def _algorithms(figure: Figure, result: dict[str, Any]) -> None:
    left, right = figure.subplots(1, 2)
    rows = [row for row in result["algorithms"] if "refused" not in row]
    shapes = dict(zip(dict.fromkeys(row["algorithm"] for row in rows), SHAPES, strict=False))
    for axes, key, factor in ((left, "seconds", 1e3), (right, "workspace", 1e-6)):
        for row in rows:
            axes.plot(row["error"], factor * row[key], shapes[row["algorithm"]], color=MARKS[row["precision"]][0], ms=8)
        axes.set(xscale="log", xlabel="rms error relative to the result")
        plain_numbers(axes)
    left.set(title="Time of each algorithm", ylabel="ms")
    right.set(title="Memory it takes meanwhile", ylabel="MB")
    used = [name for name in MARKS if any(row["precision"] == name for row in rows)]
    handles = [Line2D([], [], color="#555555", marker=shape, ls="", label=name) for name, shape in shapes.items()]
    handles += [Line2D([], [], color=MARKS[name][0], lw=4, label=name) for name in used]
    figure.legend(handles=handles, loc="outside lower center", ncols=(len(handles) + 1) // 2)


# Linear algebra


def _linear_algebra(figure: Figure, result: dict[str, Any]) -> None:
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
                shapes[size], color=DTYPES[dtype], markersize=7, label=f"n = {size:,}, {dtype}",
            )  # fmt: skip
        plain_numbers(axes)
        axes.axhline(1, color="#999999", linewidth=1)
        axes.set(title=title)
        _names(axes, tasks)
        axes.legend()
    panels[0].set_ylabel("time of the best other / ours")


def _others(row: dict[str, Any]) -> list[float]:
    return [value for name, value in row["median_seconds"].items() if name != "ours"]


# Fourier transforms


def _transforms(figure: Figure, result: dict[str, Any]) -> None:
    complex_rows = [row for row in result["cases"] if not row["real"] and row["dtype"] == "float32"]
    groups = {
        "Many at once": [row for row in complex_rows if row["batch"] > 1],
        "One": [row for row in complex_rows if row["batch"] == 1],
    }
    groups = {title: rows for title, rows in groups.items() if rows}
    for axes, (title, rows) in zip(figure.subplots(1, len(groups), squeeze=False)[0], groups.items(), strict=True):
        powers = [row for row in rows if _is_power_of_two(row["n"])]
        others = [row for row in rows if not _is_power_of_two(row["n"])]
        for name in dict.fromkeys(name for row in rows for name in row["median_seconds"]):
            colour, marker = PEERS.get(name, ("#0072B2", "o"))
            style = {"marker": marker, "color": colour, "markersize": 7}
            label = "minitorch-backends" if name == "mt" else name
            axes.plot(*_speeds(powers, name), ":" if name in PEERS else "-", label=label, **style)
            axes.plot(*_speeds(others, name), ls="", fillstyle="none", **style)
        if others:
            axes.plot([], [], ls="", fillstyle="none", marker="o", color="0.4", markersize=7, label="other lengths")
        axes.set(title=f"{title}: complex numbers, float32", xlabel="length", ylabel="GFLOP/s, 5 n log2(n) counted")
        show_sizes(axes, sorted({row["n"] for row in powers}))
        axes.tick_params(axis="x", rotation=35)
        axes.set_ylim(0, None)
        axes.legend()


def _is_power_of_two(n: int) -> bool:
    return n & (n - 1) == 0


def _speeds(rows: list[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """Lengths and GFLOP/s of who was timed under a name, by length."""
    some = sorted((row for row in rows if name in row["median_seconds"]), key=lambda row: row["n"])
    taken = [row["median_seconds"] for row in some]
    speeds = [row["gflops"] * each["mt"] / each[name] for row, each in zip(some, taken, strict=True)]
    return [row["n"] for row in some], speeds


PLOTS: dict[str, list[Plot]] = {
    "attention": [
        Plot(
            "attention",
            "Left, up is faster; cases are batch x heads (/ heads of key and value) x length x size of a head.",
            (12, 4.6),
            _attention,
        ),
    ],
    "conv": [
        Plot(
            "conv-algorithms",
            "Down is faster or smaller, left is more accurate; a mark is an algorithm, a colour a precision.",
            (10, 4.8),
            _algorithms,
        ),
    ],
    "linalg": [
        Plot(
            "linalg-speed",
            "Above the line this engine is faster than every other library that is installed.",
            (12, 4.6),
            _linear_algebra,
        ),
    ],
    "fft": [
        Plot(
            "fft-speed",
            "Up is faster. Lines join powers of two; empty marks are other lengths, the lowest of them primes.",
            (12, 4.6),
            _transforms,
        ),
    ],
}
"""By part."""
