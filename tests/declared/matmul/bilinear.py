"""Samples and references of `ops/matmul/bilinear.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..samples import Sample, between, sample
from ..table import declare


def _samples() -> Iterator[Sample]:
    weight, bias = between(-1, 1, 5, 3, 4, seed=2), between(-1, 1, 5, seed=3)
    yield sample(between(-1, 1, 2, 3), between(-1, 1, 2, 4, seed=1), weight)
    yield sample(between(-1, 1, 2, 6, 3), between(-1, 1, 2, 6, 4, seed=1), weight, bias)
    yield sample(between(-1, 1, 3), between(-1, 1, 4, seed=1), weight, bias)
    yield sample(between(-1, 1, 0, 3), between(-1, 1, 0, 4), weight, bias)


def _reference(input1: Any, input2: Any, weight: Any, bias: Any = 0) -> Any:
    products = input1[..., None, :, None] * weight * input2[..., None, None, :]
    return products.sum((-2, -1)) + bias


declare("bilinear", _reference, _samples)
