"""Samples and references of `ops/reductions/cumulative.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.declared.reductions.reduce import reductions
from tests.declared.samples import Sample, between, sample, strided_matrix
from tests.declared.table import declare


def _one_dim(*rest: Any) -> Any:
    """Samples of a function along one dimension, with further arguments."""

    def samples() -> Iterator[Sample]:
        for array in (between(-2, 2, 3, 4), strided_matrix(), between(-2, 2, 3, 0), between(-2, 2, 0, 3)):
            yield sample(array, 0, *rest)
            yield sample(array, -1, *rest)
        yield sample(between(-2, 2), 0, *rest)

    return samples


declare("cumsum", lambda input, dim: np.cumsum(np.atleast_1d(input), axis=dim).reshape(input.shape), _one_dim())
declare(
    "shift",
    lambda input, dim, by, fill=0: _shift_reference(input, dim, by, fill),
    lambda: (sample(*call.args[:2], by, *fill) for call in _one_dim()() for by, *fill in ((1, 5), (-1,))),
)


def _shift_reference(input: np.ndarray, dim: int, by: int, fill: Any) -> np.ndarray:
    array = np.atleast_1d(input)
    if not array.shape[dim]:
        return array
    out = np.roll(array, by, dim)
    np.moveaxis(out, dim, 0)[0 if by == 1 else -1] = fill
    return out.reshape(input.shape)


def _recurrence_reference(factors: np.ndarray, input: np.ndarray, dim: int, reverse: bool = False) -> np.ndarray:
    """By the definition, element after element."""
    out = np.array(np.atleast_1d(input))
    values, rates = np.moveaxis(out, dim, 0), np.moveaxis(np.atleast_1d(factors), dim, 0)
    for place in range(len(values) - 1):
        if reverse:
            values[-2 - place] += rates[-1 - place] * values[-1 - place]
        else:
            values[place + 1] += rates[place + 1] * values[place]
    return out.reshape(input.shape)


def _recurrences() -> Iterator[Sample]:
    for call in _one_dim()():
        array, dim = call.args
        yield sample(array, array[..., ::-1] if array.ndim else array, dim)
        yield sample(array, array[..., ::-1] if array.ndim else array, dim, True)


declare("linear_recurrence", _recurrence_reference, _recurrences)


def _with_zeros(samples: Any) -> Any:
    """The samples, and calls with one or two zero elements along the dimension."""

    def all_samples() -> Iterator[Sample]:
        yield from samples()
        zeros = np.array([[2.0, 0.0, 3.0, -1.0], [0.0, 1.5, 0.0, 2.0], [1.0, -2.0, 0.5, 3.0]])
        yield sample(zeros, 1)
        yield sample(zeros.T, 0)

    return all_samples


declare(
    "cumprod",
    lambda input, dim: np.cumprod(np.atleast_1d(input), axis=dim).reshape(input.shape),
    _with_zeros(_one_dim()),
)
declare(
    "prod",
    lambda input, dim=None, keepdim=False: np.prod(input, axis=dim if input.ndim else None, keepdims=keepdim),
    _with_zeros(reductions(several=False)),
)
declare(
    "logcumsumexp",
    lambda input, dim: np.log(np.cumsum(np.exp(np.atleast_1d(input)), axis=dim)).reshape(input.shape),
    _one_dim(),
)


def _running_reference(better: Any) -> Any:
    def reference(input: np.ndarray, dim: int) -> Any:
        values, indices = np.array(np.atleast_1d(input)), np.zeros(np.atleast_1d(input).shape, np.int64)
        rows, places = np.moveaxis(values, dim, 0), np.moveaxis(indices, dim, 0)
        for place in range(1, len(rows)):
            new = better(rows[place], rows[place - 1])
            rows[place] = np.where(new, rows[place], rows[place - 1])
            places[place] = np.where(new, place, places[place - 1])
        return values.reshape(input.shape), indices.reshape(input.shape)

    return reference


declare("cummax", _running_reference(np.greater_equal), _one_dim())
declare("cummin", _running_reference(np.less_equal), _one_dim())
declare(
    "diff",
    lambda input, n=1, dim=-1: np.diff(input, n, dim),
    lambda: (sample(call.args[0], n, call.args[1]) for n, call in zip((1, 2, 1, 1, 1, 1), _one_dim()(), strict=False)),
)


def _samples() -> Iterator[Sample]:
    x = between(-2, 2, 4, 5)
    yield sample(x)
    yield sample(x, spacing=0.5, edge_order=2)
    yield sample(x, spacing=[2.0, 0.5], dim=(1, 0))
    yield sample(between(-2, 2, 2, 3, seed=1).T, dim=0, edge_order=2)
    yield sample(x[:, :2], dim=-1)
    yield sample(between(-2, 2))


def _reference(input: np.ndarray, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> Any:
    if not input.ndim:
        return ()
    spaces = spacing if isinstance(spacing, list) else [spacing]
    axes = tuple(range(input.ndim)) if dim is None else tuple(np.atleast_1d(dim).tolist())
    differentiate: Any = np.gradient
    found = differentiate(input, *spaces, axis=axes, edge_order=edge_order)
    return tuple(found) if isinstance(found, (list, tuple)) else (found,)


declare("gradient", _reference, _samples)
