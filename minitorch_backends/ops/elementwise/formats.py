"""Rounding to floating-point formats with fewer bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch.op import Array, op
from ...kernels.precisions.elements import ELEMENTS, ROUNDINGS, round_to_format
from ...kernels.precisions.products import PRECISIONS, SCALED_ROUNDINGS, is_scaled
from ...kernels.precisions.scaling import scale_operand
from ...random import Generator
from ..creation.sampling import generator_or_default
from ..gradients import zero

__all__ = ["round_to"]

_GRADIENTS = ("straight_through", "zero")


def _gradient(g: Any, gradient: str) -> Any:
    return g if gradient == "straight_through" else zero(g)


@op(takes="f", traits="function", input=_gradient, batch="loop: a scale for each sample")
def round_to(
    input: Array,
    format: str,
    rounding: str = "rne",
    *,
    dim: int = -1,
    gradient: str = "straight_through",
    generator: Generator | None = None,
) -> np.ndarray:
    """Round each value of `input` to a floating-point format, in `input`'s own dtype. Flags do not affect this op.

    Arguments:
        format: "fp32", "tf32", "bf16", "fp16" or "e5m2"; "e4m3", "e3m2", "e2m3", "e2m1", "e5m2fnuz", "e4m3fnuz", "int8"
            or "int4". Magnitudes above the format's largest become Inf, or the largest number in those that have no
            Inf. "mxfp8", "mxfp6", "mxfp4" and "nvfp4" round as these precisions do (`kernels.precisions.products`): in
            blocks along `dim`, each with a scale that multiplies the rounded values.
        rounding: "rne", to nearest with ties to even; "rna", with ties away from zero; "rz", toward zero, which never
            gives Inf; "stochastic", to either neighbour with an expected value of `input`. Blocks support "rne" and
            "stochastic".
        gradient: "straight_through" passes gradients on unchanged (Bengio et al., arXiv 1308.3432); "zero" is the
            derivative almost everywhere.
        generator: for stochastic rounding; None uses the default generator.

    Raises ValueError for unknown names, IndexError for a dimension out of range.
    """
    if format not in ELEMENTS and not is_scaled(format):
        blocks = [name for name in PRECISIONS if name not in ELEMENTS and is_scaled(name)]
        raise ValueError(f"round_to(): format must be one of {', '.join([*ELEMENTS, *blocks])}, got {format!r}")
    if rounding not in ROUNDINGS:
        raise ValueError(f"round_to(): rounding must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")
    if gradient not in _GRADIENTS:
        raise ValueError(f"round_to(): gradient must be one of {', '.join(_GRADIENTS)}, got {gradient!r}")
    if format not in ELEMENTS:
        return _in_blocks(input, format, rounding, dim, generator)
    uniform = None
    if rounding == "stochastic":
        uniform = generator_or_default(generator).uniform(input.shape, input.dtype)
    return round_to_format(input, format, rounding, uniform)


def _in_blocks(input: np.ndarray, precision: str, rounding: str, dim: int, generator: Generator | None) -> np.ndarray:
    """The values of a precision that scales blocks along a dimension."""
    if rounding not in SCALED_ROUNDINGS:
        raise ValueError(
            f"round_to(): rounding of blocks must be one of {', '.join(SCALED_ROUNDINGS)}, got {rounding!r}"
        )
    if not -max(input.ndim, 1) <= dim < max(input.ndim, 1):
        raise IndexError(f"round_to(): dim must be a dimension of a tensor of {input.ndim}, got {dim}")
    lines = np.atleast_1d(input.astype(np.float32, copy=False))
    seed = int(generator_or_default(generator).integers(0, 1 << 32, ())) if rounding == "stochastic" else None
    found = scale_operand(lines, precision, dim, 1, rounding, seed)
    with np.errstate(over="ignore", under="ignore"):
        return (found.values * np.float64(found.factor)).astype(input.dtype).reshape(input.shape)
