"""Forward mode beside torch: dual numbers, `func.jvp` and `jacfwd` through views, writes, `no_grad` and `detach`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
import minitorch_backends.autograd.forward_ad

from .peer import torch

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda lib, x: (x @ x).sin() * x,
    "no_grad": lambda lib, x: _without(lib.no_grad(), lambda: x**2) * x,
    "decorated": lambda lib, x: lib.no_grad()(lambda u: u.exp())(x) + x,
    "set_grad_enabled": lambda lib, x: _without(lib.set_grad_enabled(False), lambda: x**4) * x,
    "enabled inside": lambda lib, x: _without(lib.no_grad(), lambda: _without(lib.enable_grad(), lambda: x**3)),
    "enabled outside": lambda lib, x: _without(lib.enable_grad(), lambda: _without(lib.no_grad(), lambda: x**3)),
    "detach": lambda lib, x: (x**2).detach() * x,
    "detach and no_grad": lambda lib, x: _without(lib.no_grad(), lambda: x.detach() * x) + x**2,
    "write": lambda lib, x: _write_and_double(x.clone(), lambda y: y.mul_(x.sin())),
    "write to a transpose": lambda lib, x: _write_and_double(x.clone(), lambda y: y.t().mul_(x)),
    "write to a slice": lambda lib, x: _write_and_double(x.clone(), lambda y: y[1:].copy_(x[:-1] * 2)),
    "write to a row": lambda lib, x: _write_and_double(x * 1, lambda y: y[0].add_(x[1])),
    "write to a diagonal": lambda lib, x: _write_and_double(x.clone(), lambda y: y.diagonal().mul_(3)),
    "write to a window": lambda lib, x: _write_and_double(
        x.clone(), lambda y: y.as_strided((2, 2), (1, 3)).mul_(x[:2, :2])
    ),
    "write under no_grad": lambda lib, x: _without(
        lib.no_grad(), lambda: _write_and_double(x.clone(), lambda y: y.mul_(x))
    ),
    "index": lambda lib, x: x[[0, 2]].sum(0) * x[1],
    "cat": lambda lib, x: lib.cat([x, x.t()]).cumsum(0),
    "softmax": lambda lib, x: x.softmax(-1).log(),
    "solve": lambda lib, x: lib.linalg.solve(x @ x.t() + 5 * lib.eye(3, dtype=x.dtype), x),
}


def _without(scope: Any, compute: Callable[[], Any]) -> Any:
    with scope:
        return compute()


def _write_and_double(y: Any, write: Callable[[Any], Any]) -> Any:
    write(y)
    return y * 2


def _arrays() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.standard_normal((3, 3)) + 2.5, draw.standard_normal((3, 3))


def _dual(lib: Any, function: Callable[[Any, Any], Any]) -> np.ndarray:
    x, tangent = (lib.tensor(each.tolist(), dtype=lib.float64) for each in _arrays())
    with lib.autograd.forward_ad.dual_level():
        dual = lib.autograd.forward_ad.make_dual(x, tangent)
        found = lib.autograd.forward_ad.unpack_dual(function(lib, dual)).tangent
        return np.zeros(1) if found is None else np.array(found.detach().tolist())


def _jvp(lib: Any, function: Callable[[Any, Any], Any]) -> np.ndarray:
    x, tangent = (lib.tensor(each.tolist(), dtype=lib.float64) for each in _arrays())
    value, found = lib.func.jvp(lambda u: function(lib, u), (x,), (tangent,))
    return np.array([value.tolist(), found.tolist()])


def _jacfwd(lib: Any, function: Callable[[Any, Any], Any]) -> np.ndarray:
    x = lib.tensor(_arrays()[0].tolist(), dtype=lib.float64)
    return np.array(lib.func.jacfwd(lambda u: function(lib, u))(x).tolist())


def _reverse_of_jvp(lib: Any, function: Callable[[Any, Any], Any]) -> np.ndarray:
    x, tangent = (lib.tensor(each.tolist(), dtype=lib.float64) for each in _arrays())
    return np.array(
        lib.func.grad(lambda v: lib.func.jvp(lambda u: function(lib, u), (x,), (v,))[1].sum())(tangent).tolist()
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own imports
@pytest.mark.parametrize("way", [_dual, _jvp, _jacfwd, _reverse_of_jvp])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_torch(name: str, way: Callable[..., np.ndarray]) -> None:
    function = FUNCTIONS[name]
    np.testing.assert_allclose(way(mt, function), way(torch, function), rtol=1e-9, atol=1e-9)


def test_random_numbers_are_those_of_the_first_call() -> None:
    def noisy(u: Any) -> Any:
        with mt.no_grad():
            noise = mt.rand(3, 3, dtype=mt.float64)
            return u * noise

    x = mt.ones(3, 3, dtype=mt.float64)
    mt.manual_seed(1)
    value, tangent = mt.func.jvp(noisy, (x,), (x,))
    assert mt.equal(value, tangent)
    after = mt.rand(1)
    mt.manual_seed(1)
    mt.rand(3, 3, dtype=mt.float64)
    assert mt.equal(after, mt.rand(1))
