"""Plans: what an einsum will do, step by step, and what that costs; a function of labels, shapes and strategy alone."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...backends.strategies import Strategy
from ...kernels.locks import cached_property
from .equation import Labels, label_name, sizes_of, text_of
from .layout import Pair, pair_of
from .paths import Path, find_path, pairs_of, strategy_in_force

__all__ = ["Measured", "Plan", "Preparation", "Step", "cotangent_labels", "make_plan"]

Shape = tuple[int, ...]


class Preparation(NamedTuple):
    """What happens to an operand before it meets others: sums over dimensions of its own, and sizes of 1 dropped."""

    summed: tuple[int, ...]
    shape: Shape
    labels: Labels

    def changes(self, shape: Shape) -> bool:
        return bool(self.summed) or self.shape != shape


class Step(NamedTuple):
    """One contraction of two values, counted as `pairs_of` does.

    Attributes:
        operands: the two values.
        pair: how they are contracted.
        flops: multiplications and additions.
        size: elements of the result.
    """

    operands: tuple[int, int]
    pair: Pair
    flops: int
    size: int

    @property
    def equation(self) -> str:
        terms = (self.pair.right, self.pair.left) if self.pair.swapped else (self.pair.left, self.pair.right)
        return text_of(terms, self.pair.result)

    @property
    def kernel(self) -> str:
        """The kernel, and how many operands it cannot read where they lie."""
        copied = sum(self.pair.copies)
        return self.pair.kernel + (f", {copied} transposed" if copied else "")


class Measured(NamedTuple):
    """One execution: wall time of each step and of all, in seconds, and the largest memory held at once, in bytes."""

    seconds: float
    step_seconds: tuple[float, ...]
    peak: int


class Plan:
    """The contraction of operands of known shapes, in a known order.

    Attributes:
        inputs, output: the labels of the operands' dimensions and of the result's.
        shapes: the operands' shapes; `sizes`: the size of each label.
        strategy: what chose the order; `path`: the order, as `numpy.einsum_path` writes it.
        preparations: for each operand; `steps`: the contractions in order.
        flops: multiplications and additions of all steps; `naive_flops`: those of one loop over all labels.
        largest_intermediate, peak_elements: elements of the largest result of a step, and of all that live at once at
            the worst moment, copies included and operands not.
        search_seconds: what finding the order took.
        measured: the executions by `execute`, the last one last. `warm`: under which circumstances there were some.
    """

    def __init__(
        self, inputs: tuple[Labels, ...], output: Labels, shapes: tuple[Shape, ...], strategy: Strategy
    ) -> None:
        self.inputs, self.output, self.shapes, self.strategy = inputs, output, shapes, strategy
        self.sizes = sizes_of(inputs, shapes)
        self.result_shape = tuple(self.sizes[label] for label in output)
        wide = {label for label, size in self.sizes.items() if size != 1}
        self.core_output = tuple(label for label in output if label in wide)
        self.preparations = _preparations(inputs, output, shapes)
        terms = [preparation.labels for preparation in self.preparations]
        start = time.perf_counter()
        self.path: Path = find_path(terms, self.core_output, self.sizes, strategy)
        self.search_seconds = time.perf_counter() - start
        self.pairs = pairs_of(self.path, len(inputs))
        self.steps = _steps(terms, self.core_output, self.pairs, self.sizes)
        self.measured: list[Measured] = []
        self.warm: set[tuple] = set()

    @property
    def equation(self) -> str:
        return text_of(self.inputs, self.output)

    @cached_property
    def flops(self) -> int:
        sums = sum(
            math.prod(shape)
            for shape, preparation in zip(self.shapes, self.preparations, strict=True)
            if preparation.summed
        )
        return sums + sum(step.flops for step in self.steps)

    @cached_property
    def naive_flops(self) -> int:
        summed = len(self.sizes) > len(self.output)
        return math.prod(self.sizes.values()) * max(1, len(self.inputs) - 1 + summed)

    @property
    def largest_intermediate(self) -> int:
        return max((step.size for step in self.steps), default=math.prod(self.result_shape))

    @cached_property
    def peak_elements(self) -> int:
        held = {
            index: math.prod(preparation.shape)
            for index, preparation in enumerate(self.preparations)
            if preparation.summed
        }
        peak = sum(held.values())
        for value, step in enumerate(self.steps, len(self.inputs)):
            peak = max(peak, sum(held.values()) + step.size + step.pair.moved(self.sizes))
            for operand in step.operands:
                held.pop(operand, None)
            held[value] = step.size
        return peak

    def cotangents(self) -> tuple[Plan, ...]:
        """For each operand, the plan by which its gradient is made from the result's, by the same strategy. An explicit
        path says nothing of other contractions: the flags decide then.
        """
        plans = []
        for operand in range(len(self.inputs)):
            others = [index for index in range(len(self.inputs)) if index != operand]
            inputs = (tuple(dict.fromkeys(self.output)), *(self.inputs[index] for index in others))
            shapes = (self.result_shape, *(self.shapes[index] for index in others))
            inputs, shapes = _without_repeats(inputs, shapes)
            own = _without_repeats((self.inputs[operand],), (self.shapes[operand],))
            output = cotangent_labels(own[0][0], own[1][0], inputs, shapes)
            strategy = strategy_in_force() if isinstance(self.strategy, tuple) else self.strategy
            plans.append(Plan(inputs, output, shapes, strategy))
        return tuple(plans)

    def execute(self, *operands: Any, precision: str | None = None) -> Any:
        """Contract tensors as planned, and append what that took to `measured`; nothing is recorded for gradients.

        The first execution of operands of these dtypes under the flags in force does so twice and measures the second:
        the first one compiles kernels or loads them, which took 5 s and 47 MB beside the 50 KB of three small matrices.
        Raises RuntimeError for operands of other shapes.
        """
        from .execute import measured_run

        return measured_run(self, operands, precision)

    def __repr__(self) -> str:
        return _text(self)


def cotangent_labels(own: Labels, shape: Shape, inputs: Sequence[Labels], shapes: Sequence[Shape]) -> Labels:
    """The labels that the contraction of a gradient keeps: those of the operand, but for the ones that nothing else
    has, along which its gradient is constant, and those along which it was broadcast, which are summed.
    """
    sizes: dict[int, int] = {}
    for term, lengths in zip(inputs, shapes, strict=True):
        for label, size in zip(term, lengths, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
    return tuple(
        label for label, size in zip(own, shape, strict=True) if label in sizes and (size != 1 or sizes[label] == 1)
    )


def _without_repeats(inputs: Sequence[Labels], shapes: Sequence[Shape]) -> tuple[tuple[Labels, ...], tuple[Shape, ...]]:
    """The operands once their diagonals are taken: every label once, at its first place."""
    firsts = [dict(zip(term, shape, strict=True)) for term, shape in zip(inputs, shapes, strict=True)]
    return tuple(map(tuple, firsts)), tuple(tuple(first.values()) for first in firsts)


def _preparations(inputs: Sequence[Labels], output: Labels, shapes: Sequence[Shape]) -> tuple[Preparation, ...]:
    """Labels that only one operand has, or has in a size other than 1, and that the result lacks, are summed first."""
    holders = Counter(label for term in inputs for label in dict.fromkeys(term))
    wide = Counter(
        label
        for term, shape in zip(inputs, shapes, strict=True)
        for label, size in dict(zip(term, shape, strict=True)).items()
        if size != 1
    )
    prepared = []
    for term, shape in zip(*_without_repeats(inputs, shapes), strict=True):
        summed, kept = [], []
        for dim, (label, size) in enumerate(zip(term, shape, strict=True)):
            if label not in output and (holders[label] == 1 or (size != 1 and wide[label] == 1)):
                summed.append(dim)
            elif size != 1:
                kept.append((label, size))
        prepared.append(Preparation(tuple(summed), tuple(size for _, size in kept), tuple(label for label, _ in kept)))
    return tuple(prepared)


def _steps(
    terms: Sequence[Labels], output: Labels, pairs: Sequence[tuple[int, int]], sizes: dict[int, int]
) -> tuple[Step, ...]:
    values: dict[int, Labels] = dict(enumerate(terms))
    uses = Counter(label for term in terms for label in term)
    steps: list[Step] = []

    def kept_of(left: Labels, right: Labels) -> set[int]:
        """The labels of two values that others have, too."""
        return {
            label for label in (*left, *right) if uses[label] - (label in left) - (label in right) or label in output
        }

    def later(result: Labels) -> int:
        """Elements that the step which takes the next result has to copy for this order of it, where all else is known
        now."""
        taker = next(pair for pair in pairs if len(terms) + len(steps) in pair)
        others = [values.get(value) for value in taker if value != len(terms) + len(steps)]
        if others[0] is None:
            return 0
        uses.update(result)
        pair = pair_of(result, others[0], kept_of(result, others[0]), sizes, output if taker == pairs[-1] else None)
        uses.subtract(result)
        return pair.moved(sizes)

    for number, (first, second) in enumerate(pairs):
        left, right = values.pop(first), values.pop(second)
        kept = kept_of(left, right)
        uses.subtract(left)
        uses.subtract(right)
        pair = pair_of(left, right, kept, sizes, output if number == len(pairs) - 1 else None, later)
        uses.update(pair.result)
        values[len(terms) + number] = pair.result
        loops = math.prod(sizes[label] for label in {*left, *right})
        size = math.prod(sizes[label] for label in pair.result)
        steps.append(Step((first, second), pair, loops * (2 if pair.summed else 1), size))
    return tuple(steps)


def make_plan(inputs: Sequence[Labels], output: Labels, shapes: Sequence[Shape], strategy: Strategy) -> Plan:
    return Plan(tuple(inputs), tuple(output), tuple(map(tuple, shapes)), strategy)


# What a plan looks like


def _text(plan: Plan) -> str:
    rows = [("", "contraction", "flops", "elements", "kernel", "seconds")]
    last = plan.measured[-1] if plan.measured else None
    for index, (term, preparation) in enumerate(zip(plan.inputs, plan.preparations, strict=True)):
        if preparation.summed:
            size, flops = math.prod(preparation.shape), math.prod(plan.shapes[index])
            rows.append(("", text_of([term], preparation.labels), f"{flops:,}", f"{size:,}", "sum", ""))
    for number, step in enumerate(plan.steps):
        seconds = f"{last.step_seconds[number]:.3g}" if last else ""
        values, counts = " ".join(map(str, step.operands)), (f"{step.flops:,}", f"{step.size:,}")
        rows.append((values, step.equation, *counts, step.kernel, seconds))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    sizes = ", ".join(f"{label_name(label)}={size}" for label, size in sorted(plan.sizes.items()))
    costs = (
        f"{plan.flops:,} flops ({plan.naive_flops:,} in one loop), largest intermediate {plan.largest_intermediate:,}, "
        f"peak {plan.peak_elements:,} elements; order found in {plan.search_seconds:.2g} s"
    )
    order = f"strategy {plan.strategy!r}, path {list(plan.path)}"
    head = [f"Plan of {plan.equation} with {sizes or 'no dimensions'}; {order}", costs]
    if last:
        head.append(f"measured: {last.seconds:.3g} s, peak {last.peak:,} bytes")
    return "\n".join([*head, *lines])
