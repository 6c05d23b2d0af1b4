"""Anomaly detection and hooks on saved tensors."""

import os
import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.autograd import (
    detect_anomaly,
    grad,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from minitorch_backends.autograd.graph import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)

from ..support.autograd import in_thread, leaf, make_function, tensor, values, warnings_of


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Each test starts and ends without diagnosis."""
    assert not is_anomaly_enabled()
    yield
    left = is_anomaly_enabled()
    set_detect_anomaly(False)
    assert not left


# Anomaly detection


def test_setting_and_scopes() -> None:
    assert (is_anomaly_enabled(), is_anomaly_check_nan_enabled()) == (False, True)
    with pytest.warns(UserWarning, match="slows down"):
        context: Any = detect_anomaly()
    assert not is_anomaly_enabled()
    with context as entered:
        assert entered is None
        assert is_anomaly_enabled()
        assert in_thread(is_anomaly_enabled)
        with context:
            pass
        assert is_anomaly_enabled()
    assert not is_anomaly_enabled()
    set_detect_anomaly(True, check_nan=False)
    assert (is_anomaly_enabled(), is_anomaly_check_nan_enabled()) == (True, False)
    set_detect_anomaly(False)
    with set_detect_anomaly(True):
        assert is_anomaly_enabled()
    assert not is_anomaly_enabled()
    for bad in (1, None, "x", np.bool_(True)):
        with pytest.raises(TypeError):
            set_detect_anomaly(bad)
        with pytest.raises(TypeError):
            set_detect_anomaly(True, check_nan=bad)
    assert not is_anomaly_enabled()

    @set_detect_anomaly(True)
    def function() -> bool:
        return is_anomaly_enabled()

    assert not is_anomaly_enabled()
    assert function()


def test_nan_is_found_where_it_arises() -> None:
    x = leaf([0.0, 1.0])
    with set_detect_anomaly(True):
        y = (x * 0).sqrt()  # the call to be shown
        out = (y * 0.0).sum()
        with (
            pytest.warns(UserWarning, match="the call to be shown") as caught,
            pytest.raises(RuntimeError, match=r"Function 'SqrtBackward0' returned nan values in its 0th output"),
        ):
            out.backward(retain_graph=True)
    assert "error detected in SqrtBackward0" in str(caught[0].message)
    assert os.path.basename(__file__) in str(caught[0].message)
    assert "autograd/engine.py" not in str(caught[0].message)
    with set_detect_anomaly(True, check_nan=False):
        out.backward(retain_graph=True)
    out.backward()
    assert np.isnan(x.grad.tolist()[0])


def test_errors_in_backward_come_with_the_forward_call() -> None:
    x, fails = leaf([1.0]), make_function(lambda ctx, x: x * 1, Mock(side_effect=KeyError("no")))
    with set_detect_anomaly(True), pytest.warns(UserWarning, match="the failing call"), pytest.raises(KeyError):
        fails.apply(x).sum().backward()  # the failing call
    out = fails.apply(x).sum()
    with set_detect_anomaly(True), pytest.warns(UserWarning, match="was off"), pytest.raises(KeyError):
        out.backward()


def test_the_write_that_modified_a_saved_tensor_is_named() -> None:
    def wreck(w: mt.Tensor) -> None:
        w[0] = 5.0  # the culprit

    x, w = leaf([1.0, 2.0]), tensor([1.0, 2.0])
    with set_detect_anomaly(True):
        out = (x * w).sum()
        wreck(w)
        w.add_(1)
        with pytest.warns(UserWarning, match="error detected"), pytest.raises(RuntimeError) as raised:
            out.backward()
    assert re.search(rf"first written to at {__file__}:\d+ in wreck: w\[0\] = 5.0  # the culprit", str(raised.value))
    out = (x * w).sum()
    w.add_(1)
    with pytest.raises(RuntimeError, match=r"set_detect_anomaly\(True\) would name the line"):
        out.backward()


# Hooks on saved tensors


def test_packing_and_unpacking() -> None:
    calls: list[str] = []

    def pack(t: mt.Tensor) -> Any:
        calls.append("pack")
        assert not mt.is_grad_enabled()
        return t.detach().numpy().tolist()

    def unpack(packed: Any) -> mt.Tensor:
        calls.append("unpack")
        return tensor(packed)

    x = leaf([1.0, 2.0])
    with saved_tensors_hooks(pack, unpack):
        out = (x * x).sum()
    assert calls == ["pack", "pack"]
    x.exp()
    out.backward()
    assert (calls[2:], values(x.grad)) == (["unpack", "unpack"], [2.0, 4.0])


def test_only_the_innermost_hooks_act() -> None:
    calls: list[str] = []

    def noting(name: str) -> Any:
        return saved_tensors_hooks(lambda t: (calls.append(name), t)[1], lambda t: t)

    x = leaf([1.0])
    with noting("outer"):
        x.exp()
        with noting("inner"):
            x.exp()
        x.exp()
    assert calls == ["outer", "inner", "outer"]


def test_what_goes_wrong_in_a_hook() -> None:
    x = leaf([1.0])

    def fails(t: Any) -> Any:
        raise KeyError

    with saved_tensors_hooks(fails, lambda t: t), pytest.raises(KeyError):
        x.exp()
    with saved_tensors_hooks(lambda t: t, fails):
        out = x.exp().sum()
    with pytest.raises(KeyError):
        out.backward()
    with saved_tensors_hooks(lambda t: t, lambda t: 3.0):  # type: ignore[arg-type, return-value]
        out = x.exp().sum()
    with pytest.raises(TypeError, match="must return a Tensor"):
        out.backward()
    with (
        saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t),
        pytest.raises(RuntimeError, match="modifying its input"),
    ):
        x.exp()
    assert mt.is_grad_enabled()


def test_what_is_packed() -> None:
    packed: list[Any] = []
    x, w = leaf([1.0, 2.0]), tensor([1.0, 2.0])
    with saved_tensors_hooks(lambda t: (packed.append(t), t)[1], lambda t: t):
        for saves_nothing in (lambda: x * 3, lambda: x + 1, x.sum, lambda: x.view(2, 1), lambda: x[0]):
            saves_nothing()
        assert not packed
        for saves in (x.exp, x.relu, x.sin, lambda: x * w):
            packed.clear()
            saves()
            assert len(packed) == 1


def test_a_parameter_is_packed_as_one() -> None:
    packed: list[mt.Tensor] = []
    w = mt.nn.Parameter(tensor([2.0]))
    with saved_tensors_hooks(lambda x: packed.append(x) or x, lambda x: x):
        out = (w * 1) * w
    assert [each is w for each in packed] == [False, True]
    out.sum().backward()
    assert values(w.grad) == [4.0]


def test_version_checks_stay_on() -> None:
    """Unlike in torch, where a hook that changes nothing makes this gradient 4 and no error."""
    x = leaf([2.0])
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        out = (x * x).sum()
    with mt.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        out = (x * x).sum()
    with mt.no_grad():
        x.add_(1)
    out.backward()
    assert values(x.grad) == [6.0]


def test_hooks_may_be_forbidden() -> None:
    hooks = saved_tensors_hooks(lambda t: t, lambda t: t)
    with disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"), hooks:
            pass
        leaf([1.0]).exp().sum().backward()
    with hooks:
        pass


def test_hooks_on_one_saved_tensor() -> None:
    x = leaf([1.0, 2.0])
    out = x * tensor([3.0, 4.0])
    raw = out.grad_fn._raw_saved_other
    raw.register_hooks(lambda t: t * 10, lambda packed: packed)
    with pytest.raises(RuntimeError, match="once"):
        raw.register_hooks(lambda t: t, lambda t: t)
    out.sum().backward()
    assert values(x.grad) == [30.0, 40.0]
    with pytest.raises(RuntimeError, match="does not hold"):
        raw.register_hooks(lambda t: t, lambda t: t)


def test_saved_tensors_that_may_be_written_to() -> None:
    x, w = leaf([1.0, 2.0]), tensor([3.0, 4.0])
    with allow_mutation_on_saved_tensors() as context:
        y = x * w
        z = y.sin()
        out = (z * z).sum()
        w.zero_()
        y.detach().add_(100)
        z.detach()[0].mul_(5)
        w.add_(1)
        wanted = x.detach().clone().requires_grad_()
        (wanted * tensor([3.0, 4.0])).sin().pow(2).sum().backward()
        out.backward()
        assert np.allclose(x.grad.tolist(), wanted.grad.tolist())
        late = (x * w).sum()
        context.clear()
        w.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            late.backward()
    after = (x * w).sum()
    w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        after.backward()


def test_save_on_cpu() -> None:
    x = leaf([1.0, 2.0])
    with save_on_cpu(pin_memory=True):
        out = (x.exp() * x).sum()
    out.backward()
    assert np.allclose(x.grad.tolist(), (np.exp([1.0, 2.0]) * [2.0, 3.0]).tolist())


def test_hooks_and_writes_in_place() -> None:
    """An op that writes in place saves the earlier values, also for hooks."""
    for hooks in (saved_tensors_hooks(lambda t: t, lambda t: t), allow_mutation_on_saved_tensors()):
        x = leaf([1.0, 2.0])
        with hooks:
            y = x * 1
            y.sin_()
            y[0].mul_(y[1].detach().clone())
            y.sum().backward()
        assert np.allclose(x.grad.tolist(), [np.cos(1.0) * np.sin(2.0), np.cos(2.0)])


def test_hooks_under_double_backward() -> None:
    x = leaf([1.0, 2.0])
    with saved_tensors_hooks(lambda t: t.detach().numpy().copy(), mt.Tensor):
        out = (x.exp() * x.sin()).sum()
        (g,) = grad(out, x, create_graph=True)
        (second,) = grad(g.sum(), x)
    assert np.allclose(second.tolist(), (2 * np.exp([1.0, 2.0]) * np.cos([1.0, 2.0])).tolist())


def test_nothing_warns_when_nothing_is_wrong() -> None:
    x = leaf([1.0])
    with set_detect_anomaly(True):
        assert not warnings_of(lambda: (x.exp() * x).sum().backward())


def test_pack_hooks_see_the_history_of_operands_and_not_of_the_result() -> None:
    seen: list[mt.Tensor] = []
    x = leaf([1.0, 2.0])
    with saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        y = x * 2
        assert not seen
        x * y
        y.exp()
    assert [(each.requires_grad, each.is_leaf) for each in seen] == [(True, True), (True, False), (False, True)]
    assert seen[0] is x
    assert seen[1].grad_fn is y.grad_fn
