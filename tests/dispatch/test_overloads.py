"""Arguments under the names and in the orders of torch's other overloads."""

from collections.abc import Callable
from typing import Any

import pytest

import minitorch_backends as mt

CALLS: dict[str, tuple[Callable[[mt.Tensor], Any], Callable[[mt.Tensor], Any]]] = {
    "split(split_size)": (lambda x: x.split(split_size=[1, 2], dim=1), lambda x: x.split([1, 2], 1)),
    "tensor_split(indices)": (lambda x: x.tensor_split(indices=(1,), dim=1), lambda x: x.tensor_split((1,), 1)),
    "tensor_split(sections)": (lambda x: mt.tensor_split(x, sections=2), lambda x: x.tensor_split(2)),
    "hsplit(*indices)": (lambda x: x.hsplit(1, 2), lambda x: x.hsplit((1, 2))),
    "vsplit(sections)": (lambda x: x.vsplit(sections=2), lambda x: x.vsplit(2)),
    "repeat(repeats)": (lambda x: x.repeat(repeats=(2, 1)), lambda x: x.repeat(2, 1)),
    "view(size)": (lambda x: x.view(size=(3, 2)), lambda x: x.view(3, 2)),
    "view(dtype)": (lambda x: x.view(dtype=mt.int32), lambda x: x.view(mt.int32)),
    "broadcast_to(*size)": (lambda x: x.broadcast_to(2, 2, 3), lambda x: x.expand(2, 2, 3)),
    "resize_(size)": (lambda x: x.clone().resize_(size=(2, 2)), lambda x: x.flatten()[:4].view(2, 2)),
    "sum_to_size(size)": (lambda x: x.sum_to_size(size=(1, 3)), lambda x: x.sum(0, keepdim=True)),
    "swapaxes(axis0)": (lambda x: x.swapaxes(axis0=0, axis1=1), lambda x: x.mT),
    "swapaxes_(axis0)": (lambda x: x.clone().swapaxes_(axis0=0, axis1=1), lambda x: x.mT),
    "copy_(other)": (lambda x: mt.zeros(2, 3).copy_(other=x), lambda x: x),
    "where(self)": (lambda x: mt.where(x > 2, self=x, other=0.0), lambda x: mt.where(x > 2, x, 0.0)),
    "isin(element)": (lambda x: mt.isin(element=2.0, test_elements=x), lambda x: mt.tensor(True)),
    "sum(axis)": (lambda x: x.sum(axis=1, keepdims=True), lambda x: x.sum(1, keepdim=True)),
}


@pytest.mark.parametrize("name", CALLS)
def test_keywords_of_overloads(name: str) -> None:
    taken, plain = (call(mt.arange(6.0).reshape(2, 3)) for call in CALLS[name])
    for one, other in zip(*([each] if isinstance(each, mt.Tensor) else each for each in (taken, plain)), strict=True):
        assert (one.dtype, one.tolist()) == (other.dtype, other.tolist())


DEPRECATED = {
    "add": (lambda x: x.add(3, x), 4.0),
    "sub_": (lambda x: x.clone().sub_(3, x), -2.0),
    "addcmul": (lambda x: mt.addcmul(x, 3, x, x), 4.0),
    "addcdiv_": (lambda x: x.clone().addcdiv_(-3, x, x), -2.0),
    "addmm with both factors": (lambda x: mt.addmm(2, x, 3, x, x), 8.0),
    "addmm with one factor": (lambda x: x.addmm(2, x, x), 4.0),
    "addbmm": (lambda x: mt.addbmm(2, x, x.expand(3, 2, 2), x.expand(3, 2, 2)), 8.0),
}


@pytest.mark.parametrize("name", DEPRECATED)
def test_deprecated_orders_warn_where_they_are_called(name: str) -> None:
    call, value = DEPRECATED[name]
    with pytest.warns(UserWarning, match=r"is deprecated; pass (alpha|beta|value).* by keyword") as caught:
        assert call(mt.ones(2, 2)).tolist() == [[value] * 2] * 2
    assert [each.filename for each in caught] == [__file__]


def test_arguments_are_not_given_twice() -> None:
    x = mt.ones(2, 2)
    for call in (
        lambda: x.split(1, split_size=1),
        lambda: x.view(4, size=(4,)),
        lambda: x.swapaxes(0, 1, axis0=0),
        lambda: x.add(2, x, alpha=2),
    ):
        with pytest.raises(TypeError):
            call()


def test_losses_take_the_arguments_before_reduction() -> None:
    F, x, target = mt.nn.functional, mt.zeros(2, 3), mt.tensor([0, 1])
    for call in (lambda: F.mse_loss(x, x + 2, False), lambda: mt.nn.MSELoss(False)(x, x + 2)):
        with pytest.warns(UserWarning, match="please use reduction='sum'") as caught:
            assert call().item() == 24
        assert [each.filename for each in caught] == [__file__]
    with pytest.warns(UserWarning, match="please use reduction='none'"):
        assert F.cross_entropy(x, target, None, None, 1, False).tolist() == [pytest.approx(1.0986123), 0.0]
    assert F.cross_entropy(x, target, None, None, 1, None, "sum").item() == pytest.approx(1.0986123)
    assert mt.nn.HuberLoss("sum", 1.0)(x, x + 2).item() == 9
    with pytest.raises(TypeError):
        F.mse_loss(x, x, None, None, "sum", reduction="sum")


def test_factories_share_their_options() -> None:
    out = mt.empty(0, dtype=mt.int64)
    assert mt.zeros(2, out=out) is out
    assert (out.dtype, out.tolist()) == (mt.int64, [0, 0])
    assert mt.arange(3, out=mt.empty(0)).tolist() == [0.0, 1.0, 2.0]
    assert mt.rand(3, out=mt.empty(0), requires_grad=True).requires_grad
    assert mt.multinomial(mt.tensor([0.0, 1.0]), 1, out=out.resize_(0)).tolist() == [1]
    with pytest.raises(RuntimeError, match=r"arange\(\): dtype must be that of out, mt.float32, got mt.int64"):
        mt.arange(3, dtype=mt.int64, out=mt.empty(0))
    with pytest.raises(RuntimeError, match=r"ones\(\): pin_memory must be False, got True"):
        mt.ones(2, pin_memory=True)
    with pytest.raises(RuntimeError, match=r"zeros_like\(\): layout must be strided, got 'sparse_coo'"):
        mt.zeros_like(mt.ones(1), layout="sparse_coo")
    assert mt.ones(2).new_zeros(3, layout="strided", pin_memory=False).shape == (3,)


def test_bounds_of_random_numbers_have_torchs_names() -> None:
    assert set(mt.randint(high=2, size=(9,)).tolist()) <= {0, 1}
    assert set(mt.randint_like(mt.ones(9), 3, high=4).tolist()) == {3.0}
    assert mt.empty(9).uniform_(**{"from": 2.0, "to": 3.0}).min() >= 2
    assert set(mt.empty(9).random_(to=1).tolist()) == {0.0}
    assert mt.repeat_interleave(repeats=mt.tensor([2, 0, 1])).tolist() == [0, 0, 2]
