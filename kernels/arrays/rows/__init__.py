"""Functions of the rows of arrays, float32 or float64, that NumPy makes in many passes: each by passes, as it is
defined, and, for large arrays whose rows extend along all but one dimension, the first or the last ones, in vectors by
all threads. Half types are read as float32, and results are rounded once.

`dim` is a dimension, or a tuple of several, that make up a row. `BY_ROWS` has each function by name; its `by_passes` is
the definition. Overflow, and rows of nothing, give what NumPy gives.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...runtime.invariance import is_demanded
from ..elementwise.arrays import are_alike, is_half, readable
from ..sums import sum as sum_over
from .arrays import LEAST, Dim, Shape, alone, in_whole_chains, kept_sizes, plan, plan_of, run, shape_along, shape_of
from .normalization import Standardized, StandardizeGradients, standardize, standardize_gradient

__all__ = [
    "BY_ROWS", "Exponentials", "StandardizeGradients", "Standardized", "exponentials", "join_rows", "log_softmax",
    "log_softmax_gradient", "log_sum_exp", "running_products", "running_sums", "softmax", "softmax_gradient",
    "standardize", "standardize_gradient",
]  # fmt: skip

BY_ROWS: dict[str, Callable[..., Any]] = {}


def _by_rows(tag: str) -> Callable[[Callable[..., np.ndarray]], Callable[..., np.ndarray]]:
    """Declare a function of one or two arrays and `dim` that the class `tag` of `functions` computes too."""
    names = (tag,)

    def declare(by_passes: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        @functools.wraps(by_passes)
        def call(*arrays: np.ndarray, dim: Dim = -1) -> np.ndarray:
            first = arrays[0]
            dtype, shape = first.dtype, first.shape
            if is_demanded() and first.size and first.ndim:
                return alone(names, *[np.broadcast_to(each, shape) for each in arrays], dim=dim)
            fit = first.size >= LEAST and (len(arrays) == 1 or are_alike(arrays))
            if fit and (found := plan_of(names, dim, shape, dtype, True)) is not None:
                return run(found, *arrays)
            if not is_half(dtype):
                return by_passes(*arrays, dim=dim)
            return by_passes(*[x.astype(np.float32) for x in arrays], dim=dim).astype(dtype)

        return _declare(call, by_passes)

    return declare


def _declare(call: Callable, by_passes: Callable) -> Callable:
    call.by_passes = by_passes
    BY_ROWS[call.__name__] = call
    return call


# Softmax


def _below_largest(x: np.ndarray, dim: Dim) -> np.ndarray:
    """x minus its maximum, so that no exponential overflows."""
    return np.asarray(x - np.maximum.reduce(x, dim, keepdims=True)) if x.size else x.copy()


@_by_rows("Softmax")
def softmax(x: np.ndarray, *, dim: Dim = -1) -> np.ndarray:
    """exp(x) / sum(exp(x))."""
    out = _below_largest(x, dim)
    np.exp(out, out=out)
    out /= sum_over(out, dim, True)
    return out


@_by_rows("SoftmaxGradient")
def softmax_gradient(g: np.ndarray, y: np.ndarray, *, dim: Dim = -1) -> np.ndarray:
    """Of softmax, from its result: y * (g - sum(g * y))."""
    out = np.asarray(g * y)
    np.subtract(g, sum_over(out, dim, True), out=out)
    out *= y
    return out


@_by_rows("LogSoftmax")
def log_softmax(x: np.ndarray, *, dim: Dim = -1) -> np.ndarray:
    """x - log(sum(exp(x)))."""
    out = _below_largest(x, dim)
    out -= np.log(sum_over(np.exp(out), dim, True))
    return out


@_by_rows("LogSoftmaxGradient")
def log_softmax_gradient(g: np.ndarray, y: np.ndarray, *, dim: Dim = -1) -> np.ndarray:
    """Of log_softmax, from its result: g - exp(y) * sum(g)."""
    out = np.asarray(np.exp(y))
    out *= sum_over(g, dim, True)
    return np.subtract(g, out, out=out)


class Exponentials(NamedTuple):
    """What `exponentials` returns: of rows of n numbers (..., n), (..., 1) and (...)."""

    weights: np.ndarray
    total: np.ndarray
    largest: np.ndarray


def _exponentials(x: np.ndarray) -> Exponentials:
    with np.errstate(invalid="ignore"):
        largest = x.max(-1, keepdims=True, initial=-np.inf)
        weights = np.subtract(x, np.where(np.isneginf(largest), 0, largest), out=x)
        total = sum_over(np.exp(weights, out=weights), -1, True)
        empty, largest = total == 0, np.where(np.isnan(total), total, largest)
    return Exponentials(weights, np.where(empty, 1, total), np.where(empty, np.inf, largest)[..., 0])


def exponentials(x: np.ndarray) -> Exponentials:
    """Those of each row over that of its largest number, mostly in the memory of x; their sums, or 1 for a row of -inf;
    and the largest numbers, or inf of such a row and NaN beside a sum that is."""
    if is_demanded() and x.size:
        rows = in_whole_chains(x.reshape(-1, x.shape[-1]))
        total, largest = np.empty((*x.shape[:-1], 1), x.dtype), np.empty(x.shape[:-1], x.dtype)
        run(plan(("Exponentials",), Shape(1, *rows.shape), x.dtype), rows, None, rows, total, largest)
        return Exponentials(rows[:, : x.shape[-1]].reshape(x.shape), total, largest)
    found = plan_of(("Exponentials",), -1, x.shape, x.dtype) if x.size >= LEAST and x.flags.c_contiguous else None
    if found is None:
        return _exponentials(x)
    total, largest = np.empty((*x.shape[:-1], 1), x.dtype), np.empty(x.shape[:-1], x.dtype)
    return Exponentials(run(found, x, None, x, total, largest), total, largest)


# One number for each row

_LEAST_REDUCED, _PART = 1 << 16, 1 << 12
"""Numbers from which they take threads; numbers of all that a thread joins."""

_JOINS = {"Largest": np.maximum, "Smallest": np.minimum}


def log_sum_exp(x: np.ndarray, dim: Dim) -> np.ndarray | None:
    """log(sum(exp)) along several dimensions, kept with size 1; None for arrays where NumPy is as fast."""
    if is_demanded() and x.size and x.ndim:
        return _alone("LogSumExp", x, dim)
    return _reduce_rows("LogSumExp", x, dim)


def join_rows(name: str, x: np.ndarray, dim: Dim | None) -> np.ndarray | None:
    """The "Largest" or "Smallest" number of each of several rows, in dimensions of size 1, or of all, NaN where there
    is one; None for arrays that NumPy joins as well."""
    if x.size < _LEAST_REDUCED or not x.flags.c_contiguous:
        return None
    sizes = [] if dim is None else kept_sizes(x, dim)
    if math.prod(sizes) > 1:
        found = _reduce_rows(name, x, dim)
        return None if found is None else found.astype(x.dtype, copy=False)
    flat, whole = x.reshape(-1), x.size // _PART * _PART
    found = _reduce_rows(name, flat[:whole].reshape(-1, _PART), -1)
    if found is None:
        return None
    candidates = np.concatenate([found.reshape(-1), flat[whole:]], dtype=found.dtype)
    return np.asarray(_JOINS[name].reduce(candidates)).astype(x.dtype).reshape(sizes)


def _reduce_rows(name: str, x: np.ndarray, dim: Dim) -> np.ndarray | None:
    fits = x.size >= _LEAST_REDUCED and x.flags.c_contiguous
    shape = shape_of(dim, x.shape, x.dtype, True) if fits else None
    if shape is None or shape.rows == 1:
        return None
    out = np.empty(kept_sizes(x, dim), np.float32 if is_half(x.dtype) else x.dtype)
    run(plan((name,), shape, x.dtype), x, None, x, out)
    return out


def _alone(name: str, x: np.ndarray, dim: Dim) -> np.ndarray:
    """The number of each row, whatever there is beside it."""
    of_row = {each % x.ndim for each in (dim if isinstance(dim, tuple) else (dim,))}
    order = tuple(each for each in range(x.ndim) if each not in of_row) + tuple(sorted(of_row))
    columns = math.prod(x.shape[each] for each in of_row)
    x = x if readable(x.dtype) else x.astype(np.float32)
    out = np.empty(kept_sizes(x, dim), np.float32 if is_half(x.dtype) else x.dtype)
    turned = np.ascontiguousarray(x.transpose(order))
    run(plan((name,), Shape(1, x.size // columns, columns), x.dtype), turned, None, np.empty_like(turned), out)
    return out


# All that is before, joined: in float64, rounded once


def running_sums(x: np.ndarray, dim: int) -> np.ndarray | None:
    """The sums along a dimension up to each number; None for arrays that NumPy sums as well, and where sums of float64
    overflow, which are made in pairs here and one by one there."""
    if is_demanded() and x.size and x.dtype.kind in "fV":
        return alone(("RunningSums",), x, dim=dim)
    shape = shape_along(dim, x) if x.flags.c_contiguous else None
    if shape is None:
        return None
    out = run(plan(("RunningSums",), shape, x.dtype), x)
    overflows = x.dtype.itemsize == 8 and not shape.strips and not np.isfinite(out[..., -1]).all()
    return None if overflows else out


def running_products(x: np.ndarray, dim: int) -> np.ndarray | None:
    """The products along a dimension up to each number; None for arrays that NumPy multiplies as well."""
    if is_demanded() and x.size and x.dtype.kind in "fV":
        return alone(("RunningProducts",), x, dim=dim)
    shape = shape_along(dim, x) if x.flags.c_contiguous else None
    return None if shape is None else run(plan(("RunningProducts",), shape, x.dtype), x)


_declare(exponentials, _exponentials)
