"""Errors of an answer against a reference, in the usual measures."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..explain.records import frobenius_norm
from ..kernels.runtime.first_use import load


def distances(answer: dict[str, np.ndarray], truth: dict[str, np.ndarray]) -> dict[str, float]:
    """The measures `error` (relative, Frobenius norm), `max_abs`, `max_ulp` (in units in the last place of the answer's
    dtype) and `cosine`, over all arrays together. Raises ValueError if names or shapes differ."""
    if answer.keys() != truth.keys() or any(answer[name].shape != truth[name].shape for name in answer):
        shapes = [{name: list(each.shape) for name, each in side.items()} for side in (answer, truth)]
        raise ValueError(f"the reference must return the same shapes as the function: {shapes[0]}, got {shapes[1]}")
    x = np.concatenate([as_reals(each) for each in answer.values()])
    y = np.concatenate([as_reals(truth[name]) for name in answer])
    difference = x - y
    size, off = frobenius_norm(y), frobenius_norm(difference)
    product = frobenius_norm(x) * size
    return {
        "error": off / size if size else off,
        "max_abs": float(np.abs(difference).max(initial=0.0)),
        "max_ulp": max((ulps(answer[name], truth[name]) for name in answer), default=0.0),
        "cosine": float(np.einsum("i,i->", x, y)) / product if product else float(off == 0),
    }


def relative_error(answer: dict[str, np.ndarray], truth: dict[str, np.ndarray]) -> float:
    """The norm of the difference of all arrays together over that of the truth; infinite if the truth is zero, or if
    names or shapes differ, as those of generated sequences may."""
    off, size = squares_of(answer, truth)
    return (off / size) ** 0.5 if size else float("inf") if off else 0.0


def squares_of(answer: dict[str, np.ndarray], truth: dict[str, np.ndarray]) -> tuple[float, float]:
    """The sums of squares of the difference and of the truth; the former is infinite if names or shapes differ."""
    if {name: each.shape for name, each in answer.items()} != {name: each.shape for name, each in truth.items()}:
        return float("inf"), 1.0
    off = size = 0.0
    for name, wanted in truth.items():
        for x, y in zip(_chunks(answer[name]), _chunks(wanted), strict=True):
            off, size = off + float(np.square(x - y).sum()), size + float(np.square(y).sum())
    return off, size


_CHUNK = 1 << 16
"""Number of elements whose float64 copies stay in the cache."""


def _chunks(x: np.ndarray) -> Iterator[np.ndarray]:
    flat = x.reshape(-1)
    return (as_reals(flat[start : start + _CHUNK]) for start in range(0, flat.size, _CHUNK))


def as_reals(x: np.ndarray) -> np.ndarray:
    """The elements of an array as float64, flattened, with real and imaginary parts alternating."""
    x = x.astype(np.complex128).view(np.float64) if x.dtype.kind == "c" else x.astype(np.float64)
    return np.ravel(x)


def ulps(x: np.ndarray, y: np.ndarray) -> float:
    """The largest difference in units in the last place of `x`'s dtype at the values of `y`."""
    if x.dtype.kind not in "fcV":
        return float(np.abs(as_reals(x) - as_reals(y)).max(initial=0.0))
    odd = x.dtype.kind == "V" or x.dtype.itemsize == 1  # NumPy has no finfo of these
    limits = (load("ml_dtypes") if odd else np).finfo(x.dtype)
    bits, least = limits.nmant + 1, limits.minexp
    wide, true = as_reals(x), as_reals(y)
    exponents = np.maximum(np.frexp(true)[1] - 1, least)
    with np.errstate(invalid="ignore"):
        return float((np.abs(wide - true) / np.ldexp(1.0, exponents + 1 - bits)).max(initial=0.0))
