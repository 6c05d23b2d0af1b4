"""What distributions share: parameters that broadcast, probabilities and their logarithms, lazy attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..nn import functional as F
from ..ops.creation.factories import tensor
from ..ops.creation.sampling import rand
from ..ops.elementwise.gamma import gamma_quantile
from ..ops.limits import finfo
from ..ops.views.broadcasting import broadcast_tensors
from ..tensor.dtypes import float64, get_default_dtype
from ..tensor.tensor import Tensor


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape; numbers have the dtype of the first tensor, or the default one.

    Raises ValueError for anything else.
    """
    if not all(isinstance(each, (Tensor, int, float)) for each in values):
        raise ValueError("Input arguments must all be instances of Number or torch.Tensor.")
    dtype = next((each.dtype for each in values if isinstance(each, Tensor)), get_default_dtype())
    return tuple(broadcast_tensors(*(x if isinstance(x, Tensor) else tensor(x, dtype=dtype) for x in values)))


class lazy_property:
    """Decorates a method whose value is computed when it is first read, and stored as an attribute."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = self.wrapped(instance)
        setattr(instance, self.name, value)
        return value


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities away from 0 and 1 by the distance of neighbours at 1."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of their logarithms, or of log odds."""
    return logits.sigmoid() if is_binary else F.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logarithms of probabilities, or log odds."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def uniform(like: Tensor, shape: Any) -> Tensor:
    """Numbers that are uniform in (0, 1), in the dtype of a tensor."""
    return clamp_probs(rand(tuple(shape), dtype=like.dtype))


def standard_gamma(concentration: Tensor) -> Tensor:
    """Gamma distributed numbers of rate 1, by the inverse of the distribution, through which gradients flow."""
    drawn = rand(tuple(concentration.shape), dtype=float64)
    found = gamma_quantile(concentration.to(float64), drawn).to(concentration.dtype)
    return found.clamp(min=finfo(concentration.dtype).tiny)
