"""The frequencies of a transform, and their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch.op import composite
from ...tensor.casting import cast_unchecked
from ...tensor.dtypes import FLOATING, dtype_or_default
from ...tensor.tensor import Tensor
from ..creation.options import factory
from ..dims import existing_dim, integer
from ..views.rearrange import roll


def _frequencies(name: str, numbers: Any, n: Any, d: float, dtype: Any) -> np.ndarray:
    n, kind = integer(f"fft_{name}", "n", n), dtype_or_default(dtype)
    if kind.category < FLOATING:
        raise RuntimeError(f"{name} requires a floating point or complex dtype, got {kind!r}; expected mt.float32")
    if kind.category > FLOATING:
        raise NotImplementedError(f"{name} makes no {kind!r}; expected a floating dtype, convert the result with .to()")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]; expected at least 0")
    with np.errstate(divide="ignore", invalid="ignore"):
        values = numbers(n).astype(np.float64) * (np.float64(1.0) / np.float64(n * d))
    return cast_unchecked(values, kind.dtype)


@factory()
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None) -> np.ndarray:
    """The frequencies of `fft` of n samples with a distance of d: 0, 1, ..., -2, -1 over n * d, in its order.

    Raises RuntimeError for a negative n and for integer dtypes, NotImplementedError for complex ones.
    """

    def numbers(n: int) -> np.ndarray:
        return np.concatenate([np.arange((n + 1) // 2), np.arange(-(n // 2), 0)])

    return _frequencies("fftfreq", numbers, n, d, dtype)


@factory()
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None) -> np.ndarray:
    """The frequencies of `rfft`: 0 to n // 2 over n * d, with the errors of `fftfreq`."""
    return _frequencies("rfftfreq", lambda n: np.arange(n // 2 + 1), n, d, dtype)


def _roll_frequencies(input: Tensor, dim: Any, inverse: bool) -> Tensor:
    given = range(input.ndim) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    dims = tuple(existing_dim(each, input.ndim) for each in given)
    if not dims:
        raise RuntimeError("`shifts` required: a tensor without dimensions has no frequencies to shift")
    shifts = tuple((input.shape[each] + inverse) // 2 for each in dims)
    return roll(input, shifts, dims)


@composite(method=False)
def fftshift(input: Tensor, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """The frequencies in ascending order, 0 in the middle, along `dim` (all by default).

    Raises IndexError for a dim that does not exist, RuntimeError for a tensor without dimensions.
    """
    return _roll_frequencies(input, dim, False)


@composite(method=False)
def ifftshift(input: Tensor, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """The inverse of `fftshift`, with its errors."""
    return _roll_frequencies(input, dim, True)
