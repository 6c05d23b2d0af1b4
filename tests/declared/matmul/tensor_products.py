"""Samples and references of `ops/matmul/tensor_products.py`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..samples import Sample, between, sample
from ..table import declare


def _inner_samples() -> Iterator[Sample]:
    yield sample(between(-1, 1, 2, 3), between(-1, 1, 4, 3, seed=1))
    yield sample(between(-1, 1, 6)[::2], between(-1, 1, 2, 4, 3, seed=1))
    yield sample(between(-1, 1), between(-1, 1, 2, 3, seed=1))
    yield sample(between(-1, 1, 2, 0), between(-1, 1, 0, seed=1))


declare("inner", np.inner, _inner_samples)
declare(
    "kron",
    np.kron,
    lambda: iter(
        [
            sample(between(-1, 1, 2, 3), between(-1, 1, 3, 2, seed=1)),
            sample(between(-1, 1, 3), between(-1, 1, 4, 2, seed=1).T),
            sample(between(-1, 1), between(-1, 1, 2, seed=1)),
            sample(between(-1, 1, 0), between(-1, 1, 2, seed=1)),
        ]
    ),
)


def _contractions() -> Iterator[Sample]:
    yield sample(between(-1, 1, 2, 3, 4), between(-1, 1, 3, 4, 2, seed=1))
    yield sample(between(-1, 1, 4, 3, 2).T, between(-1, 1, 4, 5, seed=1), dims=1)
    yield sample(between(-1, 1, 2, 3), between(-1, 1, 4, 3, seed=1), dims=([1], [1]))
    yield sample(between(-1, 1, 2), between(-1, 1, 3, seed=1), dims=0)
    yield sample(between(-1, 1), between(-1, 1, 3, seed=1), dims=0)
    yield sample(between(-1, 1, 2, 0), between(-1, 1, 0, 3, seed=1), dims=1)


declare("tensordot", lambda a, b, dims=2: np.tensordot(a, b, axes=dims), _contractions)


def _chains() -> Iterator[Sample]:
    yield sample(
        [between(-1, 1, 2, 5), between(-1, 1, 5, 3, seed=1), between(-1, 1, 3, 4, seed=2), between(-1, 1, 4, 2, seed=3)]
    )
    yield sample([between(-1, 1, 4, 2).T, between(-1, 1, 4, 3, seed=1)])
    yield sample([between(-1, 1, 0, 2), between(-1, 1, 2, 3, seed=1), between(-1, 1, 3, 2, seed=1)])


declare("multi_dot", np.linalg.multi_dot, _chains)
declare(
    "chain_matmul",
    lambda *matrices: matrices[0] if len(matrices) == 1 else np.linalg.multi_dot(matrices),
    lambda: iter([sample(*each.args[0]) for each in _chains()]),
)
