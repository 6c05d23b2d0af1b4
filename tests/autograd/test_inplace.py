"""Gradients of writes in place, through views and into parts."""

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.autograd.versions import writes

from ..support.autograd import leaf_of, values


def test_augmented_assignment_of_a_leaf() -> None:
    x = leaf_of(2)
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        x += 1
    y = x * 2
    before = y
    y *= 3
    assert y is before
    y.sum().backward()
    assert values(x.grad) == [6.0, 6.0]


def test_inplace_on_results() -> None:
    x = leaf_of(3, dtype=np.float64)
    y = x * 2
    y.add_(1).mul_(x.detach())
    y.sum().backward()
    assert values(x.grad) == [2.0, 4.0, 6.0]


def test_inplace_through_a_view_rewrites_the_base() -> None:
    x, w = leaf_of(4, dtype=np.float64), leaf_of(2, dtype=np.float64, low=5.0)
    y = x * 1
    view = y[1:3]
    view.mul_(w)
    assert y.requires_grad
    assert values(y) == [1.0, 10.0, 18.0, 4.0]
    y.sum().backward()
    assert values(x.grad) == [1.0, 5.0, 6.0, 1.0]
    assert values(w.grad) == [2.0, 3.0]


def test_inplace_on_the_base_rewrites_its_views() -> None:
    x = leaf_of(4, dtype=np.float64)
    y = x * 1
    view = y[1:3]
    y.mul_(3)
    view.sum().backward()
    assert values(x.grad) == [0.0, 3.0, 3.0, 0.0]


def test_index_assignment_is_differentiable() -> None:
    x, w = leaf_of(4, dtype=np.float64), leaf_of(2, dtype=np.float64)
    y = x * 2
    y[1:3] = w * 10
    y[0] = 7
    (y * y).sum().backward()
    assert values(x.grad) == [0.0, 0.0, 0.0, 32.0]
    assert values(w.grad) == [200.0, 400.0]


def test_a_view_of_a_view_and_its_sibling() -> None:
    x = leaf_of(2, 3, dtype=np.float64)
    y = x * 1
    row, column = y[0], y[:, 1]
    row[1:].mul_(10)
    column.sum().backward()
    assert values(x.grad) == [[0.0, 10.0, 0.0], [0.0, 1.0, 0.0]]


def test_refused_writes_change_nothing() -> None:
    x = mt.tensor(np.ones(2, np.int64))
    with pytest.raises(RuntimeError, match=r"float32.*can't be cast to.*int64"):
        x.mul_(1.5)
    with pytest.raises(RuntimeError, match=r"shape \[2\] doesn't match the broadcast shape \[3, 2\]"):
        x.add_(mt.tensor(np.ones((3, 2), np.int64)))
    assert (values(x), x._version) == ([1, 1], 0)


def test_tensors_that_follow_one_another_by_data_hold_no_more_than_the_last() -> None:
    t = kept = mt.zeros(2)
    for _ in range(50):
        t = t.data
        t.mul_(1.0)
    assert len(t._cell._origins) <= 2
    before = writes(kept)
    t.add_(1.0)
    assert writes(kept) == (before[0], before[1] + 1)
