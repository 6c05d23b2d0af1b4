"""Fourier transforms by SciPy (pocketfft), for every length. It refuses nothing, and keeps its plans itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runtime import threading
from ..runtime.first_use import load
from .contract import complex_of, fft, lengths_of, real_of

_FORWARD = {"none": "backward", "root": "ortho", "size": "forward"}
_INVERSE = {"none": "forward", "root": "ortho", "size": "backward"}


def _along_each(
    x: np.ndarray, kind: str, axes: tuple[int, ...], lengths: tuple[int, ...], norms: dict[str, str], scaling: str
) -> np.ndarray:
    options: dict[str, Any] = {"norm": norms[scaling], "workers": threading.get_num_threads()}
    name = {"forward": "fft", "inverse": "ifft", "real": "rfft", "halved": "irfft"}[kind]
    if len(axes) == 1:  # 5 us less than by way of several
        return getattr(load("scipy.fft"), name)(x, lengths[0] if kind == "halved" else None, axes[0], **options)
    # SciPy ignores what the spectrum of a real array cannot have, as this kernel does.
    return getattr(load("scipy.fft"), name + "n")(x, lengths if kind == "halved" else None, axes, **options)


@fft.impl("scipy")
def fft_scipy(
    x: np.ndarray, *, kind: str, axes: tuple[int, ...], scaling: str = "none", last: int = 0, plans: int = 0
) -> np.ndarray:
    """scipy.fft over several axes at once."""
    lengths = lengths_of(x.shape, kind, axes, last)
    if 0 in x.shape or not axes:
        shape = list(x.shape)
        if axes and kind in ("real", "halved"):
            shape[axes[-1]] = lengths[-1] if kind == "halved" else lengths[-1] // 2 + 1
            return np.zeros(shape, (real_of if kind == "halved" else complex_of)(x.dtype))
        return x.copy()
    norms = _FORWARD if kind in ("forward", "real") else _INVERSE
    return _along_each(x, kind, axes, lengths, norms, scaling)
