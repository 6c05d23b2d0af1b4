"""Orders of sums from results alone: chains, trees, sums of several at once, and where two orders part."""

import math
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.lab import Order, summation_order

F32 = np.float32


def chain(x: np.ndarray) -> Any:
    return np.cumsum(x)[-1]


def pairwise(x: np.ndarray) -> Any:
    return x[0] if len(x) == 1 else pairwise(x[: len(x) // 2]) + pairwise(x[len(x) // 2 :])


def by_strides(x: np.ndarray) -> Any:
    return chain(x[::2]) + chain(x[1::2])


def test_trees_of_known_sums() -> None:
    assert summation_order(chain, 5).tree == ((((0, 1), 2), 3), 4)
    assert summation_order(lambda x: chain(x[::-1]), 4).tree == (0, (1, (2, 3)))
    assert summation_order(pairwise, 6).tree == ((0, (1, 2)), (3, (4, 5)))
    assert summation_order(by_strides, 6).tree == (((0, 2), 4), ((1, 3), 5))
    assert summation_order(chain, 1).tree == 0
    for dtype in ("float64", "float16"):
        assert summation_order(by_strides, 7, dtype=dtype) == summation_order(by_strides, 7)


@pytest.mark.parametrize("seed", range(8))
def test_random_trees_are_found(seed: int) -> None:
    random = np.random.default_rng(seed)

    def random_tree(leaves: list[int]) -> Any:
        if len(leaves) == 1:
            return leaves[0]
        at = int(random.integers(1, len(leaves)))
        return tuple(sorted((random_tree(leaves[:at]), random_tree(leaves[at:])), key=least))

    def least(tree: Any) -> int:
        return least(tree[0]) if isinstance(tree, tuple) else tree

    def add(tree: Any, x: np.ndarray) -> Any:
        return add(tree[0], x) + add(tree[1], x) if isinstance(tree, tuple) else x[tree]

    tree = random_tree(random.permutation(40).tolist())
    assert summation_order(lambda x: add(tree, x), 40).tree == tree


def test_units_that_sum_several_at_once() -> None:
    """A block of four products and what came before, aligned to the largest and cut."""

    def unit(x: np.ndarray) -> float:
        total = 0.0
        for start in range(0, len(x), 4):
            terms = [total, *x[start : start + 4].tolist()]
            step = 2.0 ** (math.frexp(max(map(abs, terms)))[1] - 25)
            total = sum(math.trunc(each / step) for each in terms) * step
        return total

    assert summation_order(unit, 8).tree == ((0, 1, 2, 3), 4, 5, 6, 7)


def test_deep_chains_are_compared_and_described() -> None:
    one, other = summation_order(chain, 3000), summation_order(lambda x: chain(x[::-1]), 3000)
    assert one == summation_order(chain, 3000)
    assert one != other
    assert one.depth == other.depth == 2999
    assert str(one).splitlines()[:2] == ["3000 terms, 2999 sums deep, at most 2 at once", "  0..2998  +  2999"]
    assert one.compare(one) == "the same order"
    assert one.compare(summation_order(chain, 3)) == "3000 terms beside 3"
    assert one.compare(other).startswith("the sum of 0..2999 is made in two orders:")


def test_a_comparison_names_the_smallest_sum_that_differs() -> None:
    def other(x: np.ndarray) -> Any:
        return (x[0] + x[1]) + ((x[2] + x[4]) + (x[3] + x[5]))

    def first(x: np.ndarray) -> Any:
        return (x[0] + x[1]) + ((x[2] + x[3]) + (x[4] + x[5]))

    text = summation_order(first, 6).compare(summation_order(other, 6))
    assert text.splitlines()[0] == "the sum of 2..5 is made in two orders:"


def test_libraries_add_up_as_their_orders_say() -> None:
    """A random sum in the order that was found has the library's bits."""
    random = np.random.default_rng(0)
    for n in (100, 1000):
        order = summation_order(lambda x: x.sum(), n)
        for _ in range(20):
            x = random.standard_normal(n).astype(F32)
            assert add_in(order, x) == x.sum()


def add_in(order: Order, x: np.ndarray) -> np.float32:
    stack, values = [(order.tree, False)], []
    while stack:
        node, entered = stack.pop()
        if not isinstance(node, tuple):
            values.append(x[node])
        elif entered:
            values.append(F32(values.pop() + values.pop()))
        else:
            stack += [(node, True), *((each, False) for each in node)]
    return values[0]


def test_pictures(tmp_path: Any) -> None:
    pytest.importorskip("matplotlib")
    order = summation_order(by_strides, 8)
    order.plot(tmp_path / "order.png")
    assert (tmp_path / "order.png").stat().st_size > 1000


def test_what_is_no_sum_of_floating_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="function must add in an order that does not depend on its terms"):
        summation_order(math.fsum, 8)
    with pytest.raises(ValueError, match=r"function must add 8 terms one to another, got 0\.5 of 6 units"):
        summation_order(lambda x: 0.5, 8)
    with pytest.raises(ValueError, match="dtype must be of float32, float64, float16 and n at least 1"):
        summation_order(chain, 8, dtype="bfloat16")
    assert summation_order(lambda x: mt.from_numpy(x)[0] + mt.from_numpy(x)[1], 2).tree == (0, 1)
