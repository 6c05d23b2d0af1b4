"""Predicates of tensors and of types."""

import functools
import itertools
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt

from ..support.calls import ARITHMETIC as DTYPES


def have_common_type(first: Any, second: Any) -> bool:
    """No integer type holds all values of uint64 and of a signed type."""
    signed = {mt.int8, mt.int16, mt.int32, mt.int64}
    return not (mt.uint64 in (first, second) and signed & {first, second})


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_result_types_are_those_of_sums(dtype: Any) -> None:
    """Tensors with dimensions and without, and numbers."""
    for other, first, second in itertools.product(DTYPES, ((), (2,)), ((), (2,))):
        a, b = mt.zeros(first, dtype=dtype), mt.zeros(second, dtype=other)
        if have_common_type(dtype, other):
            assert mt.result_type(a, b) is (a + b).dtype
    for number in (True, 1, 1.0, 1j):
        a = mt.zeros(2, dtype=dtype)
        assert mt.result_type(a, number) is mt.result_type(number, a) is (a + number).dtype
    assert mt.result_type(1, 2.5) is mt.float32


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_can_be_cast_can_be_written_in_place(dtype: Any) -> None:
    for other in filter(functools.partial(have_common_type, dtype), DTYPES):
        target, source = mt.zeros(2, dtype=other), mt.ones(2, dtype=dtype)
        if mt.can_cast(dtype, other):
            assert (target.add_(source)).dtype is other
        else:
            with pytest.raises(RuntimeError, match="can't be cast"):
                target.add_(source)


def test_questions() -> None:
    x = mt.ones(2, 3)
    assert mt.is_tensor(x)
    assert not mt.is_tensor(x.numpy())
    assert (mt.numel(x), x.ndimension(), x.is_cpu, x.is_cuda) == (6, 2, True, False)
    assert mt.is_floating_point(x)
    assert not mt.is_floating_point(x.long())
    assert mt.is_complex(x + 1j)
    assert not mt.is_complex(x)
    assert mt.is_nonzero(mt.tensor([[2.0]]))
    assert not mt.is_nonzero(mt.tensor(False))
    assert mt.tensor([0.5]).arcsin_().item() == pytest.approx(np.arcsin(0.5))


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: mt.is_nonzero(mt.ones(2)), RuntimeError, r"one element, got shape \[2\]"),
        (lambda: mt.numel([1]), TypeError, "argument 'input' must be a Tensor, not list"),
        (lambda: mt.result_type("a", 1), TypeError, "must be a Tensor or a number, not str"),
        (lambda: mt.can_cast("x", mt.int8), TypeError, "tensors cannot hold elements of type x"),
    ],
)
def test_what_cannot_be_answered(call: Any, error: type, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        call()


def test_as_an_array() -> None:
    """`asarray` shares memory, or copies, by its arguments."""
    array = np.arange(3.0)
    shared, copied = mt.asarray(array), mt.asarray(array, copy=True)
    array[0] = 9
    assert shared.tolist() == [9, 1, 2]
    assert copied.tolist() == [0, 1, 2]
    leaf = mt.ones(2, requires_grad=True)
    assert mt.asarray(leaf * 2).requires_grad
    assert not mt.asarray(leaf * 2, requires_grad=False).requires_grad
    again = mt.asarray(leaf, requires_grad=True)
    assert again.requires_grad
    assert again.is_leaf
    assert again.data_ptr() == leaf.data_ptr()
    given = mt.ones(2)
    mt.asarray(given).add_(1)
    assert (given.tolist(), given._version) == ([2, 2], 1)  # autograd sees the write
    assert mt.asarray([1, 2], dtype=mt.float64, copy=True).dtype is mt.float64
    for given, dtype in (([1], None), (array, mt.float32)):
        with pytest.raises(ValueError, match="cannot be a tensor without a copy"):
            mt.asarray(given, dtype=dtype, copy=False)
