"""Counts of graph.statistics(), and the warning of graphs that grow without a backward pass."""

import gc
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.autograd.graph import set_growth_limit, statistics
from minitorch_backends.tensor import instrumentation

from ..support.autograd import in_thread, leaf, tensor, warnings_of


@pytest.fixture(autouse=True)
def no_other_graphs() -> Iterator[None]:
    gc.collect()
    assert instrumentation.active == 0
    yield
    set_growth_limit(None)
    assert instrumentation.active == 0


def test_statistics() -> None:
    before = statistics()
    x, w = leaf(np.ones(1000)), tensor(np.ones(1000))
    y = (x * w).exp()
    z = y * w + w
    found = statistics()
    assert found.nodes == before.nodes + 4
    assert found.bytes == before.bytes + 2 * 8000  # w, and the result of exp
    assert found.by_op["ExpBackward0"] == (1, 8000)
    total = z.sum()
    total.backward(retain_graph=True)
    assert statistics().bytes == found.bytes
    total.backward()
    assert statistics().bytes == before.bytes
    del y, z, total
    assert statistics().nodes == before.nodes


def test_a_warning_when_a_graph_grows() -> None:
    x = leaf([1.0])
    set_growth_limit(10)
    total = x * 0

    def grow() -> None:
        nonlocal total
        for _ in range(30):
            total = total + x.sin()

    with pytest.warns(UserWarning, match=r"grown to 11 nodes.*no_grad") as caught:
        grow()
    assert len(caught) == 1
    assert not warnings_of(lambda: total.sum().backward())
    assert len(warnings_of(lambda: [x.sin() for _ in range(50)])) == 1


def test_no_warning_for_graphs_that_are_dropped_or_go_backward() -> None:
    x = leaf([1.0])
    set_growth_limit(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(30):
            x.sin().cos().sum()
        for _ in range(30):
            (x.sin() * 2.0).sum().backward()
        kept = []
        with mt.no_grad():
            kept += [x.sin() for _ in range(50)]
        for _ in range(3):
            in_thread(lambda: kept.extend(x.sin() for _ in range(8)))
    set_growth_limit(None)
    assert not warnings_of(lambda: kept.extend(x.sin() for _ in range(50)))


def test_bad_limits() -> None:
    for bad, error in ((0, ValueError), (-1, ValueError), (True, TypeError), (1.5, TypeError), ("1", TypeError)):
        with pytest.raises(error):
            set_growth_limit(bad)
