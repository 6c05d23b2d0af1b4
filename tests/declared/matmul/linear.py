"""Samples and references of `ops/matmul/linear.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.declared.samples import Sample, between, sample
from tests.declared.table import declare


def _samples() -> Iterator[Sample]:
    weight, bias = between(-1, 1, 3, 4, seed=1), between(-1, 1, 3, seed=2)
    yield sample(between(-1, 1, 2, 4), weight)
    yield sample(between(-1, 1, 2, 5, 4), weight, bias)
    yield sample(between(-1, 1, 8, 4)[::2, ::-2].T, weight, bias)
    yield sample(between(-1, 1, 4), weight, bias)
    yield sample(between(-1, 1, 2, 4), weight[0])
    yield sample(between(-1, 1, 0, 4), weight, bias)
    yield sample(between(-1, 1, 2, 0), between(-1, 1, 3, 0), bias)


def _reference(input: Any, weight: Any, bias: Any = 0) -> Any:
    return input @ weight.T + bias


def _affine_samples() -> Iterator[Sample]:
    yield from (each for each in _samples() if each.args[1].ndim > 1)


declare("affine", _reference, _affine_samples)
declare("linear", _reference, _samples)


def _samples_of_bilinear() -> Iterator[Sample]:
    weight, bias = between(-1, 1, 5, 3, 4, seed=2), between(-1, 1, 5, seed=3)
    yield sample(between(-1, 1, 2, 3), between(-1, 1, 2, 4, seed=1), weight)
    yield sample(between(-1, 1, 2, 6, 3), between(-1, 1, 2, 6, 4, seed=1), weight, bias)
    yield sample(between(-1, 1, 3), between(-1, 1, 4, seed=1), weight, bias)
    yield sample(between(-1, 1, 0, 3), between(-1, 1, 0, 4), weight, bias)


def _reference_of_bilinear(input1: Any, input2: Any, weight: Any, bias: Any = 0) -> Any:
    products = input1[..., None, :, None] * weight * input2[..., None, None, :]
    return products.sum((-2, -1)) + bias


declare("bilinear", _reference_of_bilinear, _samples_of_bilinear)
