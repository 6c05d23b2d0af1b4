"""Discrete Fourier transforms under the names of `torch.fft`."""

from .ops.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from .ops.fft.many_dims import (
    fft2,
    fftn,
    hfft2,
    hfftn,
    ifft2,
    ifftn,
    ihfft2,
    ihfftn,
    irfft2,
    irfftn,
    rfft2,
    rfftn,
)  # fmt: skip
from .ops.fft.one_dim import fft, hfft, ifft, ihfft, irfft, rfft

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
