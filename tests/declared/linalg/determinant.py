"""Samples and references of `ops/linalg/determinant.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.kernels import linalg as kernels

from ..linalg.samples import eye_plus, leading, squares
from ..samples import Sample, sample
from ..table import declare


def _det_reference(A: Any) -> Any:
    return np.linalg.det(A)


def _of_all_ranks() -> Iterator[Sample]:
    yield from squares(eye_plus)()
    rows = eye_plus(4, 4)
    rows[2] = rows[0] + rows[1]
    yield sample(rows)
    rows = rows.copy()
    rows[3] = rows[0] - rows[1]
    yield sample(rows)
    yield sample(np.zeros((2, 3, 3)))


declare(
    "determinant",
    lambda A: (_det_reference(A), *kernels.lu_factor["lapack"](A)[:2]),
    squares(eye_plus),
    tested_as=leading(1),
)
declare("linalg_det", _det_reference, _of_all_ranks)
declare(
    "sign_and_logarithm",
    lambda A: (*np.linalg.slogdet(A), *kernels.lu_factor["lapack"](A)[:2]),
    squares(eye_plus),
    tested_as=leading(2),
)
declare("linalg_slogdet", np.linalg.slogdet, squares(eye_plus))


def _logdet_reference(A: Any) -> Any:
    sign, logarithm = np.linalg.slogdet(A)
    return np.log(sign) + logarithm if A.dtype.kind == "c" else np.where(sign >= 0, logarithm, np.nan)


declare("logdet", _logdet_reference, squares(eye_plus))
declare("det", np.linalg.det, squares(eye_plus))
declare("slogdet", np.linalg.slogdet, squares(eye_plus))
