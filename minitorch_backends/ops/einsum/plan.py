"""Plans: the pairwise contractions of an einsum, and their costs. A plan depends only on labels, shapes and
strategy."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...backends.strategies import Strategy
from ...flags import current
from ...kernels.runtime.locks import cached_property
from .equation import Labels, diagonals_of, sizes_of, text_of
from .pairs import Path, pairs_of
from .paths import find_path, strategy_in_force
from .steps import Reader, in_order, preparations_of, reader, steps_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from matplotlib.figure import Figure

    from ...tensor.tensor import Tensor
    from .slicing import Slicing

Shape = tuple[int, ...]

SLICED_KEPT = 8
"""Sliced plans that a plan keeps."""


class Gradient(NamedTuple):
    """The contraction of one operand's gradient, from the result's gradient and the other operands, in this order.

    Attributes:
        inputs, shapes: the labels and the shapes of these; `output`: the operand's labels that the contraction keeps.
        shape: the operand's, with sizes of 1 along which the contraction is constant.
    """

    inputs: tuple[Labels, ...]
    output: Labels
    shapes: tuple[Shape, ...]
    shape: Shape


class Measured(NamedTuple):
    """One execution: seconds in all and of each step, and the largest memory held at once, in bytes."""

    seconds: float
    step_seconds: tuple[float, ...]
    peak: int


class Plan:
    """The contraction of operands of known shapes, in a fixed order.

    Arguments:
        path: the order if known; otherwise the strategy finds it.
        minimize: the strategy's objective, one of `objectives.OBJECTIVES`.

    Attributes:
        inputs, output: the labels of the operands' dimensions and of the result's.
        shapes: the operands' shapes; `sizes`: the size of each label.
        diagonals: for each operand with repeated labels, the result of `diagonals_of`; None for the others.
        repeats: whether there are such operands.
        terms, term_shapes: labels and shapes of the operands after taking diagonals.
        axes: the permutation of a single operand that is not summed; otherwise None.
        strategy: the strategy that found the order; `path`: the order in the form of `numpy.einsum_path`.
        preparations: one per operand; `prepared`: the operands that they change; `sums`: whether one is summed.
        steps: the contractions in order; `arrangement`: how the last value is read as the result, or None.
        kept: the state and intermediates of the last call with `share=True`.
        flops: multiplications and additions of all steps; `naive_flops`: those of a single loop over all labels.
        writes: elements of the results of all steps. An autograd that saves intermediates would hold as many; this one
            contracts gradients from the operands.
        largest_intermediate, peak_elements: elements of the largest intermediate, and of all live ones at the peak,
            including copies and excluding operands.
        slicing: how the contraction is sliced, or None. FLOPs, writes and the peak are those of the slices; steps and
            the largest intermediate are those of the whole.
        memory_limit, slices: the values that `run` passes on to gradients, as for `einsum`. `itemsize`: the bytes per
            element that the limit was planned for.
        search_seconds: the time of the search for the order.
        measured: the runs by `execute`, latest last. `warm`: the conditions of these runs.
    """

    slicing: Slicing | None = None
    memory_limit: int | None = None
    slices: str | None = None
    itemsize = 4

    def __init__(
        self,
        inputs: tuple[Labels, ...],
        output: Labels,
        shapes: tuple[Shape, ...],
        strategy: Strategy,
        *,
        path: Path | None = None,
        minimize: str = "flops",
    ) -> None:
        self.inputs, self.output, self.shapes, self.strategy = inputs, output, shapes, strategy
        self.minimize = minimize
        self.sizes = sizes_of(inputs, shapes)
        self.result_shape = tuple(self.sizes[label] for label in output)
        self.diagonals = tuple(None if len(set(term)) == len(term) else diagonals_of(term) for term in inputs)
        self.repeats = any(self.diagonals)
        own = [dict(zip(term, shape, strict=True)) for term, shape in zip(inputs, shapes, strict=True)]
        self.terms, self.term_shapes = tuple(map(tuple, own)), tuple(tuple(sizes.values()) for sizes in own)
        self.axes: tuple[int, ...] | None = None
        if len(inputs) == 1 and len(self.terms[0]) == len(output):
            self.axes = tuple(self.terms[0].index(label) for label in output)
        wide = {label for label, size in self.sizes.items() if size != 1}
        self.core_output = tuple(label for label in output if label in wide)
        self.preparations = preparations_of(self.terms, output, self.term_shapes)
        pairs = zip(self.preparations, self.term_shapes, strict=True)
        self.prepared = [place for place, (each, shape) in enumerate(pairs) if each.summed or each.shape != shape]
        self.sums = any(each.summed for each in self.preparations)
        terms = [preparation.labels for preparation in self.preparations]
        start = time.perf_counter()
        self.path: Path = find_path(terms, self.core_output, self.sizes, strategy, minimize) if path is None else path
        self.search_seconds = time.perf_counter() - start
        self.pairs = pairs_of(self.path, len(inputs))
        self.steps = steps_of(terms, self.core_output, self.pairs, self.sizes)
        self.arrangement = self._arrangement()
        self.kept: tuple[Any, Any] = None, None
        self.measured: list[Measured] = []
        self.warm: set[tuple] = set()
        self._sliced: dict[Any, Plan | None] = {}

    def _arrangement(self) -> Reader | None:
        last = self.steps[-1].pair.result if self.steps else self.preparations[0].labels
        same = len(self.result_shape) == len(self.core_output)
        return reader(in_order(last, self.core_output), shape=None if same else self.result_shape)

    @property
    def equation(self) -> str:
        return text_of(self.inputs, self.output)

    @cached_property
    def flops(self) -> int:
        if self.slicing is not None:
            return self.slicing.flops
        pairs = zip(self.term_shapes, self.preparations, strict=True)
        sums = sum(math.prod(shape) for shape, preparation in pairs if preparation.summed)
        return sums + sum(step.flops for step in self.steps)

    @cached_property
    def writes(self) -> int:
        if self.slicing is not None:
            return self.slicing.writes
        sums = sum(math.prod(each.shape) for each in self.preparations if each.summed)
        return sums + sum(step.size for step in self.steps)

    @cached_property
    def naive_flops(self) -> int:
        summed = len(self.sizes) > len(self.output)
        return math.prod(self.sizes.values()) * max(1, len(self.inputs) - 1 + summed)

    @property
    def largest_intermediate(self) -> int:
        return max((step.size for step in self.steps), default=math.prod(self.result_shape))

    @cached_property
    def peak_elements(self) -> int:
        if self.slicing is not None:
            return self.slicing.peak_elements
        return max((self._summed_elements, *self.live_elements))

    @property
    def _summed_elements(self) -> int:
        """Elements of the operands that are summed first."""
        return sum(math.prod(preparation.shape) for preparation in self.preparations if preparation.summed)

    @property
    def live_elements(self) -> tuple[int, ...]:
        """For each step, the elements of all intermediates that live while it runs, its result and copies included."""
        if self.slicing is not None:
            return self.slicing.live_elements
        prepared = enumerate(self.preparations)
        held = {index: math.prod(preparation.shape) for index, preparation in prepared if preparation.summed}
        live = []
        for value, step in enumerate(self.steps, len(self.inputs)):
            live.append(sum(held.values()) + step.size + step.pair.elements_moved(self.sizes))
            for operand in step.operands:
                held.pop(operand, None)
            held[value] = step.size
        return tuple(live)

    @cached_property
    def gradients(self) -> tuple[Gradient, ...]:
        """For each operand, with each label once, the contraction that makes its gradient."""
        return tuple(_gradient(self, place) for place in range(len(self.inputs)))

    def cotangents(self) -> tuple[Plan, ...]:
        """For each operand, the plan of its gradient, by the same strategy. An explicit path holds for its own
        contraction only: the flags choose the order then."""
        strategy, minimize = self.strategy, self.minimize
        if isinstance(strategy, tuple):
            strategy, minimize = strategy_in_force(), "flops"
        plans = (Plan(each.inputs, each.output, each.shapes, strategy, minimize=minimize) for each in self.gradients)
        return tuple(map(self._sliced_alike, plans))

    def _sliced_alike(self, plan: Plan) -> Plan:
        """Another plan under this one's limit, or with its blocks."""
        if isinstance(self.slices, str) and self.memory_limit is not None:
            most = self.memory_limit // self.itemsize
            return plan if plan.peak_elements <= most else plan.within(most, self.slices) or plan
        return plan if self.slicing is None else plan.slice_labels(self.slicing.blocks)

    def slice_labels(self, blocks: Mapping[int, int]) -> Plan:
        """This plan with labels divided into blocks of these sizes. Unknown labels and whole ones are ignored."""
        from .slicing import Slicing

        own = tuple((label, block) for label, block in blocks.items() if block < self.sizes.get(label, 0))
        return self._remember(own, lambda: Slicing(self.whole, dict(own)) if own else None) or self.whole

    def within(self, most: int, finder: str) -> Plan | None:
        """This plan, sliced to a peak of at most `most` elements; None if no slicing is found whose FLOPs are at most
        `opt_einsum.slicing_overhead` times its own."""
        from .slice_search import find_slicing

        key = most, finder, current().read("opt_einsum.slicing_overhead")
        return self._remember(key, lambda: find_slicing(self.whole, most, finder))

    @property
    def whole(self) -> Plan:
        """This plan, or the one that it slices."""
        return self if self.slicing is None else self.slicing.whole

    def _remember(self, key: Any, slicing: Callable[[], Slicing | None]) -> Plan | None:
        """The sliced plans of the last few limits."""
        known = self.whole._sliced
        if key not in known:
            found, plan = slicing(), None
            if found is not None:
                options: Any = {"path": self.path, "minimize": self.minimize}
                plan = Plan(self.inputs, self.output, self.shapes, self.strategy, **options)
                plan.slicing = found
            while len(known) >= SLICED_KEPT:
                known.pop(next(iter(known)), None)
            known[key] = plan
        return known[key]

    # What users call

    def run(
        self,
        *operands: Any,
        precision: str | Sequence[str | None] | None = None,
        executor: Executor | int | None = None,
    ) -> Tensor:
        """Contract tensors as planned; gradients are recorded.

        Arguments:
            precision: of float32 products: one for all, or a sequence with one for each of `steps`; None uses the
                flags. Gradients have other steps; after a sequence they run at the flags' precision.
            executor: runs the slices: an executor of `concurrent.futures`, or a number of threads; None runs them one
                after another. The current flags travel with each slice. Partial results are added in slice order, so
                that the bits do not depend on the executor. Gradients run without it.

        A plan made under a memory limit keeps it here and in each gradient; each thread holds one slice. Raises
        RuntimeError for operands of other shapes and for slices that exceed the limit. Raises ValueError for a sequence
        of a wrong length, and for an executor if the plan is not sliced.
        """
        from .plan_run import run_plan

        return run_plan(self, operands, precision, executor)

    def execute(self, *operands: Any, precision: str | Sequence[str | None] | None = None) -> Tensor:
        """Contract tensors as planned, and append time and memory to `measured`. Nothing is recorded for gradients.

        The first execution for given dtypes and flags runs twice and measures the second run, since the first compiles
        or loads kernels. Raises RuntimeError for operands of other shapes.
        """
        from .plan_run import measured_run

        return measured_run(self, operands, precision)

    def error_estimate(self, precision: str | Sequence[str | None] | None = None) -> float:
        """The expected error of the result of float32 operands, relative in the Frobenius norm.

        That of each step follows from its length and precision (`kernels.precisions.products.predicted_error`), for
        operands of independent normal variates; those of the steps add in quadrature. `precision` is that of `run`.
        """
        from .precision_plan import error_estimate

        return error_estimate(self, precision)

    def lower_within(
        self, budget: float, precisions: Sequence[str] | None = None, costs: Mapping[str, float] | None = None
    ) -> tuple[str, ...]:
        """The precisions of the steps with the least cost whose `error_estimate` is at most `budget`, for `run`.

        Arguments:
            precisions: those to choose from; by default all that have the range of fp32, since values are not known.
            costs: the time of one multiplication and addition at each precision, in any unit, as it was measured; by
                default that of matrix units of devices, `precision_plan.unit_cost`.

        Raises ValueError where no choice obeys the budget.
        """
        from .precision_plan import lower_within

        return lower_within(self, budget, precisions, costs)

    def to_json(self) -> str:
        """The plan as JSON: labels, shapes, order and slices. A strategy that is a function is left out."""
        from .plan_format import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote. Raises ValueError for other text."""
        from .plan_format import from_json

        return from_json(text)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the tree of contractions, and the memory and the sizes of results over the steps.

        Returns the figure; with `path` it is also written, as PNG, PDF or SVG by the end of the name.
        """
        from .plot import plot

        return plot(self, path)

    def _repr_html_(self) -> str:
        from ...display.html import Lines, Rows, as_html
        from .plan_format import rows, summary

        return as_html(Lines(summary(self)), Rows(rows(self), 2))

    def __reduce__(self) -> tuple[Any, ...]:
        blocks = None if self.slicing is None else self.slicing.blocks
        key = self.inputs, self.output, self.shapes, self.strategy, self.path, self.minimize
        return _unpickle, (key, blocks, (self.memory_limit, self.slices, self.itemsize))

    def __repr__(self) -> str:
        from .plan_format import text

        return text(self)


@functools.lru_cache(256)
def _whole_of(*key: Any) -> Plan:
    """The plan that tasks in other processes share."""
    inputs, output, shapes, strategy, path, minimize = key
    return Plan(inputs, output, shapes, strategy, path=path, minimize=minimize)


def _unpickle(key: tuple, blocks: Mapping[int, int] | None, limit: tuple[int | None, str | None, int]) -> Plan:
    plan = _whole_of(*key).slice_labels(blocks or {})
    return plan if limit[:2] == (None, None) else with_limit(plan, *limit)


def with_limit(plan: Plan, memory_limit: int | None, slices: str | None, itemsize: int) -> Plan:
    """A copy of a plan with a memory limit, a way of slicing, and the element size that it was planned for."""
    limited = object.__new__(Plan)
    limited.__dict__.update(plan.__dict__, measured=[], warm=set(), kept=(None, None))
    limited.memory_limit, limited.slices, limited.itemsize = memory_limit, slices, itemsize
    return limited


def _gradient(plan: Plan, place: int) -> Gradient:
    """The contraction that computes an operand's gradient. It keeps the operand's labels with two exceptions: the
    gradient is constant along labels of no other term, and summed along broadcast ones."""
    others = [index for index in range(len(plan.terms)) if index != place]
    inputs = (plan.output, *(plan.terms[index] for index in others))
    shapes = (plan.result_shape, *(plan.term_shapes[index] for index in others))
    sizes = sizes_of(inputs, shapes)
    own = dict(zip(plan.terms[place], plan.term_shapes[place], strict=True))
    kept = tuple(label for label, size in own.items() if label in sizes and (size != 1 or sizes[label] == 1))
    return Gradient(inputs, kept, shapes, tuple(sizes[label] if label in kept else 1 for label in own))
