"""What all schedules are, and the values that are given one for each group."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any, TypeVar

from ...kernels.runtime.context import warn_caller
from ...nn.argument_errors import name_bad_arguments, name_bad_arguments_of_methods
from ...tensor.tensor import Tensor, kind_of
from ..optimizer import Optimizer

_Value = TypeVar("_Value")


_STEPS = "_step_count"


@name_bad_arguments_of_methods
class LRScheduler:
    """The base of all schedules; a subclass defines `get_lr`.

    Attributes:
        optimizer: its groups are scheduled; each stores its first rate as "initial_lr".
        base_lrs: those first rates.
        last_epoch: the number of calls of `step`. To resume, pass it with an optimizer that has its state.
    """

    _beginning = False
    """Whether the constructor makes the first step."""

    _follows = False
    """Whether `get_lr` starts from the optimizer's current rates. When resuming, the optimizer already holds them."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name_bad_arguments(cls)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        for index, group in enumerate(groups_of(optimizer)):
            if last_epoch == -1:
                group.setdefault("initial_lr", float(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{index}] when resuming an optimizer; "
                    "load its state dict before the scheduler is made, or begin with last_epoch=-1"
                )
        self.optimizer, self.last_epoch = optimizer, last_epoch
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self._last_lr: list[float] = []
        self._beginning = True
        self.step()
        del self._beginning

    def get_lr(self) -> list[float]:
        """The rates of the groups for `last_epoch`, from the current ones. Raises NotImplementedError where a subclass
        defines none."""
        raise NotImplementedError(f"{type(self).__name__} has no rates; define get_lr")

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Set the rates for the next epoch, or for this one, as if no other had been before. Raises TypeError for an
        epoch other than a number."""
        plain = type(self.optimizer).step is Optimizer.step
        early = self.last_epoch == 0 and epoch is None and plain and not self.optimizer.stepped
        if early and not self._beginning:
            warn_caller(
                "Detected call of lr_scheduler.step() before optimizer.step(): the first rate is skipped; call the "
                "optimizer's step first"
            )
        if not (epoch is None or isinstance(epoch, (int, float))):
            raise TypeError(f"expected a number as an epoch, got {epoch!r}")
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._beginning and self._follows and self.last_epoch > 0:
            self._set(self._rates())
        else:
            self._set(self.get_lr() if epoch is None else self._at_epoch())

    def _begin(self) -> None:
        """Set the rates for the current epoch again, from the optimizer's base rates."""
        self.last_epoch -= 1
        self.step()

    def _at_epoch(self) -> list[float]:
        """The rates for `last_epoch`, independent of the current ones."""
        return self.get_lr()

    def _rates(self) -> list[float]:
        """The current rates."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            assign(group, "lr", rate)
        self._last_lr = self._rates()

    def state_dict(self) -> dict[str, Any]:
        """All attributes except the optimizer. A function is stored as None, a callable object by its attributes.

        `_step_count` exists for torch: some of its schedules use it.
        """
        held = {name: _state_of(value) for name, value in vars(self).items() if name != "optimizer"}
        return held | {_STEPS: self.last_epoch + 1}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of a scheduler of the same type. Rates are part of the optimizer's state, and functions
        stay those of the constructor."""
        for name, value in state_dict.items():
            own = vars(self).get(name)
            if _is_callable(own):
                for each, state in zip(own, value, strict=True) if isinstance(own, list) else [(own, value)]:
                    vars(each).update(state or {})
            elif name not in ("optimizer", _STEPS):
                setattr(self, name, value)


def _is_callable(value: Any) -> bool:
    """Whether an attribute is a function, or a list of them."""
    return callable(value) or (isinstance(value, list) and bool(value) and all(map(callable, value)))


def _state_of(value: Any) -> Any:
    """Return the value of an attribute in a state dict."""
    if not _is_callable(value):
        return value
    if isinstance(value, list):
        return [_state_of(each) for each in value]
    return None if isinstance(value, FunctionType) else dict(getattr(value, "__dict__", {}))


def groups_of(optimizer: Optimizer) -> list[dict[str, Any]]:
    """The groups of an optimizer. Raises TypeError for other values."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"argument 'optimizer' must be an Optimizer, got {kind_of(optimizer)}")
    return optimizer.param_groups


def assign(group: dict[str, Any], name: str, value: float) -> None:
    """Set an option of a group; where that is a tensor, write to it."""
    if isinstance(group[name], Tensor):
        group[name].fill_(value)
    else:
        group[name] = value


def for_each_group(optimizer: Optimizer, name: str, value: _Value | Sequence[_Value]) -> list[_Value]:
    """`value` once for each group, or the values of a list, one for each. Raises ValueError for another number."""
    count = len(groups_of(optimizer))
    if not isinstance(value, (list, tuple)):
        return [value] * count  # type: ignore[list-item]
    if len(value) != count:
        raise ValueError(f"expected {count} values for {name}, one for each parameter group, got {len(value)}")
    return list(value)


def number(name: str, value: Any, expected: str, fits: bool) -> None:
    """Check the value of an option. Raises ValueError with the expectation if it does not satisfy it."""
    if not fits:
        raise ValueError(f"invalid {name}: {value!r}; expected {expected}")


def whole(name: str, value: Any, least: int = 1) -> None:
    """The same for whole numbers of at least `least`."""
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
    number(name, value, f"an integer of at least {least}", fits)
