"""Inference tensors: made in inference mode, they count no versions, and recording outside of it refuses them."""

from __future__ import annotations

from typing import Any

from ..dispatch import instrumentation
from ..kernels.locks import lock
from ..tensor.tensor import Tensor, not_a_tensor
from .extras.anomaly_mode import site
from .modes import Mode, grad_mode

__all__ = ["InferenceCell", "inference_mode", "is_inference", "refuse_inference"]

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


def is_inference(input: Tensor) -> bool:
    """Whether a tensor was made in inference mode (or shares the memory of one that was)."""
    if not isinstance(input, Tensor):
        raise not_a_tensor("is_inference", "input", input)
    return type(input._cell) is InferenceCell


def refuse_inference(tensor: Tensor, what: str) -> None:
    """Raise RuntimeError when `what` is about to be done to an inference tensor outside inference mode."""
    if type(tensor._cell) is InferenceCell and not _mode().inference:
        raise RuntimeError(
            f"{what} outside InferenceMode is not allowed: {described(tensor)} counts no versions; use clone() first, "
            "or do it in inference mode"
        )


def _count_blocks(change: int) -> None:
    """Count the blocks of inference mode being executed, in all threads; while there is one, new tensors are marked."""
    global _blocks
    with _lock:
        _blocks += change
        instrumentation.observe_births(_mark if _blocks else None)


_plain: Any = InferenceCell(None)
"""The cell of every inference tensor that is made while diagnosis is off."""


def _mark(tensor: Tensor) -> None:
    if _mode().inference:
        made_at = site()
        tensor._cell = _plain if made_at is None else InferenceCell(made_at)


class inference_mode(Mode):
    """`no_grad` for what will never meet autograd: new tensors count no versions and are refused by later recording.

    `with inference_mode():`, `@inference_mode()` or `@inference_mode`. With `mode=False` the block is an ordinary one,
    also inside inference mode, with recording on or off as it was outside of that.
    """

    __slots__ = ("mode",)

    mode: bool

    def __new__(cls, mode: Any = True) -> Any:
        if mode is True or mode is False:
            scope = object.__new__(cls)
            scope.mode = mode
            return scope
        return inference_mode()(mode)

    def __enter__(self) -> None:
        outer = _mode()
        if self.mode:
            grad_mode.set(outer.inner[2] or outer.made_inference())
            if not outer.inference:
                _count_blocks(1)
            return
        if not outer.inference:
            grad_mode.set(outer.inner[outer.enabled] or outer.made(outer.enabled))
            return
        ordinary = outer
        while ordinary.inference and ordinary.parent is not None:
            ordinary = ordinary.parent
        grad_mode.set(outer.changed(outer, enabled=ordinary.enabled, inference=False))

    def __exit__(self, *exception: object) -> None:
        level = _mode()
        super().__exit__()
        if level.inference and not _mode().inference:
            _count_blocks(-1)

    def __repr__(self) -> str:
        return f"inference_mode(mode={self.mode})"


Tensor.is_inference = is_inference  # type: ignore[assignment, method-assign]
