"""Samples and references of `ops/views/join.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch_backends.kernels.runtime.first_use import load

from ..samples import between, sample, strided_matrix
from ..table import declare


def _cat_samples() -> Any:
    a, b = between(-2, 2, 2, 3), between(-2, 2, 4, 3, seed=1)
    yield sample([a, b])
    yield sample([a, strided_matrix().T], 0)
    yield sample([a, a, b[:2]], 1)
    yield sample([a, b[:2]], -1)
    yield sample([a, np.empty((0, 3))], 0)
    yield sample([a, np.empty(0)], 1)
    yield sample([np.empty((0, 3)), np.empty((0, 3))], 1)


def _cat_reference(tensors: list[np.ndarray], dim: int = 0) -> np.ndarray:
    return np.concatenate([each for each in tensors if each.shape != (0,)], dim)


declare("cat", _cat_reference, _cat_samples)


def _stack_samples() -> Any:
    a, b = between(-2, 2, 2, 3), between(-2, 2, 2, 3, seed=1)
    yield sample([a, b])
    yield sample([a, strided_matrix().T], 1)
    yield sample([a, b, a], -1)
    yield sample([between(-2, 2), between(-3, 3)])
    yield sample([between(-2, 2, 0, 3), between(-2, 2, 0, 3)], 2)


declare("stack", np.stack, _stack_samples)


def _list_samples() -> Any:
    yield sample([between(-2, 2, 2, 3), between(-2, 2, 2, 3, seed=1)])
    yield sample([strided_matrix(), strided_matrix()])
    yield sample([between(-2, 2, 3), between(-2, 2, 3, seed=1)])
    yield sample([between(-2, 2), between(-3, 3)])
    yield sample([between(-2, 2, 2, 2, 2), between(-3, 3, 2, 2, 2)])
    yield sample([between(-2, 2, 0, 3), between(-2, 2, 0, 3)])


declare("hstack", np.hstack, _list_samples)
declare("vstack", np.vstack, _list_samples)
declare("dstack", np.dstack, _list_samples)
declare("column_stack", np.column_stack, _list_samples)


def _block_samples() -> Any:
    yield sample([between(-2, 2, 2, 3), between(-2, 2), strided_matrix()])
    yield sample([between(-2, 2, 3), between(-2, 2, 0), between(-2, 2, 2, 0)])


def _block_reference(*tensors: np.ndarray) -> np.ndarray:
    return load("scipy.linalg").block_diag(*(np.atleast_2d(each) for each in tensors))


declare("blocks_on_diagonal", lambda tensors: _block_reference(*tensors), _block_samples)
declare("block_diag", _block_reference, lambda: (sample(*call.args[0]) for call in _block_samples()))
