"""Helpers for training and inference: gradients kept within bounds, layers joined."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..autograd.modes import no_grad
from ..tensor import Tensor, adopt
from .fusion import fuse

__all__ = ["clip_grad_norm_", "clip_grad_value_", "fuse"]


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Any]:
    parameters = (parameters,) if isinstance(parameters, Tensor) else parameters
    return [each.grad for each in parameters if each.grad is not None]


@no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scale all gradients, in place, so that their norm, taken over all of them together, is at most `max_norm`.

    Returns the norm that they had. Raises RuntimeError for a norm of Inf or NaN with `error_if_nonfinite`.
    """
    gradients = _gradients(parameters)
    norms = [
        np.linalg.norm(each._array.reshape(-1).astype(np.result_type(each._array, np.float32)), norm_type)
        for each in gradients
    ]
    total = float(np.linalg.norm(np.array(norms, np.float64), norm_type)) if norms else 0.0
    if error_if_nonfinite and not math.isfinite(total):
        raise RuntimeError(
            f"the norm of order {norm_type} of the gradients is {total}, so it cannot be clipped; "
            "pass error_if_nonfinite=False to scale by it anyway"
        )
    factor = max_norm / (total + 1e-6)
    if not factor >= 1:  # NaN included
        for each in gradients:
            each.mul_(factor)
    return adopt(np.asarray(total, norms[0].dtype if norms else np.float32))


@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Bring every element of the gradients into [-clip_value, clip_value], in place."""
    for each in _gradients(parameters):
        each.clamp_(-clip_value, clip_value)
