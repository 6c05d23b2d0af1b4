"""The predicted error of reduced precisions of steps, and the cheapest precisions within an error bound.

A product of length k of independent normal operands has the relative error
`kernels.precisions.products.predicted_error`, in the Frobenius norm. Later steps are linear, and multiply the
intermediate and its error by the same random values: the relative error is unchanged. Errors of steps are independent
and add in quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...backends.precision_policy import precision_of
from ...flags import current
from ...kernels.precisions.elements import ELEMENTS
from ...kernels.precisions.products import PRECISIONS, find_precision, predicted_error
from .plan import Plan
from .steps import Step

ROUNDED_ONCE = predicted_error("ieee", 1).sigma
"""Relative error of one rounding to float32, of a multiplication or of a sum of two slices."""

VECTOR_COST = 32
"""The cost of a multiplication and addition in fp32, which matrix units do not have, where one of bytes takes 1: an
A100 makes 19.5 TFLOP/s of fp32, 156 of tf32 and 312 of bf16 (NVIDIA's whitepaper of the A100, table 1)."""

MOST_CHOICES = 2000
"""Maximum number of precision combinations after each step. Above it, those of nearly equal cost are thinned out."""


def error_estimate(plan: Plan, precision: str | Sequence[str | None] | None) -> float:
    """What `Plan.error_estimate` does."""
    each = _of_steps(plan, precision)
    total = sum(step_error(step, name) ** 2 for step, name in zip(plan.steps, each, strict=True))
    if plan.slicing is not None:
        total += _error_of_sums(plan)
    return math.sqrt(total)


def step_precisions(plan: Plan, precision: Any, name: str = "Plan.run") -> Any:
    """A precision for all steps, or a tuple with one for each. Raises ValueError for another number, and names."""
    if precision is None or isinstance(precision, str):
        return precision if precision is None else find_precision(precision).name
    each = tuple(precision)
    if len(each) != len(plan.steps):
        raise ValueError(
            f"{name}(): precision must have one entry for each of the {len(plan.steps)} steps, got {len(each)}"
        )
    return tuple(each_name if each_name is None else find_precision(each_name).name for each_name in each)


def _of_steps(plan: Plan, precision: Any) -> list[str]:
    given = step_precisions(plan, precision, "Plan.error_estimate")
    each = given if isinstance(given, tuple) else (given,) * len(plan.steps)
    in_force = precision_of("matmul").precision
    return [in_force if name is None else name for name in each]


def step_error(step: Step, precision: str) -> float:
    """The relative error that a step adds to a result of float32 operands."""
    if step.matrices is None:
        return ROUNDED_ONCE
    k = step.matrices[0][-1]
    rounding = current().read("tf32_rounding")
    return predicted_error(precision, k, rounding=rounding).sigma / math.sqrt(k) if k else 0.0


def _error_of_sums(plan: Plan) -> float:
    """The mean squared relative error of summing slices one after another: each partial sum is rounded once."""
    sizes, slicing = plan.sizes, plan.slicing
    assert slicing is not None
    counts = (-(-sizes[label] // block) for label, block in slicing.blocks.items() if label not in plan.core_output)
    return ROUNDED_ONCE**2 * math.prod(counts) / 2


def unit_cost(precision: str) -> float:
    """The time of a multiplication and addition by the matrix units of devices, in units of one of bytes: its products
    of parts, times the bytes of a part. fp32 runs on vector units."""
    row = find_precision(precision)
    significand = ELEMENTS[row.operand].significand
    if significand >= 24:
        return VECTOR_COST
    size = 0.5 if significand <= 2 else 1 if significand <= 4 else 4 if row.operand == "tf32" else 2
    return len(row.terms) * size


def lower_within(
    plan: Plan, budget: float, precisions: Sequence[str] | None, costs: Mapping[str, float] | None
) -> tuple[str, ...]:
    """Precisions within a budget, by the Pareto front of cost and squared error, extended step by step. Raises
    ValueError for a negative budget, and for one below the least error that can be met."""
    if not budget >= 0:
        raise ValueError(f"Plan.lower_within(): budget must be a non-negative relative error, got {budget!r}")
    if precisions is None:
        precisions = [name for name, row in PRECISIONS.items() if ELEMENTS[row.operand].has_range_of_fp32]
    names = list(dict.fromkeys(find_precision(name).name for name in precisions))
    weights = {name: float(costs[name]) if costs is not None else unit_cost(name) for name in names}
    most = budget**2 - (0 if plan.slicing is None else _error_of_sums(plan))
    front: list[tuple[float, float, Any]] = [(0.0, 0.0, None)]
    for step in plan.steps:
        if step.matrices is None:
            options = [(0.0, ROUNDED_ONCE**2, names[0])]
        else:
            options = [(step.flops * weights[name], step_error(step, name) ** 2, name) for name in names]
        front = _extend(front, options)
    within = [choice for choice in front if choice[1] <= most]
    if not within:
        least = math.sqrt(min(choice[1] for choice in front) + budget**2 - most)
        raise ValueError(
            f"Plan.lower_within(): budget must be at least {least:.3g}, the least error that these precisions are "
            f"predicted to have, got {budget!r}"
        )
    _, _, chosen = min(within, key=lambda choice: choice[:2])
    found = []
    while chosen is not None:
        chosen, name = chosen
        found.append(name)
    return tuple(reversed(found))


def _extend(
    front: list[tuple[float, float, Any]], options: list[tuple[float, float, str]]
) -> list[tuple[float, float, Any]]:
    """Every choice with every option of the next step that no cheaper one has a lower error than."""
    costs = np.add.outer([choice[0] for choice in front], [option[0] for option in options]).ravel()
    errors = np.add.outer([choice[1] for choice in front], [option[1] for option in options]).ravel()
    order = np.lexsort((errors, costs))
    lowest = np.minimum.accumulate(errors[order])
    kept = order[np.flatnonzero(np.r_[True, lowest[1:] < lowest[:-1]])]
    if len(kept) > MOST_CHOICES:
        levels = np.linspace(costs[kept[0]], costs[kept[-1]], MOST_CHOICES)
        kept = kept[np.unique(np.searchsorted(costs[kept], levels).clip(0, len(kept) - 1))]
    return [
        (float(costs[index]), float(errors[index]), (front[index // len(options)][2], options[index % len(options)][2]))
        for index in kept.tolist()
    ]
