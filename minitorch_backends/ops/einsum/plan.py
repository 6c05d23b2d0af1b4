"""Plans: the pairwise contractions of an einsum, and their costs. A plan depends only on labels, shapes and
strategy. It is data: `slicing` divides it, `program` runs it, and `user_plan` has what users call."""

from __future__ import annotations

import functools
import math
import time
from typing import Any, NamedTuple

from ...backends.strategies import Strategy
from ...kernels.runtime.locks import cached_property
from .equation import Labels, diagonals_of, sizes_of, text_of
from .pairs import Path, pairs_from, pairs_of, path_of
from .paths import find_path
from .steps import Reader, in_order, preparations_of, reader, steps_of

Shape = tuple[int, ...]


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
        search_seconds: the time of the search for the order, or None where none was made.
        is_derived: whether the order is that of the contraction whose gradient this is.
        measured: the runs by `execute`, latest last. `warm`: the conditions of these runs.
    """

    slicing: Any = None
    memory_limit: int | None = None
    slices: str | None = None
    itemsize = 4
    is_derived = False

    def __init__(
        self, inputs: tuple[Labels, ...], output: Labels, shapes: tuple[Shape, ...], strategy: Strategy, *,
        path: Path | None = None, minimize: str = "flops",
    ) -> None:  # fmt: skip
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
        self.search_seconds: float | None = time.perf_counter() - start if path is None else None
        self.pairs = pairs_of(self.path, len(inputs))
        self.steps = steps_of(terms, self.core_output, self.pairs, self.sizes)
        self.arrangement = self._arrangement()
        self.kept: tuple[Any, Any] = None, None
        self.measured: list[Measured] = []
        self.warm: set[tuple] = set()
        self._sliced: dict[Any, Plan | None] = {}
        self._paths: dict[int, Path] = {}

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

    def path_of_gradient(self, place: int) -> Path | None:
        """The order of `gradients[place]`: that of this plan, seen from the operand. None where no strategy found this
        one; operands are then contracted from left to right."""
        if self.strategy is None:
            return None
        found = self._paths.get(place)
        if found is None:
            count = len(self.inputs)
            found = self._paths[place] = path_of(pairs_from(place, self.pairs, count), count)
        return found

    @property
    def whole(self) -> Plan:
        """This plan, or the one that it slices."""
        return self if self.slicing is None else self.slicing.whole

    def __reduce__(self) -> tuple[Any, ...]:
        if self.slicing is not None:
            return object.__reduce_ex__(self, 2)  # type: ignore[return-value]
        return whole_of, (type(self), self.inputs, self.output, self.shapes, self.strategy, self.path, self.minimize)


@functools.lru_cache(256)
def whole_of(kind: type[Plan], *key: Any) -> Plan:
    """The plan that tasks in other processes share."""
    inputs, output, shapes, strategy, path, minimize = key
    return kind(inputs, output, shapes, strategy, path=path, minimize=minimize)


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
