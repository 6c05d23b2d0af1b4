"""Leaves, parameters and views."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.nn import Parameter

from ..support.autograd import leaf, made_in_inference, tensor, values


def test_requiring_gradients_under_no_grad() -> None:
    with mt.no_grad():
        made = [mt.ones(2, requires_grad=True), mt.tensor([1.0], requires_grad=True), mt.zeros(1).requires_grad_()]
        made += [mt.rand_like(made[0], requires_grad=True), Parameter(mt.zeros(2))]
        assigned = mt.zeros(2)
        assigned.requires_grad = True
        assert all(each.requires_grad for each in [*made, assigned])
        assert not mt.ones_like(made[0]).requires_grad


def test_results_under_no_grad() -> None:
    x = leaf([1.0, 2.0])
    with mt.no_grad():
        y = x * 2
    assert (y.requires_grad, y.is_leaf, y.grad_fn) == (False, True, None)
    (y.requires_grad_() * 3).sum().backward()
    assert (values(y.grad), x.grad) == ([3.0, 3.0], None)


def test_values_and_dtypes_of_requires_grad() -> None:
    x = tensor([1.0])
    for bad in (1, "x", np.bool_(True)):
        with pytest.raises(TypeError):
            mt.ones(2, requires_grad=bad)
        with pytest.raises(RuntimeError):
            x.requires_grad = bad
    with pytest.raises(RuntimeError):
        del x.requires_grad
    assert not mt.ones(2, requires_grad=None).requires_grad
    integers = mt.ones(2, dtype=mt.int64)
    for refused in (
        lambda: mt.ones(2, dtype=mt.int64, requires_grad=True),
        lambda: mt.tensor([True], requires_grad=True),
        integers.requires_grad_,
        lambda: Parameter(integers),
    ):
        with pytest.raises(RuntimeError, match="floating point and complex"):
            refused()
    assert mt.ones(2, dtype=mt.complex64, requires_grad=True).requires_grad
    assert not integers.requires_grad_(False).requires_grad
    assert not Parameter(integers, requires_grad=False).requires_grad


def test_results_keep_their_flag() -> None:
    y = leaf([1.0]) * 2
    for flag in (True, False):
        with pytest.raises(RuntimeError, match="detach"):
            y.requires_grad = flag
    with pytest.raises(RuntimeError, match="detach"):
        y.requires_grad_(False)
    assert y.requires_grad_() is y
    with pytest.raises(AttributeError):
        y.is_leaf = True  # type: ignore[misc]
    assert y.detach_() is y
    assert (y.requires_grad, y.is_leaf) == (False, True)
    with pytest.raises(RuntimeError, match="detach views"):
        (leaf([1.0, 2.0]) * 2)[0].detach_()


def test_parameters() -> None:
    x = tensor([1.0, 2.0])
    parameter = Parameter(x)
    x.add_(1)
    assert (values(parameter), parameter._version, x.requires_grad) == ([2.0, 3.0], 1, False)
    assert Parameter(leaf([1.0]) * 2).is_leaf
    assert Parameter().numel() == 0
    for bad in ([1.0], 3):
        with pytest.raises(AttributeError):
            Parameter(bad)  # type: ignore[arg-type]
    derived = (parameter * 1, parameter.clone(), parameter.detach(), parameter.data)
    assert {type(each) for each in derived} == {mt.Tensor}


WRITES: list[Callable[[mt.Tensor], Any]] = [
    lambda x: x.add_(1),
    lambda x: x.__iadd__(1),
    lambda x: x[0].mul_(2),
    lambda x: x[:1].exp_(),
    lambda x: x.__setitem__(0, 5.0),
    lambda x: x.view(2, 1).zero_(),
]


@pytest.mark.parametrize("write", WRITES)
def test_writing_to_a_leaf(write: Callable[[mt.Tensor], Any]) -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"a (view of a )?leaf Variable that requires grad"):
        write(x)
    assert (values(x), x._version) == ([1.0, 2.0], 0)
    with mt.no_grad():
        write(x)
    assert (x.is_leaf, x.requires_grad, x._version) == (True, True, 1)


def test_an_operand_that_requires_gradients_makes_history() -> None:
    p = leaf([3.0])
    x = tensor([1.0, 2.0])
    x.mul_(p)
    assert (x.requires_grad, x.is_leaf, x.grad_fn.name()) == (True, False, "MulBackward0")
    base = tensor([1.0, 2.0])
    view = base[:1]
    before = view.grad_fn
    view.mul_(p)
    assert before is None
    assert "CopySlices" in base.grad_fn.name()
    assert view.grad_fn is not None
    (base.sum() + view.sum()).backward()
    assert values(p.grad) == [2.0]
    quiet = tensor([1.0])
    with mt.no_grad():
        quiet.mul_(p)
    assert not quiet.requires_grad


def test_a_write_under_no_grad_keeps_the_old_history() -> None:
    a = leaf([2.0])
    x = a * 1
    with mt.no_grad():
        x.mul_(5)
    x.sum().backward()
    assert (values(x), values(a.grad)) == ([10.0], [1.0])


def test_out() -> None:
    x, target = leaf([1.0, 2.0]), tensor([0.0, 0.0])
    for call in (
        lambda: mt.add(x, 1.0, out=target),
        lambda: mt.add(target, 1.0, out=x),
        lambda: mt.cat([target, x], out=target),
    ):
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            call()
    with mt.no_grad():
        assert mt.add(x, 1.0, out=target) is target
    assert (values(target), target._version, target.requires_grad) == ([2.0, 3.0], 1, False)
    assert mt.mul(target, target, out=target) is target
    assert values(target) == [4.0, 9.0]
    empty = tensor([])
    mt.exp(tensor([0.0, 0.0]), out=empty)
    assert values(empty) == [1.0, 1.0]
    with pytest.warns(UserWarning, match="resized"):
        mt.exp(tensor([0.0]), out=empty)
    low, at = tensor([]), mt.zeros(0, dtype=mt.int64)
    result = mt.topk(tensor([1.0, 2.0]), 2, out=(low, at))
    assert (result.values is low, values(low), values(at)) == (True, [2.0, 1.0], [1, 0])
    with pytest.raises(RuntimeError, match="can't be cast"):
        mt.add(tensor([1.0]), 1, out=mt.zeros(1, dtype=mt.int64))
    for bad in (3, (low, at)):
        with pytest.raises(TypeError, match="'out'"):
            mt.exp(low, out=bad)
    with pytest.raises(RuntimeError, match="outside InferenceMode"):
        mt.exp(tensor([0.0]), out=made_in_inference([1.0]))


def test_overlapping_memory_is_not_written() -> None:
    for mode in (mt.no_grad, mt.enable_grad, mt.inference_mode):
        with mode(), pytest.raises(RuntimeError, match="more than one element"):
            tensor([1.0]).expand(3).add_(1)


def test_out_into_the_world() -> None:
    x = leaf([1.5])
    for refused in (x, x * 2):
        for convert in (lambda t: t.numpy(), np.asarray):
            with pytest.raises(RuntimeError, match="detach"):
                convert(refused)
    assert (x.tolist(), x.item(), float(x)) == ([1.5], 1.5, 1.5)
    with pytest.raises(RuntimeError, match="deep-copied"):
        copy.deepcopy(x * 2)
    (x * 3).sum().backward()
    twin = copy.deepcopy(x)
    assert (values(twin.grad), twin.grad is x.grad, twin.requires_grad) == ([3.0], False, True)
    assert not any(each.requires_grad for each in (x > 1, x.argmax(), x.int()))


def test_a_view_made_under_no_grad_is_a_dead_end() -> None:
    x = leaf([1.0, 2.0])
    with mt.no_grad():
        view = x[:1]
    assert (view._is_view(), view._base is x) == (True, True)
    assert (view.requires_grad, view.is_leaf, view.grad_fn) == (True, True, None)
    y = view * 2
    assert (y.requires_grad, y.grad_fn.next_functions[0]) == (True, (None, 0))
    y.sum().backward()
    assert (x.grad, view.grad) == (None, None)
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        mt.autograd.grad((view * 2).sum(), view)
    (view.requires_grad_() * 2).sum().backward()
    assert (x.grad, values(view.grad)) == (None, [2.0])


@pytest.mark.parametrize("mode", [mt.no_grad, mt.inference_mode])
@pytest.mark.parametrize("base", ["leaf", "result", "plain"])
def test_writing_to_a_view_made_under_a_mode(mode: Any, base: str) -> None:
    x = {"leaf": lambda: leaf([1.0, 2.0]), "result": lambda: leaf([1.0, 2.0]) * 1, "plain": lambda: tensor([1.0, 2.0])}[
        base
    ]()
    with mode():
        view = x[:1]
        view.mul_(1)
    assert x._version == 1
    matched = "leaf Variable" if base == "leaf" else f"created in {mode.__name__.replace('_mode', '')}"
    with pytest.raises(RuntimeError, match=matched):
        view.mul_(leaf([2.0]))
    if base == "plain":
        view.mul_(3)
        assert values(x) == [3.0, 2.0]
    else:
        with pytest.raises(RuntimeError, match=matched):
            view.mul_(3)
    with mt.no_grad():
        view.mul_(2)
    assert values(x)[0] == (6.0 if base == "plain" else 2.0)


def test_using_such_a_view_after_its_base_was_rewritten() -> None:
    x = leaf([1.0, 2.0]) * 1
    with mt.no_grad():
        view = x[:1]
    x.mul_(2)
    assert view.requires_grad
    with pytest.raises(RuntimeError, match="no_grad mode and its base or another view of its base has been modified"):
        view * 2
    assert view.detach().tolist() == [2.0]


def test_a_view_made_before_its_base_required_gradients_follows_it() -> None:
    y = tensor([1.0, 2.0])
    view, (first, _) = y[:1], y.unbind()
    with mt.no_grad():
        apart = y[1:]
    y.requires_grad_()
    (view * 2).sum().backward()
    (first * 3).backward()
    assert values(y.grad) == [5.0, 0.0]
    (apart * 5).sum().backward()
    assert values(y.grad) == [5.0, 0.0]


@pytest.mark.parametrize("leaf_base", [True, False])
def test_views_apart_may_be_used_after_unrecorded_writes(leaf_base: bool) -> None:
    x = leaf([1.0, 2.0])
    y = x if leaf_base else x * 1
    with mt.no_grad():
        apart = y[1:]
    first, _ = y.unbind()
    with mt.no_grad():
        y.mul_(10)
    (first * 3 + apart.sum()).backward()
    assert (values(first), values(apart), values(x.grad)) == (10.0, [20.0], [3.0, 0.0])


def test_operands_may_overlap_what_is_written() -> None:
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    y[1:].add_(y[:-1])
    y.sum().backward()
    assert (values(y), values(x.grad)) == ([1.0, 3.0, 5.0], [2.0, 2.0, 1.0])


def test_views_and_requires_grad() -> None:
    y = tensor([1.0, 2.0])
    before = y[:1]
    y.requires_grad_()
    assert before.requires_grad
    base = tensor([1.0, 2.0])
    view = base[:1].requires_grad_()
    assert not base.requires_grad
    with pytest.raises(RuntimeError, match="leaf Variable"):
        view.mul_(2)
    (view * 3).sum().backward()
    assert values(view.grad) == [3.0]


SPLITS: list[Callable[[mt.Tensor], Any]] = [lambda x: x.unbind(), lambda x: x.split(1), lambda x: x.chunk(2)]


@pytest.mark.parametrize("split", SPLITS)
def test_several_views_from_one_function(split: Callable[[mt.Tensor], Any]) -> None:
    x = leaf([1.0, 2.0]) * 1
    first, second = split(x)
    with pytest.raises(RuntimeError, match=r"Output 0 of .*Backward0 is a view and is being modified inplace"):
        first.mul_(2)
    x.mul_(2)
    for use in (lambda: second * 2, lambda: second.grad_fn, lambda: second.sum().backward()):
        with pytest.raises(RuntimeError, match="is a view and its base or another view of its base has been modified"):
            use()
    plain = tensor([1.0, 2.0])
    split(plain)[0].mul_(5)
    with pytest.raises(RuntimeError, match="several views"):
        split(plain)[0].mul_(leaf(1.0))
    quiet = leaf([1.0, 2.0])
    with mt.no_grad():
        split(quiet)[1].mul_(5)
    assert (values(plain), values(quiet)) == ([5.0, 2.0], [1.0, 10.0])


def test_detach_and_data() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    alias, data = y.detach(), y.data
    assert (alias._is_view(), data._is_view()) == (False, False)
    alias.add_(1)
    assert (values(y), y._version, data._version) == ([3.0, 5.0], 1, 0)
    data.zero_()
    assert (values(y), y._version, data._version) == ([0.0, 0.0], 1, 1)


def test_what_is_a_view() -> None:
    x = tensor([[1.0, 2.0], [3.0, 4.0]])
    views = [
        x.view(4),
        x.reshape(4),
        x.T,
        x.expand(3, 2, 2),
        x[0],
        x[:, 1:],
        x[...],
        x[None],
        x.unsqueeze(0),
        x.unbind()[0],
    ]
    assert all(each._is_view() and each._base is x for each in views)
    assert x[0][1:].view(1, 1).T._base is x
    others = [x.clone(), x.detach(), x.contiguous(), x[[0, 1]], x[x > 1], x * 1, x.T.reshape(4)]
    assert not any(each._is_view() for each in others)
    assert all(each._base is None for each in others)


def test_shapes_changed_in_place() -> None:
    """Not among the statements: views made before and after such a change are of the same memory and history."""
    x = leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y = x * 1
    row = y[0]
    y.t_()
    column = y[:, 1]
    assert (list(y.shape), y._is_view(), row._base is y, column._base is y) == ([3, 2], False, True, True)
    row.mul_(2)
    column.mul_(3)
    assert values(y) == [[2.0, 12.0], [4.0, 15.0], [6.0, 18.0]]
    (y * y).sum().backward()
    assert values(x.grad) == [[8.0, 16.0, 24.0], [72.0, 90.0, 108.0]]
    y.unsqueeze_(0).squeeze_(0).transpose_(0, 1)
    assert (list(y.shape), y.requires_grad, list(row.shape)) == ([2, 3], True, [3])
    plain, p = tensor([[1.0, 2.0]]), leaf([3.0])
    part = plain[0]
    plain.t_()
    part.mul_(p)
    plain.sum().backward()
    assert (values(plain), values(p.grad)) == ([[3.0], [6.0]], [3.0])
    for refused in (x.t_, lambda: x.resize_(2), lambda: x.set_(plain), lambda: y.resize_(1)):
        with pytest.raises(RuntimeError, match=r"leaf Variable|cannot resize"):
            refused()
    with pytest.raises(RuntimeError, match="dtype"):
        tensor([1.0]).set_(mt.ones(1, dtype=mt.int64))


def test_conj_is_a_copy() -> None:
    x = mt.tensor([1 + 2j, 3 - 1j])
    y = x.conj()
    x.mul_(2)
    assert y.tolist() == [1 - 2j, 3 + 1j]
    assert not y._is_view()
    assert y.resolve_conj() is y
