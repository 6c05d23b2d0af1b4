"""Samples and references of `ops/linalg/least_squares.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels import linalg as kernels
from minitorch_backends.ops.linalg.least_squares import DRIVERS, _is_vector

from ..linalg.samples import eye_plus, leading
from ..samples import Sample, between, sample
from ..table import declare


def _reference(A: Any, B: Any, rcond: Any, driver: str, *_: Any) -> tuple:
    solved = np.linalg.pinv(A) @ B
    found = kernels.lstsq["lapack"](A, B, rcond=rcond, driver=driver)
    rank = np.zeros(0, np.int64) if found.rank is None else found.rank
    return solved, rank, np.zeros(0) if found.S is None else found.S


def _problems() -> Iterator[Sample]:
    yield sample(eye_plus(4, 2), between(-1, 1, 4, 3), 1e-10, "gelsd")
    yield sample(eye_plus(2, 3, 2), between(-1, 1, 2, 3, 1), 1e-10, "gelsy")
    yield sample(eye_plus(4, 2).T, between(-1, 1, 2, 1), 1e-10, "gels")
    yield sample(eye_plus(0, 3, 2), between(-1, 1, 0, 3, 1), 1e-10, "gelsy")


declare("least_squares", _reference, _problems, tested_as=leading(1))


def _lstsq_reference(A: Any, B: Any, rcond: Any = None, *, driver: str = "gelsy", **_: Any) -> tuple:
    right = B[..., None] if _is_vector(A, B) else B
    rcond = np.finfo(A.dtype).eps * max(A.shape[-2:]) if rcond is None else rcond
    x, rank, S = _reference(A, right, rcond, driver)
    residuals = np.zeros(0)
    if A.shape[-2] > A.shape[-1] and driver != "gelsy":
        residuals = np.sum(np.abs(A @ x - right) ** 2, -2)
    return (x[..., 0] if _is_vector(A, B) else x), residuals, rank, S


def _systems() -> Iterator[Sample]:
    for driver in DRIVERS:
        yield sample(eye_plus(3, 2), between(-1, 1, 3, 2), driver=driver)
        yield sample(eye_plus(4, 2).T, between(-1, 1, 2, 1), driver=driver)
    yield sample(eye_plus(2, 2).T, between(-1, 1, 2, 1), 1e-8)
    yield sample(eye_plus(2, 3, 2), between(-1, 1, 2, 3))
    yield sample(eye_plus(0, 3, 2), between(-1, 1, 0, 3, 2))


declare("linalg_lstsq", _lstsq_reference, _systems)
