"""`torch.ao.quantization`: the markers in quantizable models, which pass their inputs on."""

from __future__ import annotations

from ...nn import Identity

__all__ = ["DeQuantStub", "QuantStub"]


class QuantStub(Identity):
    """Return the input: nothing is quantized."""


class DeQuantStub(Identity):
    """Return the input: nothing was quantized."""
