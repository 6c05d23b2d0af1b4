"""Samples and references of `ops/reductions/variance.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..reductions.reduce import reductions
from ..samples import Sample, between, sample, strided_matrix
from ..table import declare


def _corrections() -> Iterator[Sample]:
    for call in reductions(of_nothing=False)():
        dim = call.kwargs.get("dim", (*call.args[1:], None)[0])
        yield sample(call.args[0], dim, 1 if call.args[0].ndim else 0, len(call.args) > 2)
    yield sample(between(-2, 2.3, 3, 4), 0, 0, False)
    yield sample(between(-2, 2.3, 3, 4), None, 0.5, True)


def _variance_reference(input: np.ndarray, dim: Any, correction: float, keepdim: bool) -> Any:
    return np.var(input, axis=None if dim == () or not input.ndim else dim, ddof=correction, keepdims=keepdim)


declare("variance", _variance_reference, _corrections)
declare("standard_deviation", lambda *args: np.sqrt(_variance_reference(*args)), _corrections)


def _public_samples() -> Iterator[Sample]:
    for call in reductions(keepdim=False, of_nothing=False)():
        if call.args[1:] != ((),):  # torch's gradient of that is infinite
            yield sample(*call.args, correction=1 if call.args[0].ndim else 0)
    yield sample(between(-2, 2.3, 3, 4), False)
    yield sample(between(-2, 2.3, 3, 4), 0, False, True)
    yield sample(between(-2, 2.3, 3, 4), dim=(0, 1), correction=2, keepdim=True)


def _public_reference(
    input: np.ndarray, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: float = 1
) -> Any:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return _variance_reference(input, dim, correction if unbiased is None else unbiased, keepdim)


declare("var", _public_reference, _public_samples)
declare("std", lambda *args, **named: np.sqrt(_public_reference(*args, **named)), _public_samples)


def _with_mean(reference: Any) -> Any:
    def both(
        input: np.ndarray, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: float = 1
    ) -> Any:
        axis = None if dim is None or dim == () or isinstance(dim, bool) or not input.ndim else dim
        found = _public_reference(input, dim, unbiased, keepdim, correction=correction)
        return reference(found), np.mean(input, axis=axis, keepdims=keepdim)

    return both


declare("var_mean", _with_mean(np.positive), _public_samples)
declare("std_mean", _with_mean(np.sqrt), _public_samples)


def _terms() -> Iterator[Sample]:
    for call in reductions()():
        if call.kwargs or call.args[1:] not in ((), ((),)):
            yield call


declare(
    "logsumexp",
    lambda input, dim, keepdim=False: np.log(
        np.sum(np.exp(input), axis=(None if dim == () else dim) if input.ndim else (), keepdims=keepdim)
    ),
    _terms,
)


def _norm_samples() -> Iterator[Sample]:
    for call in reductions()():
        yield sample(call.args[0], "fro", *call.args[1:], **call.kwargs)
    for p in (1, 2, 3, 0.5, -1, math.inf, -math.inf, 0):
        yield sample(between(-2, 2.3, 3, 4), p, 1)
        yield sample(strided_matrix(), p, None, True)


def _norm_reference(
    input: np.ndarray, p: Any = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    size, order = np.abs(input), 2 if p == "fro" else p
    named: dict[str, Any] = {
        "axis": None if dim is None or dim == () else dim if input.ndim else (),
        "keepdims": keepdim,
    }
    if order == 0:
        return np.sum(size != 0, dtype=size.dtype, **named)
    if math.isinf(order):
        return (np.max if order > 0 else np.min)(size, **named)
    return np.sum(size**order, **named) ** (1 / order)


declare("norm_of_elements", _norm_reference, _norm_samples)
