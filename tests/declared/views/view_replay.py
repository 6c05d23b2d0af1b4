"""Samples and references of `ops/views/view_replay.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitorch_backends.ops.views.view_replay import _positions
from minitorch_backends.tensor.registry import registry

from ..samples import between, sample
from ..table import declare


def _steps_samples() -> Any:
    transpose, expand, reshape = (registry[name] for name in ("transpose", "expand", "reshape"))
    transposed = (transpose, {"dim0": 0, "dim1": 1}, None)
    yield (3, 4), (4, 3), (transposed,)
    yield (3, 4), (2, 6), (transposed, (reshape, {"shape": (2, 6)}, None))
    yield (1, 4), (3, 4), ((expand, {"size": (3, 4)}, None),)
    yield (0, 3), (3, 0), (transposed,)
    yield (1,), (), ((reshape, {"shape": ()}, None),)


def _read_samples() -> Any:
    for shape, _, steps in _steps_samples():
        yield sample(between(-2, 2, *shape), steps)


def _embed_samples() -> Any:
    for shape, view_shape, steps in _steps_samples():
        yield sample(between(-2, 2, *view_shape), shape, steps)


def _scatter_samples() -> Any:
    for shape, view_shape, steps in _steps_samples():
        if math.prod(shape) == math.prod(view_shape):  # expanded memory rejects writes
            yield sample(between(-2, 2, *shape), between(-2, 2, *view_shape, seed=1), steps)


def _embed_reference(value: np.ndarray, shape: tuple[int, ...], steps: tuple) -> np.ndarray:
    """By the definition: the sum over all elements of the view that came from one place."""
    positions = _positions(shape, steps)
    sums = [value[positions == place].sum() for place in range(int(np.prod(shape)))]
    return np.array(sums, value.dtype).reshape(shape)


def _scatter_reference(base: np.ndarray, value: np.ndarray, steps: tuple) -> np.ndarray:
    flat, positions = base.flatten(), _positions(base.shape, steps)
    for place, element in zip(positions.flat, value.flat, strict=True):
        flat[place] = element
    return flat.reshape(base.shape)


declare("view_steps", lambda base, steps: base.reshape(-1)[_positions(base.shape, steps)], _read_samples)
declare("view_embed", _embed_reference, _embed_samples)
declare("view_scatter", _scatter_reference, _scatter_samples)
