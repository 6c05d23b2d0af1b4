"""Schedules composed of other schedules."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, assign

__all__ = ["ChainedScheduler", "SequentialLR"]


def _check(optimizer: Optimizer | None, schedulers: Sequence[LRScheduler]) -> Optimizer:
    """The optimiser of all of them."""
    if not schedulers:
        raise ValueError("expected at least one scheduler, got none")
    for index, each in enumerate(schedulers):
        if not isinstance(each, LRScheduler):
            raise TypeError(f"schedulers[{index}] is {type(each).__name__}; expected an LRScheduler")
        if each.optimizer is not (optimizer or schedulers[0].optimizer):
            raise ValueError(f"schedulers[{index}] acts on another optimizer; expected one for all schedulers")
    return schedulers[0].optimizer


def _refuse_epoch(schedule: LRScheduler, epoch: Any) -> None:
    if epoch != 0:
        raise ValueError(
            f"{type(schedule).__name__}.step(): epoch must be None, or 0 to start again, got {epoch!r}; each of the "
            "schedulers counts its own"
        )


class _CompoundLR(LRScheduler):
    """A schedule that remembers what its parts, `_schedulers`, remember."""

    _schedulers: list[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """The state of the schedule and its parts: all attributes except the optimizer."""
        return super().state_dict() | {"_schedulers": [each.state_dict() for each in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of a schedule with the same parts. Raises ValueError for another number of parts."""
        states = state_dict["_schedulers"]
        if len(states) != len(self._schedulers):
            raise ValueError(
                f"the loaded state is of {len(states)} schedulers, and this one has {len(self._schedulers)}"
            )
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_schedulers"})
        for each, state in zip(self._schedulers, states, strict=True):
            each.load_state_dict(state)

    def _reset(self) -> None:
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            assign(group, "lr", base)  # what all parts did when they were made counts for nothing


class ChainedScheduler(_CompoundLR):
    """Step all of `schedulers` together."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self.optimizer, self._schedulers = _check(optimizer, schedulers), list(schedulers)
        self.last_epoch = self._schedulers[-1].last_epoch
        self.base_lrs = self._schedulers[-1].base_lrs
        self._last_lr = self._rates()

    def _begin(self) -> None:
        for each in self._schedulers:
            each._begin()
        self._last_lr = self._rates()

    def step(self, epoch: int | None = None) -> None:
        """A step of each, or a start with epoch 0. Raises ValueError for another epoch: each counts its own."""
        if epoch is not None:
            _refuse_epoch(self, epoch)
            self._reset()
            for each in self._schedulers:
                each.last_epoch = 0
            self.last_epoch = 0
            self._begin()
            return
        for each in self._schedulers:
            each.step()
        self.last_epoch += 1
        self._last_lr = self._rates()


class SequentialLR(_CompoundLR):
    """Run one of `schedulers` after the other. The next begins with its own epoch 0 at each of `milestones`."""

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        self.optimizer, self._schedulers = _check(optimizer, schedulers), list(schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"expected one milestone between each two of {len(schedulers)} schedulers, got {len(milestones)}"
            )
        if list(milestones) != sorted(milestones):
            raise ValueError(f"milestones must not fall, and are {list(milestones)}")
        self._milestones, self.last_epoch = list(milestones), last_epoch + 1
        self.base_lrs = self._schedulers[0].base_lrs
        self._reset()
        self._begin()

    def _begin(self) -> None:
        self._schedulers[self._turn()]._begin()  # not that before a milestone of 0
        self._last_lr = self._rates()

    def step(self, epoch: int | None = None) -> None:
        """A step of the schedule whose turn it is, or a start with epoch 0. Raises ValueError for another epoch."""
        if epoch is not None:
            _refuse_epoch(self, epoch)
            self._reset()
            self.last_epoch = 0
            self._schedulers[self._turn()].step(0)
            self._last_lr = self._rates()
            return
        self.last_epoch += 1
        turn = self._turn()
        begins = turn > 0 and self._milestones[turn - 1] == self.last_epoch
        self._schedulers[turn].step(0 if begins else None)
        self._last_lr = self._rates()

    def _turn(self) -> int:
        """The index of the active schedule at this epoch."""
        return bisect.bisect_right(self._milestones, self.last_epoch)
