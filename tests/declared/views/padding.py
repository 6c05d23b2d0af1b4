"""Samples and references of `ops/views/padding.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minitorch_backends.ops.views.padding import _MODES, Pairs, pairs_of

from ..samples import Sample, between, sample
from ..table import declare


def _constant_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 2, 3), ((0, 0), (1, 2)), 0.5)
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, ((1, 0), (0, 3)))
    yield sample(between(-2, 2), ())
    yield sample(between(-2, 2, 0, 3), ((2, 0), (0, 1)), 1.0)


def _constant_reference(input: Any, pairs: Pairs, value: float = 0.0) -> np.ndarray:
    return np.pad(input, pairs, constant_values=value) if input.ndim else np.array(input)


declare("constant_pad", _constant_reference, _constant_samples)


def _mirrored_samples() -> Iterator[Sample]:
    for mode in _MODES:
        yield sample(between(-2, 2, 3, 4), ((2, 1), (0, 3)), mode)
        yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, ((0, 2), (1, 0)), mode)
        yield sample(between(-2, 2, 0, 3), ((0, 0), (1, 1)), mode)


_NUMPY_MODES: dict[str, Any] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


declare("mirrored_pad", lambda input, pairs, mode: np.pad(input, pairs, mode=_NUMPY_MODES[mode]), _mirrored_samples)


def _pad_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 2, 3), (1, 2))
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, (1, -1, 0, 2), "constant", 1.5)
    yield sample(between(-2, 2, 2, 2, 3, 4), (1, 2, 2, 1), "reflect")
    yield sample(between(-2, 2, 2, 3, 4), (3, 1), mode="replicate")
    yield sample(between(-2, 2, 2, 2, 3, 4), (4, 1, 0, 3), mode="circular")
    yield sample(between(-2, 2, 2, 4), (-1, 1), mode="replicate")
    yield sample(between(-2, 2, 2, 3), (-2, 2), mode="reflect")
    yield sample(between(-2, 2, 2, 3, 1), (3, -1, -3, 4), mode="replicate")
    yield sample(between(-2, 2, 0, 3), (1, 0))
    yield sample(between(-2, 2), ())


def _pad_reference(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> np.ndarray:
    pairs = pairs_of(pad, input.ndim)
    cut = tuple(slice(max(-b, 0), n - max(-a, 0)) for (b, a), n in zip(pairs, input.shape, strict=True))
    widths = [(max(before, 0), max(after, 0)) for before, after in pairs]
    if input.ndim == 0:
        return np.array(input)
    if mode == "constant":
        return np.pad(input[cut], widths, constant_values=value or 0)
    if mode == "circular":
        return np.pad(input[cut], widths, mode="wrap")
    wide = np.pad(input, widths, mode="edge" if mode == "replicate" else "reflect")
    return wide[tuple(slice(max(-b, 0), n - max(-a, 0)) for (b, a), n in zip(pairs, wide.shape, strict=True))]


declare("pad", _pad_reference, _pad_samples)
