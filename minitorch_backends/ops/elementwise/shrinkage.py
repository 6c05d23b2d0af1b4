"""Shrinkage and threshold activations, element by element."""

from __future__ import annotations

import numpy as np

from ...dispatch.op import composite
from ...tensor.dtypes import FLOATING
from ...tensor.tensor import Tensor
from ..functional import functional
from ..samples import arrays_like, sample, unary_samples
from .activations import with_options


@functional(inplace="both")
@composite(
    method=False,
    widen=True,
    takes="if",
    reference=lambda input, threshold, value: np.where(input <= threshold, value, input),
    samples=lambda: (sample(each, 0.4, 7) for each in arrays_like(-2, 2.5)),
)
def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """`input` where it is above `threshold`, else `value`; integer inputs cut both to integers."""
    if input.dtype.category < FLOATING:
        threshold, value = int(threshold), int(value)
    return input.masked_fill(input <= threshold, value)


@functional
@composite(
    method=False,
    takes="f",
    widen=True,
    reference=lambda input, lambd=0.5: np.where(np.abs(input) > lambd, input, 0),
    samples=with_options(-2, 2.5, {"lambd": 1.1}),
)
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`input`, or 0 where its magnitude is at most `lambd`."""
    return input.masked_fill(input.abs() <= lambd, 0)


@functional
@composite(
    method=False,
    takes="f",
    widen=True,
    reference=lambda input, lambd=0.5: np.sign(input) * np.maximum(np.abs(input) - lambd, 0),
    samples=with_options(-2, 2.5, {"lambd": 1.1}),
)
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`input` moved towards 0 by `lambd`, and 0 where its magnitude is at most that."""
    if lambd < 0:
        raise RuntimeError(f"softshrink moves values towards 0 by lambd, which cannot be negative, got {lambd}")
    return input - input.clamp(-lambd, lambd)


@functional
@composite(
    method=False, widen=True, takes="ifc", reference=lambda input: input - np.tanh(input), samples=unary_samples()
)
def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input)."""
    return input - input.tanh()
