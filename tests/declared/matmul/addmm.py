"""Samples and references of `ops/matmul/addmm.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..samples import Sample, between, sample
from ..table import declare


def _adding(shape_of_input: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...]) -> Any:
    def samples() -> Iterator[Sample]:
        a, b = between(-1, 1, *first), between(-1, 1, *second, seed=1)
        yield sample(between(-1, 1, *shape_of_input, seed=2), a, b)
        yield sample(between(-1, 1, *shape_of_input[-1:], seed=2), a[..., ::-1], b, beta=3, alpha=2)
        yield sample(between(-1, 1, seed=2), a, b, beta=0)
        yield sample(between(-1, 1, seed=2), a[:0] if len(first) < 3 else a[:, :0], b)

    return samples


declare(
    "addmm",
    lambda input, mat1, mat2, beta=1, alpha=1: (beta * input if beta else 0) + alpha * (mat1 @ mat2),
    _adding((3, 2), (3, 4), (4, 2)),
)
declare(
    "baddbmm",
    lambda input, batch1, batch2, beta=1, alpha=1: (beta * input if beta else 0) + alpha * (batch1 @ batch2),
    _adding((2, 3, 2), (2, 3, 4), (2, 4, 2)),
)
declare(
    "addmv",
    lambda input, mat, vec, beta=1, alpha=1: (beta * input if beta else 0) + alpha * (mat @ vec),
    _adding((3,), (3, 4), (4,)),
)
declare(
    "addr",
    lambda input, vec1, vec2, beta=1, alpha=1: (beta * input if beta else 0) + alpha * np.outer(vec1, vec2),
    lambda: iter(
        [
            sample(between(-1, 1, 3, 2), between(-1, 1, 3, seed=1), between(-1, 1, 2, seed=2)),
            sample(between(-1, 1, 2), between(-1, 1, 6, seed=1)[::-2], between(-1, 1, 2, seed=2), beta=2, alpha=3),
            sample(between(-1, 1), between(-1, 1, 0, seed=1), between(-1, 1, 2, seed=2)),
        ]
    ),
)
declare(
    "addbmm",
    lambda input, batch1, batch2, beta=1, alpha=1: (beta * input if beta else 0) + alpha * (batch1 @ batch2).sum(0),
    _adding((3, 2), (2, 3, 4), (2, 4, 2)),
)
