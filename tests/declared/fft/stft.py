"""Samples and references of `ops/fft/stft.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, sample
from ..table import declare


def _piece_samples() -> Iterator[Sample]:
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(8) / 8)
    yield sample(between(-2, 2, 3, 20), 8, window=hann, return_complex=True)
    yield sample(between(-2, 2, 24, 3).T, 8, 3, 6, center=False, return_complex=True)
    yield sample(between(-2, 2, 17), 6, 2, None, hann[:6], True, "constant", True, False, return_complex=True)


def _piece_reference(
    input: np.ndarray, n_fft: int, hop_length: Any = None, win_length: Any = None, window: Any = None,
    center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: Any = None,
    return_complex: Any = None,
) -> np.ndarray:  # fmt: skip
    """The definition, frame by frame."""
    hop, win = hop_length or n_fft // 4, win_length or n_fft
    before, full = (n_fft - win) // 2, np.zeros(n_fft, input.dtype)
    full[before : before + win] = 1 if window is None else window
    if center:
        around = [(0, 0)] * (input.ndim - 1) + [(n_fft // 2,) * 2]
        input = np.pad(input, around, mode=pad_mode)  # type: ignore[call-overload]
    starts = range(0, input.shape[-1] - n_fft + 1, hop)
    spectra = [np.fft.fft(input[..., start : start + n_fft] * full) for start in starts]
    stacked = np.stack(spectra, -1) / (np.sqrt(n_fft) if normalized else 1)
    return stacked if onesided is False or input.dtype.kind == "c" else stacked[..., : n_fft // 2 + 1, :]


declare("stft", _piece_reference, _piece_samples)


def _signal_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 3, 5, 9), 8)
    yield sample(between(-2, 2, 7, 5).T, 8, 3, center=False)
    yield sample(between(-2, 2, 6, 7), 6, 2, None, None, True, True, False, 9)


def _signal_reference(
    input: np.ndarray, n_fft: int, hop_length: Any = None, win_length: Any = None, window: Any = None,
    center: bool = True, normalized: bool = False, onesided: Any = None, length: Any = None,
    return_complex: bool = False,
) -> np.ndarray:  # fmt: skip
    """The definition, frame by frame."""
    hop, full = hop_length or n_fft // 4, np.ones(n_fft) if window is None else window
    pieces = input.shape[-1]
    signal, envelope = np.zeros((*input.shape[:-2], n_fft + hop * (pieces - 1))), np.zeros(n_fft + hop * (pieces - 1))
    for piece in range(pieces):
        spectrum, at = input[..., piece], slice(piece * hop, piece * hop + n_fft)
        made = np.fft.irfft(spectrum[..., : n_fft // 2 + 1], n_fft)
        signal[..., at] += made * full * (np.sqrt(n_fft) if normalized else 1)
        envelope[at] += full**2
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else signal.shape[-1] - start
    return signal[..., start:end] / envelope[start:end]


declare("istft", _signal_reference, _signal_samples)
