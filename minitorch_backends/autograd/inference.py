"""Inference tensors: made in inference mode, without a version counter. Recording outside that mode rejects them."""

from __future__ import annotations

from typing import Any

from ..kernels.runtime.context import restorable
from ..tensor import instrumentation
from ..tensor.tensor import Tensor, not_a_tensor
from .anomaly_mode import site
from .modes import Mode, default_mode, grad_mode

_mode = grad_mode.get
_blocks = 0


class InferenceCell:
    """Takes the place of the version counter of an inference tensor and its aliases, and counts nothing.

    Attributes:
        site: the line that made the tensor, if anomaly detection was on.
    """

    __slots__ = ("site",)

    def __init__(self, site: str | None) -> None:
        self.site = site

    def __getitem__(self, index: int) -> int:
        raise RuntimeError("Inference tensors do not track version counter; use clone() outside inference mode")

    def refusal(self, tensor: Tensor) -> RuntimeError:
        """The error for saving the inference tensor `tensor` for a backward pass."""
        return RuntimeError(
            f"Inference tensors cannot be saved for backward, and {describe(tensor)} is needed for a gradient; pass a "
            "clone() made outside inference mode, or use no_grad() in its place"
        )


def describe(tensor: Tensor) -> str:
    """Describe an inference tensor for an error: dtype, shape, and the line that made it if recorded."""
    made_at = getattr(tensor._cell, "site", None)
    made = f" at {made_at}" if made_at else " (set_detect_anomaly(True) would name the line)"
    return f"this {tensor.dtype!r}{list(tensor.shape)}, made in inference mode{made},"


def is_inference(input: Tensor) -> bool:
    """Whether a tensor was made in inference mode, or shares memory with such a tensor."""
    if not isinstance(input, Tensor):
        raise not_a_tensor("is_inference", "input", input)
    return type(input._cell) is InferenceCell


def refuse_inference(tensor: Tensor, what: str) -> None:
    """Raise RuntimeError before `what` is done to an inference tensor outside inference mode."""
    if type(tensor._cell) is InferenceCell and not _mode().inference:
        raise RuntimeError(
            f"{what} outside InferenceMode is not allowed: {describe(tensor)} has no version counter; use "
            "clone() first, or do it in inference mode"
        )


def _count_blocks(change: int) -> None:
    """Count the active inference-mode blocks of all threads. While there is one, new tensors are marked. Nothing is
    called in here: a signal where it starts would part the two."""
    global _blocks
    with instrumentation.lock:
        _blocks += change
        instrumentation.active = instrumentation.active & -2 | (_blocks > 0)
        instrumentation.note_birth = _mark if _blocks else instrumentation.ignore


def _blocks_of(level: Any) -> int:
    """The number of inference-mode blocks of a level."""
    count = 0
    while level is not None:
        outer = level.parent
        count += level.inference and not (outer is not None and outer.inference)
        level = outer
    return count


_level = restorable(grad_mode, _blocks_of, _count_blocks)


_plain: Any = InferenceCell(None)
"""The cell of every inference tensor that is made without anomaly detection."""


def _mark(tensor: Tensor) -> None:
    if _mode().inference:
        made_at = site()
        tensor._cell = _plain if made_at is None else InferenceCell(made_at)


class inference_mode(Mode):
    """Like `no_grad`, for tensors that never take part in autograd: they have no version counter, and recording rejects
    them.

    Use `with inference_mode():`, `@inference_mode()` or `@inference_mode`. With `mode=False` the block is an ordinary
    one, also inside inference mode; recording is then on or off as outside of it.
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
            _level.assign(outer.inner[2] or outer.made_inference())
            return
        if not outer.inference:
            grad_mode.set(outer.inner[outer.enabled] or outer.inner_level(outer.enabled))
            return
        ordinary = outer
        while ordinary.inference and ordinary.parent is not None:
            ordinary = ordinary.parent
        grad_mode.set(outer.with_fields(outer, enabled=ordinary.enabled, inference=False))

    def __exit__(self, *exception: object) -> None:
        _level.assign(_mode().parent or default_mode)

    def __repr__(self) -> str:
        return f"inference_mode(mode={self.mode})"


Tensor.is_inference = is_inference  # type: ignore[assignment, method-assign]
