"""Samples and references of `ops/elementwise/cast.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch_backends.tensor.casting import cast_unchecked
from minitorch_backends.tensor.dtypes import DType, complex128, float64, int64

from ..samples import arrays_like, sample, unary_samples
from ..table import declare


def _cast_samples() -> Any:
    for array in arrays_like(-2, 2):
        yield sample(array, complex128)
    yield sample(np.arange(6).reshape(2, 3), float64)
    yield sample(np.array([True, False]), int64)


declare("to_copy", lambda input, dtype: cast_unchecked(input, dtype.dtype), _cast_samples)
declare("clone", np.array, unary_samples())
declare("contiguous", np.array, unary_samples())


def _to_samples() -> Any:
    yield from _cast_samples()
    yield sample(arrays_like(-2, 2)[0], "cpu", complex128)
    yield sample(arrays_like(-2, 2)[0], dtype=float64, copy=True)


def _to_reference(input: np.ndarray, *args: Any, dtype: Any = None, copy: bool = False) -> np.ndarray:
    dtype = next((arg for arg in args if isinstance(arg, DType)), dtype)
    return cast_unchecked(input, dtype.dtype)


declare("to", _to_reference, _to_samples)
