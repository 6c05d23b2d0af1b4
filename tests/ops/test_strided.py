"""Windows on memory: as_strided, its in-place form and as_strided_scatter, beyond the samples of their declarations."""

from collections.abc import Callable
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends.autograd.gradcheck import gradcheck, gradgradcheck


def matrix() -> mt.Tensor:
    return mt.arange(12, dtype=mt.float64).reshape(3, 4).clone()


WINDOWS: dict[str, Callable[[mt.Tensor], mt.Tensor]] = {
    "overlapping": lambda x: (x * 2).as_strided((3, 3), (2, 1), 1),
    "on a transposed view": lambda x: (x * 2).t().as_strided((2, 3), (3, 1), 2),
    "on a part, beyond it": lambda x: (x * 2)[1:].as_strided((2, 2), (1, 2), 0),
    "on every other column": lambda x: x[:, ::2].as_strided((2, 2), (1, 2), 1),
    "on a window": lambda x: (x * 2).as_strided((6,), (2,)).as_strided((2, 3), (1, 2), 1),
    "on expanded memory": lambda x: (x * 2)[0].expand(2, 4).as_strided((2, 2), (1, 1)),
    "in another layout": lambda x: (x * 2).t().contiguous().t().as_strided((2, 2), (1, 5)),
}


@pytest.mark.parametrize("where", WINDOWS)
def test_gradients(where: str) -> None:
    x, window = matrix().requires_grad_(), WINDOWS[where]
    assert gradcheck(lambda x: window(x).pow(2), x)
    assert gradgradcheck(lambda x: window(x).pow(2), x)


def test_offsets_count_from_the_beginning_of_the_memory() -> None:
    part = matrix()[1:]
    assert part.as_strided((2, 2), (1, 2)).tolist() == [[4, 6], [5, 7]]
    assert part.as_strided((2, 2), (1, 2), 0).tolist() == [[0, 2], [1, 3]]


def test_writes_are_seen_by_base_and_views() -> None:
    x = matrix().requires_grad_()
    base = x * 1
    turned, window = base.t(), base.as_strided((2, 2), (1, 3), 1)
    turned.mul_(2)
    window.mul_(3)
    assert window.tolist() == [[6, 24], [12, 30]]
    assert turned[1, 0].item() == 6
    window.sum().backward()
    assert x.grad.reshape(-1).tolist() == [0, 6, 6, 0, 6, 6, 0, 0, 0, 0, 0, 0]


def test_in_place() -> None:
    x = matrix().requires_grad_()
    y = x * 1
    assert y.as_strided_((2, 2), (1, 3), 1) is y
    y.sum().backward()
    assert x.grad.reshape(-1).tolist() == [0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.as_strided_((1,), (1,))


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (((2, 2), (1,)), RuntimeError, "mismatch in length"),
        (((2,), (-1,)), RuntimeError, "stride must not be negative"),
        (((-2,), (1,)), RuntimeError, "size must not be negative"),
        (((2,), (1,), -1), RuntimeError, "storage_offset must not be negative"),
        (((13,), (1,)), RuntimeError, "out of bounds for a storage of 12 elements"),
        (((2,), (1,), 11), RuntimeError, "out of bounds for a storage of 12 elements"),
        (((2,), (2**70,)), RuntimeError, "out of bounds"),
        (((2**40, 2**40), (0, 0)), RuntimeError, "more elements than memory has addresses"),
        ((2, 1), TypeError, "argument 'size' must be a tuple of ints"),
    ],
)
def test_windows_beyond_the_memory_are_refused(arguments: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        matrix().as_strided(*arguments)
    with pytest.raises(error, match=says):
        matrix().as_strided_(*arguments)


def test_scatter_refuses_overlaps_and_other_shapes() -> None:
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        mt.as_strided_scatter(matrix(), mt.zeros(2, 2), (2, 2), (0, 1))
    with pytest.raises(RuntimeError, match="expected src of shape"):
        mt.as_strided_scatter(matrix(), mt.zeros(3), (2, 2), (1, 4))
    gaps = matrix()[:, ::2]
    assert mt.as_strided_scatter(gaps, mt.zeros(2), (2,), (2,)).tolist() == [[0, 0], [4, 6], [8, 10]]
    with pytest.raises(RuntimeError, match="must lie on elements"):
        mt.as_strided_scatter(gaps, mt.zeros(2), (2,), (1,))
