"""Window functions. All take the length, and whether the window is periodic (for spectra) or symmetric (for filters);
`dtype` and the other options are those of factories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor.casting import cast_unchecked
from ...tensor.dtypes import FLOATING, dtype_or_default
from ...tensor.size import addressable
from ..creation.factories import factory
from ..dims import integer

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def _window(
    name: str, window_length: Any, periodic: bool, values: Callable[[np.ndarray], np.ndarray], dtype: Any
) -> np.ndarray:
    """`values` at places from 0 to 1; a periodic window omits the last."""
    length, kind = integer(name, "window_length", window_length), dtype_or_default(dtype)
    if kind.category != FLOATING:
        raise RuntimeError(f"{name} expects floating point dtypes, got {kind!r}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got {length}")
    addressable((length,))
    last = length if periodic else length - 1
    made = values(np.arange(length) / last) if length > 1 else np.ones(length)
    return cast_unchecked(made, kind.dtype)


def _cosines(*factors: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda t: sum(factor * np.cos(2 * np.pi * k * t) for k, factor in enumerate(factors))  # type: ignore[return-value]


@factory(takes_out=False)
def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> np.ndarray:
    """(1 - cos(2 pi t)) / 2."""
    return _window("hann_window", window_length, periodic, _cosines(0.5, -0.5), dtype)


@factory(takes_out=False)
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None
) -> np.ndarray:
    """alpha - beta cos(2 pi t)."""
    return _window("hamming_window", window_length, periodic, _cosines(alpha, -beta), dtype)


@factory(takes_out=False)
def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> np.ndarray:
    """0.42 - cos(2 pi t) / 2 + 0.08 cos(4 pi t)."""
    values = _cosines(0.42, -0.5, 0.08)
    return _window("blackman_window", window_length, periodic, values, dtype)


@factory(takes_out=False)
def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> np.ndarray:
    """1 - |2 t - 1|."""

    def values(t: np.ndarray) -> np.ndarray:
        return 1 - np.abs(2 * t - 1)

    return _window("bartlett_window", window_length, periodic, values, dtype)


@factory(takes_out=False)
def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None) -> np.ndarray:
    """I0(beta sqrt(1 - (2 t - 1)**2)) / I0(beta), with the modified Bessel function I0 (J. Kaiser, 1966)."""

    def values(t: np.ndarray) -> np.ndarray:
        return np.i0(beta * np.sqrt(np.maximum(1 - (2 * t - 1) ** 2, 0))) / np.i0(beta)

    return _window("kaiser_window", window_length, periodic, values, dtype)
