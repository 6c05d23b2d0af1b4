"""Samples and references of `ops/reductions/minmax.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..reductions.reduce import reductions
from ..samples import Sample, between, sample, strided_matrix
from ..table import declare


def _full(samples: Any, empty: bool = True) -> Any:
    """The samples with elements in every reduced dimension; with `empty=False`, the other dimensions too."""

    def full_samples() -> Iterator[Sample]:
        for call in samples():
            dim = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else None)
            if call.args[0].size or (empty and dim is not None and dim != () and call.args[0].shape[dim]):
                yield call

    return full_samples


def _axis_of(dim: Any, input: np.ndarray) -> Any:
    return None if dim is None or dim == () else dim if input.ndim else ()


declare(
    "amax",
    lambda input, dim=(), keepdim=False: np.max(input, axis=_axis_of(dim, input), keepdims=keepdim),
    _full(reductions(), empty=False),
)
declare(
    "amin",
    lambda input, dim=(), keepdim=False: np.min(input, axis=_axis_of(dim, input), keepdims=keepdim),
    _full(reductions(), empty=False),
)


def _one_dim_samples() -> Iterator[Sample]:
    yield sample(between(-2, 2, 3, 4), 0)
    yield sample(between(-2, 2, 2, 3, 4), -2, True)
    yield sample(strided_matrix(), 1)
    yield sample(between(-2, 2), -1)
    yield sample(between(-2, 2, 0, 3), 1)
    yield sample(np.array([[1.0, 2.0, 2.0], [-1.0, -1.0, -2.0]])[:, :2], 0)


def _first_reference(values: Any, arg: Any) -> Any:
    def reference(input: np.ndarray, dim: int, keepdim: bool = False) -> Any:
        axis = dim if input.ndim else None
        return values(input, axis=axis, keepdims=keepdim), np.asarray(arg(input, axis=axis, keepdims=keepdim))

    return reference


declare("max_along", _first_reference(np.max, np.argmax), _one_dim_samples)
declare("min_along", _first_reference(np.min, np.argmin), _one_dim_samples)


def _three_forms() -> Iterator[Sample]:
    for array in (between(-2, 2, 3, 4), strided_matrix(), between(-2, 2)):
        yield sample(array)
        yield sample(array, dim=0, keepdim=True)
    yield sample(between(-2, 2, 0, 3), 1)
    yield sample(between(-2, 2, 3, 1), between(-2, 2, 4, seed=1))


def _three_references(elementwise: Any, values: Any, arg: Any) -> Any:
    along = _first_reference(values, arg)

    def reference(input: np.ndarray, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, np.ndarray):
            return elementwise(input, dim)
        return values(input) if dim is None else along(input, dim, keepdim)

    return reference


declare("max", _three_references(np.maximum, np.max, np.argmax), _three_forms)
declare("min", _three_references(np.minimum, np.min, np.argmin), _three_forms)
declare(
    "aminmax",
    lambda input, dim=None, keepdim=False: tuple(
        each(input, axis=_axis_of(dim, input), keepdims=keepdim) for each in (np.min, np.max)
    ),
    lambda: (
        sample(call.args[0], **({"dim": call.args[1]} if len(call.args) > 1 else {}))
        for call in _full(reductions(keepdim=False, several=False))()
    ),
)
declare(
    "argmax",
    lambda input, dim=None, keepdim=False: np.argmax(input, axis=dim if input.ndim else None, keepdims=keepdim),
    lambda: (call for call in _full(reductions(several=False))()),
)
declare(
    "argmin",
    lambda input, dim=None, keepdim=False: np.argmin(input, axis=dim if input.ndim else None, keepdims=keepdim),
    lambda: (call for call in _full(reductions(several=False))()),
)
