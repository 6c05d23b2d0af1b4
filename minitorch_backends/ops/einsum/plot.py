"""Pictures of plans. Importing this module imports matplotlib."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...display.figures import BLUE as _SLICE
from ...display.figures import GREY as _WHOLE
from ...display.figures import INK as _INK
from ...display.figures import ORANGE as _AHEAD
from ...display.figures import Drawing, File, MaxNLocator, drawing
from .plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_NAMED = 40
"""The largest number of operands whose leaves are labelled in the tree."""


def plot(plan: Plan, file: File = None) -> Drawing:
    """Draw the contraction tree, and beside it memory and result sizes over the steps."""
    count = len(plan.inputs)
    with drawing(file, (min(9 + count / 10, 20), 5), "Plan.plot") as figure:
        tree, memory = figure.subplots(1, 2, width_ratios=(min(1 + count / 60, 2), 1))
        _draw_tree(tree, plan)
        _draw_memory(memory, plan)
        figure.suptitle(
            f"{_short(plan.equation)}: {plan.flops:.3g} FLOPs, peak {plan.peak_elements:,} elements", fontsize=10
        )
    return figure


def _short(equation: str) -> str:
    return equation if len(equation) <= 60 else f"{equation[:57]}..."


def _draw_tree(axes: Axes, plan: Plan) -> None:
    """Operands at the bottom, contractions above their inputs; areas show FLOPs, line widths the sizes of values."""
    count, steps = len(plan.inputs), plan.steps
    x, y = _places(plan)
    slicing = plan.slicing
    ahead = {number for part in slicing.ahead for number in part.steps} if slicing is not None else set()
    elements = [math.prod(shape) for shape in plan.term_shapes] + [step.size for step in steps]
    largest = math.log2(max(*elements, 2))
    for number, step in enumerate(steps):
        for operand in step.operands:
            width = 0.5 + 3.5 * math.log2(max(elements[operand], 1)) / largest
            ends = [x[operand], x[operand], x[count + number]], [y[operand], y[count + number], y[count + number]]
            axes.plot(*ends, color=_WHOLE, linewidth=width, solid_joinstyle="round", zorder=1)
    total = max(sum(step.flops for step in steps), 1)
    colours = [_AHEAD if number in ahead else _SLICE for number in range(len(steps))]
    areas = [12 + 500 * step.flops / total for step in steps]
    axes.scatter(x[count:], y[count:], s=areas, c=colours, zorder=2)
    axes.scatter(x[:count], y[:count], s=8, color=_INK, zorder=2)
    if count <= _MOST_NAMED:
        for term, place in zip(plan.equation.partition("->")[0].split(","), x[:count], strict=True):
            axes.annotate(
                term, (place, 0), xytext=(0, -7), textcoords="offset points", ha="center", va="top", fontsize=8,
                rotation=90 if count > 12 else 0, color=_INK,
            )  # fmt: skip
    axes.set_title("contractions, area by FLOPs, lines by elements", fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.margins(y=0.16 if count > 12 else 0.1)
    if slicing:
        for colour, label in ((_SLICE, "in each slice"), (_AHEAD, "once, ahead of the slices")):
            axes.scatter([], [], color=colour, label=label)
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2)
    axes.spines[:].set_visible(False)


def _places(plan: Plan) -> tuple[list[float], list[float]]:
    """The position of each value: operands side by side in tree order, results above their operands."""
    count = len(plan.inputs)
    x, y = [0.0] * (count + len(plan.steps)), [0.0] * (count + len(plan.steps))
    todo, leaves = [count + len(plan.steps) - 1], 0
    while todo:
        value = todo.pop()
        if value < count:
            x[value], leaves = float(leaves), leaves + 1
        else:
            todo += plan.steps[value - count].operands[::-1]
    for value, step in enumerate(plan.steps, count):
        first, second = step.operands
        x[value], y[value] = (x[first] + x[second]) / 2, 1 + max(y[first], y[second])
    return x, y


def _draw_memory(axes: Axes, plan: Plan) -> None:
    numbers = range(1, len(plan.steps) + 1)
    edges = [0.5, *(number + 0.5 for number in numbers)]
    slicing = plan.slicing
    if slicing is not None:
        axes.stairs(slicing.whole.live_elements, edges, baseline=None, color=_WHOLE, label="live, not sliced")
    label = "live" if slicing is None else "live, in one slice"
    axes.stairs(plan.live_elements, edges, baseline=None, color=_SLICE, linewidth=2, label=label)
    label = "result" if slicing is None else "result, not sliced"
    axes.plot(numbers, [step.size for step in plan.steps], "o", color=_INK, markersize=3, label=label)
    axes.axhline(plan.peak_elements, color=_SLICE, linewidth=1, linestyle="--", label="peak")
    axes.set_yscale("log", base=2)
    low, high = axes.get_ylim()
    if high < 4 * low:  # no two powers of two lie in between
        axes.set_yticks(sorted({*plan.live_elements, plan.peak_elements})[-4:])
        axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("step")
    axes.set_ylabel("elements")
    title = "memory over the steps" if slicing is None else f"memory over the steps, {slicing.count:,} slices"
    axes.set_title(title, fontsize=9)
    axes.legend(frameon=False, fontsize=8, loc="best")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
