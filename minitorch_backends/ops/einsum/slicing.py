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

import importlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...backends.strategies import COTENGRA
from ...flags import current
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


# Plans in slices: of labels that are named, or that a search finds, so that a contraction fits into a memory limit at
# the least extra cost.
#
# `find_slicing` is a beam search. A state is the block size of each label. A move divides one label further, among the
# labels of the values that are live at the state's peak. States are ordered by FLOPs and by the distance of their peak
# from the limit; the latter looks ahead, since a label that is free now may leave expensive ones for later. The costs
# of all states of a round are computed together, from one matrix of labels by values. Their copies of operands are
# estimates, so that the cheapest states within the limit are checked.


BEAM = 12
"""Number of states kept per round and weight."""

WEIGHTS = (0.3, 1.0, 3.0, 10.0)
"""Expected doublings of FLOPs for each remaining halving of the peak. Each weight keeps its own states, so that neither
cheap nor fast descents are lost: those of lattices cost less than one, those of circuits several."""

MOST_ATTEMPTS = 12
"""Maximum number of searches by cotengra, whose target is lowered while the peak exceeds the limit."""

MOST_CHECKED = 8
"""Maximum number of states of a round whose peak is found exactly."""


KEPT = 8
"""Sliced plans that a plan keeps."""

_Plan = TypeVar("_Plan", bound=Plan)


def slice_labels(plan: _Plan, blocks: Mapping[int, int]) -> _Plan:
    """A plan with labels divided into blocks of these sizes. Unknown labels and whole ones are ignored."""
    whole: _Plan = plan.whole  # type: ignore[assignment]
    own = tuple((label, block) for label, block in blocks.items() if block < plan.sizes.get(label, 0))
    return _remember(whole, own, lambda: Slicing(whole, dict(own)) if own else None) or whole


def slice_within(plan: _Plan, most: int, finder: str) -> _Plan | None:
    """A plan, sliced to a peak of at most `most` elements; None if no slicing is found whose FLOPs are at most
    `opt_einsum.slicing_overhead` times its own."""
    whole: _Plan = plan.whole  # type: ignore[assignment]
    key = most, finder, current().read("opt_einsum.slicing_overhead")
    return _remember(whole, key, lambda: find_slicing(whole, most, finder))


def _remember(whole: _Plan, key: Any, slicing: Callable[[], Slicing | None]) -> _Plan | None:
    """The sliced plans of the last few limits."""
    known: dict[Any, Any] = whole._sliced
    if key not in known:
        found, plan = slicing(), None
        if found is not None:
            options: Any = {"path": whole.path, "minimize": whole.minimize}
            plan = type(whole)(whole.inputs, whole.output, whole.shapes, whole.strategy, **options)
            plan.slicing = found
        while len(known) >= KEPT:
            known.pop(next(iter(known)), None)
        known[key] = plan
    return known[key]


def with_limit(plan: _Plan, memory_limit: int | None, slices: str | None, itemsize: int) -> _Plan:
    """A copy of a plan with a memory limit, a way of slicing, and the element size that it was planned for."""
    limited = object.__new__(type(plan))
    limited.__dict__.update(plan.__dict__, measured=[], warm=set(), kept=(None, None))
    limited.memory_limit, limited.slices, limited.itemsize = memory_limit, slices, itemsize
    return limited


def plans_of_gradients(plan: _Plan) -> tuple[_Plan, ...]:
    """`EinsumPlan.cotangents`."""
    kind, plans = type(plan), []
    for place, each in enumerate(plan.gradients):
        options: Any = {"path": plan.path_of_gradient(place), "minimize": plan.minimize}
        made = kind(each.inputs, each.output, each.shapes, plan.strategy, **options)
        made.is_derived = options["path"] is not None
        plans.append(_sliced_alike(made, plan))
    return tuple(plans)


def _sliced_alike(plan: _Plan, like: Plan) -> _Plan:
    """A plan under the limit of another one, or with its blocks."""
    if isinstance(like.slices, str) and like.memory_limit is not None:
        most = like.memory_limit // like.itemsize
        return plan if plan.peak_elements <= most else slice_within(plan, most, like.slices) or plan
    return plan if like.slicing is None else slice_labels(plan, like.slicing.blocks)


def find_slicing(plan: Plan, most: int, finder: str) -> Slicing | None:
    """The slicing of a plan with the fewest FLOPs found and a peak of at most `most` elements, or None.

    Slicings above `opt_einsum.slicing_overhead` times the plan's FLOPs are left out.
    """
    if not plan.steps:
        return None
    costs, target = _Costs(plan), float(most)
    if finder == "auto":
        return costs.find_slicing(target)
    for _ in range(MOST_ATTEMPTS):
        blocks = _cotengra_blocks(plan, target)
        if blocks is None:
            return None
        if blocks and (slicing := Slicing(plan, blocks)).peak_elements <= most:
            return slicing if slicing.flops <= costs.most_flops else None
        target *= 0.5
    return None


def least_peak(plan: Plan) -> int:
    """The least peak of a slicing within the overhead that is allowed, in elements, of those that a search tries."""
    costs = _Costs(plan)
    costs.find_slicing(0.0)
    slicing = Slicing(plan, dict(zip(costs.labels, costs.least[1], strict=True)))
    return slicing.peak_elements if slicing.blocks else plan.peak_elements


def _levels(size: int) -> list[int]:
    """Sizes of the blocks of a label, from the whole in halves to single indices."""
    parts = [1 << power for power in range(max(size - 1, 1).bit_length() + 1)]
    return list(dict.fromkeys(-(-size // part) for part in parts))


class _Costs:
    """FLOPs and peaks of a plan for many choices of blocks at once: one row per choice, one column per label.

    Attributes:
        plan, labels, sizes: the plan, and those of its steps.
        members: the labels of each value. `below`: those of the operands below a value.
        involved: the labels of each step. `first`, `second`: its operands; `copied`: the values that it copies.
        taker: the step that each value is an operand of. `lives`: whether a value lives until then, or is an operand.
        most_flops: those that a slicing may have; `least`: the least peak so far with so many, and its blocks.
    """

    def __init__(self, plan: Plan) -> None:
        count, steps = len(plan.inputs), plan.steps
        terms = [preparation.labels for preparation in plan.preparations] + [step.pair.result for step in steps]
        self.plan, self.labels = plan, list(dict.fromkeys(label for term in terms for label in term))
        self.sizes = np.array([plan.sizes[label] for label in self.labels])
        self.levels = [_levels(int(size)) for size in self.sizes]
        self.members = np.array([[label in term for label in self.labels] for term in map(set, terms)], float)
        self.below = self.members.copy()
        self.first, self.second = (np.array([pair[side] for pair in plan.pairs], int) for side in (0, 1))
        self.copied = np.zeros((2, len(steps)))
        self.taker = np.full(len(terms), -1)
        for number, step in enumerate(steps):
            self.below[count + number] = self.below[list(step.operands)].max(0)
            self.taker[list(step.operands)] = number
            copies = dict(zip((step.left, step.right), step.pair.copies, strict=True))
            self.copied[:, number] = copies[self.first[number]], copies[self.second[number]]
        self.involved = self.members[self.first] + self.members[self.second] > 0
        self.flops = np.array([step.flops for step in steps], float)
        self.lives = np.array([bool(each.summed) for each in plan.preparations] + [True] * len(steps))
        self.results = np.arange(count, count + len(steps))
        self.total = math.prod(plan.result_shape)
        self.count = count
        self.most_flops = float(current().read("opt_einsum.slicing_overhead")) * plan.flops
        self.least: tuple[float, list[int]] = math.inf, self.sizes.tolist()

    def __call__(self, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For rows of sizes of blocks: FLOPs, peaks in elements, and the step with the peak."""
        sliced = np.flatnonzero((blocks < self.sizes).any(0))  # few labels of many
        parts = self.sizes[sliced] / blocks[:, sliced]
        counts = np.log2(np.ceil(parts))
        sizes = np.exp2(np.log2(self.sizes) @ self.members.T - np.log2(parts) @ self.members[:, sliced].T)
        differs = (counts > 0) @ self.below[:, sliced].T > 0
        in_body = differs[:, self.results]
        repeats = np.exp2(counts.sum(1, keepdims=True) - counts @ self.involved[:, sliced].T)
        flops = np.where(in_body, repeats * self.flops, self.flops).sum(1)
        ahead = ~differs & (self.taker >= 0) & differs[:, self.results[self.taker]]
        ahead[:, : self.count] = False
        held = (sizes * ahead).sum(1, keepdims=True)
        first, second, results = (sizes[:, values] for values in (self.first, self.second, self.results))
        copies = first * self.copied[0] + second * self.copied[1]
        alive = sizes * (differs & self.lives)
        change = alive[:, self.results]
        change[:, 0] += alive[:, : self.count].sum(1)
        change[:, 1:] -= (alive[:, self.first] + alive[:, self.second])[:, :-1]
        body = change.cumsum(1) + copies + self.total
        peaks = held + np.where(in_body, body, results + first + second + copies)
        return flops, peaks.max(1), peaks.argmax(1)

    def find_slicing(self, target: float) -> Slicing | None:
        """The cheapest slicing found, or None where none that was tried has a peak of at most `target`."""
        beam = {tuple(int(size) for size in self.sizes)}
        seen, best, least = set(beam), None, self.most_flops
        while beam:
            states = np.array(sorted(beam))
            flops, peaks, worst = self(states)
            cheap = np.flatnonzero(flops <= self.most_flops)
            if len(cheap) and peaks[lowest := cheap[peaks[cheap].argmin()]] < self.least[0]:
                self.least = float(peaks[lowest]), states[lowest].tolist()
            fits = np.flatnonzero((peaks <= target) & (flops <= least) & (states < self.sizes).any(1))
            for row in fits[np.argsort(flops[fits], kind="stable")[:MOST_CHECKED]]:
                slicing = Slicing(self.plan, dict(zip(self.labels, states[row].tolist(), strict=True)))
                if slicing.peak_elements <= target:
                    best, least = slicing, flops[row]
                    break
            # Of states with equal costs, as those of a circuit's similar wires, one is kept.
            open_rows = np.flatnonzero(flops < least)
            open_rows = open_rows[np.unique([flops[open_rows], peaks[open_rows]], axis=1, return_index=True)[1]]
            excess = np.log2(np.maximum(peaks[open_rows] / max(target, 1.0), 1.0))
            kept = set[int]()
            for weight in WEIGHTS:
                order = np.argsort(np.log2(flops[open_rows]) + weight * excess, kind="stable")
                kept |= set(open_rows[order[:BEAM]].tolist())
            beam = {move for row in sorted(kept) for move in self._moves(states[row], int(worst[row]))} - seen
            seen |= beam
        return best

    def _moves(self, state: np.ndarray, step: int) -> list[tuple[int, ...]]:
        """States with one label divided further: those of the values that live while a step runs."""
        made = np.arange(len(self.members)) - self.count <= step
        values = made & self.lives & (self.taker >= step)
        values[[self.first[step], self.second[step], self.results[step]]] = True
        moves = []
        for place in np.flatnonzero(self.members[values].any(0)):
            finer = [block for block in self.levels[place] if block < state[place]]
            if finer:
                moves.append((*state[:place].tolist(), finer[0], *state[place + 1 :].tolist()))
        return moves


def _cotengra_blocks(plan: Plan, target: float) -> dict[int, int] | None:
    """The labels that cotengra slices, each to single indices. Its target is the largest intermediate."""
    package = importlib.import_module(COTENGRA)
    symbols = {chr(0x100 + label): label for label in plan.sizes}
    names = {label: symbol for symbol, label in symbols.items()}
    inputs = [tuple(names[label] for label in each.labels) for each in plan.preparations]
    sizes = {names[label]: size for label, size in plan.sizes.items()}
    output = tuple(names[label] for label in plan.core_output)
    tree = package.ContractionTree.from_path(inputs, output, sizes, path=plan.path)
    if target < 1:
        return None
    try:
        sliced, _ = package.SliceFinder(tree, target_size=int(target), seed=0).search()
    except (RuntimeError, ValueError):  # it ran out of indices
        return None
    return {symbols[symbol]: 1 for symbol in sliced}
