"""Dropout as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from ..tensor.tensor import Tensor
from . import functional as F
from .module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class Dropout(Module):
    """`functional.dropout` with probability `p` in training mode, and nothing in evaluation mode."""

    _function: ClassVar[Callable[..., Tensor]] = staticmethod(F.dropout)

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(Dropout):
    """The same of whole channels of (N, C, L), or (C, L)."""

    _function = staticmethod(F.dropout1d)


class Dropout2d(Dropout):
    """The same of whole channels of images (N, C, H, W), or (C, H, W)."""

    _function = staticmethod(F.dropout2d)


class Dropout3d(Dropout):
    """The same of whole channels of volumes (N, C, D, H, W), or (C, D, H, W)."""

    _function = staticmethod(F.dropout3d)


class AlphaDropout(Dropout):
    """`functional.alpha_dropout`, which keeps mean 0 and variance 1."""

    _function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(Dropout):
    """The same of whole channels of (N, C, ...)."""

    _function = staticmethod(F.feature_alpha_dropout)
