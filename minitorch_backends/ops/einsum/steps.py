"""The steps of a plan: contractions of two values, as products of matrices, batched or not, or as multiplications that
broadcast; and how their arrays are read."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .equation import Labels, text_of
from .paths import Pair, pair_of

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
        operands: the two values; `left`, `right`: the same as factors of the product.
        pair: the labels, and the order of reading the values.
        flops: multiplications and additions.
        size: elements of the result.
        intensity: arithmetic intensity, in FLOPs per element that the step reads and writes.
        key: identifies the operation; equal for steps that do the same to their values.
        first, second, result: how the factors and the product are read; None for unchanged.
        matrices: the shapes of the (batched) matrices as which the factors are read; None for a multiplication.
    """

    def __init__(self, operands: tuple[int, int], pair: Pair, sizes: dict[int, int]) -> None:
        self.operands, self.pair = operands, pair
        self.left, self.right = operands[::-1] if pair.swapped else operands
        self.flops = math.prod(sizes[label] for label in {*pair.left, *pair.right}) * (2 if pair.summed else 1)
        self.size = math.prod(sizes[label] for label in pair.result)
        read = sum(math.prod(sizes[label] for label in term) for term in (pair.left, pair.right))
        self.intensity = self.flops / max(read + self.size, 1)
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

    def bind(self, multiply: Multiply) -> Multiply:
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
        """The kernel, and the number of operands that it must copy."""
        copied = sum(self.pair.copies)
        return self.pair.kernel + (f", {copied} transposed" if copied else "")


def preparations_of(terms: Sequence[Labels], output: Labels, shapes: Sequence[Shape]) -> tuple[Preparation, ...]:
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


def steps_of(
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
        return pair.elements_moved(sizes)

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
    in another shape; None where none of these is given."""
    if axes is None:
        if ones is not None:
            return operator.itemgetter(ones)
        return None if shape is None else operator.methodcaller("reshape", shape)
    turned = axes == tuple(range(len(axes)))[::-1]  # `T` takes a third of the time of `transpose`
    transpose = operator.attrgetter("T") if turned else operator.methodcaller("transpose", axes)
    further = reader(None, ones, shape)
    return transpose if further is None else lambda array: further(transpose(array))


def in_order(term: Labels, order: Labels) -> Axes:
    """The axes that bring a term to an order; None where it has that order."""
    return None if term == order else tuple(term.index(label) for label in order)


def _broadcast(term: Labels, result: Labels) -> Reader | None:
    """Reorder to the labels of the result, with size-1 dimensions for missing labels unless they all come first."""
    if term == result[len(result) - len(term) :]:
        return None
    ones = tuple(slice(None) if label in term else None for label in result)
    return reader(in_order(term, tuple(label for label in result if label in term)), ones if None in ones else None)


def _matrices(term: Labels, batch: Labels, first: Labels, second: Labels, sizes: dict[int, int]) -> Reader | None:
    """Batch x first x second."""
    axes = in_order(term, (*batch, *first, *second))
    if len(first) == len(second) == 1:
        return reader(axes)
    if len(first) <= 1 and len(second) <= 1:
        kept = (slice(None),) * len(batch)
        return reader(axes, (*kept, *(slice(None) if group else None for group in (first, second))))
    groups = (math.prod(sizes[label] for label in group) for group in (first, second))
    return reader(axes, None, (*(sizes[label] for label in batch), *groups))
