"""Spectra of short pieces of a signal, one after the other, and the signal that has such spectra."""

from __future__ import annotations

import numpy as np

from ...dispatch.op import composite
from ...tensor.dtypes import FLOATING
from ...tensor.tensor import Tensor, adopt
from ..conv.fold import fold
from ..dims import integer
from ..elementwise.complex_numbers import view_as_real
from ..views.padding import pad
from .transforms import fft, ifft, irfft, rfft

__all__ = ["istft", "stft"]

_LEAST_ENVELOPE = 1e-11


def _window(name: str, window: Tensor | None, n_fft: int, win_length: int, like: Tensor) -> Tensor:
    """The window, with zeros around it up to `n_fft`."""
    if window is not None and window.shape != (win_length,):
        raise RuntimeError(f"{name}(): expected a 1D window tensor of size {win_length}, but got {list(window.shape)}")
    dtype = like.real.dtype if like.is_complex() else like.dtype
    made = adopt(np.ones(win_length, dtype.dtype)) if window is None else window
    before = (n_fft - win_length) // 2
    return made if win_length == n_fft else pad(made, (before, n_fft - win_length - before))


def _sizes(name: str, n_fft: int, hop_length: int | None, win_length: int | None) -> tuple[int, int]:
    n_fft = integer(name, "n_fft", n_fft)
    hop = n_fft // 4 if hop_length is None else integer(name, "hop_length", hop_length)
    win = n_fft if win_length is None else integer(name, "win_length", win_length)
    if n_fft <= 0 or hop <= 0 or not 0 < win <= n_fft:
        raise RuntimeError(
            f"{name}(): expected 0 < n_fft, 0 < hop_length and 0 < win_length <= n_fft, got n_fft={n_fft}, "
            f"hop_length={hop}, win_length={win}"
        )
    return hop, win


@composite(takes="fc", also="bi", autocast="float32")
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
) -> Tensor:
    """Short-time Fourier transform: the spectra of windowed frames (D. Gabor, 1946).

    Arguments:
        input: (length) or (batch, length), real or complex.
        n_fft: the length of a frame.
        hop_length: the distance of frames, by default n_fft // 4.
        window: `win_length` numbers, padded with zeros on both sides to `n_fft`.
        center: centre frames at 0, hop_length, ..., and pad the input by `pad_mode`.
        onesided: the n_fft // 2 + 1 frequencies starting at 0; the default for real input.
        return_complex: required for real input; False returns real and imaginary parts in a last dimension.

    Returns ([batch], frequencies, frames). Raises RuntimeError for mismatched sizes.
    """
    if input.dtype.category < FLOATING or input.ndim not in (1, 2) or not input.numel():
        raise RuntimeError(
            f"stft() expects a tensor of floating point or complex values, 1D or 2D and not empty, got "
            f"{input.dtype!r}{list(input.shape)}"
        )
    hop, win = _sizes("stft", n_fft, hop_length, win_length)
    real = not (input.is_complex() or (window is not None and window.is_complex()))
    if return_complex is None and real:
        raise RuntimeError("stft requires the return_complex parameter be given for real inputs; pass True")
    if onesided and not real:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    taper = _window("stft", window, n_fft, win, input)
    rows = input.reshape(-1, input.shape[-1])
    if center:
        rows = pad(rows, (n_fft // 2, n_fft // 2), pad_mode)
    if rows.shape[-1] < n_fft:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {rows.shape[-1]}, the padded length, but got n_fft={n_fft}")
    pieces = rows.unfold(-1, n_fft, hop) * taper
    transform = rfft if real and onesided is not False else fft
    spectra = transform(pieces, norm="ortho" if normalized else "backward").transpose(-1, -2)
    spectra = spectra if input.ndim > 1 else spectra.squeeze(0)
    return spectra if return_complex is not False else view_as_real(spectra)


@composite(takes="c")
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Inverse short-time Fourier transform: the least-squares signal of these spectra (D. Griffin and J. Lim, 1984).

    It overlap-adds the windowed frames and divides by the sum of squared windows. `length` is the length of the signal,
    which is truncated or padded with zeros.

    input: complex, ([batch], frequencies, frames); a real signal uses the frequencies up to n_fft // 2. Raises
    RuntimeError if the squared windows do not cover the signal.

    Raises NotImplementedError for real input.
    """
    if not input.is_complex():
        raise NotImplementedError(
            f"istft() is not implemented for {input.dtype!r}; expected what stft returns, complex tensors"
        )
    if input.ndim not in (2, 3) or not input.numel():
        raise RuntimeError(f"istft() expects a tensor of 2 or 3 dimensions, not empty, got {list(input.shape)}")
    hop, win = _sizes("istft", n_fft, hop_length, win_length)
    spectra = input.reshape(-1, *input.shape[-2:])
    half = n_fft // 2 + 1
    one = spectra.shape[1] != n_fft if onesided is None else onesided
    if spectra.shape[1] != (half if one else n_fft):
        raise RuntimeError(
            f"istft: expected the frequency dimension to be {half if one else n_fft} for n_fft={n_fft} and "
            f"onesided={one}, but got {spectra.shape[1]}"
        )
    if return_complex and one:
        raise RuntimeError("cannot have onesided input for complex output")
    taper, norm = _window("istft", window, n_fft, win, input), "ortho" if normalized else "backward"
    frames = spectra.transpose(1, 2)
    pieces = ifft(frames, norm=norm) if return_complex else irfft(frames[..., :half], n_fft, norm=norm)
    total, count = n_fft + hop * (frames.shape[1] - 1), frames.shape[1]
    signal = _overlap_add(pieces * taper, total, hop)
    envelope = _overlap_add((taper * taper).expand(1, count, n_fft), total, hop)
    start = n_fft // 2 if center else 0
    end = min(start + length, total) if length is not None else total - start
    signal, envelope = signal[:, start:end], envelope[:, start:end]
    if not envelope.numel() or float(envelope.abs().min()) < _LEAST_ENVELOPE:
        raise RuntimeError(
            "istft: the squared windows do not cover the signal (window overlap add min: 1); take a smaller "
            "hop_length, another window, or center=True"
        )
    signal = signal / envelope
    if length is not None and signal.shape[1] < length:
        signal = pad(signal, (0, length - signal.shape[1]))
    return signal if input.ndim > 2 else signal.squeeze(0)


def _overlap_add(pieces: Tensor, total: int, hop: int) -> Tensor:
    """Pieces (batch, count, size) added where they overlap: (batch, total)."""
    if pieces.is_complex():
        parts = _overlap_add(pieces.real, total, hop), _overlap_add(pieces.imag, total, hop)
        return parts[0] + 1j * parts[1]
    size = pieces.shape[2]
    return fold(pieces.transpose(1, 2), (1, total), (1, size), stride=(1, hop)).reshape(-1, total)
