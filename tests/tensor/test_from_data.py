"""torch's constructor, functions of NumPy on tensors, and arrays of other libraries."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt


class Foreign:
    """A tensor of another library: NumPy may read it, or only DLPack carries it."""

    def __init__(self, tensor: mt.Tensor) -> None:
        self.tensor, self.shape = tensor, tuple(tensor.shape)

    def detach(self) -> "Foreign":
        return Foreign(self.tensor.detach())

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.tensor.dtype is mt.bfloat16:
            raise TypeError("unsupported type")
        return np.asarray(self.tensor, dtype)

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        (([1, 2],), [1.0, 2.0]),
        (((2, 3),), [2.0, 3.0]),
        (([[True], [False]],), [[1.0], [0.0]]),
        ((np.array([1, 2]),), [1.0, 2.0]),
        ((range(2),), [0.0, 1.0]),
        ((), []),
    ],
)
def test_the_constructor_takes_data_of_the_default_dtype(arguments: tuple[Any, ...], values: list[Any]) -> None:
    made = mt.Tensor(*arguments)
    assert (made.dtype, made.tolist(), made.requires_grad) == (mt.float32, values, False)


def test_the_constructor_takes_sizes() -> None:
    for sizes, shape in (((3,), (3,)), ((2, 3), (2, 3)), ((np.int64(2),), (2,)), ((mt.ones(2, 3).shape,), (2, 3))):
        made = mt.Tensor(*sizes)
        assert (made.dtype, made.shape) == (mt.float32, shape)
    mt.set_default_dtype(mt.float64)
    try:
        assert mt.Tensor(2).dtype is mt.Tensor([1]).dtype is mt.float64
    finally:
        mt.set_default_dtype(mt.float32)


def test_the_constructor_shares_memory() -> None:
    base, array = mt.zeros(2, dtype=mt.int64), np.zeros(2, np.float32)
    alias, view = mt.Tensor(base), mt.Tensor(array)
    alias.add_(1)
    view.add_(1)
    assert (base.tolist(), array.tolist(), alias.dtype, base._version) == ([1, 1], [1.0, 1.0], mt.int64, 1)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((1.5,), TypeError, r"data must be a sequence, got float 1.5; use mt.tensor\(data\)"),
        ((True,), TypeError, "data must be a sequence, got bool True"),
        (("ab",), TypeError, "data must be a sequence, got str 'ab'"),
        (([1j],), TypeError, "real numbers for mt.float32"),
        ((2, 1.5), TypeError, r"sizes must be integers, got \(2, 1.5\)"),
        ((2, -1), RuntimeError, r"sizes must be at least 0, got \[2, -1\]"),
        ((2**62, 2**62), RuntimeError, "more elements than memory has addresses"),
    ],
)
def test_the_constructor_refuses(arguments: tuple[Any, ...], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        mt.Tensor(*arguments)


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (np.sqrt, [1.0, 2.0]),
        (lambda x: np.maximum(x, 2), [2.0, 4.0]),
        (lambda x: np.cumsum(x, 0), [1.0, 5.0]),
        (lambda x: np.add(np.ones(2), x), [2.0, 5.0]),
        (lambda x: np.modf(x)[1], [1.0, 4.0]),
        (np.isnan, [False, False]),
        (lambda x: np.linalg.inv(np.diag(x)).ravel()[::3], [1.0, 0.25]),
    ],
)
def test_functions_of_numpy_return_tensors(function: Callable[[Any], Any], values: list[Any]) -> None:
    found = function(mt.tensor([1.0, 4.0]))
    assert found.tolist() == values
    assert isinstance(found, mt.Tensor) or function.__name__ == "<lambda>"


def test_numpy_is_refused_what_requires_gradients() -> None:
    with pytest.raises(RuntimeError, match=r"use tensor.detach\(\).numpy\(\)"):
        np.sqrt(mt.ones(2, requires_grad=True))


TAKES: dict[str, Callable[[Any], mt.Tensor]] = {
    "tensor": mt.tensor,
    "as_tensor": mt.as_tensor,
    "asarray": mt.asarray,
    "list": lambda x: mt.tensor([x, x])[0],
    "new_tensor": lambda x: mt.ones(1, dtype=mt.bfloat16).new_tensor(x),
}


@pytest.mark.parametrize("name", TAKES)
@pytest.mark.parametrize("dtype", [mt.bfloat16, mt.float32])
def test_arrays_of_other_libraries_are_taken(name: str, dtype: mt.dtype) -> None:
    made = TAKES[name](Foreign(mt.tensor([1.5], dtype=dtype, requires_grad=True)))
    assert made.dtype is (mt.bfloat16 if name == "new_tensor" else dtype)
    assert (made.reshape(-1).tolist(), made.requires_grad) == ([1.5], False)


def test_states_of_other_libraries_are_loaded() -> None:
    layer = mt.nn.Linear(2, 2).bfloat16()
    layer.load_state_dict({name: Foreign(mt.full_like(each, 3)) for name, each in layer.state_dict().items()})
    assert layer.weight.tolist() == [[3.0, 3.0]] * 2


def test_asarray_of_nothing_needs_no_copy() -> None:
    empty = mt.zeros(0, 5)
    assert mt.asarray(empty, copy=False).shape == (0, 5)
    assert mt.asarray(mt.zeros(2, 5)[:, :0], dtype=mt.float32, copy=False).shape == (2, 0)
    with pytest.raises(ValueError, match="cannot be a tensor without a copy"):
        mt.asarray(empty, dtype=mt.float64, copy=False)


MISTAKES: dict[str, Callable[[mt.Tensor, Any], Any]] = {
    "add": lambda x, y: x + y,
    "matmul": lambda x, y: mt.matmul(y, x),
    "linear": lambda x, y: mt.nn.functional.linear(y, x),
    "relu": lambda x, y: mt.nn.functional.relu(y, inplace=True),
    "view_as": lambda x, y: x.view_as(y),
    "masked_scatter": lambda x, y: x.masked_scatter_(x > 0, y),
    "zeros_like": lambda x, y: mt.zeros_like(y),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_messages_say_whose_a_tensor_is(name: str) -> None:
    says = rf"{name}_?\(\): argument '\w+' must be a minitorch_backends Tensor.*, got tests.Foreign; use mt.as_tensor"
    with pytest.raises(TypeError, match=says):
        MISTAKES[name](mt.ones(2, 2), Foreign(mt.ones(2, 2)))
    with pytest.raises(TypeError, match=rf"{name}_?\(\): argument '\w+' must be (a )?Tensor.*, not str"):
        MISTAKES[name](mt.ones(2, 2), "text")


def test_conversions_to_the_dtype_of_a_foreign_tensor_are_refused() -> None:
    for other in (Foreign(mt.ones(2)), np.ones(2)):
        with pytest.raises(TypeError, match=r"to\(\): argument 'other' must be a minitorch_backends Tensor, got"):
            mt.ones(2).to(other)
    assert mt.ones(2).to(np.float64).dtype is mt.float64


METHODS = ("view_as", "expand_as", "reshape_as", "resize_as_", "set_", "type_as")


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_tensors_given_numbers(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name}\(\): argument '\w+' must be (a )?Tensor.*, not int 1"):
        getattr(mt.ones(3), name)(1)
