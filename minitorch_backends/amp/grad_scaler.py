"""`GradScaler`: losses are scaled so that gradients in half types do not underflow, and steps that overflow are
skipped.

Method: P. Micikevicius et al. (2018), "Mixed precision training", with torch's names and state dict.
"""

from __future__ import annotations

import math
from typing import Any

from ..autograd.modes import no_grad
from ..kernels.runtime.context import restore_on_failure, warn_caller
from ..tensor.tensor import Tensor


class GradScaler:
    """Scales losses by a factor.

    The factor grows by `growth_factor` after `growth_interval` steps without Inf or NaN in the gradients. It shrinks by
    `backoff_factor` after a step with one, which is skipped. As in torch, a scaler for an absent `device` (any but
    "cpu") warns and has no effect.
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        if enabled and device != "cpu":
            warn_caller(f"GradScaler(): {device} devices are not available, so it has no effect")
            enabled = False
        if growth_factor <= 1.0:
            raise AssertionError(f"GradScaler(): growth_factor must be more than 1, got {growth_factor}")
        if backoff_factor >= 1.0:
            raise AssertionError(f"GradScaler(): backoff_factor must be less than 1, got {backoff_factor}")
        self._enabled, self._scale = enabled, init_scale
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._overflows: dict[int, bool] = {}
        self._stepped: set[int] = set()

    def is_enabled(self) -> bool:
        """Whether the scaler is enabled."""
        return self._enabled

    def get_scale(self) -> float:
        """The factor; 1 if the scaler is disabled."""
        return self._scale if self._enabled else 1.0

    def scale(self, outputs: Any) -> Any:
        """Multiply a tensor, or each tensor of an iterable, by the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        return type(outputs)(map(self.scale, outputs))

    @restore_on_failure
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the factor, at most once before each step, for example
        to clip them.

        Raises RuntimeError on a second call.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._overflows:
            raise RuntimeError("unscale_() was called already for this optimizer since the last update()")
        self._overflows[id(optimizer)] = False
        with no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter.grad.mul_(1.0 / self._scale)
                        if not bool(parameter.grad.isfinite().all()):
                            self._overflows[id(optimizer)] = True

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients, unless already done, and call the optimizer's step, unless they overflowed."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("step(): closures are not supported with scaled gradients; call it without one")
        if id(optimizer) in self._stepped:
            raise RuntimeError("step() was called already for this optimizer since the last update()")
        if id(optimizer) not in self._overflows:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return None if self._overflows[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Grow or shrink the factor after a step, or set it."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._overflows:
            raise AssertionError("update(): step() must be called before")
        elif any(self._overflows.values()):
            self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown = self._scale * self._growth_factor
                self._scale, self._growth_tracker = grown if math.isfinite(grown) else self._scale, 0
        self._overflows.clear()
        self._stepped.clear()

    def get_growth_factor(self) -> float:
        """The factor of growth."""
        return self._growth_factor

    def get_backoff_factor(self) -> float:
        """The factor of reduction."""
        return self._backoff_factor

    def get_growth_interval(self) -> int:
        """The number of steps without overflow before the factor grows."""
        return self._growth_interval

    def state_dict(self) -> dict[str, Any]:
        """The state, with torch's keys; empty if the scaler is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state. Raises RuntimeError for the empty state of a disabled scaler."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("load_state_dict(): state_dict must not be empty; it is that of a disabled GradScaler")
        self._scale = state_dict["scale"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]
