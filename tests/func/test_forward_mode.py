"""Derivatives along tangents where a part of a function is not recorded: `no_grad` stops gradients, not tangents."""

from collections.abc import Callable
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import nn

X = mt.tensor([1.0, 2.0, -3.0], dtype=mt.float64)


def _cube_in_parts(v: mt.Tensor) -> mt.Tensor:
    with mt.no_grad():
        c = v**2
    return c * v


def _cube_with_detach(v: mt.Tensor) -> mt.Tensor:
    return (v**2).detach() * v


def _jvp(function: Callable[..., Any]) -> mt.Tensor:
    return mt.func.jvp(function, (X,), (mt.ones_like(X),))[1]


def test_no_grad_stops_gradients_and_detach_stops_both():
    forward = _jvp, lambda f: mt.func.jacfwd(f)(X).diagonal()
    for way in forward:
        assert mt.allclose(way(_cube_in_parts), 3 * X**2)
        assert mt.allclose(way(_cube_with_detach), X**2)
        assert mt.allclose(way(mt.no_grad()(lambda v: v**3)), 3 * X**2)
    assert mt.allclose(mt.func.jacrev(_cube_in_parts)(X).diagonal(), X**2)
    assert mt.allclose(mt.func.jacrev(_cube_with_detach)(X).diagonal(), X**2)


def test_a_transform_inside_no_grad_differentiates():
    with mt.no_grad():
        assert mt.allclose(mt.func.grad(lambda v: (v**3).sum())(X), 3 * X**2)
        assert mt.allclose(_jvp(lambda v: v**3), 3 * X**2)
        assert mt.allclose(_jvp(_cube_in_parts), 3 * X**2)


def test_results_can_be_differentiated():
    """Gradients of tangents stop at `no_grad` as gradients do."""
    tangent = mt.ones_like(X).requires_grad_()
    found = mt.func.jvp(_cube_in_parts, (X,), (tangent,))[1]
    assert mt.allclose(found, 3 * X**2)
    assert mt.allclose(mt.autograd.grad(found.sum(), tangent)[0], X**2)


def test_auxiliary_results_and_several_outputs():
    def several(v: mt.Tensor) -> Any:
        with mt.no_grad():
            c = v.exp()
        return (c, c * v), {"seen": v.sum()}

    values, tangents, aux = mt.func.jvp(several, (X,), (X,), has_aux=True)
    assert mt.allclose(tangents[0], X.exp() * X)
    assert mt.allclose(tangents[1], X.exp() * X * (X + 1))
    assert mt.allclose(values[1], X.exp() * X)
    assert aux["seen"] == X.sum()


@pytest.mark.parametrize("calls", [1, 2])
def test_a_function_is_called_again_only_for_a_no_grad_of_its_own(calls: int):
    """That of a layer, which keeps statistics, does not count."""
    layer, seen = nn.BatchNorm1d(3, dtype=mt.float64), []

    def function(v: mt.Tensor) -> mt.Tensor:
        seen.append(1)
        y = layer(v)
        if calls == 2:
            with mt.no_grad():
                y = y * 2
        return y

    x = mt.randn(4, 3, dtype=mt.float64)
    mt.func.jvp(function, (x,), (x,))
    assert len(seen) == calls
    assert layer.num_batches_tracked == calls


def test_strict_refuses_outputs_that_do_not_depend_on_the_primals():
    weight = mt.ones(3, dtype=mt.float64, requires_grad=True)
    for independent in (lambda v: mt.ones(1), lambda v: v.detach() * 2, lambda v: (v, weight * 2)):
        with pytest.raises(RuntimeError, match="every output must depend on the primals"):
            mt.func.jvp(independent, (X,), (X,), strict=True)
    assert mt.equal(mt.func.jvp(lambda v: v * weight, (X,), (X,), strict=True)[1], X)
    with pytest.raises(NotImplementedError, match="strict must be False"):
        mt.func.jvp(_cube_in_parts, (X,), (X,), strict=True)


def test_dual_numbers_of_integers_and_of_dual_numbers_are_refused():
    forward = mt.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(X, X)
        with pytest.raises(RuntimeError, match="tensor must carry no tangent"):
            forward.make_dual(dual, X)
        with pytest.raises(RuntimeError, match="tensor must carry no tangent"):
            forward.make_dual(dual.view(3), X)
        assert mt.equal(forward.unpack_dual(dual).tangent, X)
        with pytest.raises(ValueError, match=r"must be floating or complex, got mt\.int64"):
            forward.make_dual(mt.tensor([1]), mt.tensor([1]))
