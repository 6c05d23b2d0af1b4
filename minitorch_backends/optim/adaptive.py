"""Optimizers with a rate for each number, with torch's formulas: Adam, AdamW, RMSprop, Adagrad, Adadelta, Adamax,
RAdam, NAdam and Rprop."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from ..kernels.arrays import update_formulas
from ..tensor.tensor import Tensor
from . import update_formulas as formulas
from .optimizer import Formula, Optimizer, options_of, sign_of


class RMSprop(Optimizer):
    """p -= lr * g / (sqrt(v) + eps), v being a mean of squares of the gradient g (G. Hinton, "Neural networks for
    machine learning", lecture 6, 2012).

    `alpha` is the weight of the past in v; `centered` subtracts the square of the mean from it. With `momentum` a
    buffer b = momentum * b + g / (sqrt(v) + eps) is taken. `weight_decay` adds weight_decay * p to the gradient.
    `maximize` ascends.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals()))

    def _buffers(self, group: dict[str, Any]) -> tuple[str | None, ...]:
        momentum = "momentum_buffer" if group["momentum"] else None
        return "square_avg", momentum, "grad_avg" if group["centered"] else None

    def _formula(self, group: dict[str, Any], step: int, first: bool) -> Formula:
        constants = formulas.RMSpropConstants(
            group["lr"], sign_of(group), group["weight_decay"], group["alpha"], group["eps"], group["momentum"]
        )
        return Formula.of(formulas.rmsprop, constants, {"step": step + 1})


class Adagrad(Optimizer):
    """p -= lr * g / (sqrt(s) + eps), s being the sum of squares of the gradient g (J. Duchi, E. Hazan and Y. Singer,
    "Adaptive subgradient methods for online learning and stochastic optimization", 2011).

    The rate of step t is lr / (1 + (t - 1) * lr_decay), and s begins at `initial_accumulator_value`. `weight_decay`
    adds weight_decay * p to the gradient. `maximize` ascends.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, options_of(locals()))

    def _buffers(self, group: dict[str, Any]) -> tuple[str | None, ...]:
        return ("sum",)

    def _formula(self, group: dict[str, Any], step: int, first: bool) -> Formula:
        start = group["initial_accumulator_value"] if first else 0
        lr = group["lr"] / (1 + step * group["lr_decay"])
        constants = formulas.AdagradConstants(lr, sign_of(group), group["weight_decay"], group["eps"], start)
        return Formula.of(formulas.adagrad, constants, {"step": step + 1})


class Adadelta(Optimizer):
    """p -= lr * sqrt(u + eps) / sqrt(v + eps) * g, with v and u running means of squares of the gradient g and of the
    updates over lr (M. Zeiler, "ADADELTA: an adaptive learning rate method", 2012).

    `rho` is the weight of the past in both. `weight_decay` adds weight_decay * p to the gradient. `maximize` ascends.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals()))

    def _buffers(self, group: dict[str, Any]) -> tuple[str | None, ...]:
        return "square_avg", "acc_delta"

    def _formula(self, group: dict[str, Any], step: int, first: bool) -> Formula:
        constants = formulas.AdadeltaConstants(
            group["lr"], sign_of(group), group["weight_decay"], group["rho"], group["eps"]
        )
        return Formula.of(formulas.adadelta, constants, {"step": step + 1})


class Adamax(Optimizer):
    """`Adam` with the largest gradient, which fades, in place of the root of the mean of squares (D. Kingma and J. Ba,
    "Adam: a method for stochastic optimization", 2014, section 7)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals()))

    def _buffers(self, group: dict[str, Any]) -> tuple[str | None, ...]:
        return "exp_avg", "exp_inf"

    def _formula(self, group: dict[str, Any], step: int, first: bool) -> Formula:
        beta1, beta2 = group["betas"]
        size = group["lr"] / (1 - beta1 ** (step + 1))
        constants = formulas.AdamaxConstants(
            size, sign_of(group), group["weight_decay"], 1 - beta1, beta2, group["eps"]
        )
        return Formula.of(formulas.adamax, constants, {"step": step + 1})


class RAdam(Optimizer):
    """`Adam` with a rectified second moment: it divides by the root mean square only as far as that is certain, and not
    at all in the first steps (L. Liu et al., "On the variance of the adaptive learning rate and beyond", 2019).

    With `decoupled_weight_decay` weights decay by the factor 1 - lr * weight_decay in each step.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals()))

    def _buffers(self, group: dict[str, Any]) -> tuple[str | None, ...]:
        return "exp_avg", "exp_avg_sq"

    def _formula(self, group: dict[str, Any], step: int, first: bool) -> Formula:
        step += 1
        beta1, beta2 = group["betas"]
        lr, weight_decay, decoupled = group["lr"], group["weight_decay"], group["decoupled_weight_decay"]
        longest, left = 2 / (1 - beta2) - 1, 1 - beta2**step
        length = longest - 2 * step * beta2**step / left
        certain = length > 5
        rectified = 1.0
        if certain:
            ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            rectified = math.sqrt(ratio * left)
        constants = formulas.RAdamConstants(
            size=lr / (1 - beta1**step),
            scale=rectified,
            sign=sign_of(group),
            decay=1 - lr * weight_decay if decoupled else 1,
            weight_decay=0 if decoupled else weight_decay,
            rise=1 - beta1,
            beta2=beta2,
            eps=group["eps"],
            certain=certain,
        )
        return Formula.of(formulas.radam, constants, {"step": step})


class NAdam(Optimizer):
    """`Adam` with Nesterov's momentum, which grows from half of beta1 to it (T. Dozat, "Incorporating Nesterov momentum
    into Adam", 2016).

    `momentum_decay` is the rate of that growth. With `decoupled_weight_decay` weights decay by the factor
    1 - lr * weight_decay in each step.
    """

    _numbers: ClassVar = {"step": int, "mu_product": float}

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals()))

    def _buffers(self, group: dict[str, Any]) -> tuple[str | None, ...]:
        return "exp_avg", "exp_avg_sq"

    def _formula(self, group: dict[str, Any], step: int, first: bool, *numbers: Any) -> Formula:
        (product,), step = numbers, step + 1
        beta1, beta2 = group["betas"]
        lr, weight_decay, decoupled = group["lr"], group["weight_decay"], group["decoupled_weight_decay"]
        mu, after = (beta1 * (1 - 0.5 * 0.96 ** (each * group["momentum_decay"])) for each in (step, step + 1))
        product = mu if product is None else product * mu
        constants = formulas.NAdamConstants(
            of_gradient=lr * (1 - mu) / (1 - product),
            of_mean=lr * after / (1 - product * after),
            scale=1 / (1 - beta2**step),
            sign=sign_of(group),
            decay=1 - lr * weight_decay if decoupled else 1,
            weight_decay=0 if decoupled else weight_decay,
            rise=1 - beta1,
            beta2=beta2,
            eps=group["eps"],
        )
        return Formula.of(formulas.nadam, constants, {"step": step, "mu_product": float(product)})


class Rprop(Optimizer):
    """Resilient backpropagation: an individual step size per element (M. Riedmiller and H. Braun, "A direct adaptive
    method for faster backpropagation learning: the RPROP algorithm", 1993).

    A step size grows by etas[1] while the gradient keeps its sign, and shrinks by etas[0] when the sign changes. Step
    sizes start at `lr` and stay within `step_sizes`. `maximize` ascends.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals()))

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        if not 0 < group["etas"][0] < 1 < group["etas"][1]:
            raise ValueError(f"Rprop(): etas must be below and above 1, got {group['etas']}")

    def _buffers(self, group: dict[str, Any]) -> tuple[str | None, ...]:
        return "prev", "step_size"

    def _formula(self, group: dict[str, Any], step: int, first: bool, *numbers: Any) -> Formula:
        (shrink, grow), (least, most), start = group["etas"], group["step_sizes"], group["lr"] if first else 0
        constants = formulas.RpropConstants(sign_of(group), 0, shrink, grow, least, most, start)
        return Formula.of(formulas.rprop, constants, {"step": step + 1})


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
