"""Shrinkage and threshold activations, element by element."""

from __future__ import annotations

from ...dispatch.op import composite
from ...tensor.dtypes import FLOATING
from ...tensor.registry import functions
from ...tensor.tensor import Tensor
from ..functional import functional


@functional(inplace="both")
@composite(method=False, widen=True, takes="if")
def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """`input` where it is above `threshold`, else `value`; integer inputs cut both to integers."""
    if input.dtype.category < FLOATING:
        threshold, value = int(threshold), int(value)
    return input.masked_fill(input <= threshold, value)


@functional
@composite(takes="f", widen=True)
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`input`, or 0 where its magnitude is at most `lambd`."""
    return input.masked_fill(input.abs() <= lambd, 0)


@functional
@composite(method=False, takes="f", widen=True)
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`input` moved towards 0 by `lambd`, and 0 where its magnitude is at most that. Raises RuntimeError for a negative
    `lambd`."""
    if lambd < 0:
        raise RuntimeError(f"softshrink moves values towards 0 by lambd, which cannot be negative, got {lambd}")
    return input - input.clamp(-lambd, lambd)


@functional
@composite(method=False, widen=True, takes="ifc")
def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input)."""
    return input - input.tanh()


threshold_ = functions["threshold_"]
