"""What is computed again uses the flags, policies, autocast state and random numbers of the first time."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

import minitorch_backends as mt
from minitorch_backends import backends, lab, nn
from minitorch_backends.utils.checkpoint import checkpoint

SCOPES: dict[str, Callable[[], Any]] = {
    "tf32": lambda: backends.flags(fp32_precision="tf32"),
    "one family": lambda: backends.cuda.matmul.flags(fp32_precision="tf32"),
    "scaled": lambda: backends.flags(fp32_precision="mxfp8"),
    "device": lambda: backends.flags(fp32_precision="tf32", profile="a100"),
    "stochastic": lambda: backends.flags(fp32_precision="mxfp8", scaled_rounding="stochastic"),
    "policy": lambda: lab.Policy({"*": "bf16", "3": "tf32"}),
    "gradients": lambda: backends.flags(input_gradient_precision="bf16", weight_gradient_precision="tf32"),
    "recorded": lambda: backends.flags(fp32_precision="bf16", backward_precision="recorded"),
    "autocast": lambda: mt.autocast("cpu", dtype=mt.bfloat16),
    "autocast without a cache": lambda: mt.autocast("cpu", dtype=mt.float16, cache_enabled=False),
}


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 48))


def _gradients(scope: Any, run: Callable[..., Any], around_backward: Any = None) -> list[mt.Tensor]:
    mt.manual_seed(3)
    model, x = _model(), mt.randn(16, 48, requires_grad=True)
    with scope:
        loss = run(model, x).float().square().mean()
    with around_backward or contextlib.nullcontext():
        loss.backward()
    return [loss.detach(), x.grad, *(each.grad for each in model.parameters()), mt.rand(1)]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("name", SCOPES)
def test_a_checkpoint_changes_no_bit(name: str, reentrant: bool):
    """Backward runs outside of the scope, as in every training loop."""
    whole = _gradients(SCOPES[name](), lambda model, x: model(x))
    again = _gradients(SCOPES[name](), lambda model, x: checkpoint(model, x, use_reentrant=reentrant))
    assert [mt.equal(a, b) for a, b in zip(whole, again, strict=True)] == [True] * len(whole)


@pytest.mark.parametrize("reentrant", [False, True])
def test_the_scopes_of_backward_are_those_of_gradients_only(reentrant: bool):
    """Neither its flags nor `backward_precision` reach the recomputed forward pass."""
    for around in (
        lambda: backends.flags(fp32_precision="bf16"),
        lambda: backends.flags(backward_precision="bf16"),
        lambda: mt.autocast("cpu", dtype=mt.bfloat16),
    ):
        whole = _gradients(contextlib.nullcontext(), lambda model, x: model(x), around())
        again = _gradients(
            contextlib.nullcontext(), lambda model, x: checkpoint(model, x, use_reentrant=reentrant), around()
        )
        assert all(map(mt.equal, whole, again))


@pytest.mark.parametrize("reentrant", [False, True])
def test_assigned_flags_count_as_well(reentrant: bool):
    before = backends.snapshot()

    def gradients(run: Callable[..., Any]) -> list[mt.Tensor]:
        mt.manual_seed(3)
        model, x = _model(), mt.randn(16, 48, requires_grad=True)
        try:
            backends.fp32_precision = "bf16"
            loss = run(model, x).square().mean()
            backends.restore(before)
            loss.backward()
        finally:
            backends.restore(before)
        return [each.grad for each in model.parameters()]

    whole, again = (
        gradients(lambda model, x: model(x)),
        gradients(lambda m, x: checkpoint(m, x, use_reentrant=reentrant)),
    )
    assert all(map(mt.equal, whole, again))
    assert backends.snapshot() == before


def test_a_checkpoint_inside_a_model_keeps_names_of_modules():
    """A policy chooses by the name in the whole model, also when only a part runs again."""

    class Outer(nn.Module):
        def __init__(self, use: bool) -> None:
            super().__init__()
            mt.manual_seed(1)
            self.first, self.second, self.use = nn.Linear(40, 40), _model_of(40), use

        def forward(self, x: mt.Tensor) -> mt.Tensor:
            x = self.first(x)
            return checkpoint(self.second, x, use_reentrant=False) if self.use else self.second(x)

    def _model_of(size: int) -> nn.Module:
        return nn.Sequential(nn.Linear(size, size), nn.Tanh(), nn.Linear(size, size))

    found = []
    for use in (False, True):
        model, x = Outer(use), mt.linspace(-1, 1, 160).reshape(4, 40)
        with lab.Policy({"second.0": "bf16", "second.2": "tf32"}):
            loss = model(x).square().sum()
        loss.backward()
        found.append([each.grad for each in model.parameters()])
    assert all(map(mt.equal, *found))


def test_linearized_functions_keep_their_flags():
    x, v = mt.linspace(-1, 1, 40 * 40).reshape(40, 40), mt.linspace(0, 1, 1600).reshape(40, 40).tanh()
    w = mt.linspace(2, -1, 1600).reshape(40, 40)
    with backends.flags(fp32_precision="bf16"):
        _, along = mt.func.linearize(lambda u: (u @ w).tanh() @ u, x)
        inside = along(v)
        whole = mt.func.jvp(lambda u: (u @ w).tanh() @ u, (x,), (v,))[1]
    assert mt.equal(along(v), inside)
    assert mt.allclose(inside, whole, rtol=1e-4, atol=1e-4)
    assert not mt.equal(inside, mt.func.jvp(lambda u: (u @ w).tanh() @ u, (x,), (v,))[1])


def test_a_replay_that_fails_leaves_nothing_open():
    calls = []

    def fails_later(x: mt.Tensor) -> mt.Tensor:
        calls.append(1)
        if len(calls) > 1:
            raise ValueError("the second time")
        return (x @ x).tanh()

    with backends.flags(fp32_precision="bf16"), mt.autocast("cpu", dtype=mt.bfloat16):
        y = checkpoint(fails_later, mt.ones(3, 3, requires_grad=True), use_reentrant=False).sum()
    with pytest.raises(ValueError, match="the second time"):
        y.backward()
    assert not mt.is_autocast_enabled("cpu")
    assert (mt.ones(2, 2) @ mt.ones(2, 2)).dtype != mt.bfloat16
    assert mt.explain.precision_of("matmul").precision == "ieee"
