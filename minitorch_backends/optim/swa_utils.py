"""Averages of a model's parameters over training: stochastic weight averaging (P. Izmailov et al., arXiv 1803.05407)
and exponential moving averages."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

from ..autograd.modes import no_grad
from ..nn.module import Module
from ..nn.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d
from ..ops.creation.factories import tensor
from ..tensor.tensor import Tensor
from .lr_scheduler.base import LRScheduler, for_each_group
from .optimizer import Optimizer

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip

Average = Callable[[Tensor, Tensor, Any], Tensor]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """A function (average, value, count) that gives decay * average + (1 - decay) * value. Raises ValueError for a
    decay outside of [0, 1]."""
    if not 0 <= decay <= 1:
        raise ValueError(f"get_ema_avg_fn(): decay must be from 0 to 1, got {decay}")

    @no_grad()
    def average(averaged: Tensor, value: Tensor, count: Any) -> Tensor:
        return decay * averaged + (1 - decay) * value

    return average


def get_swa_avg_fn() -> Average:
    """A function (average, value, count) that gives the mean with one value more."""

    @no_grad()
    def average(averaged: Tensor, value: Tensor, count: Any) -> Tensor:
        return averaged + (value - averaged) / (count + 1)

    return average


def _of_many(average: Average) -> Callable[..., None]:
    @no_grad()
    def update(averaged: Iterable[Tensor], values: Iterable[Tensor], count: Any) -> None:
        for old, value in zip(averaged, values, strict=True):
            old.copy_(average(old, value, count))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """`get_ema_avg_fn` of two lists of tensors, written into the first."""
    return _of_many(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """`get_swa_avg_fn` of two lists of tensors, written into the first."""
    return _of_many(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of those passed to `update_parameters`; the first call copies
    them.

    `avg_fn(average, value, count)`, or `multi_avg_fn` on lists, computes the averages; the default is the plain mean.
    Buffers are copied, or averaged with `use_buffers`.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("AveragedModel(): avg_fn and multi_avg_fn were both given; one of them is enough")
        self.module = copy.deepcopy(model) if device is None else copy.deepcopy(model).to(device)
        self.register_buffer("n_averaged", tensor(0))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the parameters of `model`, as they are now, into the averages."""
        pairs = list(zip(self.module.parameters(), model.parameters(), strict=True))
        buffers = list(zip(self.module.buffers(), model.buffers(), strict=True))
        averaged = [*pairs, *buffers] if self.use_buffers else pairs
        count = self.n_averaged.item()
        if not count:
            for old, value in averaged:
                old.detach().copy_(value.detach())
        elif averaged:
            update = self.multi_avg_fn or _of_many(self.avg_fn or get_swa_avg_fn())
            update([old.detach() for old, _ in averaged], [value.detach() for _, value in averaged], self.n_averaged)
        for old, value in () if self.use_buffers else buffers:
            old.copy_(value)
        self.n_averaged += 1


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of all batch normalisations, as plain means over the batches of `loader`.

    A batch is an input, or a tuple that starts with one.
    """
    norms = [each for each in model.modules() if isinstance(each, (BatchNorm1d, BatchNorm2d, BatchNorm3d))]
    if not norms:
        return
    momenta, training = [each.momentum for each in norms], model.training
    model.train()
    try:
        for each in norms:
            each.reset_running_stats()
            each.momentum = None
        for batch in loader:
            input = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(input if device is None else input.to(device))
    finally:
        for each, momentum in zip(norms, momenta, strict=True):
            each.momentum = momentum
        model.train(training)


class SWALR(LRScheduler):
    """Move the rates from the current ones to `swa_lr` (one, or one per group) in `anneal_epochs` steps, along a half
    cosine or a line, and keep them there."""

    _follows = True

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"SWALR(): anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR(): anneal_epochs must be an integer of at least 0, got {anneal_epochs!r}")
        for group, rate in zip(optimizer.param_groups, for_each_group(optimizer, "swa_lr", swa_lr), strict=True):
            group["swa_lr"] = rate
        self.anneal_epochs, self._anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """The part of the way that is done after `step` steps."""
        done = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * done)) / 2 if self._anneal_strategy == "cos" else done

    def get_lr(self) -> list[float]:
        step = self.last_epoch if self.anneal_epochs else max(1, self.last_epoch)
        before, now = self._share(max(0, step - 1)), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            goal, rate = group["swa_lr"], group["lr"]
            start = goal if before == 1 else (rate - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates
