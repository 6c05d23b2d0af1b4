"""Samples and references of `ops/fft/one_dim.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, sample
from ..table import declare


def one_dim(*, half: bool = False) -> Any:
    """Samples of a transform along one dim; of a spectrum's `half`, at least two values."""

    def samples() -> Iterator[Sample]:
        yield sample(between(-2, 2, 3, 4))
        yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, 5, 0, "ortho")
        yield sample(between(-2, 2, 5), None, -1, "forward")
        yield sample(between(-2, 2, 2, 5, 2), 3, 1)
        yield sample(between(-2, 2, 7))
        yield sample(between(-2, 2, 3, 1), 1)
        yield sample(between(-2, 2, 0, 3), 4)
        if half:
            yield sample(between(-2, 2, 3, 2), 9, 1)

    return samples


declare("fft", np.fft.fft, one_dim())
declare("ifft", np.fft.ifft, one_dim())
declare("rfft", np.fft.rfft, one_dim())
declare("ihfft", np.fft.ihfft, one_dim())
declare("irfft", np.fft.irfft, one_dim(half=True))
declare("hfft", np.fft.hfft, one_dim(half=True))
