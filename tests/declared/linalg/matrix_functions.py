"""Samples and references of `ops/linalg/matrix_functions.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels.runtime.first_use import load

from ..linalg.samples import eye_plus, squares
from ..samples import Sample, between, sample
from ..table import declare


def _power_samples() -> Iterator[Sample]:
    for exponent in (0, 1, 2, 3, 5):
        yield sample(eye_plus(3, 3), exponent)
    yield sample(eye_plus(2, 3, 3).mT, 3)
    yield sample(eye_plus(0, 2, 2), 2)
    yield sample(eye_plus(0, 0), 2)


declare("matrix_power", np.linalg.matrix_power, _power_samples)


def _exp_reference(A: Any) -> Any:
    expm = load("scipy.linalg").expm
    return np.stack([expm(each) for each in A.reshape(-1, *A.shape[-2:])]).reshape(A.shape) if A.size else A


def _exp_samples() -> Iterator[Sample]:
    yield from squares(lambda *shape, seed=0: eye_plus(*shape[:-2], *(min(n, 2) for n in shape[-2:]), seed=seed))()
    for size in (1e-3, 0.1, 1.0, 4.0):  # one for each approximant
        yield sample(between(-size, size, 2, 2))
    yield sample(between(-0.5, 0.6, 3, 2, 2) * np.array([1e-3, 1.0, 9.0])[:, None, None])


declare("matrix_exp", _exp_reference, _exp_samples)
declare("linalg_matrix_power", np.linalg.matrix_power, _power_samples)
