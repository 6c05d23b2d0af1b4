"""The three linear maps that all Fourier transforms are: complex to complex, real to half a spectrum, and back.

Each one's gradient is another of them: with F the matrix of the transform, that of F x is F^H g, the transform of the
other direction with the same scaling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..flags import current
from ..kernels.fft import fft as kernel
from ..op import Array, op
from ..samples import Sample, between, sample
from ..tensor import Tensor, adopt

__all__ = ["halved_transform", "real_transform", "transform"]

Dims = tuple[int, ...]


def _run(x: np.ndarray, kind: str, dims: Dims, scaling: str, last: int = 0) -> np.ndarray:
    return kernel(
        x, kind=kind, axes=dims, scaling=scaling, last=last, plans=current().read("cuda.cufft_plan_cache.max_size")
    )


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


@op(
    input=lambda g, dims, scaling, forward: transform(g, dims, scaling, not forward),
    name="fft_c2c",
    method=False,
    warns=False,
    takes="c",
    reference=_reference("complex"),
    samples=_transform_samples,
)
def transform(input: Array, dims: Dims, scaling: str, forward: bool):
    """The transform of complex numbers over dims counted from the front, divided as `scaling` says."""
    return _run(input, "forward" if forward else "inverse", dims, scaling)


def _counts(g: Tensor, dim: int, last: int) -> Tensor:
    """How often each frequency of half a spectrum is in the whole one, in the shape of g's dim: 1, 2, 2, ..., 2, 1."""
    counts = np.full(last // 2 + 1, 2.0, g._array.real.dtype)
    counts[0] = 1
    if last % 2 == 0:
        counts[-1] = 1
    return adopt(counts.reshape([-1 if each == dim else 1 for each in range(g.ndim)]))


def _real_gradient(g: Tensor, input_shape: tuple[int, ...], dims: Dims, scaling: str) -> Tensor:
    """The real part of F^H of g and of zeros for the frequencies that are left out. The inverse adds their conjugates,
    and so counts twice what is here halved first."""
    last = input_shape[dims[-1]]
    return halved_transform(g / _counts(g, dims[-1], last), dims, scaling, last)


def _real_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 3, 4), (1,), "none")
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, (1, 0), "root")
    yield sample(between(-2, 2, 2, 2, 5), (0, 2), "size")
    yield sample(between(-2, 2, 0, 3), (1,), "size")


@op(
    input=_real_gradient,
    name="fft_r2c",
    method=False,
    warns=False,
    takes="f",
    reference=_reference("real"),
    samples=_real_samples,
)
def real_transform(input: Array, dims: Dims, scaling: str):
    """The forward transform of real numbers, of whose last dim the frequencies up to n/2 are kept."""
    return _run(input, "real", dims, scaling)


def _halved_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 3, 4), (1,), "none", 6)
    yield sample(between(-2, 2, 4, 6)[::2, ::-2].T, (1, 0), "root", 5)
    yield sample(between(-2, 2, 2, 2, 3), (0, 2), "size", 4)
    yield sample(between(-2, 2, 0, 3), (1,), "size", 4)


@op(
    input=lambda g, dims, scaling, last: real_transform(g, dims, scaling) * _counts(g, dims[-1], last),
    name="fft_c2r",
    method=False,
    warns=False,
    takes="c",
    reference=_reference("halved"),
    samples=_halved_samples,
)
def halved_transform(input: Array, dims: Dims, scaling: str, last: int):
    """The inverse transform of half a spectrum, with last // 2 + 1 frequencies in the last dim, to real numbers."""
    return _run(input, "halved", dims, scaling, last)
