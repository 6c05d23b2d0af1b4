"""Plans: the contractions of an einsum, two operands at a time, and their costs. A plan depends on labels, shapes and
strategy alone.

Each contraction is a product of matrices, batched or not, or a multiplication that broadcasts.
"""

from __future__ import annotations

import math
import operator
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...backends.strategies import Strategy
from ...kernels.locks import cached_property
from .equation import Labels, diagonals_of, label_name, sizes_of, text_of
from .paths import Pair, Path, find_path, pair_of, pairs_of, strategy_in_force

__all__ = ["Gradient", "Measured", "Multiply", "Plan", "Preparation", "Step"]

Shape = tuple[int, ...]
Axes = tuple[int, ...] | None
Reader = Callable[[np.ndarray], np.ndarray]
Multiply = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Preparation(NamedTuple):
    """An operand before it meets others: sums over dimensions that only it has, and dimensions of size 1 dropped."""

    summed: tuple[int, ...]
    shape: Shape
    labels: Labels


class Step:
    """One contraction of two values, numbered as by `pairs_of`.

    Attributes:
        operands: the two values; `left`, `right`: these as the factors of the product.
        pair: the labels, and the order in which the values are read.
        flops: multiplications and additions.
        size: elements of the result.
        key: what the step does, equal for steps that do the same to their values.
        first, second, result: how the factors and the product are read; None where they are taken as they are.
        matrices: the shapes of the (batches of) matrices as which the factors are read; None for a multiplication.
    """

    def __init__(self, operands: tuple[int, int], pair: Pair, sizes: dict[int, int]) -> None:
        self.operands, self.pair = operands, pair
        self.left, self.right = operands[::-1] if pair.swapped else operands
        self.flops = math.prod(sizes[label] for label in {*pair.left, *pair.right}) * (2 if pair.summed else 1)
        self.size = math.prod(sizes[label] for label in pair.result)
        places = {label: place for place, label in enumerate(dict.fromkeys((*pair.left, *pair.right)))}
        terms = pair.left, pair.right, pair.summed, pair.result
        self.key = tuple(tuple(places[label] for label in term) for term in terms)
        self.result: Reader | None = None
        self.matrices: tuple[Shape, Shape] | None = None
        if not pair.summed:
            self.first, self.second = _broadcast(pair.left, pair.result), _broadcast(pair.right, pair.result)
            return
        self.first = _matrices(pair.left, pair.batch, pair.rows, pair.summed, sizes)
        self.second = _matrices(pair.right, pair.batch, pair.summed, pair.columns, sizes)
        if len(pair.rows) != 1 or len(pair.columns) != 1:
            self.result = reader(shape=tuple(sizes[label] for label in pair.result))
        batch = tuple(sizes[label] for label in pair.batch)
        n, k, m = (math.prod(sizes[label] for label in group) for group in (pair.rows, pair.summed, pair.columns))
        self.matrices = (*batch, n, k), (*batch, k, m)

    def applied(self, multiply: Multiply) -> Multiply:
        """`multiply`, of factors and with a result as the step reads them."""
        first, second, result = self.first, self.second, self.result
        if first is second is result is None:
            return multiply

        def apply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            out = multiply(a if first is None else first(a), b if second is None else second(b))
            return out if result is None else result(out)

        return apply

    @property
    def equation(self) -> str:
        terms = (self.pair.right, self.pair.left) if self.pair.swapped else (self.pair.left, self.pair.right)
        return text_of(terms, self.pair.result)

    @property
    def kernel(self) -> str:
        """The kernel, and how many operands it cannot read where they lie."""
        copied = sum(self.pair.copies)
        return self.pair.kernel + (f", {copied} transposed" if copied else "")


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
    """The contraction of operands of known shapes, in a known order.

    Attributes:
        inputs, output: the labels of the operands' dimensions and of the result's.
        shapes: the operands' shapes; `sizes`: the size of each label.
        diagonals: for each operand with repeated labels, what `diagonals_of` returns; None for the others.
        repeats: whether there are such operands.
        terms, term_shapes: labels and shapes of the operands once their diagonals are taken.
        axes: the order in which the result shows the dimensions of an only operand that is not summed; else None.
        strategy: what chose the order; `path`: the order, as `numpy.einsum_path` writes it.
        preparations: for each operand; `prepared`: the places of those that change; `sums`: whether one is summed.
        steps: the contractions in order; `arrangement`: how the last value is read as the result, or None.
        kept: the circumstances and intermediates of the last call with `share=True`.
        flops: multiplications and additions of all steps; `naive_flops`: those of one loop over all labels.
        largest_intermediate, peak_elements: elements of the largest result of a step, and of all that live at once at
            the worst moment, copies included and operands not.
        search_seconds: the time of the search for the order.
        measured: the executions by `execute`, the last one last. `warm`: the circumstances of these.
    """

    def __init__(
        self, inputs: tuple[Labels, ...], output: Labels, shapes: tuple[Shape, ...], strategy: Strategy
    ) -> None:
        self.inputs, self.output, self.shapes, self.strategy = inputs, output, shapes, strategy
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
        self.preparations = _preparations(self.terms, output, self.term_shapes)
        pairs = zip(self.preparations, self.term_shapes, strict=True)
        self.prepared = [place for place, (each, shape) in enumerate(pairs) if each.summed or each.shape != shape]
        self.sums = any(each.summed for each in self.preparations)
        terms = [preparation.labels for preparation in self.preparations]
        start = time.perf_counter()
        self.path: Path = find_path(terms, self.core_output, self.sizes, strategy)
        self.search_seconds = time.perf_counter() - start
        self.pairs = pairs_of(self.path, len(inputs))
        self.steps = _steps(terms, self.core_output, self.pairs, self.sizes)
        self.arrangement = self._arrangement()
        self.kept: tuple[Any, Any] = None, None
        self.measured: list[Measured] = []
        self.warm: set[tuple] = set()

    def _arrangement(self) -> Reader | None:
        last = self.steps[-1].pair.result if self.steps else self.preparations[0].labels
        same = len(self.result_shape) == len(self.core_output)
        return reader(_in_order(last, self.core_output), shape=None if same else self.result_shape)

    @property
    def equation(self) -> str:
        return text_of(self.inputs, self.output)

    @cached_property
    def flops(self) -> int:
        pairs = zip(self.term_shapes, self.preparations, strict=True)
        sums = sum(math.prod(shape) for shape, preparation in pairs if preparation.summed)
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
        prepared = enumerate(self.preparations)
        held = {index: math.prod(preparation.shape) for index, preparation in prepared if preparation.summed}
        peak = sum(held.values())
        for value, step in enumerate(self.steps, len(self.inputs)):
            peak = max(peak, sum(held.values()) + step.size + step.pair.moved(self.sizes))
            for operand in step.operands:
                held.pop(operand, None)
            held[value] = step.size
        return peak

    @cached_property
    def gradients(self) -> tuple[Gradient, ...]:
        """For each operand, with each label once, the contraction that makes its gradient."""
        return tuple(_gradient(self, place) for place in range(len(self.inputs)))

    def cotangents(self) -> tuple[Plan, ...]:
        """For each operand, the plan of its gradient, by the same strategy. An explicit path holds for its own
        contraction only: the flags choose the order then.
        """
        strategy = strategy_in_force() if isinstance(self.strategy, tuple) else self.strategy
        return tuple(Plan(each.inputs, each.output, each.shapes, strategy) for each in self.gradients)

    def execute(self, *operands: Any, precision: str | None = None) -> Any:
        """Contract tensors as planned, and append time and memory to `measured`; nothing is recorded for gradients.

        The first execution of operands of these dtypes under the flags in force does so twice and measures the second:
        the first one compiles kernels or loads them, which took 5 s and 47 MB beside the 50 KB of three small matrices.
        Raises RuntimeError for operands of other shapes.
        """
        from .api import measured_run

        return measured_run(self, operands, precision)

    def __repr__(self) -> str:
        return _text(self)


def _gradient(plan: Plan, place: int) -> Gradient:
    """The contraction keeps the operand's labels, but for two kinds. Along a label that nothing else has the gradient
    is constant; along one that was broadcast it is summed.
    """
    others = [index for index in range(len(plan.terms)) if index != place]
    inputs = (plan.output, *(plan.terms[index] for index in others))
    shapes = (plan.result_shape, *(plan.term_shapes[index] for index in others))
    sizes = sizes_of(inputs, shapes)
    own = dict(zip(plan.terms[place], plan.term_shapes[place], strict=True))
    kept = tuple(label for label, size in own.items() if label in sizes and (size != 1 or sizes[label] == 1))
    return Gradient(inputs, kept, shapes, tuple(sizes[label] if label in kept else 1 for label in own))


def _preparations(terms: Sequence[Labels], output: Labels, shapes: Sequence[Shape]) -> tuple[Preparation, ...]:
    """Labels that only one operand has, or has in a size other than 1, and that the result lacks, are summed first."""
    labelled = [list(zip(term, shape, strict=True)) for term, shape in zip(terms, shapes, strict=True)]
    holders = Counter(label for term in terms for label in term)
    wide = Counter(label for operand in labelled for label, size in operand if size != 1)
    prepared = []
    for operand in labelled:
        summed, kept = [], []
        for dim, (label, size) in enumerate(operand):
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
        """Elements that the step which takes the next result has to copy for this order of it; 0 where its other
        operand is not planned yet."""
        taker = next(pair for pair in pairs if len(terms) + len(steps) in pair)
        other = next(values.get(value) for value in taker if value != len(terms) + len(steps))
        if other is None:
            return 0
        uses.update(result)
        pair = pair_of(result, other, kept_of(result, other), sizes, output if taker == pairs[-1] else None)
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
        steps.append(Step((first, second), pair, sizes))
    return tuple(steps)


# How arrays are read


def reader(axes: Axes = None, ones: tuple[Any, ...] | None = None, shape: Shape | None = None) -> Reader | None:
    """The function that reads an array with its dimensions in another order, and then with new dimensions of size 1 or
    in another shape; None where none of these is given.
    """
    if axes is None:
        if ones is not None:
            return operator.itemgetter(ones)
        return None if shape is None else operator.methodcaller("reshape", shape)
    turned = axes == tuple(range(len(axes)))[::-1]  # `T` takes a third of the time of `transpose`
    transpose = operator.attrgetter("T") if turned else operator.methodcaller("transpose", axes)
    further = reader(None, ones, shape)
    return transpose if further is None else lambda array: further(transpose(array))


def _in_order(term: Labels, order: Labels) -> Axes:
    """The axes that bring a term to an order; None where it has that order."""
    return None if term == order else tuple(term.index(label) for label in order)


def _broadcast(term: Labels, result: Labels) -> Reader | None:
    """In the order of the result, with a dimension of size 1 for each label of the result that the term lacks, unless
    all of these come first."""
    if term == result[len(result) - len(term) :]:
        return None
    ones = tuple(slice(None) if label in term else None for label in result)
    return reader(_in_order(term, tuple(label for label in result if label in term)), ones if None in ones else None)


def _matrices(term: Labels, batch: Labels, first: Labels, second: Labels, sizes: dict[int, int]) -> Reader | None:
    """Batch x first x second."""
    axes = _in_order(term, (*batch, *first, *second))
    if len(first) == len(second) == 1:
        return reader(axes)
    if len(first) <= 1 and len(second) <= 1:
        kept = (slice(None),) * len(batch)
        return reader(axes, (*kept, *(slice(None) if group else None for group in (first, second))))
    groups = (math.prod(sizes[label] for label in group) for group in (first, second))
    return reader(axes, None, (*(sizes[label] for label in batch), *groups))


# The text of a plan


def _text(plan: Plan) -> str:
    rows = [("", "contraction", "flops", "elements", "kernel", "seconds")]
    last = plan.measured[-1] if plan.measured else None
    for term, shape, preparation in zip(plan.inputs, plan.term_shapes, plan.preparations, strict=True):
        if preparation.summed:
            size, flops = math.prod(preparation.shape), math.prod(shape)
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
