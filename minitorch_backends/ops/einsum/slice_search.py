"""Plans in slices: of labels that are named, or that a search finds, so that a contraction fits into a memory limit at
the least extra cost.

`find_blocks` is a beam search. A state is the block size of each label. A move divides one label further, among the
labels of the values that are live at the state's peak. States are ordered by FLOPs and by the distance of their peak
from the limit; the latter looks ahead, since a label that is free now may leave expensive ones for later. The costs of
all states of a round are computed together, from one matrix of labels by values.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from ...backends.strategies import COTENGRA
from ...flags import current
from .paths import strategy_in_force
from .plan import Plan
from .slicing import Slicing

BEAM = 12
"""Number of states kept per round and weight."""

WEIGHTS = (0.3, 1.0, 3.0, 10.0)
"""Expected doublings of FLOPs for each remaining halving of the peak. Each weight keeps its own states, so that neither
cheap nor fast descents are lost: those of lattices cost less than one, those of circuits several."""

MOST_ATTEMPTS = 12
"""Maximum number of searches with a lowered limit, if the slicing found exceeds the limit: the search only estimates
the copies of operands, which depend on the block sizes."""


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
    strategy, minimize = plan.strategy, plan.minimize
    if isinstance(strategy, tuple):
        strategy, minimize = strategy_in_force(), "flops"
    kind = type(plan)
    plans = (kind(each.inputs, each.output, each.shapes, strategy, minimize=minimize) for each in plan.gradients)
    return tuple(_sliced_alike(each, plan) for each in plans)


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
    costs = _Costs(plan)
    find: Callable[[float], dict[int, int] | None]
    find = costs.find_blocks if finder == "auto" else lambda target: _cotengra_blocks(plan, target)
    target = float(most)
    for _ in range(MOST_ATTEMPTS):
        blocks = find(target)
        if blocks is None:
            return None
        slicing = Slicing(plan, blocks) if blocks else None
        peak = plan.peak_elements if slicing is None else slicing.peak_elements
        if peak <= most:
            return slicing if slicing is None or slicing.flops <= costs.most_flops else None
        target *= 0.95 * most / peak if finder == "auto" else 0.5
    return None


def least_peak(plan: Plan) -> int:
    """The least peak of a slicing within the overhead that is allowed, in elements, of those that a search tries."""
    costs = _Costs(plan)
    costs.find_blocks(0.0)
    slicing = Slicing(plan, dict(zip(costs.labels, costs.least[1], strict=True)))
    return slicing.peak_elements if slicing.blocks else plan.peak_elements


def _levels(size: int) -> list[int]:
    """Sizes of the blocks of a label, from the whole in halves to single indices."""
    parts = [1 << power for power in range(max(size - 1, 1).bit_length() + 1)]
    return list(dict.fromkeys(-(-size // part) for part in parts))


class _Costs:
    """FLOPs and peaks of a plan for many choices of blocks at once: one row per choice, one column per label.

    Attributes:
        labels, sizes: of the plan's steps.
        members: the labels of each value. `below`: those of the operands below a value.
        involved: the labels of each step. `live`: the live intermediates during each step.
        copied: the values that a step copies.
        most_flops: those that a slicing may have; `least`: the least peak so far with so many, and its blocks.
    """

    def __init__(self, plan: Plan) -> None:
        count, steps = len(plan.inputs), plan.steps
        terms = [preparation.labels for preparation in plan.preparations] + [step.pair.result for step in steps]
        self.labels = list(dict.fromkeys(label for term in terms for label in term))
        self.sizes = np.array([plan.sizes[label] for label in self.labels])
        self.levels = [_levels(int(size)) for size in self.sizes]
        self.members = np.array([[label in term for label in self.labels] for term in map(set, terms)], bool)
        self.below = self.members.copy()
        self.live = np.zeros((len(steps), len(terms)))
        self.copied = np.zeros((len(steps), len(terms)))
        self.first, self.second = (np.array([pair[side] for pair in plan.pairs], int) for side in (0, 1))
        self.taker = np.full(len(terms), -1)
        summed = [value for value in range(count) if plan.preparations[value].summed]
        alive = set(summed)
        for number, step in enumerate(steps):
            value = count + number
            self.below[value] = self.below[step.operands[0]] | self.below[step.operands[1]]
            self.taker[list(step.operands)] = number
            alive.add(value)
            self.live[number, list(alive)] = 1
            alive -= set(step.operands)
            sides = zip((step.left, step.right), step.pair.copies, strict=True)
            self.copied[number, [side for side, copied in sides if copied]] = 1
        self.involved = (self.members[self.first] | self.members[self.second]).astype(float)
        self.flops = np.array([step.flops for step in steps], float)
        self.results = np.arange(count, count + len(steps))
        self.total = math.prod(plan.result_shape)
        self.count = count
        self.most_flops = float(current().read("opt_einsum.slicing_overhead")) * plan.flops
        self.least: tuple[float, list[int]] = math.inf, self.sizes.tolist()

    def __call__(self, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For rows of sizes of blocks: FLOPs, peaks in elements, and the step with the peak."""
        counts = np.log2(np.ceil(self.sizes / blocks))
        sizes = np.exp2(np.log2(blocks) @ self.members.T)
        differs = (counts > 0).astype(float) @ self.below.T > 0
        in_body = differs[:, self.results]
        repeats = np.exp2(counts.sum(1, keepdims=True) - counts @ self.involved.T)
        flops = (self.flops * np.where(in_body, repeats, 1)).sum(1)
        ahead = ~differs & (self.taker >= 0) & differs[:, self.results[self.taker]]
        ahead[:, : self.count] = False
        held = (sizes * ahead).sum(1, keepdims=True)
        copies = sizes @ self.copied.T
        body = (sizes * differs) @ self.live.T + copies + self.total
        before = sizes[:, self.results] + sizes[:, self.first] + sizes[:, self.second] + copies
        peaks = held + np.where(in_body, body, before)
        return flops, peaks.max(1), peaks.argmax(1)

    def find_blocks(self, target: float) -> dict[int, int] | None:
        """The blocks of the sliced labels, or None where no choice that was tried has a peak of at most `target`."""
        beam = {tuple(int(size) for size in self.sizes)}
        seen, best, least = set(beam), None, self.most_flops
        while beam:
            states = np.array(sorted(beam))
            flops, peaks, worst = self(states)
            cheap = np.flatnonzero(flops <= self.most_flops)
            if len(cheap) and peaks[lowest := cheap[peaks[cheap].argmin()]] < self.least[0]:
                self.least = float(peaks[lowest]), states[lowest].tolist()
            for row in np.flatnonzero(peaks <= target):
                if flops[row] <= least:
                    best, least = states[row], flops[row]
            open_rows = np.flatnonzero((peaks > target) & (flops < least))
            if not len(open_rows):
                break
            excess = np.log2(peaks[open_rows] / max(target, 1.0))
            kept = set[int]()
            for weight in WEIGHTS:
                order = np.argsort(np.log2(flops[open_rows]) + weight * excess, kind="stable")
                kept |= set(open_rows[order[:BEAM]].tolist())
            beam = {move for row in sorted(kept) for move in self._moves(states[row], int(worst[row]))} - seen
            seen |= beam
        if best is None:
            return None
        rows = zip(self.labels, best.tolist(), self.sizes.tolist(), strict=True)
        return {label: block for label, block, size in rows if block < size}

    def _moves(self, state: np.ndarray, step: int) -> list[tuple[int, ...]]:
        """States with one label divided further: those of the values that live while a step runs."""
        values = (self.live[step] + self.copied[step] > 0) | (np.arange(len(self.members)) == self.results[step])
        values[[self.first[step], self.second[step]]] = True
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
