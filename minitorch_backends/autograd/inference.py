"""Inference tensors: made in inference mode, they count no versions, and recording outside of it refuses them."""

from __future__ import annotations

from typing import Any

from .. import watch
from ..kernels.locks import lock
from ..tensor import Tensor
from . import modes
from .anomaly_mode import site
from .modes import grad_mode

__all__ = ["InferenceCell", "count_blocks", "is_inference", "refuse_inference"]

_mode = grad_mode.get
_lock = lock()
_blocks = 0


class InferenceCell:
    """Stands where other tensors have their version counter; all aliases of the tensor share it. It does not count.

    Attributes:
        site: the line that made the tensor, when diagnosis was on.
    """

    __slots__ = ("site",)

    def __init__(self, site: str | None) -> None:
        self.site = site

    def __getitem__(self, index: int) -> int:
        raise RuntimeError("Inference tensors do not track version counter; use clone() outside inference mode")

    def refusal(self, tensor: Tensor) -> RuntimeError:
        """The error for saving `tensor`, whose cell this is, for a backward pass."""
        return RuntimeError(
            f"Inference tensors cannot be saved for backward, and {described(tensor)} is needed for a gradient; pass a "
            "clone() made outside inference mode, or use no_grad() in its place"
        )


def described(tensor: Tensor) -> str:
    """An inference tensor in the words of an error: dtype, shape, and where it was made if that is known."""
    made_at = getattr(tensor._cell, "site", None)
    made = f" at {made_at}" if made_at else " (set_detect_anomaly(True) would name the line)"
    return f"this {tensor.dtype!r}{list(tensor.shape)}, made in inference mode{made},"


def is_inference(tensor: Tensor) -> bool:
    """Whether a tensor was made in inference mode (or shares the memory of one that was)."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"is_inference(): argument 'input' must be a Tensor, not {type(tensor).__name__}")
    return type(tensor._cell) is InferenceCell


def refuse_inference(tensor: Tensor, what: str) -> None:
    """Raise RuntimeError when `what` is about to be done to an inference tensor outside inference mode."""
    if type(tensor._cell) is InferenceCell and not _mode().inference:
        raise RuntimeError(
            f"{what} outside InferenceMode is not allowed: {described(tensor)} counts no versions; use clone() first, "
            "or do it in inference mode"
        )


def count_blocks(change: int) -> None:
    """Count the blocks of inference mode being executed, in all threads; while there is one, new tensors are marked."""
    global _blocks
    with _lock:
        _blocks += change
        watch.born = _mark if _blocks else None


_plain: Any = InferenceCell(None)
"""The cell of every inference tensor that is made while diagnosis is off."""


def _mark(tensor: Tensor) -> None:
    if _mode().inference:
        made_at = site()
        tensor._cell = _plain if made_at is None else InferenceCell(made_at)


modes.count_blocks = count_blocks  # modes cannot import this module, which asks them for the mode
Tensor.is_inference = is_inference  # type: ignore[attr-defined]
