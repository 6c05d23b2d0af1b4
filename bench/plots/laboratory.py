"""The plots of what precisions do to answers and errors, and of orders of contraction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .style import MARKS, PEER_MARKS, Plot, plain_numbers, show_sizes

__all__ = ["PLOTS"]


def _mark(row: dict[str, Any]) -> tuple[str, str]:
    return MARKS[row["precision"]] if row["ours"] else PEER_MARKS[row["name"]]


def _label(row: dict[str, Any]) -> str:
    return row["precision"] if row["ours"] else row["name"]


# Handwritten digits


def _accuracy(figure: Figure, result: dict[str, Any]) -> None:
    left, right = figure.subplots(1, 2)
    rows = result["precisions"]
    places = range(len(rows))
    for place, row in enumerate(rows):
        colour, marker = MARKS[row["precision"]]
        left.plot(place, 100 * row["accuracy"], marker, color=colour, markersize=10)
        changed = "reference" if row["precision"] == "ieee" else f"{row['changed_answers']} changed"
        left.annotate(
            f"{100 * row['accuracy']:.2f} %\n{changed}", (place, 100 * row["accuracy"]),
            xytext=(0, 11), textcoords="offset points", ha="center", fontsize=9,
        )  # fmt: skip
        right.plot(place, row["rms_error"], marker, color=colour, markersize=9)
        right.plot(
            place,
            row["largest_error"],
            marker,
            color=colour,
            markersize=9,
            markerfacecolor="white",
            markeredgewidth=1.6,
        )
    middle = 100 * float(np.mean([row["accuracy"] for row in rows]))
    left.set_ylim(middle - 2, middle + 2)
    left.set(
        title=f"Accuracy on {result['held_out']} held-out digits", ylabel="accuracy (%)", xlim=(-0.6, len(rows) - 0.4)
    )
    right.set(title="Error of the logits against float64", ylabel="error", yscale="log", xlim=(-0.6, len(rows) - 0.4))
    right.axhline(result["rms_of_logits"], color="#999999", linestyle="--", linewidth=1)
    right.annotate(
        "rms of the logits", (len(rows) - 0.45, result["rms_of_logits"]), xytext=(0, 3), textcoords="offset points",
        ha="right", fontsize=9, color="#666666",
    )  # fmt: skip
    for fill, label in (("white", "largest"), ("#555555", "rms")):
        right.plot([], [], "o", color="#555555", markerfacecolor=fill, markersize=8, label=label)
    right.legend(loc="center left")
    for axes in (left, right):
        axes.set_xticks(places, [row["precision"] for row in rows])
        axes.grid(visible=False, axis="x")


def _margins(figure: Figure, result: dict[str, Any]) -> None:
    axes = figure.subplots()
    margins = np.array(result["margins"])
    share = np.arange(1, len(margins) + 1)
    axes.step(margins, share, where="post", color="#333333", linewidth=1.8)
    for row in result["precisions"]:
        colour, marker = MARKS[row["precision"]]
        reach = row["reach"]
        axes.axvline(reach, color=colour, linewidth=1.2, linestyle="--")
        label = f"{row['precision']}: {row['within_reach']} within reach, {row['changed_answers']} changed"
        axes.plot(
            reach,
            max(0.6, row["within_reach"]),
            marker,
            color=colour,
            markersize=9,
            label=label,
            clip_on=False,
            zorder=4,
        )
    lowest = min(margins.min(), *(row["reach"] for row in result["precisions"]))
    axes.set(
        title="How far each precision reaches into the margins",
        xlabel="margin between the two largest logits (float64); dashed: twice the largest error of a precision",
        ylabel="answers with at most this margin",
        xscale="log",
        yscale="log",
        xlim=(lowest / 2, margins.max() * 1.5),
        ylim=(0.6, len(margins) * 1.6),
    )
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.legend(loc="upper left", frameon=True, framealpha=1, edgecolor="none")


def _layers(figure: Figure, result: dict[str, Any]) -> None:
    axes = figure.subplots()
    rows = result["layers_alone"]
    layers = list(dict.fromkeys(row["layer"] for row in rows))
    for precision in dict.fromkeys(row["precision"] for row in rows):
        colour, marker = MARKS[precision]
        own = [row for row in rows if row["precision"] == precision]
        places = [layers.index(row["layer"]) for row in own]
        axes.plot(
            places, [row["error"] for row in own], marker, color=colour, markersize=9, label=f"answers, {precision}"
        )
        beside = [place + 0.14 for place in places]
        axes.plot(beside, [row["local"] for row in own], marker, color=colour, markersize=9, markerfacecolor="white")
    axes.plot([], [], "o", color="#555555", markerfacecolor="white", markersize=8, label="the layer's own results")
    axes.axvline(len(layers) - 1.5, color="#999999", linestyle="--", linewidth=1)
    axes.set(title="One layer at a time at a lower precision", ylabel="relative error", yscale="log")
    axes.set_xticks(range(len(layers)), layers)
    axes.set_xlim(-0.5, len(layers) - 0.5)
    axes.grid(visible=False, axis="x")
    figure.legend(loc="outside right upper")


# Bare products


def _against_error(axes: Axes, measured: dict[str, Any]) -> None:
    """The speed of each product of one size over its error."""
    for row in measured["products"]:
        colour, marker = _mark(row)
        size = 10 if row["ours"] else 9
        axes.plot(row["rms_error"], row["gflops"], marker, color=colour, markersize=size, label=_label(row))
    axes.set(
        title=f"Speed against error, n = {measured['size']}", xscale="log", xlabel="rms error relative to sqrt(n)",
        ylabel="GFLOP/s (2 n³ counted)",
    )  # fmt: skip
    axes.set_ylim(0, 1.12 * max(row["gflops"] for row in measured["products"]))
    axes.margins(x=0.12)


def _tradeoff(figure: Figure, result: dict[str, Any]) -> None:
    axes, measured = figure.subplots(), result["measured"][-1]
    _against_error(axes, measured)
    top = axes.get_ylim()[1]
    placed: list[tuple[float, float]] = []
    for row in sorted(measured["products"], key=lambda row: row["gflops"]):
        decade, height = math.log10(row["rms_error"]), row["gflops"] / top
        above = max((y + 0.06 for x, y in placed if abs(x - decade) < 1.2), default=0.0)
        placed.append((decade, max(height, above)))
        axes.annotate(
            _label(row), (row["rms_error"], row["gflops"]), xytext=(10, (placed[-1][1] - height) * 200 - 3),
            textcoords="offset points", fontsize=10, color=_mark(row)[0],
        )  # fmt: skip
    axes.set_xlim(right=30 * max(row["rms_error"] for row in measured["products"]))  # for the names


def _speed(figure: Figure, result: dict[str, Any]) -> None:
    left, right = figure.subplots(1, 2)
    _against_error(left, result["measured"][-1])
    for name, (sizes, speeds, row) in _over_sizes(result, "speed_relative_to_numpy").items():
        colour, marker = _mark(row)
        style = "-" if row["ours"] else ":"
        right.plot(sizes, speeds, style, marker=marker, color=colour, label=name, markersize=7, linewidth=1.5)
    right.set(title="Speed relative to NumPy's fp32 product", yscale="log", xlabel="n", ylabel="times NumPy's speed")
    show_sizes(right, result["sizes"])
    right.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    right.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if value in (0.2, 0.5, 2, 5, 20, 50) else "")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels) if len(labels) <= 6 else 5)


def _errors(figure: Figure, result: dict[str, Any]) -> None:
    left, right = figure.subplots(1, 2)
    theory = _over_sizes(result, "predicted_rms_error", ours=True)
    for place, (name, (sizes, measured, row)) in enumerate(_over_sizes(result, "rms_error", ours=True).items()):
        colour, marker = _mark(row)
        predicted = np.array(theory[name][1])
        beside = np.array(sizes) * (sizes[-1] / sizes[0]) ** (0.015 * (place - 2))  # or equal values hide each other
        left.plot(sizes, predicted, "-", color=colour, linewidth=1.4, alpha=0.7)
        left.plot(beside, measured, marker, color=colour, markersize=7, label=name)
        right.plot(beside, np.array(measured) / predicted, marker, color=colour, markersize=7)
    left.set(
        title="Error over size: measured (marks), theory (lines)",
        yscale="log",
        xlabel="n",
        ylabel="rms error / sqrt(n)",
    )
    right.set(title="Measured over theory", xlabel="n", ylabel="ratio of rms errors")
    right.set_ylim(0, max(1.6, 1.1 * right.get_ylim()[1]))
    right.axhline(1, color="#999999", linewidth=1)
    for axes in (left, right):
        show_sizes(axes, result["sizes"])
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5)


def _over_sizes(result: dict[str, Any], key: str, ours: bool = False) -> dict[str, tuple[list[int], list[float], dict]]:
    """For each product: the sizes, the values of `key`, and its first row."""
    series: dict[str, tuple[list[int], list[float], dict]] = {}
    for entry in result["measured"]:
        for row in entry["products"]:
            if row["ours"] or not ours:
                sizes, values, _ = series.setdefault(_label(row), ([], [], row))
                sizes.append(entry["size"])
                values.append(row[key])
    return series


# PyTorch's TF32 note


def _note(figure: Figure, result: dict[str, Any]) -> None:
    axes = figure.subplots()
    documented = result["documented"]
    sizes = sorted({row["size"] for row in result["measured"]})
    for precision, name in (("tf32", "allow_tf32 = True"), ("ieee", "allow_tf32 = False")):
        colour, marker = MARKS[precision]
        rows = [row for row in result["measured"] if row["precision"] == precision]
        axes.plot(
            sizes,
            [row["largest_error"] for row in rows],
            marker,
            color=colour,
            markersize=9,
            label=f"{name}, measured here",
        )
        theory = [row["predicted"]["largest_error"] for row in rows]
        theory.append(result["predicted_for_documented"][precision]["largest_error"])
        axes.plot([*sizes, documented["size"]], theory, "-", color=colour, linewidth=1.4, label=f"{name}, theory")
        axes.plot(
            documented["size"], documented[precision]["largest_error"], marker, color=colour, markersize=12,
            markerfacecolor="white", markeredgewidth=1.8, label=f"{name}, the note (A100)",
        )  # fmt: skip
        axes.annotate(
            f"{documented[precision]['largest_error']:g}", (documented["size"], documented[precision]["largest_error"]),
            xytext=(0, 10), textcoords="offset points", ha="center", fontsize=9,
        )  # fmt: skip
    axes.set(
        title="Largest error of an n x n x n product of normal variates",
        yscale="log",
        xlabel="n",
        ylabel="largest error",
    )
    axes.set_ylim(top=2.2 * axes.get_ylim()[1])
    show_sizes(axes, [*sizes, documented["size"]])
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


_STRATEGY_MARKS = "osD^vPX*"


def _whole_steps(panel: Axes) -> None:
    """Have a logarithmic y axis reach from a tick of 1, 2, 5, 10 ... below all values to one above."""
    low, high = np.log10(panel.get_ylim())
    ticks = [step * 10.0**power for power in range(int(low) - 2, int(high) + 2) for step in (1, 2, 5)]
    panel.set_ylim(max(tick for tick in ticks if tick <= 10**low), min(tick for tick in ticks if tick >= 10**high))
    plain_numbers(panel)


def _contractions(figure: Figure, result: Any) -> None:
    """Time against error, one panel for each network; a mark for each strategy, a colour for each precision."""
    axes = figure.subplots(2, (len(result["networks"]) + 1) // 2, squeeze=False).ravel()
    strategies = list(dict.fromkeys(row["strategy"] for entry in result["networks"] for row in entry["runs"]))
    for panel, entry in zip(axes, result["networks"], strict=False):
        panel.set_title(entry["name"])
        for row in entry["runs"]:
            if row["median_seconds"] is not None and row["error"]:
                mark = _STRATEGY_MARKS[strategies.index(row["strategy"]) % len(_STRATEGY_MARKS)]
                panel.loglog(row["error"], 1e3 * row["median_seconds"], mark, color=MARKS[row["precision"]][0])
        panel.set_xlabel("relative error")
        panel.set_ylabel("ms")
        _whole_steps(panel)
    for panel in axes[len(result["networks"]) :]:
        panel.set_axis_off()
    used = dict.fromkeys(row["precision"] for entry in result["networks"] for row in entry["runs"])
    handles = [Line2D([], [], color="#000000", marker=_STRATEGY_MARKS[i % 8], ls="") for i in range(len(strategies))]
    handles += [Line2D([], [], color=MARKS[precision][0], lw=4) for precision in used]
    figure.legend(handles, [*(f"strategy {name}" for name in strategies), *used], loc="lower right")


def _assignments(figure: Figure, result: dict[str, Any]) -> None:
    """Error over cost: uniform precisions, and those that a budget chose for each step."""
    axes = figure.subplots()
    rows = sorted(result["mixed"]["rows"], key=lambda row: row["cost"])
    for row in rows:
        uniform = len(set(row["precisions"])) == 1
        colour, marker = MARKS[row["precisions"][0]] if uniform else ("#D55E00", "*")
        size = 9 if uniform else 14
        axes.plot(row["cost"], row["error"], marker, color=colour, markersize=size, zorder=3)
        axes.plot(
            row["cost"],
            row["predicted_error"],
            marker,
            color=colour,
            markersize=size + 7,
            markerfacecolor="none",
            zorder=2,
        )
        label = row["name"] if uniform else f"{row['name']}: {', '.join(row['precisions'])}"
        last = row["cost"] > 0.4
        axes.annotate(
            label, (row["cost"], row["error"]), xytext=(-13 if last else 13, 6), textcoords="offset points", fontsize=9,
            ha="right" if last else "left",
        )  # fmt: skip
    axes.plot([], [], "o", color="#555555", label="measured")
    axes.plot([], [], "o", color="#555555", markerfacecolor="none", markersize=13, label="predicted")
    axes.set(
        xscale="log", yscale="log", xlabel="cost by matrix units of devices, relative to ieee", ylabel="relative error",
        title=f"Precisions of the {len(result['mixed']['steps'])} steps of the {result['mixed']['network']}",
    )  # fmt: skip
    axes.margins(x=0.15, y=0.12)
    axes.legend(loc="upper right")


PLOTS: dict[str, list[Plot]] = {
    "einsum-plans": [
        Plot(
            "einsum-assignments",
            "Left is cheaper, down is more accurate; stars are precisions that lower_within chose for each step.",
            (10, 5.0),
            _assignments,
        ),
    ],
    "einsum": [
        Plot(
            "einsum-strategies",
            "Down is faster, left is more accurate; a mark is an order of contraction, a colour a precision.",
            (13, 7.0),
            _contractions,
        ),
    ],
    "digits": [
        Plot(
            "digits-accuracy",
            "What each precision does to the answers, and to the logits behind them.",
            (10, 4.2),
            _accuracy,
        ),
        Plot(
            "digits-margins",
            "Answers in the order of their margin. Only answers left of a dashed line can change at that precision.",
            (10, 4.4),
            _margins,
        ),
    ],
    "digits-cnn": [
        Plot(
            "digits-cnn-layers",
            "Which layers make the error of the answers (filled), beside the error of their own results (open).",
            (10, 4.4),
            _layers,
        ),
    ],
    "products": [
        Plot(
            "products-tradeoff",
            "Up is faster, left is more accurate: the largest size.",
            (7, 4.2),
            _tradeoff,
        ),
        Plot(
            "products-speed",
            "Up is faster, left is more accurate. Grey marks are other libraries.",
            (10, 5.0),
            _speed,
        ),
        Plot(
            "products-error",
            "The error of each precision beside its theory, over the size of the product.",
            (10, 4.6),
            _errors,
        ),
    ],
    "tf32-note": [
        Plot(
            "tf32-note",
            "The note's example at smaller sizes, and the line that theory draws to the note's size.",
            (10, 4.4),
            _note,
        ),
    ],
}
"""By part."""
