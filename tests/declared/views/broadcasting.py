"""Samples and references of `ops/views/broadcasting.py`."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from minitorch_backends.kernels.runtime.shapes import broadcast_shapes as shape_of_all

from ..samples import between, sample, samples_of_shapes, strided_matrix
from ..table import declare

_any_shape = samples_of_shapes(((),), ((3,),), ((2, 3),), (strided_matrix(),), ((2, 0, 3),))
declare("atleast_1d", np.atleast_1d, _any_shape)
declare("atleast_2d", np.atleast_2d, _any_shape)
declare("atleast_3d", np.atleast_3d, _any_shape)


def _broadcast_reference(*tensors: np.ndarray) -> tuple[np.ndarray, ...]:
    shape = shape_of_all(*(each.shape for each in tensors))
    return tuple(each + np.zeros(shape) for each in tensors)


def _broadcast_samples() -> Any:
    yield sample(between(-2, 2, 3, 1), between(-2, 2, 4))
    yield sample(strided_matrix(), between(-2, 2), between(-2, 2, 2))
    yield sample(between(-2, 2, 0, 1), between(-2, 2, 3))


declare("broadcast_tensors", _broadcast_reference, _broadcast_samples)


def _meshgrid_samples() -> Any:
    a, b = between(-2, 2, 3), between(-2, 2, 4, seed=1)
    yield sample(a, b, indexing="ij")
    yield sample(a, b, between(-2, 2), indexing="xy")
    yield sample(a, b[::2], between(-2, 2, 0), indexing="ij")


declare("meshgrid", lambda *tensors, indexing="ij": tuple(np.meshgrid(*tensors, indexing=indexing)), _meshgrid_samples)


def _vectors() -> Any:
    yield sample(between(-2, 2, 3), between(-2, 2, 2, seed=1))
    yield sample(between(-2, 2, 6)[::2], between(-2, 2, 2, seed=1), between(-2, 2, 2, seed=2))
    yield sample(between(-2, 2, 3))
    yield sample(between(-2, 2, 3), between(-2, 2, 0))


def _product_reference(*tensors: np.ndarray) -> np.ndarray:
    if len(tensors) == 1:
        return tensors[0]
    rows = list(itertools.product(*tensors))
    return np.array(rows, np.result_type(*tensors)).reshape(len(rows), len(tensors))


declare("cartesian_prod", _product_reference, _vectors)


def _combination_samples() -> Any:
    for array in (between(-2, 2, 4), strided_matrix()[0]):
        yield sample(array)
        yield sample(array, 3)
        yield sample(array, 2, True)
    yield sample(between(-2, 2, 3), 0)
    yield sample(between(-2, 2, 0))


def _combination_reference(input: np.ndarray, r: int = 2, with_replacement: bool = False) -> np.ndarray:
    chosen = [*(itertools.combinations_with_replacement if with_replacement else itertools.combinations)(input, r)]
    return np.array(chosen, input.dtype).reshape(len(chosen) if r else 0, *(r,) * (r > 0))


declare("combinations", _combination_reference, _combination_samples)


declare(
    "broadcast_to",
    lambda input, *size: input + np.zeros(size[0]),
    samples_of_shapes(((3, 1), (3, 4)), ((4,), (3, 4)), ((), (2, 2)), ((0, 1), (0, 2))),
)
