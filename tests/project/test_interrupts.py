"""Ctrl-C at the start of any function of the package: no scope of its own stays open, and nothing is poisoned.

Python delivers signals where functions start, so each such place of a call is tried in turn.
"""

import contextvars
import sys
from collections.abc import Callable
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain, lab, nn
from minitorch_backends.autograd import forward_ad, inference
from minitorch_backends.autograd.extras import module_scope, saved_tensors
from minitorch_backends.func import batched
from minitorch_backends.kernels import registry
from minitorch_backends.kernels.runtime import context
from minitorch_backends.tensor import instrumentation
from minitorch_backends.utils.checkpoint import checkpoint

from ..support.autograd import make_function

PACKAGE = ("minitorch_backends", "/kernels/", "contextlib")


def interrupt(call: Callable[[], Any], number: int) -> int:
    """Call, and raise KeyboardInterrupt at the start of the number-th function; returns how many started."""
    count = 0

    def at(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        if event == "call" and any(part in frame.f_code.co_filename for part in PACKAGE):
            count += 1
            if count == number:
                sys.setprofile(None)
                raise KeyboardInterrupt

    before, sys.unraisablehook = sys.unraisablehook, lambda _: None  # of generators that are closed as they are freed
    sys.setprofile(at)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
        sys.unraisablehook = before
    return count


def variables() -> list[Any]:
    return [each.variable.get() for each in context.restorables]


def counts() -> dict[str, int]:
    """The sums over all threads by which calls look for scopes."""
    return {
        "observers": registry.observing, "instrumentation": instrumentation.active,
        "hooks": saved_tensors._blocks, "modules": module_scope.following,
        "autocast": sys.modules[mt.autocast.__module__]._blocks, "inference": inference._blocks,
        "vmap": batched._running, "duals": forward_ad._blocks,
    }  # fmt: skip


Doubled = make_function(lambda ctx, x: x * 2, lambda ctx, g: g * 2)


def _model() -> nn.Module:
    mt.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))


def _calls() -> dict[str, Callable[[], Any]]:
    x, w, a = mt.randn(4, 6), mt.ones(4, 4, requires_grad=True), mt.eye(12) * 3 + mt.ones(12, 12)
    model, ruled = _model(), _model()
    nn.utils.run_under(ruled, lab.Policy({"*": "bf16", "2": "tf32"}))
    nn.utils.run_under(ruled, mt.autocast("cpu", dtype=mt.bfloat16))
    others = {name: value * 2 for name, value in model.state_dict().items()}
    optimizer = mt.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)

    def train() -> None:
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()

    @mt.autocast("cpu", dtype=mt.bfloat16)
    @mt.inference_mode()
    def infer() -> mt.Tensor:
        return model(x)

    def recompute() -> None:
        checkpoint(lambda u: (u @ u).tanh(), w, use_reentrant=False).sum().backward()

    def recompute_reentrant() -> None:
        checkpoint(lambda u: (u @ u).tanh(), w, use_reentrant=True).sum().backward()

    def follow() -> None:
        with lab.Policy({"*": "bf16"}):
            ruled(x)

    return {
        "why": lambda: explain.why("matmul", w, w),
        "solve": lambda: mt.linalg.solve(a, a),
        "cholesky": lambda: mt.linalg.cholesky(a),
        "svdvals": lambda: mt.linalg.svdvals(a),
        "checkpoint": recompute,
        "reentrant checkpoint": recompute_reentrant,
        "training step": train,
        "modules under scopes": lambda: ruled(x),
        "functional_call": lambda: mt.func.functional_call(model, others, (x,)),
        "decorated by modes": infer,
        "init": lambda: nn.init.orthogonal_(mt.empty(5, 5)),
        "out=": lambda: mt.matmul(a, a, out=mt.empty(12, 12)),
        "jvp": lambda: mt.func.jvp(lambda u: (u @ u).sin(), (a,), (a,)),
        "vmap": lambda: mt.func.vmap(lambda u: (u * u.sum()).sort().values)(a),
        "linearize": lambda: mt.func.linearize(lambda u: u @ u, a)[1](a),
        "hessian": lambda: mt.autograd.functional.vhp(lambda u: (u @ u).sum(), a, a),
        "function": lambda: Doubled.apply(w).sum().backward(),
        "gradients of conv": lambda: nn.functional.conv2d(
            w.reshape(1, 1, 4, 4), mt.ones(2, 1, 2, 2, requires_grad=True)
        ).sum().backward(),
        "sensitivity": lambda: explain.sensitivity(nn.Linear(6, 4), x, precisions=["bf16"]),
    }  # fmt: skip


CALLS = list(_calls())
MOST, LAST = 160, 24
"""Places that are tried of one call, spread evenly over all of them, and the last ones, where scopes end."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_no_scope_stays_open(name: str):
    call = _calls()[name]
    call()  # compiled and imported
    total = interrupt(call, 0)
    wrong = []

    def one(number: int) -> None:
        before, summed = variables(), counts()
        interrupt(call, number)
        left = [
            each.variable.name
            for each, old, new in zip(context.restorables, before, variables(), strict=True)
            if old is not new
        ]
        wrong.extend((number, each) for each in left)
        wrong.extend((number, key) for key, value in counts().items() if value != summed[key])

    for number in [*range(1, total, max(1, total // MOST)), *range(total - LAST, total + 1)]:
        contextvars.copy_context().run(one, number)
    assert not wrong
    with explain.record() as log:
        (mt.ones(8, 8, requires_grad=True) @ mt.ones(8, 8)).sum().backward()
    assert [(each.kernel, each.precision) for each in log][:1] == [("matmul", "ieee")]
    assert mt.is_grad_enabled()
    assert backends.fp32_precision == "none"


def test_functional_call_puts_parameters_back_everywhere():
    model, x = _model().eval(), mt.randn(4, 6)
    others = {name: value * 2 for name, value in model.state_dict().items()}
    own = dict(model.named_parameters())
    number = 1
    while interrupt(lambda: mt.func.functional_call(model, others, (x,)), number) >= number:
        assert all(value is own[name] for name, value in model.named_parameters()), number
        number += 1
    assert number > 10
