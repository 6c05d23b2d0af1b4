"""Backward, grad, accumulation, leaves, views, versions, and what the graph keeps alive."""

import copy
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import Tensor, no_grad
from minitorch_backends.autograd import backward, grad
from minitorch_backends.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from minitorch_backends.autograd.versions import writes
from minitorch_backends.tensor.tensor import Parameter


def leaf(*shape: int, dtype: Any = np.float32, low: float = 1.0) -> Tensor:
    """A leaf that requires gradients, with the values low, low + 1, ..."""
    return mt.tensor((np.arange(np.prod(shape, dtype=int)) + low).reshape(shape).astype(dtype)).requires_grad_()


def values(tensor: Tensor | None) -> Any:
    assert tensor is not None
    return tensor.tolist()


# Backward


def test_backward_of_a_scalar() -> None:
    x = leaf(3)
    (x * x).sum().backward()
    assert values(x.grad) == [2.0, 4.0, 6.0]
    assert x.grad.dtype is x.dtype
    assert not x.grad.requires_grad


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_one_element_of_any_shape_needs_no_gradient(shape: tuple[int, ...]) -> None:
    x = leaf(*shape)
    (x * 3).backward()
    assert x.grad.shape == x.shape
    assert x.grad.item() == 3.0


def test_backward_of_more_elements_needs_a_gradient() -> None:
    x = leaf(3)
    with pytest.raises(
        RuntimeError, match=r"grad can be implicitly created only for real scalar outputs.*\[3\].*gradient="
    ):
        (x * 2).backward()
    (x * 2).backward(gradient=mt.tensor(np.float32([1, 10, 100])))
    assert values(x.grad) == [2.0, 20.0, 200.0]


def test_backward_of_a_complex_scalar_needs_a_gradient() -> None:
    x = leaf(1, dtype=np.complex64)
    with pytest.raises(RuntimeError, match="real scalar outputs"):
        (x * 2).backward()
    (x * 2).backward(mt.tensor(np.complex64([1j])))
    assert values(x.grad) == [2j]


def test_gradient_must_have_the_shape_of_the_output() -> None:
    x = leaf(3)
    y = x * 2
    with pytest.raises(
        RuntimeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of \[1\] and output\[0\].*\[3\]"
    ):
        y.backward(mt.tensor(np.ones(1, np.float32)))
    for bad in (1.0, [1.0, 1.0, 1.0]):
        with pytest.raises(TypeError, match="gradients must be Tensors or None, got float"):
            y.backward(bad)
    assert x.grad is None
    y.backward(mt.tensor(np.ones(3, np.float64)))
    assert x.grad.dtype is mt.float32


def test_backward_without_a_graph() -> None:
    message = "element 0 of tensors does not require grad and does not have a grad_fn"
    x = leaf(2)
    with no_grad():
        made = (x * 2).sum()
    for tensor in (mt.tensor(np.ones(1)), mt.tensor(np.ones(1, int)), x.detach().sum(), made):
        with pytest.raises(RuntimeError, match=message):
            tensor.backward()


def test_backward_of_a_leaf() -> None:
    x = leaf(1)
    x.backward()
    assert values(x.grad) == [1.0]


def test_backward_of_several_tensors_adds_up() -> None:
    x = leaf(2)
    backward([(x * 2).sum(), (x * 3).sum()])
    assert values(x.grad) == [5.0, 5.0]
    x.grad = None
    backward([(x * 2).sum(), x * 3], [None, mt.tensor(np.float32([1, 10]))])
    assert values(x.grad) == [5.0, 32.0]
    x.grad = None
    backward([(x * 2).sum()], [None, mt.tensor(np.ones(7))])
    assert values(x.grad) == [2.0, 2.0]
    backward([])
    assert values(x.grad) == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="2 tensors and 1 gradients"):
        backward([(x * 2).sum(), (x * 2).sum()], [None])
    with pytest.raises(TypeError):
        backward(3)
    with pytest.raises(TypeError, match="got int as element 1"):
        backward([(x * 2).sum(), 3])


def test_the_same_tensor_twice() -> None:
    x = leaf(2)
    y = (x * 2).sum()
    backward([y, y])
    assert values(x.grad) == [4.0, 4.0]


def test_gradients_accumulate_in_place() -> None:
    x = leaf(2)
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first
    assert values(first) == [5.0, 5.0]


def test_accumulation_does_not_write_into_the_users_gradient() -> None:
    x, weight = leaf(2), mt.tensor(np.ones(2, np.float32))
    x.backward(weight)
    x.backward(weight)
    assert values(x.grad) == [2.0, 2.0]
    assert values(weight) == [1.0, 1.0]


def test_two_leaves_that_get_one_gradient_do_not_share_it() -> None:
    x, y = leaf(2), leaf(2)
    weight = mt.tensor(np.ones(2, np.float32))
    (x + y).backward(weight)
    x.grad.mul_(7)
    assert values(y.grad) == [1.0, 1.0]
    assert values(weight) == [1.0, 1.0]


def test_accumulation_with_create_graph_makes_a_new_tensor() -> None:
    x = leaf(2)
    (x * x).sum().backward()
    first = x.grad
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first
    assert x.grad.grad_fn is not None
    assert values(x.grad) == [4.0, 8.0]
    (x.grad.sum()).backward()


def test_fan_out_and_diamonds() -> None:
    x = leaf(1)
    y = x * 2
    (y * y + y * x).sum().backward()
    assert values(x.grad) == [12.0]


def test_broadcast_inputs_get_summed_gradients() -> None:
    x, y, z = leaf(3, 1), leaf(4), leaf()
    (x * y * z).sum().backward()
    assert (x.grad.shape, y.grad.shape, z.grad.shape) == ((3, 1), (4,), ())
    assert values(x.grad) == [[10.0]] * 3
    assert values(z.grad) == 60.0


def test_gradients_have_the_dtype_of_their_inputs() -> None:
    x, y = leaf(2, dtype=np.float32), leaf(2, dtype=np.float64)
    z = x * y
    assert z.dtype is mt.float64
    z.sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (mt.float32, mt.float64)


def test_real_inputs_of_complex_results_get_real_gradients() -> None:
    x = leaf(2, dtype=np.float64)
    z = mt.tensor(np.array([1 + 1j, 1 - 2j]))
    (x * z).backward(mt.tensor(np.array([1 + 0j, 1j])))
    assert x.grad.dtype is mt.float64
    assert values(x.grad) == [1.0, -2.0]


def test_retain_graph() -> None:
    x = leaf(2)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert values(x.grad) == [4.0, 8.0]
    with pytest.raises(RuntimeError, match=r"MulBackward0 a second time.*retain_graph=True"):
        y.backward()
    assert values(x.grad) == [4.0, 8.0]


def test_create_graph_retains_unless_told_otherwise() -> None:
    x = leaf(1)
    y = (x * x * x).sum()
    grad(y, x, create_graph=True)
    grad(y, x, create_graph=True, retain_graph=False)
    with pytest.raises(RuntimeError, match="a second time"):
        grad(y, x)


def test_second_backward_through_what_saved_nothing() -> None:
    x = leaf(2)
    y = (x + 2).sum()
    y.backward()
    y.backward()
    assert values(x.grad) == [2.0, 2.0]


def test_a_shared_part_that_was_released() -> None:
    x = leaf(2)
    shared = x * x
    shared.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        (shared * 2).sum().backward()


def test_inputs_restricts_what_is_filled() -> None:
    x, y = leaf(2), leaf(2)
    z = x * y
    (z * z).sum().backward(inputs=[y], retain_graph=True)
    assert x.grad is None
    assert values(y.grad) == [2.0, 16.0]
    w = x * 3
    (w * y).sum().backward(inputs=[w])
    assert values(w.grad) == [1.0, 2.0]
    assert x.grad is None
    unconnected = leaf(2)
    (x * y).sum().backward(inputs=[x, unconnected])
    assert unconnected.grad is None
    x.grad = None
    (x * y).sum().backward(inputs=x)
    assert values(x.grad) == [1.0, 2.0]


def test_inputs_that_cannot_be_used() -> None:
    x = leaf(2)
    y = (x * x).sum()
    with pytest.raises(RuntimeError, match="cannot be empty"):
        y.backward(inputs=[])
    with pytest.raises(RuntimeError, match="does not require grad"):
        y.backward(inputs=[mt.tensor(np.ones(2))])
    with pytest.raises(RuntimeError, match="int"):
        y.backward(inputs=[3])
    y.backward()
    assert values(x.grad) == [2.0, 4.0]


def test_backward_under_no_grad() -> None:
    x = leaf(2)
    y = (x * x * x).sum()
    with no_grad():
        (first,) = grad(y, x, create_graph=True)
        assert first.requires_grad
        y.backward()
    assert values(x.grad) == [3.0, 12.0]
    assert mt.is_grad_enabled()


def test_backward_leaves_the_mode_alone_when_it_fails() -> None:
    x = leaf(2)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError):
        y.backward()
    assert mt.is_grad_enabled()


# Grad


def test_grad_returns_a_tuple_and_leaves_grad_alone() -> None:
    x, y = leaf(2), leaf(2)
    found = grad((x * y).sum(), x)
    assert isinstance(found, tuple)
    assert values(found[0]) == [1.0, 2.0]
    assert x.grad is None
    assert not found[0].requires_grad


def test_grad_of_non_leaves_and_of_outputs() -> None:
    x = leaf(2)
    y = x * 2
    z = (y * y).sum()
    of_y, of_x, again, of_z = grad(z, [y, x, y, z])
    assert values(of_y) == values(again) == [4.0, 8.0]
    assert values(of_x) == [8.0, 16.0]
    assert values(of_z) == 1.0


def test_grad_weights_several_outputs() -> None:
    x = leaf(2)
    (found,) = grad([x * 2, (x * 3).sum()], x, [mt.tensor(np.float32([1, 10])), None])
    assert values(found) == [5.0, 23.0]


def test_unused_inputs() -> None:
    x, unused = leaf(2), leaf(3)
    y = (x * 2).sum()
    with pytest.raises(
        RuntimeError, match=r"input 1 of grad, of shape \[3\], appears to not have been used.*allow_unused"
    ):
        grad(y, [x, unused], retain_graph=True)
    assert grad(y, [x, unused], retain_graph=True, allow_unused=True)[1] is None
    assert values(grad(y, [x, unused], retain_graph=True, materialize_grads=True)[1]) == [0.0] * 3
    with pytest.raises(ValueError, match="materialize_grads"):
        grad(y, [unused], materialize_grads=True, allow_unused=False)


def test_inputs_and_outputs_that_grad_cannot_use() -> None:
    x = leaf(2)
    y = (x * 2).sum()
    plain = mt.tensor(np.ones(2))
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad(y, plain, allow_unused=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad(plain.sum(), x)
    with pytest.raises(RuntimeError, match="at least one tensor"):
        grad(y, [])
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        grad([], x)
    with pytest.raises((RuntimeError, TypeError)):
        grad(y, 3)


def test_grad_releases_the_graph() -> None:
    x = leaf(2)
    y = (x * x).sum()
    grad(y, x)
    with pytest.raises(RuntimeError, match="a second time"):
        grad(y, x)


def test_grad_does_not_run_what_leads_nowhere() -> None:
    x, y = leaf(2), leaf(2)
    z = x * x
    grad((z + y * y).sum(), y)
    z.sum().backward()
    assert values(x.grad) == [2.0, 4.0]


def test_second_and_third_derivatives() -> None:
    x = leaf(1, dtype=np.float64, low=2.0)
    y = x * x * x * x
    (first,) = grad(y, x, create_graph=True)
    (second,) = grad(first, x, create_graph=True)
    (third,) = grad(second, x, create_graph=True)
    (fourth,) = grad(third, x, create_graph=True)
    assert [each.item() for each in (first, second, third, fourth)] == [32.0, 48.0, 48.0, 24.0]


def test_gradient_of_a_linear_function_needs_no_gradient() -> None:
    x = leaf(2)
    (found,) = grad((x * 2).sum(), x, create_graph=True)
    assert not found.requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        found.sum().backward()


# The attribute grad


def test_grad_can_be_assigned_and_deleted() -> None:
    x = leaf(2)
    x.grad = mt.tensor(np.zeros(2, np.float32))
    (x * 2).sum().backward()
    assert values(x.grad) == [2.0, 2.0]
    x.grad = None
    assert x.grad is None
    (x * 2).sum().backward()
    del x.grad
    assert x.grad is None


def test_bad_grads_are_refused() -> None:
    x = leaf(2)
    with pytest.raises(RuntimeError, match=r"\[2\].*\[3\]"):
        x.grad = mt.tensor(np.zeros(3, np.float32))
    with pytest.raises(RuntimeError, match=r"float32.*float64"):
        x.grad = mt.tensor(np.zeros(2))
    with pytest.raises(RuntimeError, match="own grad"):
        x.grad = x
    with pytest.raises(TypeError, match="float"):
        x.grad = 1.0  # type: ignore[assignment]
    assert x.grad is None


# Leaves


def test_what_a_leaf_says() -> None:
    x = leaf(2)
    assert (x.is_leaf, x.grad_fn, x.output_nr, x.requires_grad) == (True, None, 0, True)
    y = x * 2
    assert (y.is_leaf, y.requires_grad) == (False, True)
    assert y.grad_fn.name() == "MulBackward0"
    (edge,) = [node for node, _ in y.grad_fn.next_functions if node is not None]
    assert edge.name() == "AccumulateGrad"
    assert edge.variable is x
    plain = mt.tensor(np.ones(2))
    assert (plain.is_leaf, plain.requires_grad) == (True, False)


def test_requires_grad_of_leaves() -> None:
    x = mt.tensor(np.ones(2))
    assert x.requires_grad_() is x
    x.requires_grad = False
    assert not x.requires_grad
    assert x.requires_grad_(True).requires_grad
    for bad in (1, "x", None, np.bool_(True)):
        with pytest.raises(RuntimeError, match="must be True or False"):
            x.requires_grad = bad
    assert x.requires_grad
    with pytest.raises(AttributeError):
        x.is_leaf = False  # type: ignore[misc]


@pytest.mark.parametrize("dtype", [np.int64, np.bool_])
def test_integers_cannot_require_gradients(dtype: Any) -> None:
    x = mt.tensor(np.ones(2, dtype))
    with pytest.raises(RuntimeError, match="floating point and complex"):
        x.requires_grad_()
    assert not x.requires_grad_(False).requires_grad
    with pytest.raises(RuntimeError, match="floating point and complex"):
        mt.tensor([1, 2], requires_grad=True)


def test_requires_grad_of_results_cannot_be_set() -> None:
    y = leaf(2) * 2
    for value in (True, False):
        with pytest.raises(RuntimeError, match="detach"):
            y.requires_grad = value
    with pytest.raises(RuntimeError, match="detach"):
        y.requires_grad_(False)
    assert y.requires_grad_() is y
    assert y.requires_grad


def test_detach() -> None:
    x = leaf(2)
    y = x * 2
    z = y.detach()
    assert (z.requires_grad, z.is_leaf, z.grad_fn, z._is_view()) == (False, True, None, False)
    assert z.data_ptr() == y.data_ptr()
    z.add_(1)
    assert y._version == z._version == 1
    assert y.detach_() is y
    assert (y.is_leaf, y.requires_grad) == (True, False)
    with pytest.raises(RuntimeError, match="views in-place"):
        (x * 2)[0].detach_()


def test_data() -> None:
    x = leaf(2)
    with no_grad():
        x.add_(1)
    assert x.data._version == 0
    x.data.mul_(2)
    assert values(x) == [4.0, 6.0]
    assert x._version == 1
    x.data = mt.tensor(np.float32([7, 8]))
    assert values(x) == [7.0, 8.0]
    assert (x.requires_grad, x._version) == (True, 1)


def test_results_that_never_need_gradients() -> None:
    x = leaf(3)
    for made in (x > 1, x.argmax(), x.int(), x == x):
        assert not made.requires_grad


def test_numpy_of_what_requires_gradients() -> None:
    x = leaf(2)
    for tensor in (x, x * 2):
        with pytest.raises(RuntimeError, match=r"tensor.detach\(\).numpy\(\)"):
            tensor.numpy()
        with pytest.raises(RuntimeError, match="requires grad"):
            np.asarray(tensor)
        assert len(tensor.tolist()) == 2
    assert (x.sum() * 2).item() == 6.0


def test_copies_and_pickles() -> None:
    x = leaf(2)
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


def test_tensors_that_follow_one_another_by_data_hold_no_more_than_the_last() -> None:
    t = kept = mt.zeros(2)
    for _ in range(50):
        t = t.data
        t.mul_(1.0)
    assert len(t._cell._origins) <= 2
    before = writes(kept)
    t.add_(1.0)
    assert writes(kept) == (before[0], before[1] + 1)


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


# In-place writes


def test_inplace_on_a_leaf() -> None:
    x = leaf(2)
    for name, arguments in (("add_", (1,)), ("mul_", (x.detach(),)), ("zero_", ())):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
            getattr(x, name)(*arguments)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"):
        x[0] = 5
    with pytest.raises(RuntimeError, match="a view of a leaf"):
        x[:1].add_(1)
    assert values(x) == [1.0, 2.0]
    assert x._version == 0
    with no_grad():
        x.add_(1)
        x[0] = 9
    assert values(x) == [9.0, 3.0]
    assert (x.is_leaf, x.requires_grad, x._version) == (True, True, 2)


def test_augmented_assignment_of_a_leaf() -> None:
    x = leaf(2)
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        x += 1
    y = x * 2
    before = y
    y *= 3
    assert y is before
    y.sum().backward()
    assert values(x.grad) == [6.0, 6.0]


def test_inplace_with_an_operand_that_requires_gradients() -> None:
    x, w = mt.tensor(np.float32([1, 2])), leaf(2)
    x.mul_(w)
    assert (x.is_leaf, x.requires_grad) == (False, True)
    x.sum().backward()
    assert values(w.grad) == [1.0, 2.0]


def test_inplace_under_no_grad_is_not_recorded() -> None:
    x = mt.tensor(np.float32([1, 2]))
    with no_grad():
        x.mul_(leaf(2))
    assert not x.requires_grad
    a = leaf(2)
    y = a * 1
    with no_grad():
        y.mul_(5)
    y.sum().backward()
    assert values(a.grad) == [1.0, 1.0]


def test_inplace_on_results() -> None:
    x = leaf(3, dtype=np.float64)
    y = x * 2
    y.add_(1).mul_(x.detach())
    y.sum().backward()
    assert values(x.grad) == [2.0, 4.0, 6.0]


def test_inplace_through_a_view_rewrites_the_base() -> None:
    x, w = leaf(4, dtype=np.float64), leaf(2, dtype=np.float64, low=5.0)
    y = x * 1
    view = y[1:3]
    view.mul_(w)
    assert y.requires_grad
    assert values(y) == [1.0, 10.0, 18.0, 4.0]
    y.sum().backward()
    assert values(x.grad) == [1.0, 5.0, 6.0, 1.0]
    assert values(w.grad) == [2.0, 3.0]


def test_inplace_on_the_base_rewrites_its_views() -> None:
    x = leaf(4, dtype=np.float64)
    y = x * 1
    view = y[1:3]
    y.mul_(3)
    view.sum().backward()
    assert values(x.grad) == [0.0, 3.0, 3.0, 0.0]


def test_index_assignment_is_differentiable() -> None:
    x, w = leaf(4, dtype=np.float64), leaf(2, dtype=np.float64)
    y = x * 2
    y[1:3] = w * 10
    y[0] = 7
    (y * y).sum().backward()
    assert values(x.grad) == [0.0, 0.0, 0.0, 32.0]
    assert values(w.grad) == [200.0, 400.0]


def test_a_view_of_a_view_and_its_sibling() -> None:
    x = leaf(2, 3, dtype=np.float64)
    y = x * 1
    row, column = y[0], y[:, 1]
    row[1:].mul_(10)
    column.sum().backward()
    assert values(x.grad) == [[0.0, 10.0, 0.0], [0.0, 1.0, 0.0]]


def test_expanded_memory_is_not_written() -> None:
    x = mt.tensor(np.ones(1, np.float32)).expand(3)
    for name, arguments in (("add_", (1,)), ("exp_", ())):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            getattr(x, name)(*arguments)
    assert values(x) == [1.0, 1.0, 1.0]


def test_refused_writes_change_nothing() -> None:
    x = mt.tensor(np.ones(2, np.int64))
    with pytest.raises(RuntimeError, match=r"float32.*can't be cast to.*int64"):
        x.mul_(1.5)
    with pytest.raises(RuntimeError, match=r"shape \[2\] doesn't match the broadcast shape \[3, 2\]"):
        x.add_(mt.tensor(np.ones((3, 2), np.int64)))
    assert (values(x), x._version) == ([1, 1], 0)


# Views made under no_grad


def test_views_made_under_no_grad() -> None:
    x = leaf(2)
    with no_grad():
        view = x[:1]
    assert view._is_view()
    assert view._base is x
    with pytest.raises(RuntimeError, match="view"):
        view.mul_(2)
    base = mt.tensor(np.ones(2, np.float32))
    with no_grad():
        plain = base[:1]
        plain.mul_(2)
    plain.mul_(3)
    assert values(base) == [6.0, 1.0]
    with pytest.raises(RuntimeError, match="no_grad"):
        plain.mul_(leaf(1))


def test_views_know_their_base() -> None:
    x = mt.tensor(np.arange(6.0).reshape(2, 3))
    for view in (x[0], x.T, x.reshape(6), x.view(3, 2), x[None], x[...], x.expand(2, 2, 3), x[0][1:].unsqueeze(0)):
        assert view._is_view()
        assert view._base is x
    for other in (x.clone(), x.detach(), x.contiguous(), x[mt.tensor(np.array([0, 1]))], x * 1):
        assert not other._is_view()


# Versions


def test_versions() -> None:
    x = mt.tensor(np.ones(3, np.float32))
    assert x._version == 0
    with pytest.raises(AttributeError):
        x._version = 3  # type: ignore[misc]
    x.add_(0)
    x.zero_()
    x[0] = 1
    x += 1
    assert x._version == 4
    x[x > 1] = 3
    assert x._version == 5
    mt.tensor(np.ones(0)).add_(1)
    view, alias, parameter = x[:1], x.detach(), Parameter(x)
    view.add_(1)
    with no_grad():
        parameter.add_(1)
    assert x._version == view._version == alias._version == parameter._version == 7
    assert (x.clone()._version, x.data._version, (x * 1)._version) == (0, 0, 0)
    x.numpy()[0] = 100
    x.requires_grad_()
    assert x._version == 7


def test_slice_with_augmented_assignment_counts_two_writes() -> None:
    x = mt.tensor(np.ones(3, np.float32))
    x[0:1] += 3
    assert (values(x), x._version) == ([4.0, 1.0, 1.0], 2)


WRITES: list[Callable[[Tensor], Any]] = [
    lambda w: w.add_(1),
    lambda w: w[:1].add_(1),
    lambda w: w.detach().add_(1),
    lambda w: w.__setitem__(2, 9.0),
]


@pytest.mark.parametrize("write", WRITES, ids=["tensor", "view", "detached", "item"])
@pytest.mark.parametrize("quietly", [False, True])
def test_saved_tensor_that_was_written_to(write: Callable[[Tensor], Any], quietly: bool) -> None:
    x, w = leaf(3), mt.tensor(np.ones(3, np.float32))
    y = (x * w).sum()
    with mt.set_grad_enabled(not quietly):
        write(w)
    with pytest.raises(
        RuntimeError, match=r"modified by an inplace operation: 'other'.*\[3\].*version 1; expected version 0"
    ):
        y.backward()
    assert x.grad is None


def test_any_write_to_the_memory_counts() -> None:
    x, w = leaf(2), mt.tensor(np.ones(3, np.float32))
    y = (x * w[:2]).sum()
    w[2] = 9
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_writes_that_are_not_seen() -> None:
    x, w = leaf(2), mt.tensor(np.ones(2, np.float32))
    y = (x * w).sum()
    w.data.mul_(2)
    y.backward()
    assert values(x.grad) == [2.0, 2.0]


@pytest.mark.parametrize("name", ["exp", "sigmoid", "relu", "tanh", "sqrt"])
def test_results_that_are_saved_must_not_be_written_to(name: str) -> None:
    x = leaf(2)
    y = getattr(x, name)()
    y.mul_(2)
    with pytest.raises(RuntimeError, match=rf"gradient of {name} has been modified by an inplace operation: 'out'"):
        y.sum().backward()


@pytest.mark.parametrize("name", ["sin", "cos", "log", "square", "neg"])
def test_results_that_are_not_saved_may_be_written_to(name: str) -> None:
    x = leaf(2)
    y = getattr(x, name)()
    y.mul_(2)
    y.sum().backward()
    wanted = leaf(2)
    (getattr(wanted, name)() * 2).sum().backward()
    assert values(x.grad) == values(wanted.grad)


# Size and memory


def test_a_chain_of_200_000_operations() -> None:
    x = leaf(1, dtype=np.float64)
    y = x
    for _ in range(200_000):
        y = y + 1.0
    y.backward()
    assert values(x.grad) == [1.0]
    del y


@pytest.mark.usefixtures("without_collector")
def test_a_graph_is_freed_without_the_collector() -> None:
    x = leaf(3)
    y = x * x
    z = y.exp().sum()
    watched = [weakref.ref(each) for each in (y, y.grad_fn, z, z.grad_fn)]
    z.backward(retain_graph=True)
    del y, z
    assert all(ref() is None for ref in watched)
    leaf_ref = weakref.ref(x)
    del x
    assert leaf_ref() is None


@pytest.mark.usefixtures("without_collector")
def test_inplace_and_views_make_no_cycles() -> None:
    x = leaf(4)
    y = x * 1
    view = y[1:]
    view.mul_(2)
    y.exp_()
    watched = [weakref.ref(each) for each in (y, y.grad_fn, view)]
    del y, view
    assert all(ref() is None for ref in watched)


@pytest.mark.usefixtures("without_collector")
def test_backward_releases_saved_tensors() -> None:
    x, w = leaf(3), mt.tensor(np.ones(3, np.float32))
    y = (x * w).sum()
    watched = weakref.ref(w._array)
    del w
    assert watched() is not None
    y.backward()
    assert watched() is None


@pytest.mark.usefixtures("without_collector")
def test_only_what_gradients_need_is_saved() -> None:
    x, w = leaf(3), mt.tensor(np.ones(3, np.float32))
    y, watched = x + w, weakref.ref(w._array)
    del w
    assert watched() is None
    assert y.requires_grad


def test_backward_from_two_threads_at_once() -> None:
    x = leaf(1000, dtype=np.float64)
    losses = [(x * x).sum() for _ in range(8)]
    found: list[Any] = []
    threads = [threading.Thread(target=lambda loss=loss: found.append(grad(loss, x)[0])) for loss in losses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(np.array_equal(each._array, 2 * x._array) for each in found)


# Gradcheck


def wrong(x: Tensor) -> Tensor:
    """x * x with the gradient of x * constant."""
    return x * x.detach()


def test_gradcheck_accepts_and_refuses() -> None:
    x = leaf(3, dtype=np.float64)
    for fast_mode in (False, True):
        assert gradcheck(lambda x: x * x, x, fast_mode=fast_mode)
        with pytest.raises(
            GradcheckError, match=r"Jacobian mismatch for output 0 \[3\].*3 of 9 derivatives.*3 by backward, (6|5\.9)"
        ):
            gradcheck(wrong, (x,), fast_mode=fast_mode)
        assert gradcheck(wrong, x, raise_exception=False, fast_mode=fast_mode) is False
    assert x.grad is None
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_gradcheck_of_complex_functions() -> None:
    z = mt.tensor(np.array([1 + 2j, -0.5j])).requires_grad_()
    assert gradcheck(lambda z: z * z, z)
    assert gradcheck(lambda z: (z * z.conj()).real, z)
    assert gradgradcheck(lambda z: z * z.conj(), z)
    with pytest.raises(GradcheckError, match=r"\.imag by|\.real by"):
        gradcheck(lambda z: z * z.conj().detach(), z)


def test_gradcheck_of_what_is_cut_off() -> None:
    x = leaf(2, dtype=np.float64)
    with pytest.raises(GradcheckError, match="expected to be zero; was it detached"):
        gradcheck(lambda x: (x * 2).detach(), x)
    with pytest.raises(GradcheckError, match="no_grad"), no_grad():
        gradcheck(lambda x: x * 2, x)
    assert gradcheck(lambda x: (x * 0).detach(), x)
    assert gradcheck(lambda x: (x * x, x.argmax()), x)


def test_gradcheck_of_several_inputs_and_outputs() -> None:
    x, y = leaf(2, dtype=np.float64), leaf(2, dtype=np.float64)
    plain = mt.tensor(np.ones(2))
    assert gradcheck(lambda x, y, plain, n: (x * y * plain, x * n), (x, y, plain, 3))
    with pytest.raises(GradcheckError, match=r"output 1 \[2\] with respect to input 1"):
        gradcheck(lambda x, y: (x * y, x * y.detach()), (x, y))


def test_gradcheck_refuses_inputs_and_options() -> None:
    x = leaf(2, dtype=np.float64)
    with pytest.raises(ValueError, match="at least one input"):
        gradcheck(lambda x: x, x.detach(), raise_exception=False)
    with pytest.raises(RuntimeError, match="stride 0"):
        gradcheck(lambda x: x * 2, x[:1].expand(3))
    with pytest.warns(UserWarning, match="float32"), pytest.raises(GradcheckError):
        gradcheck(lambda x: x * x * x, leaf(2))
    with pytest.raises(TypeError):
        gradcheck(lambda x: x, x, 1e-6)  # type: ignore[misc]
    with pytest.raises(AssertionError, match="check_backward_ad"):
        gradcheck(lambda x: x, x, check_backward_ad=False)
    with pytest.raises(AssertionError, match="check_forward_ad"):
        gradcheck(lambda x: x, x, check_batched_forward_grad=True)
    with pytest.raises(NotImplementedError, match="check_batched_forward_grad"):
        gradcheck(lambda x: x, x, check_forward_ad=True, check_batched_forward_grad=True)


def test_gradcheck_of_batches_and_dtypes() -> None:
    x, y = leaf(2, dtype=np.float64), leaf(2, dtype=np.float64)
    assert gradcheck(lambda x, y: (x * y, x.exp()), (x, y), check_batched_grad=True, check_grad_dtypes=True)


def test_gradcheck_of_forward_mode() -> None:
    x, y = leaf(2, dtype=np.float64), leaf(2, dtype=np.float64)
    for fast_mode in (False, True):
        assert gradcheck(lambda x, y: (x * y, x.exp()), (x, y), check_forward_ad=True, fast_mode=fast_mode)
        assert gradcheck(lambda x: x * x, x, check_forward_ad=True, check_backward_ad=False, fast_mode=fast_mode)
        with pytest.raises(GradcheckError, match="by forward mode"):
            gradcheck(wrong, x, check_forward_ad=True, check_backward_ad=False, fast_mode=fast_mode)


def test_gradgradcheck() -> None:
    x, y = leaf(2, dtype=np.float64), leaf(2, dtype=np.float64)
    for options in ({}, {"fast_mode": True}, {"gen_non_contig_grad_outputs": True}):
        assert gradgradcheck(lambda x, y: x * x * y, (x, y), **options)
    assert gradgradcheck(lambda x: x * x * x, x, mt.tensor(np.ones(2)).requires_grad_())

    def once(x: Tensor) -> Tensor:
        """x * x * x with the right gradient, which is cut off from x."""
        return 3 * (x * x).detach() * x - 2 * (x * x * x).detach()

    assert gradcheck(once, x)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(once, x)
    assert gradgradcheck(once, x, raise_exception=False) is False
    assert gradgradcheck(lambda x, y: x.exp() * y, (x, y), check_fwd_over_rev=True)
    with pytest.raises(GradcheckError):
        gradgradcheck(once, x, check_fwd_over_rev=True, check_rev_over_rev=False)


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


def test_transforms_of_functions_differentiate_in_inference_mode() -> None:
    func, x = mt.func, mt.tensor([1.0, 2.0])
    with mt.inference_mode():
        assert func.grad(lambda x: (x**2).sum())(x).tolist() == [2.0, 4.0]
        assert func.jvp(lambda x: x * x, (x,), (mt.ones(2),))[1].tolist() == [2.0, 4.0]
        assert func.hessian(lambda x: (x**3).sum())(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
        assert func.grad(lambda x: (x**2).sum())(x * 2).tolist() == [4.0, 8.0]
    for argnums in ((0, 0), (0, -2), ()):
        with pytest.raises(RuntimeError, match="argnums names each argument"):
            func.grad(lambda a, b: (a * b).sum(), argnums=argnums)(x, x)
