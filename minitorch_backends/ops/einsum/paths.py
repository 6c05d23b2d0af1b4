"""The order of contractions, and of the dimensions in each.

A path names the pair of operands of each contraction; it comes from opt_einsum, cotengra, or a user's function or list.
`pair_of` classifies the labels of two operands as batch, rows, columns and sum, and orders them so that as little as
possible is copied before the product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...backends.opt_einsum import is_available
from ...backends.strategies import COTENGRA, Strategy
from ...flags import State, per_state
from .equation import Labels
from .objectives import cannot_minimize, named_search
from .pairs import Path

BY_FLAGS = "flags"
"""The strategy of a call that names none: that of the current flags, also in backward."""


def left_to_right(count: int) -> Path:
    """Contract the first two operands; then each result, appended at the end, with the operand that is now first."""
    return ((0, 1), *((0, left) for left in range(count - 2, 0, -1))) if count > 1 else ()


def find_path(
    inputs: Sequence[Labels], output: Labels, sizes: dict[int, int], strategy: Strategy, minimize: str = "flops"
) -> Path:
    """The positions of the operands of each contraction; each result is appended to the list.

    Two operands have only one order. Raises RuntimeError for a path that does not contract all operands to one,
    ValueError for a strategy that cannot minimize the objective.
    """
    count = len(inputs)
    if minimize != "flops" and not isinstance(strategy, str):
        raise cannot_minimize(strategy, minimize)
    if isinstance(strategy, str):
        search = named_search(strategy, minimize)
    if count <= 2 or strategy is None:
        return left_to_right(count)
    if isinstance(strategy, tuple):
        return checked_path(strategy, count, f"the path {list(strategy)}")
    if isinstance(strategy, str):
        sets: list[frozenset] = [frozenset(term) for term in inputs]
        path = search(sets, frozenset(output), {label: max(size, 1) for label, size in sizes.items()})
    else:  # costs of 0 stop some of the searches
        symbols = {_symbol(label): max(size, 1) for label, size in sizes.items()}
        sets = [frozenset(map(_symbol, term)) for term in inputs]
        path = strategy(sets, frozenset(map(_symbol, output)), symbols, None)
    found = tuple(tuple(map(int, step)) for step in path)
    return checked_path(found, count, f"the path {list(found)} of strategy {strategy!r}")


def _symbol(label: int) -> str:
    return chr(0x100 + label)


def checked_path(path: Path, count: int, what: str) -> Path:
    """The path. Raises RuntimeError where it does not contract `count` operands to one."""
    left = count
    for step in path:
        if len(set(step)) != len(step) or any(not 0 <= place < left for place in step):
            raise RuntimeError(
                f"einsum(): {what} contracts {list(step)} of {left} operands; expected different places from 0 to "
                f"{left - 1}"
            )
        left -= len(step) - 1
    if left != 1:
        raise RuntimeError(f"einsum(): {what} leaves {left} of {count} operands; expected a path to one")
    return path


@per_state()
def strategy_in_force(state: State) -> Strategy:
    """The flags' strategy for three and more operands; None contracts them strictly from left to right."""
    strategy = state.read("opt_einsum.strategy") if state.read("opt_einsum.enabled") else None
    return None if isinstance(strategy, str) and strategy != COTENGRA and not is_available() else strategy


def order_of(strategy: Strategy, count: int) -> Strategy:
    """The strategy that determines the order of the contractions of `count` operands; two have one order only."""
    return None if count < 3 else strategy_in_force() if strategy is BY_FLAGS else strategy


# Two operands


class Pair(NamedTuple):
    """One contraction of two values.

    A product reads its operands as batch x rows x sum and batch x sum x columns. Without a sum it is a multiplication
    that broadcasts, and the operands are read in the order of the result.

    Attributes:
        swapped: whether the second value is the left operand.
        left, right: the labels of the operands, in the order of their dimensions.
        batch, rows, summed, columns: the roles of labels; empty for a multiplication.
        result: the labels of the result, in the order of its dimensions.
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
        """The operation that implements the contraction."""
        if not self.summed:
            return "multiply" if set(self.left) & set(self.right) else "outer"
        name = "GEMM" if self.rows and self.columns else "GEMV" if self.rows or self.columns else "dot"
        return f"batched {name}" if self.batch else name

    def elements_moved(self, sizes: dict[int, int]) -> int:
        """The number of elements that are copied."""
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
    """The contraction of two values; later steps need the labels in `kept`.

    `output` is the order of the last result, None for earlier steps. `later` may then return the cost of an order of
    this result.
    """
    common = set(left) & set(right)
    if common <= kept:
        result = output if output is not None else _multiply_order(left, right, sizes)
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


def _multiply_order(left: Labels, right: Labels, sizes: dict[int, int]) -> Labels:
    """The order that reads the larger operand without a copy."""
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
    return min(options, key=lambda option: option.elements_moved(sizes))


def _lies(term: Labels, *groups: Labels) -> bool:
    """Whether each group of labels is contiguous in the term, so that strides can merge it."""
    text = "".join(map(chr, term))
    return all("".join(map(chr, group)) in text for group in groups)
