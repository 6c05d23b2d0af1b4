"""In which order a function adds: the tree of any sum or product, from its results alone.

One term is huge, another is its opposite, the rest are units. Those that are added to either before the two meet are
lost, so that the units left count the terms outside of the smallest subtree with both (P. Xie et al., "FPRev: revealing
floating-point accumulation orders in software/hardware implementations", arXiv 2411.00442). A pivot beside each other
term divides these by the sizes of such subtrees, and each group is a smaller tree of the same kind. The pivot is the
middle term: chains in either direction then take n log(n) calls, as balanced trees do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HUGE = {"float32": 2.0**100, "float64": 2.0**900, "float16": 2.0**15}
"""Numbers beside which all units are lost."""

_SHOWN, _MOST_TICKS = 6, 32
"""Levels and subtrees that a text shows, and terms that a picture names."""

SubtreeSize = Callable[[int, int, np.ndarray], int]


class Order:
    """The order of a sum.

    Attributes:
        tree: a term's index, or a tuple of the subtrees that are added: two, or several that a unit sums at once. Those
            with smaller indices stand first. A chain of n terms is n deep, deeper than Python compares: use `==` on
            orders.
        n: the number of terms.
        depth: the largest number of sums that a term passes through.
    """

    def __init__(self, tree: Any, n: int) -> None:
        self.tree, self.n = tree, n
        self._nodes = _measured_nodes(tree)
        self.depth = self._nodes[id(tree)].depth

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Order) and self.n == other.n and not _first_difference(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Order of {self.n} terms, {self.depth} sums deep"

    def __str__(self) -> str:
        widest = max((len(node) for node in _tuples(self.tree)), default=1)
        head = f"{self.n} terms, {self.depth} sums deep, at most {widest} at once"
        return "\n".join([head, *self._levels(self.tree)])

    def _levels(self, tree: Any) -> Iterator[str]:
        """The subtrees of the upper levels, along the largest of each."""
        for _ in range(_SHOWN):
            if not isinstance(tree, tuple):
                return
            yield "  " + "  +  ".join(map(_range, tree[:_SHOWN])) + "  + ..." * (len(tree) > _SHOWN)
            tree = max(tree, key=lambda each: self._nodes[id(each)].size if isinstance(each, tuple) else 1)

    def compare(self, other: Order) -> str:
        """Why two sums differ in their last bits: the smallest terms that both add up first, in different orders."""
        if self.n != other.n:
            return f"{self.n} terms beside {other.n}"
        if not (parts := _first_difference(self, other)):
            return "the same order"
        first, second = parts
        head = f"the sum of {_range(first)} is made in two orders:"
        return "\n".join([head, *self._levels(first), "and", *other._levels(second)])

    def plot(self, path: str | os.PathLike[str] | None = None, *, ax: Axes | None = None) -> Any:
        """Draw the tree, sums above their terms, on axes or in a figure that may be written to a file by the end of its
        name; returns the figure. Needs matplotlib."""
        from ..display.figures import BLUE, drawing

        if ax is None:
            with drawing(path, (6.2, 4.2)) as figure:
                self.plot(ax=figure.subplots())
            return figure
        leaves = _leaves(self.tree)
        places: dict[Any, tuple[float, int]] = {leaf: (at, 0) for at, leaf in enumerate(leaves)}
        for node in _tuples(self.tree):
            children = [places[id(each) if isinstance(each, tuple) else each] for each in node]
            middle, height = float(np.mean([x for x, _ in children])), self._nodes[id(node)].depth
            places[id(node)] = middle, height
            for x, y in children:
                ax.plot([middle, x, x], [height, height, y], color=BLUE, linewidth=0.8)
        ax.set(xlabel="terms, as they meet", ylabel="sums below", xlim=(-1, self.n))
        ax.yaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
        if self.n <= 2 * _MOST_TICKS:
            aslant: dict[str, Any] = {"rotation": 90, "fontsize": 5} if self.n > _MOST_TICKS else {"fontsize": 7}
            ax.set_xticks(range(self.n), [str(leaf) for leaf in leaves], **aslant)
        return ax.figure


def summation_order(function: Callable[[np.ndarray], Any], n: int, *, dtype: str = "float32") -> Order:
    """Find the order in which a function adds n terms.

    Arguments:
        function: takes an array (n,) of terms and returns their sum, as a number, an array of one or a tensor. Of a
            product, give one operand: `lambda x: np.dot(x, ones)`. Terms are powers of two, so products are exact.
        n: the number of terms, at least 1; about n log2(n) calls.
        dtype: of the terms and the sum: "float32", "float64", or "float16" with n up to 1024.

    Returns an `Order`: text, a picture, and a comparison with another. Raises ValueError for other dtypes and numbers,
    and for a function that is not a sum of its terms one to another, as an exact sum is. Source: arXiv 2411.00442.
    """
    if dtype not in _HUGE or n < 1 or (dtype == "float16" and n > 1024):
        raise ValueError(
            f"summation_order(): dtype must be of {', '.join(_HUGE)} and n at least 1, in float16 at most 1024, "
            f"got {dtype!r} and {n}"
        )
    huge, unit = _HUGE[dtype], 2.0**-24 if dtype == "float16" else 1.0  # lost in sums in float32, too
    terms = np.zeros(n, dtype)

    def subtree_size(i: int, j: int, among: np.ndarray) -> int:
        """The number of terms in the smallest subtree with both, while those not among these are zero."""
        terms[among] = unit
        terms[i], terms[j] = huge, -huge
        found = function(terms.copy())
        terms[among] = 0
        left = float(np.asarray(found._array if isinstance(found, Tensor) else found).reshape(())) / unit
        if not (0 <= left <= len(among) - 2 and left == int(left)):
            raise ValueError(
                f"summation_order(): function must add {n} terms one to another, got {left:g} of {len(among) - 2} "
                f"units beside term {i} and its opposite, {j}"
            )
        return len(among) - int(left)

    return Order(_build(np.arange(n), subtree_size), n)


def _build(part: np.ndarray, subtree_size: SubtreeSize) -> Any:
    """The tree of some terms, while others are zero."""
    pivot = int(part[len(part) // 2])
    groups: dict[int, list[int]] = {}
    for other in part:
        if other != pivot:
            groups.setdefault(subtree_size(pivot, int(other), part), []).append(int(other))
    tree: Any = pivot
    count = 1
    for size in sorted(groups):
        group = np.array(groups[size])
        if len(group) != size - count:
            raise ValueError("summation_order(): function must add in an order that does not depend on its terms")
        beside: Any = _build(group, subtree_size) if len(group) > 1 else int(group[0])
        # subtrees of one sum of several terms lose the pivot's terms too
        several = isinstance(beside, tuple) and subtree_size(_least(beside[0]), _least(beside[1]), part) == size
        tree, count = tuple(sorted((tree, *beside) if several else (tree, beside), key=_least)), size
    return tree


def _least(tree: Any) -> int:
    while isinstance(tree, tuple):
        tree = tree[0]
    return tree


# Trees deeper than Python's recursion


class _Node(NamedTuple):
    """Of a subtree: the number of terms, the sums above the deepest one, and a number that only the same terms have."""

    size: int
    depth: int
    terms: int


def _leaf(index: int) -> _Node:
    return _Node(1, 0, hash((index, "term")) % (1 << 64))


def _tuples(tree: Any) -> Iterator[tuple]:
    """All sums of a tree, each after those below it."""
    stack, found = [tree], []
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            found.append(node)
            stack.extend(node)
    return reversed(found)


def _leaves(tree: Any) -> list[int]:
    stack, found = [tree], []
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            stack.extend(reversed(node))
        else:
            found.append(node)
    return found


def _measured_nodes(tree: Any) -> dict[int, _Node]:
    nodes: dict[int, _Node] = {} if isinstance(tree, tuple) else {id(tree): _leaf(tree)}
    for node in _tuples(tree):
        below = [nodes[id(each)] if isinstance(each, tuple) else _leaf(each) for each in node]
        sizes, depths, terms = zip(*below, strict=True)
        nodes[id(node)] = _Node(sum(sizes), 1 + max(depths), sum(terms) % (1 << 64))
    return nodes


def _first_difference(one: Order, other: Order) -> tuple[Any, Any] | None:
    """Subtrees of the same terms whose sums differ in what they add, or None."""
    stack = [(one.tree, other.tree)]
    while stack:
        first, second = stack.pop()
        if not isinstance(first, tuple) and first == second:
            continue
        if not (isinstance(first, tuple) and isinstance(second, tuple)) or len(first) != len(second):
            return first, second
        pairs = list(zip(first, second, strict=True))
        if any(_terms(one, x) != _terms(other, y) for x, y in pairs):
            return first, second
        stack += pairs
    return None


def _terms(order: Order, tree: Any) -> int:
    return order._nodes[id(tree)].terms if isinstance(tree, tuple) else _leaf(tree).terms


def _range(tree: Any) -> str:
    """The terms of a subtree in words: 3, 0..7, 0, 8, ... 56 (8)."""
    leaves = sorted(_leaves(tree))
    if len(leaves) == 1:
        return str(leaves[0])
    steps = set(np.diff(leaves).tolist())
    if len(leaves) == 2:
        return f"{leaves[0]}, {leaves[1]}"
    if steps == {1}:
        return f"{leaves[0]}..{leaves[-1]}"
    if len(steps) == 1:
        return f"{leaves[0]}, {leaves[1]}, ..{leaves[-1]}"
    shown = ", ".join(map(str, leaves[:4]))
    return f"({shown}{', ...' if len(leaves) > 4 else ''}: {len(leaves)})"
