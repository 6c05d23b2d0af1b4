"""Stochastic gradient descent, and the same with an average of its steps (ASGD), with torch's formulas and options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from ..kernels.arrays import update_formulas
from ..tensor.tensor import Tensor
from . import update_formulas as formulas
from .optimizer import Formula, Optimizer, options_of, sign_of


class SGD(Optimizer):
    """Stochastic gradient descent: p -= lr * d, where d is the gradient plus weight_decay * p.

    With `momentum`, a buffer b = momentum * b + (1 - dampening) * d replaces d (b = d in the first step). With
    `nesterov`, d + momentum * b replaces it. `maximize` ascends.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, options_of(locals()))

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError(
                "Nesterov momentum requires a momentum above 0 and zero dampening, "
                f"got momentum={group['momentum']}, dampening={group['dampening']}"
            )

    def _buffers(self, group: dict[str, Any]) -> tuple[str | None, ...]:
        return ("momentum_buffer" if group["momentum"] else None,)

    def _formula(self, group: dict[str, Any], step: int, first: bool) -> Formula:
        constants = update_formulas.SgdConstants(
            lr=group["lr"],
            sign=-1 if group["maximize"] else 1,
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            kept=1 if first else 1 - group["dampening"],
            nesterov=bool(group["nesterov"]),
        )
        return Formula.of(update_formulas.sgd, constants, {})


class ASGD(Optimizer):
    """Stochastic gradient descent whose parameters are averaged from step `t0` on, in the state's "ax" (B. Polyak and
    A. Juditsky, "Acceleration of stochastic approximation by averaging", 1992).

    The rate falls as lr / (1 + lambd * lr * t)**alpha, and parameters decay by `lambd` times it. `weight_decay` adds
    weight_decay * p to the gradient. `maximize` ascends.
    """

    _numbers: ClassVar = {"step": int, "eta": float, "mu": float}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals()))

    def _buffers(self, group: dict[str, Any]) -> tuple[str | None, ...]:
        return ("ax",)

    def _formula(self, group: dict[str, Any], step: int, first: bool, *numbers: Any) -> Formula:
        lr, lambd = float(group["lr"]), group["lambd"]
        eta, mu = (lr, 1.0) if numbers[0] is None else numbers
        constants = formulas.ASGDConstants(eta, mu, sign_of(group), group["weight_decay"], lambd)
        after = {
            "step": step + 1,
            "eta": lr / (1 + lambd * lr * (step + 1)) ** group["alpha"],
            "mu": 1 / max(1, step + 1 - group["t0"]),
        }
        return Formula.of(formulas.asgd, constants, after)
