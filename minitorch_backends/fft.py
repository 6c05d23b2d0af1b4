"""Discrete Fourier transforms under the names of `torch.fft`."""

# ruff: noqa: F401

from typing import TYPE_CHECKING

from .namespaces import serve

if TYPE_CHECKING:
    from .ops.fft.transforms import (
        fft,
        fft2,
        fftfreq,
        fftn,
        fftshift,
        hfft,
        hfft2,
        hfftn,
        ifft,
        ifft2,
        ifftn,
        ifftshift,
        ihfft,
        ihfft2,
        ihfftn,
        irfft,
        irfft2,
        irfftn,
        rfft,
        rfft2,
        rfftfreq,
        rfftn,
    )

serve(__name__)
