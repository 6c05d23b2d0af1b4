"""Samples and references of `ops/views/shape.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..samples import between, sample, samples_of_shapes, strided_matrix, unary_samples
from ..table import declare


def _reshape_samples() -> Any:
    yield from samples_of_shapes(
        ((3, 4), (2, 6)), ((3, 4), (-1,)), ((3, 4), (2, -1, 3)), ((), (1, 1)), ((1,), ()), ((0, 3), (3, 0))
    )()
    yield sample(strided_matrix(), (-1,))
    yield sample(strided_matrix(), (3, 1, 2))


declare("reshape", np.reshape, _reshape_samples)
declare("view", np.reshape, samples_of_shapes(((3, 4), (2, 6)), ((3, 4), (-1,)), ((), (1, 1)), ((0, 3), (3, 0))))


def _expand_samples() -> Any:
    yield from samples_of_shapes(
        ((3, 1), (3, 4)),
        ((3, 1), (2, -1, 4)),
        ((4,), (3, 4)),
        ((), (2, 2)),
        ((1, 3), (0, 3)),
        ((0, 1), (0, 2)),
        ((3, 1), (3, 1)),
    )()
    yield sample(between(-2, 2, 4, 6)[::2, ::-2][:, :1].T, (5, 2))


declare(
    "expand",
    lambda input, size: (
        input
        + np.zeros(
            [new if old == -1 else old for new, old in zip((1, 1, *input.shape)[-len(size) :], size, strict=True)]
        )
    ),
    _expand_samples,
)


def _squeeze_samples() -> Any:
    yield from samples_of_shapes(
        ((1, 3, 1),),
        ((3, 4),),
        ((),),
        ((1, 0),),
        ((1, 3, 1), 0),
        ((1, 3, 1), -1),
        ((1, 3, 1), 1),
        ((1, 3, 1), (0, 2)),
        ((1, 3, 1), (0, 1)),
    )()
    yield sample(between(-2, 2, 4, 6)[::2, None, ::-2].T, 1)


def _squeeze_reference(input: np.ndarray, dim: Any = None) -> np.ndarray:
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return np.squeeze(input, tuple(each for each in dims if input.shape[each] == 1))


declare("squeeze", _squeeze_reference, _squeeze_samples)


def _unsqueeze_samples() -> Any:
    yield from samples_of_shapes(((3, 4), 0), ((3, 4), 1), ((3, 4), -1), ((), 0), ((0, 3), 2))()
    yield sample(strided_matrix(), 1)


declare("unsqueeze", np.expand_dims, _unsqueeze_samples)
declare(
    "flatten",
    lambda input, start_dim=0, end_dim=-1: np.reshape(
        input, (*input.shape[:start_dim], -1, *input.shape[input.ndim + end_dim + 1 :])
    ),
    samples_of_shapes(((2, 3, 4),), ((2, 3, 4), 1), ((2, 3, 4), 0, -2), ((2, 3, 4), 1, -2), ((3,),), ((),), ((2, 0),)),
)
declare("ravel", np.ravel, unary_samples())
declare(
    "unflatten",
    lambda input, dim, sizes: np.reshape(input, (*input.shape[:dim], *sizes, *input.shape[dim + 1 :])),
    samples_of_shapes(((6, 4), 0, (2, 3)), ((6, 4), 1, (2, 1, -1)), ((0, 4), 0, (0, 2))),
)
