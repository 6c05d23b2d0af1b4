"""Schedules that rise and fall, and set rates of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, assign, for_each_group, number, whole

__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Lower the rate to `eta_min` in `T_0` epochs along half a cosine period, then restart at the first rate
    for `T_mult` times as many (I. Loshchilov and F. Hutter, "SGDR: stochastic gradient descent with warm restarts",
    2016).

    Attributes:
        T_i: epochs between the last restart and the next.
        T_cur: epochs since the last restart.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        whole("T_0", T_0)
        whole("T_mult", T_mult)
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def step(self, epoch: float | None = None) -> None:
        """Set the rates for the next epoch, or for `epoch`, which may be fractional: epoch + batch / batches. Raises
        ValueError for a negative one."""
        if epoch is not None and epoch < 0:
            raise ValueError(f"expected an epoch of at least 0, got {epoch}")
        super().step(epoch)  # type: ignore[arg-type]
        self.last_epoch = math.floor(self.last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of the groups for `last_epoch`."""
        self.T_cur, self.T_i = float(self.last_epoch), self.T_0
        if self.T_mult == 1:
            self.T_cur %= self.T_0
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class _MomentumLR(LRScheduler):
    """A schedule of rates and, with `cycle_momentum`, of momentum."""

    cycle_momentum: bool

    def _find_momentum(self, optimizer: Optimizer) -> None:
        if self.cycle_momentum and not any(name in optimizer.defaults for name in ("momentum", "betas")):
            raise ValueError(
                f"{type(optimizer).__name__} has no momentum and no betas; {type(self).__name__} with "
                "cycle_momentum=True needs one of them"
            )

    def _set_momenta(self, momenta: Sequence[float]) -> None:
        for group, momentum in zip(self.optimizer.param_groups, momenta, strict=True):
            if "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
            else:
                assign(group, "momentum", momentum)


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * share))


def _line(start: float, end: float, share: float) -> float:
    return start + (end - start) * share


_ANNEALED: dict[str, Callable[[float, float, float], float]] = {"cos": _cosine, "linear": _line}


class OneCycleLR(_MomentumLR):
    """Increase the rate from `max_lr / div_factor` to `max_lr` over the share `pct_start` of all steps, then decrease
    it.

    The final rate is the first one over `final_div_factor`. The pieces are cosines or lines. With `three_phase` the
    rate first returns to its start, symmetrically. Momentum moves in the opposite direction (L. Smith and N. Topin,
    "Super-convergence: very fast training of neural networks using large learning rates", 2017). There are
    `total_steps` steps, or `epochs` times `steps_per_epoch`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("expected total_steps, or epochs and steps_per_epoch, got neither")
            whole("epochs", epochs)
            whole("steps_per_epoch", steps_per_epoch)
            total_steps = epochs * steps_per_epoch
        whole("total_steps", total_steps)
        number("pct_start", pct_start, "a number between 0 and 1", 0 <= pct_start <= 1)
        number("anneal_strategy", anneal_strategy, "'cos' or 'linear'", anneal_strategy in _ANNEALED)
        self.total_steps, self._anneal_func_type, self.cycle_momentum = total_steps, anneal_strategy, cycle_momentum
        rise = float(pct_start * total_steps) - 1
        self._schedule_phases = [_phase(rise, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            self._schedule_phases += [
                _phase(2 * rise, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                _phase(total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self._schedule_phases += [_phase(total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        highest = for_each_group(optimizer, "max_lr", max_lr)
        self._find_momentum(optimizer)
        low = for_each_group(optimizer, "base_momentum", base_momentum)
        high = for_each_group(optimizer, "max_momentum", max_momentum)
        for group, rate, least, most in zip(optimizer.param_groups, highest, low, high, strict=True):
            first = rate / div_factor
            ends = {"initial_lr": first, "max_lr": rate, "min_lr": first / final_div_factor}
            ends |= {"base_momentum": least, "max_momentum": most} if cycle_momentum else {}
            group.update(ends if last_epoch == -1 else ends | group)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of the groups for step `last_epoch`. Raises ValueError beyond the last one."""
        if self.last_epoch > self.total_steps:
            raise ValueError(f"step {self.last_epoch} is beyond the {self.total_steps} steps of this schedule")
        ends = [float(phase["end_step"]) for phase in self._schedule_phases]
        number = next((number for number, end in enumerate(ends) if self.last_epoch <= end), len(ends) - 1)
        begin = ends[number - 1] if number else 0.0
        length = ends[number] - begin
        share = (self.last_epoch - begin) / length if length else 1.0
        if self.cycle_momentum:
            self._set_momenta(self._between("momentum", number, share))
        return self._between("lr", number, share)

    def _between(self, what: str, number: int, share: float) -> list[float]:
        anneal, phase = _ANNEALED[self._anneal_func_type], self._schedule_phases[number]
        start, end = phase[f"start_{what}"], phase[f"end_{what}"]
        return [anneal(group[start], group[end], share) for group in self.optimizer.param_groups]


def _phase(end_step: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str) -> dict[str, Any]:
    """A part of the cycle, which ends at a step: the options of groups between which rate and momentum go."""
    return {
        "end_step": end_step,
        "start_lr": start_lr,
        "end_lr": end_lr,
        "start_momentum": start_momentum,
        "end_momentum": end_momentum,
    }


_SCALES: dict[str, tuple[Callable[[float, float], float], str]] = {
    "triangular": (lambda gamma, x: 1.0, "cycle"),
    "triangular2": (lambda gamma, x: 2.0 ** (1 - x), "cycle"),
    "exp_range": (lambda gamma, x: gamma**x, "iterations"),
}
"""The factor of a cycle's height, and its argument."""


class CyclicLR(_MomentumLR):
    """Cycle the rate linearly: from `base_lr` to `max_lr` in `step_size_up` steps, and back in `step_size_down`.

    Momentum moves in the opposite direction (L. Smith, "Cyclical learning rates for training neural networks", 2015).
    `mode` determines how the height of cycles decreases: not at all ("triangular"), by a half each ("triangular2"), or
    by `gamma` per step ("exp_range"). Alternatively `scale_fn` gives it, from the cycle number or the step
    ("iterations").
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        number("mode", mode, f"one of {', '.join(_SCALES)}, or a scale_fn", mode in _SCALES or scale_fn is not None)
        number("scale_mode", scale_mode, "'cycle' or 'iterations'", scale_mode in ("cycle", "iterations"))
        number("step_size_up", step_size_up, "more than 0", step_size_up > 0)
        self.mode, self.gamma, self.cycle_momentum = mode, gamma, cycle_momentum
        self._scale_fn_custom, self.scale_mode = scale_fn, scale_mode if scale_fn else _SCALES[mode][1]
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.max_lrs = for_each_group(optimizer, "max_lr", max_lr)
        self._find_momentum(optimizer)
        self.base_momentums = for_each_group(optimizer, "base_momentum", base_momentum)
        self.max_momentums = for_each_group(optimizer, "max_momentum", max_momentum)
        rates = for_each_group(optimizer, "base_lr", base_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["initial_lr"] = rate
        super().__init__(optimizer, last_epoch)
        self.base_lrs = rates
        self._set(self.get_lr())

    def scale_fn(self, x: float) -> float:
        """The factor of the height of cycle x, or at step x."""
        return _SCALES[self.mode][0](self.gamma, x) if self._scale_fn_custom is None else self._scale_fn_custom(x)

    def get_lr(self) -> list[float]:
        """The rates of the groups for step `last_epoch`."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        done = 1 + self.last_epoch / self.total_size - cycle
        height = done / self.step_ratio if done <= self.step_ratio else (done - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            spans = zip(self.max_momentums, self.base_momentums, strict=True)
            self._set_momenta([high - (high - low) * height for high, low in spans])
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]
