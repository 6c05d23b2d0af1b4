"""Slicing: a contraction as a sum of smaller contractions, which needs less memory at once.

A sliced label is divided into blocks; one combination of blocks is a slice. Each slice is an einsum with the steps of
the whole, on the blocks of the operands with a sliced label: the *body*. Steps that depend on no sliced label are equal
in all slices and run once, *ahead* of them. Slices that differ in labels of the result fill different regions of it;
those that differ in summed labels are added in order.

Slicing labels of a contraction tree: Z.-Y. Chen et al., "Classical simulation of intermediate-size quantum circuits",
arXiv 1805.01450. Reuse of common parts: B. Villalonga et al., "A flexible high-performance simulator", npj Quantum
Information 5 (2019).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...kernels.runtime.locks import cached_property
from .equation import Labels, label_name
from .pairs import path_of
from .plan import Plan

Shape = tuple[int, ...]
_ALL = slice(None)


class Part(NamedTuple):
    """A contraction inside of a sliced one.

    Attributes:
        values: numbers of the values that it takes, and `result` of the one that it makes, as by `pairs_of`.
        steps: numbers of the steps of the whole plan that it consists of.
        inputs, output: the labels of these values.
        path: the order of its steps.
    """

    values: tuple[int, ...]
    result: int
    steps: tuple[int, ...]
    inputs: tuple[Labels, ...]
    output: Labels
    path: tuple[tuple[int, ...], ...]


class Slicing:
    """How a plan is sliced along one or more labels, and the total cost of the slices.

    Attributes:
        whole: the unsliced plan; `blocks`: the block size of each sliced label, those of the result first.
        ahead: the part that runs once; `body`: the part that runs per slice. `count`: the number of slices.
        flops, writes: multiplications and additions, and elements of the results of steps, of all slices.
        held_elements: elements of the result and of the part ahead, held while the slices run.
        peak_elements: live elements at the peak, if slices run one after another.
    """

    def __init__(self, whole: Plan, blocks: Mapping[int, int]) -> None:
        self.whole = whole
        order = [*whole.core_output, *(label for label in whole.sizes if label not in whole.core_output)]
        self.blocks = {
            label: blocks[label] for label in order if label in blocks and blocks[label] < whole.sizes[label]
        }
        self.ahead, self.body = self._parts()
        self.count = math.prod(-(-whole.sizes[label] // block) for label, block in self.blocks.items())
        self._ahead_plans: dict[int, Plan] = {}
        self._body_plans: dict[tuple[Shape, ...], Plan] = {}

    def _parts(self) -> tuple[tuple[Part, ...], Part]:
        whole, count = self.whole, len(self.whole.inputs)
        differs = [
            any(label in self.blocks and size != 1 for label, size in zip(term, shape, strict=True))
            for term, shape in zip(whole.terms, whole.term_shapes, strict=True)
        ]
        for first, second in whole.pairs:
            differs.append(differs[first] or differs[second])
        body = [number for number in range(len(whole.pairs)) if differs[count + number]]
        taken = [value for number in body for value in whole.pairs[number]]
        outside = sorted({value for value in taken if value < count or not differs[value]})
        if not whole.pairs:  # an only operand, which is summed
            outside = [0]
        below = subtrees(whole)
        ahead = tuple(self._part(below[value], value) for value in outside if value >= count)
        return ahead, self._part((tuple(outside), tuple(body)), count + len(whole.pairs) - 1)

    def _part(self, subtree: tuple[Sequence[int], Sequence[int]], result: int) -> Part:
        whole, count = self.whole, len(self.whole.inputs)
        values, steps = tuple(subtree[0]), tuple(subtree[1])
        places = {value: place for place, value in enumerate((*values, *(count + number for number in steps)))}
        pairs = [tuple(places[value] for value in whole.pairs[number]) for number in steps]
        last = result == count + len(whole.pairs) - 1
        output = whole.core_output if last else whole.steps[result - count].pair.result
        return Part(values, result, steps, tuple(map(self.labels, values)), output, path_of(pairs, len(values)))

    def labels(self, value: int) -> Labels:
        """The labels of an operand, or of the result of a step."""
        count = len(self.whole.inputs)
        return self.whole.terms[value] if value < count else self.whole.steps[value - count].pair.result

    def plan_ahead(self, part: Part) -> Plan:
        """The plan of a part that runs once."""
        if part.result not in self._ahead_plans:
            shapes = tuple(self.whole.term_shapes[value] for value in part.values)
            self._ahead_plans[part.result] = Plan(part.inputs, part.output, shapes, None, path=part.path)
        return self._ahead_plans[part.result]

    def plan_body(self, shapes: tuple[Shape, ...]) -> Plan:
        """The plan of one slice, for blocks of these shapes."""
        plan = self._body_plans.get(shapes)
        if plan is None:
            plan = self._body_plans[shapes] = Plan(
                self.body.inputs, self.body.output, shapes, None, path=self.body.path
            )
        return plan

    def slices(self) -> Iterator[dict[int, slice]]:
        """For each slice, in order of addition, the block index along each sliced label."""
        sizes = self.whole.sizes
        starts = [range(0, sizes[label], block) for label, block in self.blocks.items()]
        for corner in itertools.product(*starts):
            pairs = zip(self.blocks.items(), corner, strict=True)
            yield {label: slice(start, min(start + block, sizes[label])) for (label, block), start in pairs}

    def cut(self, array: np.ndarray, term: Labels, places: Mapping[int, slice]) -> np.ndarray:
        """The block of an operand, as a view; sizes of 1 broadcast, and stay."""
        pairs = zip(term, array.shape, strict=True)
        return array[tuple([places.get(label, _ALL) if size != 1 else _ALL for label, size in pairs])]

    # Costs

    @cached_property
    def flops(self) -> int:
        bodies = sum(times * plan.flops for plan, times in self._bodies())
        return bodies + sum(self.plan_ahead(part).flops for part in self.ahead)

    @cached_property
    def writes(self) -> int:
        bodies = sum(times * plan.writes for plan, times in self._bodies())
        return bodies + sum(self.plan_ahead(part).writes for part in self.ahead)

    def _bodies(self) -> Iterator[tuple[Plan, int]]:
        """The plans of slices (the last blocks of labels may be smaller), and how often each occurs."""
        lengths = []
        for label, block in self.blocks.items():
            full, rest = divmod(self.whole.sizes[label], block)
            lengths.append([(block, full), *([(rest, 1)] if rest else [])])
        for combination in itertools.product(*lengths):
            own = {label: length for label, (length, _) in zip(self.blocks, combination, strict=True)}
            yield self._body_of(own), math.prod(times for _, times in combination)

    def _body_of(self, lengths: Mapping[int, int]) -> Plan:
        """The plan of slices whose blocks have these lengths."""
        whole, count = self.whole, len(self.whole.inputs)
        shapes = []
        for value in self.body.values:
            sizes = whole.term_shapes[value] if value < count else [whole.sizes[label] for label in self.labels(value)]
            pairs = zip(self.labels(value), sizes, strict=True)
            shapes.append(tuple(lengths.get(label, size) if size != 1 else 1 for label, size in pairs))
        return self.plan_body(tuple(shapes))

    @cached_property
    def held_elements(self) -> int:
        return math.prod(self.whole.result_shape) + self._ahead_elements

    @cached_property
    def body_elements(self) -> int:
        """Elements that one slice takes at its worst moment."""
        return self._body_of(self.blocks).peak_elements

    @property
    def _ahead_elements(self) -> int:
        return sum(math.prod(self.plan_ahead(part).result_shape) for part in self.ahead)

    @cached_property
    def peak_elements(self) -> int:
        peak = held = 0
        for part in self.ahead:
            plan = self.plan_ahead(part)
            peak = max(peak, held + plan.peak_elements)
            held += math.prod(plan.result_shape)
        return max(peak, self.held_elements + self.body_elements)

    @property
    def live_elements(self) -> tuple[int, ...]:
        """For each step of the whole plan, the elements that live while it runs, those of the first slice."""
        live, held = [0] * len(self.whole.steps), 0
        for part in self.ahead:
            plan = self.plan_ahead(part)
            for number, elements in zip(part.steps, plan.live_elements, strict=True):
                live[number] = held + elements
            held += math.prod(plan.result_shape)
        for number, elements in zip(self.body.steps, self._body_of(self.blocks).live_elements, strict=True):
            live[number] = self.held_elements + elements
        return tuple(live)

    @property
    def step_order(self) -> Iterator[int]:
        """For each contraction of all slices, in sequential order, the step number in the whole plan."""
        ahead = (number for part in self.ahead for number in part.steps)
        bodies = itertools.chain.from_iterable(itertools.repeat(self.body.steps, self.count))
        return itertools.chain(ahead, bodies)

    def __str__(self) -> str:
        whole = self.whole
        names = ", ".join(
            f"{label_name(label)} in {-(-whole.sizes[label] // block)}" for label, block in self.blocks.items()
        )
        more = 100 * (self.flops / max(whole.flops, 1) - 1)
        return (
            f"x {self.count:,} slices ({names}), {more:+.3g} % FLOPs, peak {whole.peak_elements:,} to "
            f"{self.peak_elements:,} elements"
        )


def subtrees(plan: Plan) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
    """For each value, the operands below it and the numbers of the steps that make it, both ascending."""
    count = len(plan.inputs)
    found: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {value: ((value,), ()) for value in range(count)}
    for number, (first, second) in enumerate(plan.pairs):
        (leaves, steps), (others, further) = found[first], found[second]
        found[count + number] = tuple(sorted(leaves + others)), tuple(sorted((*steps, *further, number)))
    return found
