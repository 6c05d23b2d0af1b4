"""The schedule that looks at what training achieves."""

from __future__ import annotations

import math
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, for_each_group, number

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rates by `factor` when the metric passed to `step` has not improved for more than `patience` epochs.

    A metric improves if it is below (`mode` "min") or above ("max") the best one so far by `threshold`, relative
    ("rel") or
    absolute ("abs"). After a reduction, bad epochs do not count for `cooldown` epochs. Rates stay at or above `min_lr`;
    reductions smaller than `eps` are skipped.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        number("factor", factor, "less than 1", factor < 1)
        number("mode", mode, "'min' or 'max'", mode in ("min", "max"))
        number("threshold_mode", threshold_mode, "'rel' or 'abs'", threshold_mode in ("rel", "abs"))
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.min_lrs = for_each_group(optimizer, "min_lr", min_lr)
        self.base_lrs = self._rates()
        self.last_epoch = 0
        self._last_lr = self._rates()
        self._reset()

    def _reset(self) -> None:
        self.best = math.inf if self.mode == "min" else -math.inf
        self.cooldown_counter, self.num_bad_epochs = 0, 0

    @property
    def in_cooldown(self) -> bool:
        """Whether bad epochs do not count."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether a metric improves on the best one."""
        sign = 1 if self.mode == "max" else -1
        limit = best * (1 + sign * self.threshold) if self.threshold_mode == "rel" else best + sign * self.threshold
        return sign * a > sign * limit

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Look at the metric of an epoch, a number or a tensor of one, and reduce the rates if it is time."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            reduced = [max(rate * self.factor, low) for rate, low in zip(self._rates(), self.min_lrs, strict=True)]
            rates = zip(self._rates(), reduced, strict=True)
            self._set([new if old - new > self.eps else old for old, new in rates])
        self._last_lr = self._rates()
