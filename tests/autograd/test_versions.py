"""Versions and inference tensors."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.autograd.versions import writes
from minitorch_backends.nn import Parameter

from ..support.autograd import leaf, made_in_inference, tensor, values


def test_versions_start_at_zero() -> None:
    x = mt.ones(2)
    assert [each._version for each in (x, x.clone(), x * 2, mt.zeros(1), mt.tensor([1]))] == [0] * 5
    with pytest.raises(AttributeError):
        x._version = 3  # type: ignore[misc]
    with mt.no_grad():
        x.add_(1)
    assert x._version == 1


COUNTED: list[Callable[[mt.Tensor], Any]] = [
    lambda x: x.add_(0), lambda x: x.zero_(), lambda x: x.fill_(2), lambda x: x.copy_(tensor(1.0)),
    lambda x: x.masked_fill_(x > 0, 1), lambda x: x.__setitem__(0, 1), lambda x: x.__setitem__(slice(None), 3),
    lambda x: x.__setitem__(x > 1, 3), lambda x: x.__setitem__([0, 0], 3), lambda x: x.normal_(),
    lambda x: x.__iadd__(1), lambda x: x[:1].add_(1), lambda x: x.t_(), lambda x: x.transpose_(0, 1),
    lambda x: x.unsqueeze_(0), lambda x: x.squeeze_(0), lambda x: x.resize_(2), lambda x: x.set_(tensor([1.0])),
    lambda x: mt.exp(x, out=x),
]  # fmt: skip


@pytest.mark.parametrize("write", COUNTED)
def test_every_write_counts_once(write: Callable[[mt.Tensor], Any]) -> None:
    for x in (tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[1.0, 2.0], [3.0, 4.0]]).T):
        write(x)
        assert x._version == 1
    mt.zeros(0).add_(1)
    empty = mt.zeros(0)
    empty.add_(1)
    assert empty._version == 1


def test_augmented_assignment_of_a_slice_counts_twice() -> None:
    x = tensor([1.0, 2.0])
    x[0:1] += 3
    assert (values(x), x._version) == ([4.0, 2.0], 2)


def test_who_shares_a_version_and_what_leaves_it_alone() -> None:
    x = tensor([1.0, 2.0])
    sharing = [x[:1], x.detach(), x[:1].detach(), Parameter(x), x.T]
    apart = [x.clone(), x.data, x * 1]
    x.add_(1)
    assert [each._version for each in sharing] == [1] * 5
    assert [each._version for each in apart] == [0] * 3
    x.numpy()[0] = 7
    x.data.mul_(2)
    x.requires_grad_()
    with pytest.raises(RuntimeError):
        x.add_(1)
    with pytest.raises(RuntimeError):
        x.detach().add_(mt.ones(3, 3, dtype=mt.float64))
    assert (values(x), x._version) == ([14.0, 6.0], 1)
    x.data = tensor([5.0, 5.0])
    assert (values(x), x._version) == ([5.0, 5.0], 1)


def test_saved_tensors_are_checked() -> None:
    x, w = leaf([1.0, 2.0]), tensor([1.0, 2.0, 3.0])
    for write in (lambda: w.add_(1), lambda: w[2:].mul_(2), lambda: w.detach().zero_(), lambda: w.__setitem__(2, 9.0)):
        for mode in (mt.no_grad, mt.enable_grad, mt.inference_mode):
            y = (x * w[:2]).sum()
            with mode():
                write()
            expected = rf"modified by an inplace operation.*float64\[2\].*is at version {w._version}; expected version"
            with pytest.raises(RuntimeError, match=expected):
                y.backward()
    y = (x * w[:2]).sum()
    w.data.zero_()
    y.backward()
    assert values(x.grad) == [0.0, 0.0]


def test_writes_through_data_are_known_to_caches_and_leave_the_check_alone() -> None:
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    with mt.autograd.set_detect_anomaly(True):
        x.data.add_(1)
        x.data.data.mul_(2)
        assert writes(x) == (0, 2)
        with mt.no_grad():
            x.add_(1)
    with pytest.raises(RuntimeError, match=r"is at version 1; expected version 0, first written to at .*x\.add_"):
        y.backward()
    assert (values(x), writes(x)) == ([5.0, 7.0], (1, 2))


def test_the_message_names_the_operation_that_made_the_tensor() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    z = y.sin()
    with mt.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match=r"gradient of sin.*output 0 of MulBackward0.*version 1; expected version 0"):
        z.sum().backward()
    first, second = (x * 1).unbind()
    product = first * second
    with mt.no_grad():
        second.add_(1)
    with pytest.raises(RuntimeError, match="output 1 of UnbindBackward0"):
        product.backward()


@pytest.mark.parametrize("name", ["exp", "sigmoid", "relu", "tanh", "sqrt", "softmax"])
def test_results_that_are_kept_must_not_be_written_to(name: str) -> None:
    x = leaf([1.0, 2.0])
    y = x.softmax(0) if name == "softmax" else getattr(x, name)()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation: 'out'"):
        y.sum().backward()


KEEP_INPUTS: dict[str, Callable[[mt.Tensor], mt.Tensor]] = {
    "add": lambda x: x + 1, "mul": lambda x: x * 3, "sin": lambda x: x.sin(), "cos": lambda x: x.cos(),
    "log": lambda x: x.log(), "pow": lambda x: x.pow(2), "div": lambda x: x / 3,
}  # fmt: skip


@pytest.mark.parametrize("name", KEEP_INPUTS)
def test_results_that_are_not_kept_may_be_written_to(name: str) -> None:
    function = KEEP_INPUTS[name]
    x, wanted = leaf([1.0, 2.0]), leaf([1.0, 2.0])
    y = function(x)
    y.mul_(2)
    y.sum().backward()
    (function(wanted) * 2).sum().backward()
    assert values(x.grad) == values(wanted.grad)


def test_what_is_an_inference_tensor() -> None:
    normal = leaf([1.0, 2.0])
    with mt.inference_mode():
        made = [mt.ones(2), mt.tensor([1.0]), mt.from_numpy(np.ones(2)), normal.clone(), normal * 2, mt.tensor([1.0])]
        shared = [normal[:1], normal.detach(), normal.data, normal.view(2, 1)]
    assert all(mt.is_inference(each) and each.is_inference() for each in made)
    assert not any(each.is_inference() for each in [*shared, normal])
    assert [each._is_view() for each in shared] == [True, False, False, True]
    aliases = [made[0][:1], made[0].detach(), made[0].data, made[0].view(2, 1)]
    assert all(each.is_inference() and not each._is_view() for each in aliases)
    with pytest.raises(TypeError):
        mt.is_inference(np.ones(2))


REFUSED: dict[str, Callable[[mt.Tensor], Any]] = {
    "add_": lambda i: i.add_(1),
    "item": lambda i: i.__setitem__(0, 1.0),
    "view": lambda i: i[:1].mul_(2),
    "copy_": lambda i: i.copy_(mt.zeros(2)),
    "unsqueeze_": lambda i: i.unsqueeze_(0),
    "resize_": lambda i: i.resize_(3),
    "set_": lambda i: i.set_(mt.zeros(2, dtype=mt.float64)),
    "out": lambda i: mt.exp(mt.zeros(2, dtype=mt.float64), out=i),
    "requires_grad_": lambda i: i.requires_grad_(),
    "requires_grad": lambda i: setattr(i, "requires_grad", True),
    "Parameter": Parameter,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_outside_inference_mode(name: str) -> None:
    i = made_in_inference([1.0, 2.0])
    for mode in (mt.enable_grad, mt.no_grad):
        with mode(), pytest.raises(RuntimeError, match=r"outside InferenceMode.*made in inference mode.*clone\(\)"):
            REFUSED[name](i)
    assert values(i) == [1.0, 2.0]
    with mt.inference_mode():
        REFUSED[name](i)


def test_versions_of_inference_tensors() -> None:
    i = made_in_inference([1.0, 2.0])
    for mode in (mt.enable_grad, mt.inference_mode):
        with mode(), pytest.raises(RuntimeError, match="do not track version counter"):
            i._version
    i.requires_grad_(False)
    i.grad = mt.zeros(2, dtype=mt.float64)
    i.detach_()
    i.data = tensor([5.0, 6.0])
    assert values(i) == [5.0, 6.0]


def test_inference_tensors_among_operands() -> None:
    a, i = leaf([1.0, 2.0]), made_in_inference([3.0, 4.0])
    matrix = leaf([[1.0, 2.0]])
    for saving in (
        lambda: a * i,
        lambda: a.dot(i),
        lambda: mt.nn.functional.linear(i, matrix),
        lambda: (a * 1).mul_(i),
    ):
        with pytest.raises(RuntimeError, match=r"cannot be saved for backward.*float64\[2\].*clone\(\)"):
            saving()
        with mt.no_grad():
            saving()
    (a + i).sum().backward()
    mt.stack([a, i]).sum().backward()
    copied = tensor([0.0, 0.0])
    copied.copy_(i)
    assert (values(a.grad), values(copied)) == ([2.0, 2.0], [3.0, 4.0])


def test_results_of_ops_outside_are_normal() -> None:
    i = made_in_inference([1.0, 2.0])
    results = [i * 2, mt.stack([i, i]), i.clone(), copy.deepcopy(i), i.sum()]
    assert not any(each.is_inference() for each in results)
    assert [each._version for each in results] == [0] * 5


def test_leaves_made_in_inference_mode() -> None:
    with mt.inference_mode():
        made = [mt.ones(2, requires_grad=True), Parameter(mt.ones(2))]
        inner = made[0] * 2
    assert all(each.requires_grad and each.is_inference() for each in made)
    assert not inner.requires_grad
    (made[0] * 2).sum().backward()
    assert values(made[0].grad) == [2.0, 2.0]


def test_writing_to_normal_tensors_in_inference_mode() -> None:
    x, y = leaf([1.0]), tensor([2.0])
    product = x * y
    with mt.inference_mode():
        x.add_(1)
        y.add_(1)
        with mt.enable_grad():
            x.add_(1)
    assert (x._version, y._version, x.is_leaf) == (2, 1, True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_a_view_of_a_leaf_made_in_inference_mode() -> None:
    x = leaf([1.0, 2.0])
    with mt.inference_mode():
        view = x[:1]
    assert view.requires_grad
    (view * 2).sum().backward()
    assert x.grad is None


def test_backward_in_inference_mode() -> None:
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    with mt.inference_mode():
        y.backward(retain_graph=True)
        (g,) = mt.autograd.grad(y, x)
    assert values(x.grad) == values(g) == [2.0, 4.0]
    assert x.grad.is_inference()
    assert g.is_inference()


def test_inference_tensors_going_out_and_backward() -> None:
    i = made_in_inference([1.0])
    assert (i.tolist(), i.item(), i.numpy().tolist()) == ([1.0], 1.0, [1.0])
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        i.register_hook(lambda g: g)
    with pytest.raises(RuntimeError, match="does not require grad"):
        i.backward()


def test_the_line_that_made_an_inference_tensor_is_named_when_diagnosis_is_on() -> None:
    with mt.autograd.set_detect_anomaly(True), mt.inference_mode():
        i = mt.ones(2)  # this line
    for use in (lambda: leaf([1.0, 2.0], np.float32) * i, lambda: i.add_(1), i.requires_grad_):
        with pytest.raises(RuntimeError, match=rf"{__file__}:\d+ in test_the_line.*# this line"):
            use()
