"""The picture of the first screen: errors of the models' outputs, and how many answers changed."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from .style import MARKS, Plot

__all__ = ["PLOTS"]


def _effects(figure: Figure, result: list[dict[str, Any]]) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    models = list(dict.fromkeys(each["model"] for each in result))
    precisions = list(dict.fromkeys(each["precision"] for each in result))
    for each in result:
        colour, marker = MARKS[each["precision"]]
        shift = 0.13 * (precisions.index(each["precision"]) - (len(precisions) - 1) / 2)
        place = models.index(each["model"]) + shift
        left.plot(each["error"], place, marker, color=colour, markersize=9)
        share = 100 * each["changed"] / each["answers"]
        right.barh(place, share, 0.11, color=colour)
        text = f"{each['changed']} of {each['answers']}" if each["changed"] else "none"
        right.annotate(text, (share, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)
    for precision in precisions:
        colour, marker = MARKS[precision]
        left.plot([], [], marker, color=colour, markersize=9, label=precision)
    left.set(title="Error of the outputs against float64", xlabel="relative error", xscale="log")
    left.set_yticks(range(len(models)), models)
    left.invert_yaxis()
    right.set(title="Answers that change", xlabel="share of the answers (%)")
    right.set_xlim(0, 1.3 * max(1.0, *(100 * each["changed"] / each["answers"] for each in result)))
    for axes in (left, right):
        axes.grid(visible=False, axis="y")
    figure.legend(loc="outside lower center", ncols=len(precisions))


PLOTS = {
    "overview": [
        Plot(
            "overview",
            "Outputs against a float64 run of the same weights; answers are classes, or the nearest other sentence.",
            (11, 3.8),
            _effects,
        )
    ]
}
