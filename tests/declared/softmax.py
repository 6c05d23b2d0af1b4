"""Samples and references of `ops/softmax.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.tensor.dtypes import float64

from .samples import Sample, arrays_like, between, sample
from .table import declare


def _along() -> Iterator[Sample]:
    for each in arrays_like(-3, 3):
        yield sample(each, -1)
    yield sample(between(-3, 3, 2, 3, 4), 1)
    yield sample(between(-3, 3, 3, 0), -1)


def _along_in_dtype() -> Iterator[Sample]:
    yield from _along()
    yield sample(between(-3, 3, 3, 4), 0, dtype=float64)


def _results(function: Any) -> Any:
    """Samples of a gradient: cotangents and results of `function`."""

    def samples() -> Iterator[Sample]:
        for seed, ((input, dim), _) in enumerate(_along()):
            with np.errstate(divide="ignore"):  # empty sums
                yield sample(between(-1, 1, *input.shape, seed=seed + 9), np.asarray(function(input, dim)), dim)

    return samples


def _softmax(input: np.ndarray, dim: int, dtype: Any = None) -> np.ndarray:
    exponentials = np.exp(input)
    return exponentials / exponentials.sum(dim, keepdims=True)


def _log_softmax(input: np.ndarray, dim: int, dtype: Any = None) -> np.ndarray:
    return input - np.log(np.exp(input).sum(dim, keepdims=True))


declare(
    "softmax_backward",
    lambda grad_output, result, dim: result * (grad_output - (grad_output * result).sum(dim, keepdims=True)),
    _results(_softmax),
)
declare(
    "log_softmax_backward",
    lambda grad_output, result, dim: grad_output - np.exp(result) * grad_output.sum(dim, keepdims=True),
    _results(_log_softmax),
)
declare("softmax_forward", _softmax, _along)
declare("log_softmax_forward", _log_softmax, _along)
declare("softmax", _softmax, _along_in_dtype)
declare("log_softmax", _log_softmax, _along_in_dtype)
declare("softmin", lambda input, dim, dtype=None: _softmax(-input, dim), _along_in_dtype)
