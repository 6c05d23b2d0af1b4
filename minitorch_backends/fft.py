"""Discrete Fourier transforms under the names of `torch.fft`."""

# ruff: noqa: F401

from typing import TYPE_CHECKING

from .namespaces import serve

if TYPE_CHECKING:
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

serve(__name__)
