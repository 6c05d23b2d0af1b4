"""Optimisers: SGD, Adam and AdamW, with torch's formulas and options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..kernels.arrays import update_formulas
from ..tensor.tensor import Tensor
from .optimizer import Formula, Optimizer, options_of


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


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2014): p -= lr * m / (sqrt(v) + eps), m and v being means of the gradient and of its square.

    The means, which start at 0, are corrected for that. `betas` are the weights of the past in m and v. `weight_decay`
    adds weight_decay * p to the gradient, or with `decoupled_weight_decay` is that of `AdamW`. With `amsgrad` v is the
    largest so far (Reddi et al., 2018). `maximize` ascends.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals()))

    def _buffers(self, group: dict[str, Any]) -> tuple[str | None, ...]:
        return "exp_avg", "exp_avg_sq", "max_exp_avg_sq" if group["amsgrad"] else None

    def _formula(self, group: dict[str, Any], step: int, first: bool) -> Formula:
        step += 1
        lr, weight_decay, decoupled = group["lr"], group["weight_decay"], group["decoupled_weight_decay"]
        beta1, beta2 = group["betas"]
        constants = update_formulas.AdamConstants(
            size=lr / (1 - beta1**step),
            scale=1 / (1 - beta2**step) ** 0.5,
            eps=group["eps"],
            sign=-1 if group["maximize"] else 1,
            decay=1 - lr * weight_decay if decoupled else 1,
            weight_decay=0 if decoupled else weight_decay,
            rise=1 - beta1,
            beta2=beta2,
            rise_of_squares=1 - beta2,
        )
        return Formula.of(update_formulas.adam, constants, {"step": step})


class AdamW(Adam):
    """`Adam` whose weights decay by the factor 1 - lr * weight_decay in each step (Loshchilov and Hutter, 2017)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(**options_of(locals()), params=params, decoupled_weight_decay=True)
