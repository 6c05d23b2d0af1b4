"""How two operands are contracted: which labels are batch, rows, columns and sum, and in which order they are read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from .equation import Labels

__all__ = ["Pair", "pair_of"]


class Pair(NamedTuple):
    """One contraction of two values.

    A product reads its operands as batch x rows x sum and batch x sum x columns; without a sum it is a multiplication
    that broadcasts, and the operands are read in the order of the result.

    Attributes:
        swapped: whether the second value is the left operand.
        left, right: the labels of the operands, in the order in which these hold them.
        batch, rows, summed, columns: the roles of labels; all but `result` are empty for a multiplication.
        result: the labels of the result in the order in which it is made.
        copies: which operands must be copied, since no strides reach their rows (columns) or sums in that order.
    """

    swapped: bool
    left: Labels
    right: Labels
    batch: Labels
    rows: Labels
    summed: Labels
    columns: Labels
    result: Labels
    copies: tuple[bool, bool]

    @property
    def kernel(self) -> str:
        """What the contraction becomes."""
        if not self.summed:
            return "multiply" if set(self.left) & set(self.right) else "outer"
        name = "GEMM" if self.rows and self.columns else "GEMV" if self.rows or self.columns else "dot"
        return f"batched {name}" if self.batch else name

    def moved(self, sizes: dict[int, int]) -> int:
        """How many elements are copied."""
        sides = zip((self.left, self.right), self.copies, strict=True)
        return sum(math.prod(sizes[label] for label in side) for side, copied in sides if copied)


def pair_of(
    left: Labels,
    right: Labels,
    kept: set[int],
    sizes: dict[int, int],
    output: Labels | None,
    later: Callable[[Labels], int] | None = None,
) -> Pair:
    """The contraction of two values, of which the labels `kept` are needed later.

    `output` is the order that is wanted of the last result, None before; then `later` may say what an order of this
    result costs.
    """
    common = set(left) & set(right)
    if common <= kept:
        result = output if output is not None else _multiplied(left, right, sizes)
        return Pair(False, left, right, (), (), (), (), result, (False, False))
    pair = _product(False, left, right, common, kept, sizes)
    if output is None and later is not None and (cost := later(pair.result)):
        other = _product(True, right, left, common, kept, sizes)
        return other if later(other.result) < cost else pair
    if output is None or pair.result == output:
        return pair
    other = _product(True, right, left, common, kept, sizes)
    if other.result == output or (output and output[-1] in pair.rows and pair.columns):
        return other
    return pair


def _multiplied(left: Labels, right: Labels, sizes: dict[int, int]) -> Labels:
    """The order in which the larger operand is read as it lies."""
    larger, smaller = sorted((left, right), key=lambda term: -math.prod(sizes[label] for label in term))
    return (*(label for label in smaller if label not in larger), *larger)


def _product(
    swapped: bool, left: Labels, right: Labels, common: set[int], kept: set[int], sizes: dict[int, int]
) -> Pair:
    batch = tuple(label for label in left if label in common and label in kept)
    rows = tuple(label for label in left if label not in common)
    columns = tuple(label for label in right if label not in common)
    options = []
    for term in (left, right):
        summed = tuple(label for label in term if label in common and label not in kept)
        copies = not _lies(left, rows, summed), not _lies(right, summed, columns)
        options.append(Pair(swapped, left, right, batch, rows, summed, columns, (*batch, *rows, *columns), copies))
    return min(options, key=lambda option: option.moved(sizes))


def _lies(term: Labels, *groups: Labels) -> bool:
    """Whether each group of labels lies in the term without others between, so that strides reach it as one."""
    text = "".join(map(chr, term))
    return all("".join(map(chr, group)) in text for group in groups)
