"""Samples and references of `ops/elementwise/complex_numbers.py`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..samples import Sample, between, pairs, sample, unary_samples
from ..table import declare
from .comparison import unusual

declare("real_part", np.real)
declare("imag", np.imag)
declare("real", np.real, unary_samples())
declare("conj", np.conj, unary_samples())
declare("resolve_conj", np.array, unary_samples())
declare("conj_physical", np.conj, unary_samples())


def _interleaved_array() -> Iterator[Sample]:
    yield sample(between(-2, 2, 3, 4, 2))
    yield sample(between(-2, 2, 2))
    yield sample(between(-2, 2, 0, 2))


declare("view_as_real", lambda input: np.stack([input.real, input.imag], -1))
declare("view_as_complex", lambda input: input[..., 0] + 1j * input[..., 1], _interleaved_array)
declare("complex", lambda real, imag: real + 1j * imag, pairs(0.3, 2, -2, 2, numbers=False))
declare("sgn", lambda input: np.sign(input if input.dtype != bool else input.astype(int)), unary_samples(-2.3, 2))
declare("abs", np.abs, unary_samples(-2.3, 2))
declare("angle", lambda input: np.arctan2(np.imag(input), np.real(input)), unary_samples(-2.3, 2))
declare("polar", lambda abs, angle: abs * np.exp(1j * angle), pairs(0.3, 2, -2, 2, numbers=False))


declare("isreal", np.isreal, unusual)
