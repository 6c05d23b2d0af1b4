"""Samples and references of `ops/reductions/reduce.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.tensor.dtypes import to_dtype

from ..samples import Sample, between, sample, strided_matrix
from ..table import declare


def reductions(*, keepdim: bool = True, several: bool = True, of_nothing: bool = True) -> Any:
    """Samples of a reduction over all dimensions, one or several, with and without keepdim; with gaps, empty and 0-dim
    inputs."""

    def samples() -> Iterator[Sample]:
        for array in (between(-2, 2.3, 3, 4), strided_matrix(), between(-2, 2.3)):
            yield sample(array)
        if of_nothing:
            yield sample(between(-2, 2.3, 0, 3))
        yield sample(between(-2, 2.3, 3, 4), 0)
        yield sample(strided_matrix(), -1)
        yield sample(between(-2, 2.3, 3, 0), 0)
        yield sample(between(-2, 2.3), -1)
        if several:
            yield sample(between(-2, 2.3, 2, 3, 4), (0, -1))
            yield sample(between(-2, 2.3, 2, 3), ())
        if keepdim:
            yield sample(between(-2, 2.3, 2, 3, 4), 1, True)
            yield sample(between(-2, 2.3, 3, 4), dim=0, keepdim=True)

    return samples


def _with_axis(function: Any) -> Any:
    """A NumPy reduction as a reference that takes torch's arguments."""

    def reference(input: np.ndarray, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        axis = None if dim is None or dim == () else dim if input.ndim else ()
        return function(input if dtype is None else input.astype(to_dtype(dtype).dtype), axis=axis, keepdims=keepdim)

    return reference


declare("sum", _with_axis(np.sum), reductions())


def _sum_to_size_samples() -> Iterator[Sample]:
    for size in ((4,), (1, 4), (3, 1), (1,), ()):
        yield sample(between(-2, 2, 3, 4), size)
    yield sample(strided_matrix(), (1, 2))
    yield sample(between(-2, 2, 2, 3, 4), (3, 1))
    yield sample(between(-2, 2), ())
    yield sample(between(-2, 2, 0, 3), (3,))


def _sum_to_size_reference(input: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """By the definition: every element is added where broadcasting `size` would have read it."""
    out = np.zeros(size, input.dtype)
    places = np.broadcast_to(np.arange(out.size).reshape(size), input.shape)
    np.add.at(out.reshape(-1), places, input)
    return out


declare("sum_to_size", _sum_to_size_reference, _sum_to_size_samples)
declare("mean", _with_axis(np.mean), reductions(of_nothing=False))
declare("nansum", _with_axis(np.nansum), reductions())
declare("nanmean", _with_axis(np.nanmean), reductions(of_nothing=False))


def _some_zeros() -> Iterator[Sample]:
    for call in reductions(several=False)():
        yield call
        yield sample(np.where(call.args[0] > 0, call.args[0], 0), *call.args[1:], **call.kwargs)
    yield sample(between(-2, 2.3, 2, 3, 4), (0, -1))


declare("all", _with_axis(np.all), _some_zeros)
declare("any", _with_axis(np.any), _some_zeros)
declare(
    "count_nonzero",
    lambda input, dim=None: np.sum(input != 0, axis=dim if input.ndim else None),
    lambda: (call for call in _some_zeros() if len(call.args) < 3 and not call.kwargs),
)
