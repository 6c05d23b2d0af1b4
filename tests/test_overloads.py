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
