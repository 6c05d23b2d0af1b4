"""Samples and references of `ops/fft/transforms.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels.fft import fft as kernel
from minitorch_backends.ops.fft.transforms import Dims

from ..samples import Sample, between, sample
from ..table import declare


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
