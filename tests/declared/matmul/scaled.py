"""Samples and references of `ops/matmul/scaled.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels.precisions.float8 import from_float32
from minitorch_backends.ops.matmul.scaled import ScalingType
from minitorch_backends.tensor.dtypes import float8_e4m3fn, float32

from ..samples import Sample, between, sample
from ..table import declare


def _reference(
    a: np.ndarray, b: np.ndarray, scale_a: np.ndarray, scale_b: np.ndarray, bias: Any = None, *_: Any, **__: Any
) -> Any:
    """Of scales that broadcast."""
    product = (a.astype(np.float64) * scale_a) @ (b.astype(np.float64) * scale_b)
    return product if bias is None else product + bias


def _operands(*shape: int, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return from_float32(values, float8_e4m3fn.dtype)


def _samples() -> Iterator[Sample]:
    a, b = _operands(3, 40, seed=0), _operands(40, 5, seed=1)
    rows, columns = np.linspace(0.5, 2, 3, dtype=np.float32)[:, None], np.linspace(1, 3, 5, dtype=np.float32)[None]
    yield sample(a, b, np.full((), 0.5, np.float32), np.full((), 3, np.float32), out_dtype=float32)
    yield sample(a, b, rows, columns, out_dtype=float32)
    yield sample(a[::2, ::-1], b[:, :0], rows[::2], columns[:, :0], out_dtype=float32)


def _samples_of_op() -> Iterator[Sample]:
    for call in _samples():
        yield sample(*call.args, out_dtype=float32)
    yield sample(*next(_samples()).args, between(-1, 1, 5), out_dtype=float32)


declare("scaled_product", _reference, _samples_of_op)
declare("_scaled_mm", _reference, _samples)
declare(
    "scaled_mm",
    lambda a, b, scale_a, recipe_a, scale_b, recipe_b, **_: _reference(a, b, scale_a, scale_b),
    lambda: (
        sample(a, b, of_a, recipe, of_b, recipe, output_dtype=float32)
        for (a, b, of_a, of_b), recipe in zip(
            (call.args for call in _samples()),
            (ScalingType.TensorWise, ScalingType.RowWise, ScalingType.RowWise),
            strict=True,
        )
    ),
)
