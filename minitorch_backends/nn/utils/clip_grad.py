"""Gradient clipping."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...autograd.modes import no_grad
from ...tensor.call_errors import argument_errors
from ...tensor.dtypes import float32, promote_types
from ...tensor.tensor import Tensor, adopt


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Any]:
    parameters = (parameters,) if isinstance(parameters, Tensor) else parameters
    return [each.grad for each in parameters if each.grad is not None]


def _total_norm(tensors: list[Tensor], norm_type: float, error_if_nonfinite: bool) -> tuple[float, Tensor]:
    """The norm of all numbers together, and as a tensor of the type that the tensors promote to."""
    held = [each for each in tensors if each._array.size]
    norms = [each.norm(norm_type, dtype=promote_types(each.dtype, float32)).item() for each in held]
    total = adopt(np.array(norms, np.float64)).norm(norm_type).item() if norms else 0.0
    with np.errstate(over="ignore"):
        dtype = functools.reduce(promote_types, [each.real.dtype for each in held] or [float32])
        result = np.asarray(total).astype(dtype.dtype)
    if error_if_nonfinite and not math.isfinite(total):
        raise RuntimeError(
            f"the norm of order {norm_type} of the gradients is {total}, so it cannot be clipped; "
            "pass error_if_nonfinite=False to scale by it anyway"
        )
    return total, adopt(result)


def _scale(gradients: list[Tensor], max_norm: float, total: float) -> None:
    factor = max_norm / (total + 1e-6)
    if not factor >= 1:  # NaN included
        for each in gradients:
            each.mul_(factor)


@argument_errors
@no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float | str = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all numbers of the tensors together; `foreach` changes nothing.

    Raises RuntimeError for a norm of Inf or NaN with `error_if_nonfinite`.
    """
    held = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    return _total_norm(held, float(norm_type), error_if_nonfinite)[1]


@argument_errors
@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale all gradients, in place, by max_norm / total_norm where that is below 1; `foreach` changes nothing."""
    _scale(_gradients(parameters), max_norm, float(total_norm))


@argument_errors
@no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float | str = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients, in place, so that their norm, taken over all of them together, is at most `max_norm`.

    Returns the norm that they had; `foreach` changes nothing. Raises RuntimeError for a norm of Inf or NaN with
    `error_if_nonfinite`.
    """
    gradients = _gradients(parameters)
    total, result = _total_norm(gradients, float(norm_type), error_if_nonfinite)  # may be "inf"
    _scale(gradients, max_norm, total)
    return result


@argument_errors
@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Bring every element of the gradients into [-clip_value, clip_value], in place; `foreach` changes nothing."""
    for each in _gradients(parameters):
        each.clamp_(-clip_value, clip_value)
