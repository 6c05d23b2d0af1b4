"""Samples and references of `ops/views/transpose.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..samples import arrays_like, between, sample
from ..table import declare


def _transpose_samples() -> Any:
    for array in (between(-2, 2, 3, 4), arrays_like(-2, 2)[1], between(-2, 2, 0, 3)):
        yield sample(array, 0, 1)
    yield sample(between(-2, 2, 2, 3, 4), -1, 0)
    yield sample(between(-2, 2, 2, 3), 1, 1)
    yield sample(between(-2, 2), 0, -1)


def _matrices() -> Any:
    yield sample(between(-2, 2, 3, 4))
    yield sample(arrays_like(-2, 2)[1])
    yield sample(between(-2, 2, 0, 3))


def _batches() -> Any:
    yield from _matrices()
    yield sample(between(-2, 2, 2, 3, 4))


def _swap_axes(input: np.ndarray, dim0: int, dim1: int) -> np.ndarray:
    return input.swapaxes(dim0, dim1) if input.ndim else input.copy()


declare("transpose", _swap_axes, _transpose_samples)
declare("mT", lambda input: input.swapaxes(-2, -1), _batches)


def _permute_samples() -> Any:
    yield sample(between(-2, 2, 2, 3, 4), (2, 0, 1))
    yield sample(between(-2, 2, 2, 3, 4), (-1, 1, 0))
    yield sample(arrays_like(-2, 2)[1], (1, 0))
    yield sample(between(-2, 2, 0, 3), (1, 0))
    yield sample(between(-2, 2), ())


declare("permute", np.transpose, _permute_samples)


def _small() -> Any:
    yield from _matrices()
    yield sample(between(-2, 2))


declare("t", np.transpose, _small)
declare("H", lambda input: input.conj().T, _small)
declare("adjoint", lambda input: input.conj().swapaxes(-2, -1), _batches)


def _movedim_samples() -> Any:
    yield sample(between(-2, 2, 2, 3, 4), 0, 2)
    yield sample(between(-2, 2, 2, 3, 4), -1, 0)
    yield sample(between(-2, 2, 2, 3, 4), (0, 1), (2, 0))
    yield sample(between(-2, 2, 0, 3), 0, 1)


declare("movedim", np.moveaxis, _movedim_samples)
