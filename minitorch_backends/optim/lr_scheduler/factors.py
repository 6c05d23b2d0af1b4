"""Schedules that are a factor for each epoch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

from ..optimizer import Optimizer
from .base import LRScheduler, for_each_group, number, whole

__all__ = [
    "ConstantLR", "CosineAnnealingLR", "ExponentialLR", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR",
    "PolynomialLR", "StepLR",
]  # fmt: skip


class _FactorLR(LRScheduler):
    """The rate is `eta_min` plus a factor times the excess of the first rate over it. Each step multiplies by the ratio
    of two factors, so that other schedules can act too."""

    _follows = True
    eta_min: float = 0.0

    def _factor_at(self, epoch: int) -> float:
        raise NotImplementedError

    def get_lr(self) -> list[float]:
        before = self._factor_at(self.last_epoch - 1) if self.last_epoch > 0 else 1.0
        factor = self._factor_at(self.last_epoch)
        if before == 0:
            return self._rates() if factor == 0 else self._at_epoch()
        ratio = factor / before
        return [rate if ratio == 1 else self.eta_min + (rate - self.eta_min) * ratio for rate in self._rates()]

    def _at_epoch(self) -> list[float]:
        factor = self._factor_at(self.last_epoch)
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]


class StepLR(_FactorLR):
    """Multiply the rate by `gamma` every `step_size` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        whole("step_size", step_size)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _factor_at(self, epoch: int) -> float:
        return self.gamma ** (epoch // self.step_size)


class MultiStepLR(_FactorLR):
    """Multiply the rate by `gamma` at each of the epochs `milestones`; a repeated epoch counts twice."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _factor_at(self, epoch: int) -> float:
        return self.gamma ** sum(times for milestone, times in self.milestones.items() if milestone <= epoch)


class ConstantLR(_FactorLR):
    """Multiply the first rate by `factor` until epoch `total_iters`."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        number("factor", factor, "a number between 0 and 1", 0 <= factor <= 1)
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor_at(self, epoch: int) -> float:
        return self.factor if epoch < self.total_iters else 1.0


class LinearLR(_FactorLR):
    """Multiply the first rate by a factor from `start_factor` to `end_factor`, linearly in `total_iters` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        number("start_factor", start_factor, "more than 0, and 1 at most", 0 < start_factor <= 1)
        number("end_factor", end_factor, "a number between 0 and 1", 0 <= end_factor <= 1)
        whole("total_iters", total_iters)
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor_at(self, epoch: int) -> float:
        done = min(epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * done


class ExponentialLR(_FactorLR):
    """Multiply the rate by `gamma` after each epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [rate * (self.gamma if self.last_epoch > 0 else 1.0) for rate in self._rates()]

    def _factor_at(self, epoch: int) -> float:
        return self.gamma**epoch


class PolynomialLR(_FactorLR):
    """Multiply the first rate by (1 - epoch / total_iters)**power, which is 0 from epoch `total_iters` on."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        whole("total_iters", total_iters)
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _factor_at(self, epoch: int) -> float:
        return (1 - min(epoch, self.total_iters) / self.total_iters) ** self.power


class CosineAnnealingLR(_FactorLR):
    """Lower the rate to `eta_min` in `T_max` epochs along half a cosine period, then raise it again (I. Loshchilov and
    F. Hutter, "SGDR: stochastic gradient descent with warm restarts", 2016)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        number("T_max", T_max, "a number above 0", T_max > 0)
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _factor_at(self, epoch: int) -> float:
        return (1 + math.cos(math.pi * epoch / self.T_max)) / 2 if epoch % (2 * self.T_max) != self.T_max else 0.0


class _LambdaLR(LRScheduler):
    """A schedule by a function of the epoch, or one for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = for_each_group(optimizer, "lr_lambda", lr_lambda)
        for each in self.lr_lambdas:
            if not callable(each):
                raise TypeError(f"lr_lambda is {each!r}; expected a function of the epoch")
        super().__init__(optimizer, last_epoch)


class LambdaLR(_LambdaLR):
    """Multiply the first rate by `lr_lambda(epoch)`."""

    def get_lr(self) -> list[float]:
        return [base * make(self.last_epoch) for base, make in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_LambdaLR):
    """Multiply the rate by `lr_lambda(epoch)` after each epoch."""

    _follows = True

    def get_lr(self) -> list[float]:
        if self.last_epoch <= 0:
            return self._rates()
        return [rate * make(self.last_epoch) for rate, make in zip(self._rates(), self.lr_lambdas, strict=True)]
