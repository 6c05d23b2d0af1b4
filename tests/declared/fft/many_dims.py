"""Samples and references of `ops/fft/many_dims.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.fft.transforms import LAST_TWO

from ..samples import Sample, between, sample
from ..table import declare


def _hermitian(inverse: bool) -> Callable[..., Any]:
    """hfftn and ihfftn, which NumPy lacks, from transforms along one axis."""

    def reference(input: Any, s: Any = None, dim: Any = None, norm: Any = None) -> Any:
        dims = [axis % np.ndim(input) for axis in (range(-len(s or np.shape(input)), 0) if dim is None else dim)]
        sizes: Any = [None] * len(dims) if s is None else list(s)
        if inverse:
            out = np.fft.ihfft(input, sizes[-1], dims[-1], norm)
            return np.fft.ifftn(out, sizes[:-1] if s else None, dims[:-1], norm) if dims[:-1] else out
        out = np.fft.fftn(input, sizes[:-1] if s else None, dims[:-1], norm) if dims[:-1] else input
        return np.fft.hfft(out, sizes[-1], dims[-1], norm)

    return reference


def _over(reference: Callable[..., Any], dims: Any) -> Callable[..., Any]:
    """A reference that takes these dims where none are given, and all of the last len(s) ones for None."""

    def with_dims(input: Any, s: Any = None, dim: Any = dims, norm: Any = None) -> Any:
        if dim is None and s is not None:
            dim = tuple(range(-len(s), 0))
        return reference(input, s, dim, norm)

    return with_dims


def _samples(n: bool, none: bool = False) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        yield sample(between(-2, 2, 3, 4))
        yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, (5, 3), (1, 0), "ortho")
        yield sample(between(-2, 2, 2, 2, 3), (3, 4), (-1, 0), "forward")
        yield sample(between(-2, 2, 0, 2, 3), None, (1, 2))
        if n:
            yield sample(between(-2, 2, 2, 2, 3))
            yield sample(between(-2, 2, 5, 3), (4,))
            yield sample(between(-2, 2, 2, 5), None, (1,))
        if none:
            yield sample(between(-2, 2))

    return samples


declare("fftn", _over(lambda *args: np.fft.fftn(*args) + 0j, None), _samples(True, none=True))
declare("ifftn", _over(lambda *args: np.fft.ifftn(*args) + 0j, None), _samples(True, none=True))
declare("rfftn", _over(np.fft.rfftn, None), _samples(True))
declare("irfftn", _over(np.fft.irfftn, None), _samples(True))
declare("hfftn", _over(_hermitian(False), None), _samples(True))
declare("ihfftn", _over(_hermitian(True), None), _samples(True))
declare("fft2", _over(np.fft.fftn, LAST_TWO), _samples(False))
declare("ifft2", _over(np.fft.ifftn, LAST_TWO), _samples(False))
declare("rfft2", _over(np.fft.rfftn, LAST_TWO), _samples(False))
declare("irfft2", _over(np.fft.irfftn, LAST_TWO), _samples(False))
declare("hfft2", _over(_hermitian(False), LAST_TWO), _samples(False))
declare("ihfft2", _over(_hermitian(True), LAST_TWO), _samples(False))
