"""Values, dtypes and memory of gradients."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.autograd import backward, grad

from ..support.autograd import leaf_of, values


def test_the_same_tensor_twice() -> None:
    x = leaf_of(2)
    y = (x * 2).sum()
    backward([y, y])
    assert values(x.grad) == [4.0, 4.0]


def test_accumulation_does_not_write_into_the_users_gradient() -> None:
    x, weight = leaf_of(2), mt.tensor(np.ones(2, np.float32))
    x.backward(weight)
    x.backward(weight)
    assert values(x.grad) == [2.0, 2.0]
    assert values(weight) == [1.0, 1.0]


def test_two_leaves_that_get_one_gradient_do_not_share_it() -> None:
    x, y = leaf_of(2), leaf_of(2)
    weight = mt.tensor(np.ones(2, np.float32))
    (x + y).backward(weight)
    x.grad.mul_(7)
    assert values(y.grad) == [1.0, 1.0]
    assert values(weight) == [1.0, 1.0]


def test_accumulation_with_create_graph_makes_a_new_tensor() -> None:
    x = leaf_of(2)
    (x * x).sum().backward()
    first = x.grad
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first
    assert x.grad.grad_fn is not None
    assert values(x.grad) == [4.0, 8.0]
    (x.grad.sum()).backward()


def test_fan_out_and_diamonds() -> None:
    x = leaf_of(1)
    y = x * 2
    (y * y + y * x).sum().backward()
    assert values(x.grad) == [12.0]


def test_broadcast_inputs_get_summed_gradients() -> None:
    x, y, z = leaf_of(3, 1), leaf_of(4), leaf_of()
    (x * y * z).sum().backward()
    assert (x.grad.shape, y.grad.shape, z.grad.shape) == ((3, 1), (4,), ())
    assert values(x.grad) == [[10.0]] * 3
    assert values(z.grad) == 60.0


def test_gradients_have_the_dtype_of_their_inputs() -> None:
    x, y = leaf_of(2, dtype=np.float32), leaf_of(2, dtype=np.float64)
    z = x * y
    assert z.dtype is mt.float64
    z.sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (mt.float32, mt.float64)


def test_real_inputs_of_complex_results_get_real_gradients() -> None:
    x = leaf_of(2, dtype=np.float64)
    z = mt.tensor(np.array([1 + 1j, 1 - 2j]))
    (x * z).backward(mt.tensor(np.array([1 + 0j, 1j])))
    assert x.grad.dtype is mt.float64
    assert values(x.grad) == [1.0, -2.0]


def test_backward_leaves_the_mode_alone_when_it_fails() -> None:
    x = leaf_of(2)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError):
        y.backward()
    assert mt.is_grad_enabled()


def test_grad_weights_several_outputs() -> None:
    x = leaf_of(2)
    (found,) = grad([x * 2, (x * 3).sum()], x, [mt.tensor(np.float32([1, 10])), None])
    assert values(found) == [5.0, 23.0]


def test_grad_does_not_run_what_leads_nowhere() -> None:
    x, y = leaf_of(2), leaf_of(2)
    z = x * x
    grad((z + y * y).sum(), y)
    z.sum().backward()
    assert values(x.grad) == [2.0, 4.0]


def test_copies_and_pickles() -> None:
    x = leaf_of(2)
    (x * 2).sum().backward()
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert values(twin) == values(x)
        assert twin.requires_grad
        assert twin.data_ptr() != x.data_ptr()
    assert values(copy.deepcopy(x).grad) == [2.0, 2.0]
    with pytest.raises(RuntimeError, match=r"only leaf tensors.*detach"):
        copy.deepcopy(x * 2)
    twin = pickle.loads(pickle.dumps(x * 2))
    assert (twin.is_leaf, twin.requires_grad, values(twin)) == (True, True, [2 * each for each in values(x)])


def test_values_that_were_chosen_may_be_overwritten_before_backward() -> None:
    """The gradient needs to know where they were, not what they are."""
    functions: dict[str, Any] = {
        "sort": lambda x: x.sort()[0], "topk": lambda x: x.topk(2)[0], "max": lambda x: x.max(0)[0],
        "kthvalue": lambda x: x.kthvalue(2)[0], "median": lambda x: x.median(0)[0], "cummax": lambda x: x.cummax(0)[0],
        "pool": lambda x: mt.nn.functional.max_pool1d(x[None, None], 2),
    }  # fmt: skip
    for name, function in functions.items():
        x = mt.tensor([3.0, 1.0, 2.0], requires_grad=True)
        (expected,) = mt.autograd.grad((function(x) * 5).sum(), x)
        function(x).mul_(5).sum().backward()
        assert values(x.grad) == values(expected), name


def test_sums_of_many_rows_keep_their_digits() -> None:
    """One after the other, 200,000 rows of 0.1 lose 2e-3 of the sum in float32."""
    rows = mt.full((200_000, 4), 0.1)
    exact = 200_000 * np.float64(np.float32(0.1))
    bias, weight = mt.zeros(4, requires_grad=True), mt.ones(4, requires_grad=True)
    (mt.nn.functional.linear(mt.zeros(200_000, 2), mt.zeros(4, 2), bias) * weight).backward(rows)
    by_moments = mt.zeros(4, requires_grad=True)
    mt.nn.functional.batch_norm(mt.randn(200_000, 4), None, None, None, by_moments, training=True).backward(rows)
    turned = mt.full((4, 200_000), 0.1).mT
    for found in (bias.grad, by_moments.grad, rows.sum(0), rows.mean(0) * 200_000, turned.sum(0),
                  rows.reshape(400, 500, 4).sum((0, 1)), rows.expand(2, -1, -1)[0].sum(0)):  # fmt: skip
        assert np.abs(found.detach().numpy() / exact - 1).max() < 4e-6
    wide = mt.full((200_000, 4), 0.1, dtype=mt.float64).sum(0)
    assert np.abs(wide.numpy() / (200_000 * 0.1) - 1).max() < 1e-14


def test_exponents_have_the_logarithm_in_the_type_of_the_result() -> None:
    x = mt.tensor([0.7], dtype=mt.float64, requires_grad=True)
    (mt.pow(mt.tensor(2**53 + 1), x) + mt.xlogy(x, mt.tensor([1 / 3]))).sum().backward()
    exact = (2.0**53) ** 0.7 * np.log(2.0**53) + np.log(np.float64(np.float32(1 / 3)))
    assert x.grad.item() == pytest.approx(exact, rel=1e-14)


def test_gradients_that_choices_alone_made_have_a_gradient_of_zeros() -> None:
    """A penalty on gradients reaches all parameters of a network, as in torch."""
    for function in (mt.relu, mt.nn.functional.leaky_relu, mt.nn.functional.hardtanh, mt.nn.functional.relu6):
        x = mt.tensor([1.0, -1.0, 0.5], requires_grad=True)
        (g,) = mt.autograd.grad(function(x).sum(), x, create_graph=True)
        (second,) = mt.autograd.grad((g * g).sum(), x)
        assert values(second) == [0.0, 0.0, 0.0]
    mt.manual_seed(0)  # with some weights every ReLU is inactive
    first, last, x = mt.nn.Linear(3, 4), mt.nn.Linear(4, 1), mt.ones(2, 3, requires_grad=True)
    (g,) = mt.autograd.grad(last(first(x).relu()).sum(), x, create_graph=True)
    penalty = (g.norm(2, 1) - 1).pow(2).mean()
    found = mt.autograd.grad(penalty, [first.weight, first.bias, last.weight])
    assert not found[1].any()
    assert found[0].any()


def test_gradients_of_a_number_are_tensors_that_can_be_written() -> None:
    weight = mt.tensor(1.0, requires_grad=True)
    for _ in range(2):
        (mt.ones(3) * weight).sum().backward()
    assert weight.grad.item() == 6
    weight.grad.mul_(2).add_(1)
    assert weight.grad.item() == 13
    assert grad((mt.ones(3) * weight).sum(), weight)[0].mul_(2).item() == 6


def test_gradients_that_do_not_overflow_before_they_are_scaled() -> None:
    for loss, wanted in ((mt.nn.functional.huber_loss, 0.5), (mt.nn.functional.smooth_l1_loss, 0.5)):
        for dtype, large in ((mt.float16, 4e4), (mt.float32, 2e38)):
            x = mt.tensor([1.0, large], dtype=dtype, requires_grad=True)
            loss(x, mt.zeros(2, dtype=dtype)).backward()
            assert x.grad.tolist() == [0.5, wanted]
    x = mt.tensor([1.0, 4e4], dtype=mt.float16, requires_grad=True)
    mt.nn.functional.mse_loss(x, mt.zeros(2, dtype=mt.float16)).backward()
    assert x.grad.tolist() == [1, mt.tensor(4e4, dtype=mt.float16).item()]


def test_the_gradient_of_a_median_that_is_nan_goes_where_the_nan_is() -> None:
    x = mt.tensor([1.0, float("nan"), 3.0], requires_grad=True)
    x.median().backward()
    assert x.grad.tolist() == [0, 1, 0]


def test_gradients_are_added_to_the_memory_that_is_there() -> None:
    """Views of one buffer work too, and gradients that have a graph themselves."""
    flat = mt.zeros(6)
    a, b = mt.ones(3, requires_grad=True), mt.ones(3, requires_grad=True)
    a.grad, b.grad = flat[:3], flat[3:]
    (a * 2 + b * 3).sum().backward()
    assert flat.tolist() == [2.0, 2.0, 2.0, 3.0, 3.0, 3.0]
    x = mt.tensor([1.0, 2.0], requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    before = x.grad
    (x**2).sum().backward()
    assert x.grad is before
    assert (x.grad.tolist(), x.grad.requires_grad) == ([5.0, 16.0], True)


def test_gradients_that_do_not_fit_are_refused() -> None:
    x = mt.ones(3, requires_grad=True)
    (x * x).sum().backward()
    x.data = mt.ones(4)
    with pytest.raises(RuntimeError, match=r"shape \[4\] cannot be added to \.grad of shape \[3\]"):
        (x * x).sum().backward()
    z = mt.ones(3, dtype=mt.complex64, requires_grad=True)
    for output, gradient in ((mt.ones(3, requires_grad=True) * 2, mt.ones(3, dtype=mt.complex64)), (z * 2, mt.ones(3))):
        with pytest.raises(RuntimeError, match="expected both to be complex, or none"):
            output.backward(gradient)
