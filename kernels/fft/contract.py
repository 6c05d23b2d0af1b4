"""What a Fourier transform computes: X[k] = scale * sum over j of x[j] exp(-2 pi i j k / n), along each of some axes.

`fft(x, kind=, axes=, scaling=, last=, plans=)`:

* kind "forward" and "inverse" take complex arrays; the sign of the exponent is - or +. "real" is the forward transform
  of a real array; the last axis keeps the frequencies 0 to n/2 (the others are their conjugates). "halved" is the
  inverse of an array that holds only those, and gives a real array with `last` values along the last axis. The
  imaginary parts at frequency 0 and n/2, which such a spectrum cannot have, count for nothing.
* scaling "none", "root" or "size": divided by 1, sqrt(n) or n, where n is the product of the lengths.
* plans: how many plans are kept in `plans.fft_plans`.

The error of a result relative to its norm grows with log2(n) roundings (N. Higham, "Accuracy and Stability of Numerical
Algorithms", section 24.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..registry import Kernel

DEFAULT_PLANS = 4096
"""Plans that are kept unless the caller says otherwise, as many as torch keeps of cuFFT's."""

_COMPLEX: dict[np.dtype, np.dtype] = {
    np.dtype(np.float32): np.dtype(np.complex64),
    np.dtype(np.float64): np.dtype(np.complex128),
}
_REAL: dict[np.dtype, np.dtype] = {value: key for key, value in _COMPLEX.items()}


class Call(NamedTuple):
    """The keywords of a call."""

    kind: str
    axes: tuple[int, ...]
    scaling: str = "none"
    last: int = 0
    plans: int = DEFAULT_PLANS


def complex_of(dtype: np.dtype) -> np.dtype:
    return _COMPLEX.get(dtype, dtype)


def real_of(dtype: np.dtype) -> np.dtype:
    return _REAL.get(dtype, dtype)


def lengths_of(shape: Sequence[int], kind: str, axes: Sequence[int], last: int) -> tuple[int, ...]:
    """The length of the transform along each axis."""
    lengths = [shape[axis] for axis in axes]
    if kind == "halved":
        lengths[-1] = last
    return tuple(lengths)


def divisor(lengths: Sequence[int], scaling: str) -> float:
    """What the sums are divided by."""
    size = math.prod(lengths)
    return {"none": 1.0, "root": math.sqrt(size), "size": float(size)}[scaling]


def _along(x: np.ndarray, axis: int, sign: int) -> np.ndarray:
    """The sums along one axis, as the definition says, in long double. Turns are reduced before they are rounded."""
    n = x.shape[axis]
    angles = np.arange(n) * (sign * 2 * np.arctan2(np.longdouble(0), np.longdouble(-1)) / n)
    roots = (np.cos(angles) + 1j * np.sin(angles))[(np.arange(n)[:, None] * np.arange(n)) % n]
    return np.moveaxis(np.tensordot(roots, x, (1, axis)), 0, axis)


def _reference(
    x: np.ndarray, *, kind: str, axes: Sequence[int], scaling: str = "none", last: int = 0, plans: int = 0
) -> np.ndarray:
    lengths = lengths_of(x.shape, kind, axes, last)
    out = x.astype(np.clongdouble)
    for axis in axes[:-1]:
        out = _along(out, axis, -1 if kind in ("forward", "real") else 1)
    if axes:
        out = np.moveaxis(out, axes[-1], -1)
        if kind == "halved":
            first = out[..., : last // 2 + 1].copy()
            first[..., 0] = first[..., 0].real
            if last % 2 == 0:
                first[..., -1] = first[..., -1].real
            mirrored = first[..., 1 : (last + 1) // 2][..., ::-1].conj()
            out = np.concatenate([first, mirrored], -1)
        out = _along(out, out.ndim - 1, -1 if kind in ("forward", "real") else 1)
        if kind == "real":
            out = out[..., : lengths[-1] // 2 + 1]
        out = np.moveaxis(out, -1, axes[-1])
    out = out / divisor(lengths, scaling)
    return out.real if kind == "halved" else out


fft = Kernel("fft", reference=_reference, bound={"ieee": 1.0})
"""bound: roundings for each level of log2(n), and for the scaling, relative to the norm of the result."""


def rfftn(x: np.ndarray, axes: Sequence[int], plans: int = DEFAULT_PLANS) -> np.ndarray:
    """The spectrum of a real array over some axes (counted from the front); the last one keeps n/2 + 1 values."""
    return fft(x, kind="real", axes=tuple(axes), scaling="none", last=0, plans=plans)


def irfftn(spectrum: np.ndarray, axes: Sequence[int], last: int, plans: int = DEFAULT_PLANS) -> np.ndarray:
    """The real array, `last` long in the last axis, whose `rfftn` is `spectrum`."""
    return fft(spectrum, kind="halved", axes=tuple(axes), scaling="size", last=last, plans=plans)
