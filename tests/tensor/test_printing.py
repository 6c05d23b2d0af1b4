"""The text of tensors: alignment, notation, large tensors, and what is said behind the elements."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.tensor.tensor import Parameter


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    yield
    mt.set_printoptions(profile="default")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1.5, 2], "tensor([1.5000, 2.0000])"),
        ([0.0, -0.0], "tensor([0., -0.])"),
        ([1e5, 1], "tensor([1.0000e+05, 1.0000e+00])"),
        ([1e8], "tensor([100000000.])"),
        ([123456789.0], "tensor([1.2346e+08])"),
        ([1e-5], "tensor([1.0000e-05])"),
        ([0.1, 1000.25], "tensor([1.0000e-01, 1.0002e+03])"),
        ([0.25, 200.5], "tensor([  0.2500, 200.5000])"),
        ([float("nan"), 1], "tensor([nan, 1.])"),
        ([float("inf"), 1.5], "tensor([   inf, 1.5000])"),
        ([float("inf"), -float("inf"), float("nan")], "tensor([inf, -inf, nan])"),
        ([1, -200, 3], "tensor([   1, -200,    3])"),
        ([True, False], "tensor([ True, False])"),
        (1.23456789, "tensor(1.2346)"),
        (1.0, "tensor(1.)"),
        (5, "tensor(5)"),
        (1e10, "tensor(1.0000e+10)"),
        ([1 + 2j, 3.5 - 1j], "tensor([1.0000+2.j, 3.5000-1.j])"),
        (1j, "tensor(0.+1.j)"),
        ([], "tensor([])"),
        ([[], []], "tensor([], size=(2, 0))"),
        ([[1.0, 2.0], [3.0, -4.0]], "tensor([[ 1.,  2.],\n        [ 3., -4.]])"),
        ([[[1], [2]], [[3], [4]]], "tensor([[[1],\n         [2]],\n\n        [[3],\n         [4]]])"),
    ],
)
def test_elements(values: Any, text: str) -> None:
    assert repr(mt.tensor(values)) == text


def test_what_is_said_behind_the_elements() -> None:
    x = mt.ones(2, requires_grad=True)
    assert repr(x) == "tensor([1., 1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 2.], grad_fn=<MulBackward0>)"
    assert repr((x * 2).detach()) == "tensor([2., 2.])"
    assert repr(mt.ones(2, dtype=mt.float64)) == "tensor([1., 1.], dtype=mt.float64)"
    assert repr(mt.ones(2, dtype=mt.bfloat16)) == "tensor([1., 1.], dtype=mt.bfloat16)"
    assert repr(mt.tensor([-128], dtype=mt.int8)) == "tensor([-128], dtype=mt.int8)"
    assert repr(mt.zeros(0, dtype=mt.int64)) == "tensor([], dtype=mt.int64)"
    assert repr(mt.zeros(3, 0, dtype=mt.float64)) == "tensor([], size=(3, 0), dtype=mt.float64)"
    assert repr(Parameter(mt.ones(1))) == "Parameter containing:\ntensor([1.], requires_grad=True)"


def test_the_default_dtype_goes_unsaid() -> None:
    mt.set_default_dtype(mt.float64)
    try:
        assert repr(mt.tensor([1.0])) == "tensor([1.])"
        assert repr(mt.tensor([1j])) == "tensor([0.+1.j])"
        assert repr(mt.ones(1, dtype=mt.float32)) == "tensor([1.], dtype=mt.float32)"
    finally:
        mt.set_default_dtype(mt.float32)


def test_lines_break_between_elements() -> None:
    lines = repr(mt.arange(50)).splitlines()
    assert lines[0] == "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,"
    assert lines[1] == "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,"
    assert len(lines) == 3
    long = repr(mt.arange(18, dtype=mt.int32)).splitlines()
    assert long[1] == "       dtype=mt.int32)"


def test_large_tensors_show_their_edges() -> None:
    assert repr(mt.arange(1000)).count("...") == 0
    assert repr(mt.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    assert repr(mt.arange(10000).reshape(100, 100)).splitlines() == [
        "tensor([[   0,    1,    2,  ...,   97,   98,   99],",
        "        [ 100,  101,  102,  ...,  197,  198,  199],",
        "        [ 200,  201,  202,  ...,  297,  298,  299],",
        "        ...,",
        "        [9700, 9701, 9702,  ..., 9797, 9798, 9799],",
        "        [9800, 9801, 9802,  ..., 9897, 9898, 9899],",
        "        [9900, 9901, 9902,  ..., 9997, 9998, 9999]])",
    ]
    narrow = mt.zeros(2000, 2).clone()
    narrow[1000] = 12345.5  # not shown, and so not counted in the widths
    assert repr(narrow).splitlines()[:4] == [
        "tensor([[0., 0.],",
        "        [0., 0.],",
        "        [0., 0.],",
        "        ...,",
    ]


def test_a_huge_tensor_is_printed_at_once() -> None:
    huge = mt.zeros(1, 1).expand(1 << 20, 1 << 20)
    assert repr(huge).count("...") == 7


def test_options() -> None:
    mt.set_printoptions(precision=2)
    assert repr(mt.tensor([1.23456, 2])) == "tensor([1.23, 2.00])"
    mt.set_printoptions(profile="default", sci_mode=True)
    assert repr(mt.tensor([1.5, -2])) == "tensor([ 1.5000e+00, -2.0000e+00])"
    mt.set_printoptions(sci_mode=False)
    assert repr(mt.tensor([1e5, 0.5])) == "tensor([100000.0000,      0.5000])"
    mt.set_printoptions(profile="default", edgeitems=1, threshold=5)
    assert repr(mt.arange(36).reshape(6, 6)) == "tensor([[ 0,  ...,  5],\n        ...,\n        [30,  ..., 35]])"
    mt.set_printoptions(profile="full")
    assert "..." not in repr(mt.arange(1005))
    mt.set_printoptions(profile="default", linewidth=30)
    assert max(map(len, repr(mt.arange(40)).splitlines())) <= 30
    with pytest.raises(ValueError, match=r"must be one of default, short, full, got 'tiny'"):
        mt.set_printoptions(profile="tiny")
    with pytest.raises(ValueError, match="precision must be at least 0, got -1"):
        mt.set_printoptions(precision=-1)


def test_format() -> None:
    x = mt.tensor(3.14159)
    assert f"{x:.2f}" == "3.14"
    assert f"{mt.tensor(2.5)}" == "2.5"
    assert str(mt.ones(2)) == f"{mt.ones(2)}" == repr(mt.ones(2))
    with pytest.raises(TypeError, match="format"):
        f"{mt.ones(2):.2f}"


def test_numpy_scalars_do_not_leak() -> None:
    assert "np." not in repr(mt.from_numpy(np.arange(3, dtype=np.uint8)))
    assert mt.tensor([1, 2]).tolist() == [1, 2]
    assert type(mt.tensor([1.5])[0].item()) is float
