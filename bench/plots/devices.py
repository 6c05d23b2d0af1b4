"""The plots of the sums of matrix units."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from .style import Plot, show_sizes

__all__ = ["PLOTS"]

_LINES = (
    ("#000000", "o"), ("#882255", "v"), ("#0072B2", "s"), ("#009E73", "D"), ("#E69F00", "P"), ("#56B4E9", "^"),
    ("#D55E00", "X"), ("#AA4499", "*"), ("#5f5f5f", "h"),
)  # fmt: skip


def _alike(devices: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The devices under one name where their sums have the same errors."""
    found: dict[str, tuple[list[str], dict[str, Any]]] = {}
    for row in devices:
        found.setdefault(str((row["over_length"], row["over_spread"])), ([], row))[0].append(row["device"])
    return [(" and ".join(names), row) for names, row in found.values()]


def _sums(figure: Figure, result: dict[str, Any]) -> None:
    over_length, over_spread, drift = figure.subplots(1, 3)
    lengths, spreads = result["lengths"], result["spreads"]
    for (name, row), (colour, marker) in zip(_alike(result["devices"]), _LINES, strict=False):
        style = {"color": colour, "marker": marker, "markersize": 6, "linewidth": 1.4}
        over_length.plot(lengths, [each["rms_error"] for each in row["over_length"]], label=name, **style)
        over_spread.plot(spreads, [each["rms_error"] for each in row["over_spread"]], **style)
        drift.plot(lengths, [-each["drift"] for each in row["over_length"]], **style)
    over_length.set(
        title="Error of normal operands", yscale="log", xlabel="K", ylabel="rms error (2$^{-24}$ of sum |ab|)"
    )
    over_spread.set(
        title="Error over the spread, K = 1,024",
        yscale="log",
        xlabel="spread s: operands times 2$^{u}$, |u| at most 2 s",
    )
    over_spread.set_xticks(spreads)
    drift.set(title="Drift: loss of sums of magnitudes", xlabel="K", ylabel="mean loss (2$^{-24}$ of the sum)")
    drift.set_yscale("symlog", linthresh=1.0)
    for panel in (over_length, drift):
        show_sizes(panel, lengths)
    figure.legend(*over_length.get_legend_handles_labels(), loc="outside lower center", ncols=5)


PLOTS: dict[str, list[Plot]] = {
    "devices": [
        Plot(
            "devices",
            "The same products, summed by the matrix units of eight devices. Units that cut lose on one side, which "
            "errors of normal operands do not show.",
            (13, 5.0),
            _sums,
        ),
    ],
}
"""By part."""
