"""Samples and references of `ops/elementwise/comparison.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..samples import Sample, arrays_like, between, pairs, sample, strided_matrix
from ..table import declare


def _comparable() -> Iterator[Sample]:
    """Pairs with some equal elements."""
    yield from pairs()()
    array = between(-2, 2, 3, 4)
    yield sample(array, np.where(array > 0, array, array[::-1]))
    yield sample(array, 1)


declare("eq", np.equal, _comparable)
declare("ne", np.not_equal, _comparable)
declare("lt", np.less, _comparable)
declare("le", np.less_equal, _comparable)
declare("gt", np.greater, _comparable)
declare("ge", np.greater_equal, _comparable)


def unusual() -> Iterator[Sample]:
    for array in arrays_like(-2, 2):
        yield sample(array)
    yield sample(np.array([[np.inf, -np.inf, np.nan], [0.0, -1.0, 2.0]]))


declare("isnan", np.isnan, unusual)
declare("isfinite", np.isfinite, unusual)
declare("isinf", np.isinf, unusual)
declare("isposinf", lambda input: input == np.inf, unusual)
declare("isneginf", lambda input: input == -np.inf, unusual)


def _near() -> Iterator[Sample]:
    array = between(-2, 2, 3, 4)
    yield sample(array, array + np.where(array > 0, 1e-9, 1e-2))
    yield sample(array, array[:1], 0.2, atol=0.3)
    yield sample(strided_matrix(), between(-2, 2, 2), 0.3)
    yield sample(between(-2, 2), between(-2, 2, seed=1))
    yield sample(between(-2, 2, 0, 3), between(-2, 2, 3))
    yield sample(np.array([np.nan, np.inf, 1.0]), np.array([np.nan, np.inf, 1.0]), equal_nan=True)


declare(
    "isclose",
    lambda input, other, rtol=1e-5, atol=1e-8, equal_nan=False: np.isclose(input, other, rtol, atol, equal_nan),
    _near,
)
declare("maximum", np.maximum, pairs(-2, 2, -1.93, 2.3, numbers=False))
declare("minimum", np.minimum, pairs(-2, 2, -1.93, 2.3, numbers=False))
declare("fmax", np.fmax, pairs(-2, 2, -1.93, 2.3, numbers=False))
declare("fmin", np.fmin, pairs(-2, 2, -1.93, 2.3, numbers=False))


def _where_samples() -> Iterator[Sample]:
    mask = between(-1, 1, 3, 4) > 0
    yield sample(mask, between(-2, 2, 3, 4), between(-2, 2, 3, 4, seed=1))
    yield sample(mask, between(-2, 2, 3, 1), between(-2, 2, 4, seed=1))
    yield sample(mask[0], between(-2, 2, 4, 6)[::2, ::-2][:, :1], 0.5)
    yield sample(mask, -1, between(-2, 2))
    yield sample(np.array(True), between(-2, 2), between(-2, 2, seed=1))
    yield sample(np.zeros((0, 3), bool), between(-2, 2, 3), between(-2, 2, 0, 3))
    yield sample(mask)


declare("where", np.where, _where_samples)


def _clamp_samples() -> Iterator[Sample]:
    for array in arrays_like(-2.3, 2):
        yield sample(array, -1.1, 1.2)
    yield sample(between(-2.3, 2, 3, 4), min=0.4)
    yield sample(between(-2.3, 2, 3, 4), max=0.4)
    yield sample(between(-2.3, 2, 3, 4), between(-1.1, 0.1, 4), between(0.2, 1.3, 3, 1))
    yield sample(np.array([0.0, 1.0, 2.0, -1.0]), max=between(0.1, 1.3, 4))


def _clamp_reference(input: Any, min: Any = None, max: Any = None) -> Any:
    if min is not None:
        input = np.where(input < min, min, input)
    return input if max is None else np.where(input > max, max, input)


declare("clamp", _clamp_reference, _clamp_samples)


declare("clamp_min", np.maximum, lambda: (sample(array, 0.4) for array in arrays_like(-2.3, 2)))


declare("clamp_max", np.minimum, lambda: (sample(array, 0.4) for array in arrays_like(-2.3, 2)))


declare(
    "heaviside",
    np.heaviside,
    lambda: iter(
        [
            sample(between(-2, 2, 3, 4), between(-2, 2, 4)),
            sample(np.array([[-1.0, 0.0], [0.0, 2.0]]), between(-2, 2, 2)),
            sample(between(-2, 2, 4, 6)[::2, ::-2].T, between(-2, 2)),
            sample(between(-2, 2), between(-2, 2)),
            sample(between(-2, 2, 0, 3), between(-2, 2, 3)),
        ]
    ),
)
