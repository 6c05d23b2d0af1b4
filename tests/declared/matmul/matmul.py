"""Samples and references of `ops/matmul/matmul.py`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from minitorch_backends.tensor.dtypes import float32

from ..samples import Sample, between, sample
from ..table import declare


def _matrices() -> Iterator[Sample]:
    yield sample(between(-1, 1, 3, 4), between(-1, 1, 4, 2, seed=1))
    yield sample(between(-1, 1, 4, 3).T, between(-1, 1, 2, 4, seed=1).T)
    yield sample(between(-1, 1, 0, 4), between(-1, 1, 4, 2, seed=1))


def _products() -> Iterator[Sample]:
    yield from _matrices()
    yield sample(between(-1, 1, 2, 1, 3, 4), between(-1, 1, 3, 4, 2, seed=1))
    yield sample(between(-1, 1, 6, 8)[::2, ::-2], between(-1, 1, 4, seed=1))
    yield sample(between(-1, 1, 3), between(-1, 1, 2, 3, 4, seed=1))
    yield sample(between(-1, 1, 2, 3, 4), between(-1, 1, 4, seed=1))
    yield sample(between(-1, 1, 3), between(-1, 1, 3, seed=1))
    yield sample(between(-1, 1, 3, 0), between(-1, 1, 0, 2, seed=1))


def _batches() -> Iterator[Sample]:
    yield sample(between(-1, 1, 2, 3, 4), between(-1, 1, 2, 4, 5, seed=1))
    yield sample(between(-1, 1, 2, 4, 3).transpose(0, 2, 1), between(-1, 1, 2, 4, 5, seed=1)[::-1])
    yield sample(between(-1, 1, 0, 3, 4), between(-1, 1, 0, 4, 5, seed=1))


def _vectors() -> Iterator[Sample]:
    yield sample(between(-1, 1, 4), between(-1, 1, 4, seed=1))
    yield sample(between(-1, 1, 8)[::-2], between(-1, 1, 4, seed=1))
    yield sample(between(-1, 1, 0), between(-1, 1, 0, seed=1))


declare("matmul", np.matmul, _products)


def _wide_samples() -> Iterator[Sample]:
    for call in (*_matrices(), *_batches()):
        yield sample(*call.args, None)
    yield sample(*next(_matrices()).args, float32)


declare("product_to", lambda input, other, out_dtype: np.matmul(input, other), _wide_samples)
declare("mm", np.matmul, _matrices)
declare("bmm", np.matmul, _batches)
declare(
    "mv",
    np.matmul,
    lambda: iter([sample(between(-1, 1, 4, 3).T, between(-1, 1, 4)), sample(between(-1, 1, 0, 3), between(-1, 1, 3))]),
)
declare("dot", np.dot, _vectors)
declare("vdot", np.vdot, _vectors)
declare(
    "outer",
    np.outer,
    lambda: iter([sample(between(-1, 1, 3), between(-1, 1, 4)), sample(between(-1, 1, 6)[::-2], between(-1, 1, 0))]),
)
