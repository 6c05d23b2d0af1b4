"""Samples and references of `ops/fft/transforms.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels.fft import fft as kernel
from minitorch_backends.ops.fft.transforms import LAST_TWO, Dims
from tests.declared.samples import Sample, between, sample, samples_of_shapes, strided_matrix
from tests.declared.table import declare


def _reference(kind: str) -> Any:
    def reference(input: Any, dims: Dims, scaling: str, last: Any = 0) -> np.ndarray:
        direction = kind
        if kind == "complex":
            direction = "forward" if last else "inverse"
        return kernel.reference(input, kind=direction, axes=dims, scaling=scaling, last=int(last))

    return reference


def _transform_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 3, 4), (1,), "none", True)
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, (0, 1), "root", False)
    yield sample(between(-2, 2), (), "size", True)
    yield sample(between(-2, 2, 0, 3), (1,), "size", True)


declare("fft_c2c", _reference("complex"), _transform_samples)


def _real_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 3, 4), (1,), "none")
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, (1, 0), "root")
    yield sample(between(-2, 2, 2, 2, 5), (0, 2), "size")
    yield sample(between(-2, 2, 0, 3), (1,), "size")


declare("fft_r2c", _reference("real"), _real_samples)


def _halved_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 3, 4), (1,), "none", 6)
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, (1, 0), "root", 5)
    yield sample(between(-2, 2, 2, 2, 3), (0, 2), "size", 4)
    yield sample(between(-2, 2, 0, 3), (1,), "size", 4)


declare("fft_c2r", _reference("halved"), _halved_samples)


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


def _samples_of_frequencies() -> Any:
    yield from samples_of_shapes(((3, 4),), ((5, 2), 0), ((2, 3, 5), (0, -1)), ((0, 3),))()
    yield sample(strided_matrix(), 1)
    yield sample(between(-2, 2, 5))


declare("fftshift", np.fft.fftshift, _samples_of_frequencies)
declare("ifftshift", np.fft.ifftshift, _samples_of_frequencies)
