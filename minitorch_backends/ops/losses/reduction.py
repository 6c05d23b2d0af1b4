"""How losses are reduced: to one number or not at all."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor


def reduce_loss(loss: Tensor, reduction: str) -> Tensor:
    """The loss of each element, their mean, or their sum. Raises ValueError for another word."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise _not_a_reduction(reduction)


def _not_a_reduction(reduction: Any) -> ValueError:
    return ValueError(f"{reduction!r} is not a valid value for reduction; expected 'none', 'mean' or 'sum'")


def refuse_reduction(reduction: str) -> None:
    """Raise ValueError for another word, before anything is computed."""
    if reduction not in ("none", "mean", "sum"):
        raise _not_a_reduction(reduction)
