"""Dropout as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor.tensor import Tensor
from . import functional as F
from .module import Module
from .module_internals import Constants

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class Dropout(Constants, Module):
    """`functional.dropout` with probability `p` in training mode, and nothing in evaluation mode."""

    function: Callable[..., Any] = F.dropout

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(Dropout, function=F.dropout1d):
    """`functional.dropout1d`, which zeroes whole channels of (N, C, L), or (C, L)."""


class Dropout2d(Dropout, function=F.dropout2d):
    """`functional.dropout2d`, which zeroes whole channels of images (N, C, H, W), or (C, H, W)."""


class Dropout3d(Dropout, function=F.dropout3d):
    """`functional.dropout3d`, which zeroes whole channels of volumes (N, C, D, H, W), or (C, D, H, W)."""


class AlphaDropout(Dropout, function=F.alpha_dropout):
    """`functional.alpha_dropout`, which keeps mean 0 and variance 1."""


class FeatureAlphaDropout(Dropout, function=F.feature_alpha_dropout):
    """`functional.feature_alpha_dropout`: `AlphaDropout` of whole channels of (N, C, ...)."""
