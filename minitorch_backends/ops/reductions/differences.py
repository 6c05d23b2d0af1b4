"""Derivatives of sampled functions along dimensions, by finite differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dispatch.op import composite
from ...tensor.dtypes import FLOATING, bool_, get_default_dtype
from ...tensor.tensor import Tensor, adopt
from ..dims import wrap_dims
from ..views.join import cat

__all__ = ["gradient"]


def _steps(spacing: Any, count: int) -> np.ndarray:
    """The distances of neighbours, from one number or from coordinates."""
    if not isinstance(spacing, Tensor) or not spacing.ndim:
        return np.full(count - 1, float(spacing))
    if spacing.shape != (count,):
        raise RuntimeError(f"gradient(): spacing must have {count} coordinates, got shape {list(spacing.shape)}")
    return np.diff(spacing._array.astype(np.float64))


def _edge(input: Tensor, dim: int, steps: Any, edge_order: int) -> Tensor:
    """The one-sided derivative at the first element: `steps` are the distances from there on."""
    first, second = input.narrow(dim, 0, 1), input.narrow(dim, 1, 1)
    if edge_order == 1:
        return (second - first) / float(steps[0])
    a, b = map(float, steps[:2])
    return (
        first * (-(2 * a + b) / (a * (a + b)))
        + second * ((a + b) / (a * b))
        - input.narrow(dim, 2, 1) * (a / (b * (a + b)))
    )


def _along(input: Tensor, dim: int, spacing: Any, edge_order: int) -> Tensor:
    count = input.shape[dim]
    if count <= edge_order:
        raise RuntimeError(f"gradient(): dim {dim} must have at least {edge_order + 1} elements, got {count}")
    steps = _steps(spacing, count)
    left, right = (
        adopt(each.reshape(-1, *(1,) * (input.ndim - 1 - dim)).astype(input._array.real.dtype))
        for each in (steps[:-1], steps[1:])
    )
    before, here, after = (input.narrow(dim, start, max(count - 2, 0)) for start in (0, min(1, count), min(2, count)))
    inner = (after - here) / right * (left / (left + right)) + (here - before) / left * (right / (left + right))
    last = _edge(input.flip(dim), dim, -steps[::-1], edge_order)
    return cat([_edge(input, dim, steps, edge_order), inner, last], dim)


@composite(method=False, takes="ifc", widen=True)
def gradient(
    input: Tensor, *, spacing: Any = None, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The derivative of a sampled function along each of `dim`, by default all: central differences of second order
    inside (of unequal steps weighted to that order: B. Fornberg, 1988), one-sided ones of `edge_order` 1 or 2 at the
    edges.

    `spacing` is the distance of neighbours, one for each dim, or a vector of coordinates for each. Raises RuntimeError
    for booleans, other edge orders, and a spacing of another length than `dim`.
    """
    if input.dtype is bool_:
        raise RuntimeError("gradient(): input must be a tensor of numbers, got mt.bool; use input.int()")
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient(): edge_order must be 1 or 2, got {edge_order}")
    dims = wrap_dims(tuple(range(input.ndim)) if dim is None else dim, input.ndim)
    if not isinstance(spacing, (tuple, list)):
        spacing = [1.0 if spacing is None else spacing] * len(dims)
    if len(spacing) != len(dims):
        raise RuntimeError(f"gradient(): spacing must have one entry for each of {len(dims)} dims, got {len(spacing)}")
    if input.dtype.category < FLOATING:
        input = input.to(get_default_dtype())
    return tuple(_along(input, each, space, edge_order) for each, space in zip(dims, spacing, strict=True))
