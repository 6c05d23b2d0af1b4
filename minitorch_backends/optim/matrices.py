"""Optimizers of matrices: Adafactor, whose state has the size of rows and columns, and Muon, whose moves have
orthogonal rows or columns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..autograd.modes import no_grad
from ..kernels.runtime.context import restore_on_failure
from ..ops.creation.factories import zeros, zeros_like
from ..ops.limits import finfo
from ..tensor.dtypes import COMPLEX, bfloat16
from ..tensor.tensor import Tensor
from .optimizer import Optimizer, options_of


class _OfMatrices(Optimizer):
    """An optimizer that updates one parameter after the other by operations of tensors."""

    @restore_on_failure
    def _update(self) -> None:
        with no_grad():
            for group, parameter in self._parameters():
                if parameter.grad is not None:
                    self._move(group, parameter, parameter.grad, self.state[parameter])

    def _move(self, group: dict[str, Any], parameter: Tensor, gradient: Tensor, state: dict[str, Any]) -> None:
        raise NotImplementedError


class Adafactor(_OfMatrices):
    """Adaptive rates from means of squared gradients, stored as row and column means over the last two dimensions (N.
    Shazeer and M. Stern, "Adafactor: adaptive learning rates with sublinear memory cost", 2018).

    The rate of step t is at most 1 / sqrt(t), times the root mean square of the parameter (at least eps[1]). The weight
    of the past grows with t**beta2_decay. Updates with a root mean square above `d` are scaled down to it. eps[0]
    defaults to the dtype's. Weights decay by the factor 1 - lr * weight_decay in each step. `maximize` ascends.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals()))

    def _check(self, group: dict[str, Any]) -> None:
        least, share = group["eps"]
        super()._check(group | {"eps": 0})
        if not ((least is None or least >= 0) and share >= 0 and group["d"] >= 1 and group["beta2_decay"] <= 0):
            raise ValueError(
                "Adafactor(): eps must be at least 0, d at least 1 and beta2_decay at most 0, got "
                f"{group['eps']}, {group['d']} and {group['beta2_decay']}"
            )

    def _state_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        shapes = {"row_var": (*shape[:-1], 1), "col_var": (*shape[:-2], 1, *shape[-1:])}
        return shapes.get(name, shape)

    def _move(self, group: dict[str, Any], parameter: Tensor, gradient: Tensor, state: dict[str, Any]) -> None:
        if parameter.dtype.category == COMPLEX:
            raise RuntimeError("Adafactor does not support complex parameters; optimize view_as_real(parameter)")
        gradient = -gradient if group["maximize"] else gradient
        names = ("row_var", "col_var") if gradient.ndim > 1 else ("variance",)
        for name in names:
            if name not in state:
                state[name] = zeros(self._state_shape(name, tuple(gradient.shape)), dtype=gradient.dtype)
        step = state["step"] = state.get("step", 0) + 1
        least, share = group["eps"]
        least = finfo(parameter.dtype).eps if least is None else least
        lr, weight = float(group["lr"]), step ** group["beta2_decay"]
        size = parameter.norm(2).item() / math.sqrt(parameter.numel() or 1)
        if group["weight_decay"]:
            parameter.mul_(1 - lr * group["weight_decay"])
        squares = gradient * gradient
        if gradient.ndim > 1:
            rows = state["row_var"].lerp_(squares.mean(-1, keepdim=True), weight)
            columns = state["col_var"].lerp_(squares.mean(-2, keepdim=True), weight)
            spread = rows * columns / rows.mean(-2, keepdim=True).clamp(min=least)
        else:
            spread = state["variance"].lerp_(squares, weight)
        move = gradient * spread.clamp(min=least * least).rsqrt()
        excess = max(1.0, move.norm(2).item() / (math.sqrt(move.numel() or 1) * group["d"]))
        parameter.add_(move, alpha=-max(share, size) * min(lr, step**-0.5) / excess)


class Muon(_OfMatrices):
    """Momentum whose moves are made orthogonal by a few steps of Newton and Schulz's iteration, in bfloat16 (K. Jordan
    et al., "Muon: an optimizer for hidden layers in neural networks", 2024). For matrices; other parameters need
    another optimizer.

    `adjust_lr_fn` scales the rate by the shape: "original" by sqrt(max(1, rows / columns)), "match_rms_adamw" by
    0.2 sqrt(max(rows, columns)). Weights decay by the factor 1 - lr * weight_decay in each step.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        super().__init__(params, options_of(locals()))

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if group["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                f"Muon(): adjust_lr_fn must be None, 'original' or 'match_rms_adamw', got {group['adjust_lr_fn']!r}"
            )
        if group["ns_steps"] >= 100 or len(group["ns_coefficients"]) != 3:
            raise ValueError("Muon(): ns_steps must be below 100, and ns_coefficients three numbers")
        shapes = [list(each.shape) for each in group["params"] if each.ndim != 2 or each.is_complex()]
        if shapes:
            raise ValueError(f"Muon(): parameters must be real matrices, got one of shape {shapes[0]}")

    def _move(self, group: dict[str, Any], parameter: Tensor, gradient: Tensor, state: dict[str, Any]) -> None:
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = zeros_like(gradient)
        mean = state["momentum_buffer"].lerp_(gradient, 1 - group["momentum"])
        mean = gradient.lerp(mean, group["momentum"]) if group["nesterov"] else mean
        move = _orthogonal(mean, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = parameter.shape
        by_size = group["adjust_lr_fn"] == "match_rms_adamw"
        factor = 0.2 * math.sqrt(max(rows, columns)) if by_size else math.sqrt(max(1, rows / columns))
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.add_(move.to(parameter.dtype), alpha=-group["lr"] * factor)


def _orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """A matrix with nearly the singular vectors of this one, and singular values near 1."""
    a, b, c = coefficients
    x = matrix.to(bfloat16)
    x = x.mT if matrix.shape[0] > matrix.shape[1] else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = x.addmm(gram.addmm(gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if matrix.shape[0] > matrix.shape[1] else x
