"""Rows that are standardised, multiplied by weights and shifted by biases, and the gradients of that: by passes, as
they are defined, and in vectors."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...runtime.invariance import Demand, current_demand
from ..elementwise.arrays import back, is_half, memory_order, readable
from ..sums import sum as sum_over
from ..sums import sum_of_squares
from .arrays import FLOAT32, FLOAT64, Dim, Plan, Shape, Weights, plan, run, shape_of, tasks_that_share


class Standardized(NamedTuple):
    """What `standardize` returns; mean and deviation keep the dimensions of a row with size 1, or all of them where
    there is one for all rows: a mean of 0, a deviation of 1."""

    output: Any
    mean: Any
    deviation: Any


class StandardizeGradients(NamedTuple):
    """What `standardize_gradient` returns."""

    input: Any
    weight: Any
    bias: Any


# By passes


def _mean(array: np.ndarray, dim: Dim) -> np.ndarray:
    """The mean over dimensions that are kept with size 1; 0 of nothing."""
    return sum_over(array, dim, True, mean=array.size > 0)


def _standardize(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, *, dim: Dim = -1, eps: float = 0.0, statistics: str = "moments"
) -> Standardized:
    """In float64, which holds the squares of other types."""
    one, scale = (1,) * x.ndim, _row_scale(x, dim, eps)
    mean, deviation = np.zeros(one), np.ones(one)
    output = x.astype(np.float64)
    output *= scale
    if statistics == "moments":
        mean = _mean(output, dim)
        output -= mean
        rest = _mean(output, dim)
        output -= rest
        mean = (mean + rest) / scale
    if statistics != "nothing":
        square = sum_of_squares(output, dim, True)
        square /= max(x.size // max(square.size, 1), 1)
        deviation = np.sqrt(square + eps * scale * scale)
        output /= deviation
        deviation = deviation / scale
    else:
        output /= scale
    output *= weight
    output += bias
    return Standardized(*[each.astype(x.dtype, copy=False) for each in (output, mean, deviation)])


_SQUARES_FIT = 2.0**-400, 2.0**400
"""Between these float64 holds the squares of deviations, and sums of them."""


def _row_scale(x: np.ndarray, dim: Dim, eps: float) -> np.ndarray | float:
    """A power of two for each row of float64, which brings numbers near 1 whose squares do not fit."""
    if x.dtype != FLOAT64 or not x.size:
        return 1.0
    peak = np.abs(x).max(dim, keepdims=True)
    beyond = (peak > _SQUARES_FIT[1]) | ((peak < _SQUARES_FIT[0]) & (eps == 0))
    return np.ldexp(1.0, np.where(beyond, -np.frexp(peak)[1], 0)) if beyond.any() else 1.0


def _standardize_gradient(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, deviation: np.ndarray, weight: np.ndarray, *, dim: Dim = -1,
    statistics: str = "moments",
) -> StandardizeGradients:  # fmt: skip
    standard = x.astype(np.float64)
    if statistics == "moments":
        standard -= mean
        standard -= _mean(standard, dim)  # what rounding left of the mean
    if statistics != "nothing":
        standard /= deviation
    product = np.asarray(g * standard)
    of_weight, of_bias = (_summed_to(each, weight.shape) for each in (product, g))
    out = np.asarray(g * weight.astype(np.float64))
    product *= weight
    if statistics == "moments":
        out -= _mean(out, dim)
    if statistics != "nothing":
        standard *= _mean(product, dim)
        out -= standard
        out /= deviation
    return StandardizeGradients(*[each.astype(x.dtype, copy=False) for each in (out, of_weight, of_bias)])


def _summed_to(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The sums over all dimensions along which an array of this shape was repeated: never the array's own memory."""
    padded = (1,) * (array.ndim - len(shape)) + tuple(shape)
    repeated = tuple(dim for dim, size in enumerate(padded) if size != array.shape[dim])
    return (sum_over(array, repeated) if repeated else array.copy()).reshape(shape)


# In vectors


class _Seen(NamedTuple):
    """An array as rows of vectors, possibly with permuted dimensions, and its weights.

    Attributes:
        plan: the compiled plan.
        order: the permutation; None for none.
        padded: the sizes of the weights in that order.
        kept: the shape of the numbers stored per row.
        sums: the shape of the partial gradients of the weights.
        copied: whether the result is computed contiguously and copied to the array's layout.
    """

    shape: Shape
    weights: Weights
    plan: Plan
    order: tuple[int, ...] | None
    padded: tuple[int, ...]
    kept: tuple[int, ...]
    sums: tuple[int, int]
    copied: bool

    def there(self, array: np.ndarray) -> np.ndarray:
        """An array of the user's in that order, of as many dimensions."""
        return array if self.order is None else array.transpose(self.order)

    def weighting(self, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Weights in that order, side by side."""
        if self.order is not None:
            array = self.there(array.reshape((1,) * (len(self.order) - array.ndim) + array.shape))
        return np.ascontiguousarray(array, dtype)

    def back(self, array: np.ndarray) -> np.ndarray:
        return array if self.order is None else back(array, self.order)


def _weights(shape: Shape, sizes: tuple[int, ...], weights: tuple[int, ...], of_row: set[int]) -> Weights | None:
    """Where weights of these sizes lie, seen from the rows of an array; None where that is not known to the loops."""
    kept, row = ([each for each in range(len(sizes)) if (each in of_row) == inside] for inside in (False, True))
    period, pieces = (math.prod(weights[each] for each in part) for part in (kept, row))
    of_kept, of_pieces = ([weights[each] != 1 for each in part] for part in (kept, row))
    if any(each not in (1, size) for each, size in zip(weights, sizes, strict=True)) or of_kept != sorted(of_kept):
        return None
    if pieces == 1:
        return Weights("rows", period) if not shape.strips or period == shape.rows else None
    if shape.segments > 1 or of_pieces != sorted(of_pieces, reverse=True):
        return None
    if pieces < shape.columns:
        return Weights("segments", period, pieces)
    return Weights("columns") if period == 1 else None


@functools.lru_cache(4096)
def _vector_view(
    name: str, statistics: str, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, dim: Dim,
    weights: tuple[int, ...], demand: Demand = Demand(),  # noqa: B008  (immutable)
) -> _Seen | None:  # fmt: skip
    """An array as rows of vectors, in the order of its memory if possible, otherwise as given; under a demand, with the
    numbers of a row side by side."""
    array = np.lib.stride_tricks.as_strided(np.empty((), dtype), sizes, strides)
    ndim, dims = len(sizes), dim if isinstance(dim, tuple) else (dim,)
    if len(weights) > ndim or not ndim:
        return None
    padded, natural = (1,) * (ndim - len(weights)) + weights, tuple(range(ndim))
    contiguous = array.flags.c_contiguous
    orders = dict.fromkeys((natural if contiguous else memory_order(array) or natural, natural))
    if any(demand):
        in_row = sorted(each % ndim for each in dims)
        orders = dict.fromkeys([(*[each for each in natural if each not in in_row], *in_row)])
    for order in orders:
        of_row = {order.index(each % ndim) for each in dims}
        turned, turned_weights = (tuple(of[each] for each in order) for of in (sizes, padded))
        shape = shape_of(tuple(of_row), turned, dtype, halves=True)
        if any(demand) and math.prod(sizes) and readable(dtype):
            columns = math.prod(turned[each] for each in of_row)
            shape = Shape(1, math.prod(sizes) // columns, columns)
        found = None if shape is None else _weights(shape, turned, turned_weights, of_row)
        if shape is None or found is None:
            continue
        kept = tuple(1 if each in of_row else size for each, size in enumerate(turned))
        sums = shape.rows, found.pieces
        if found.lie == "columns":
            sums = tasks_that_share(shape, dtype), shape.columns
        changed = None if order == natural else order
        made = plan((name, found.lie, statistics), shape, dtype, found)
        return _Seen(shape, found, made, changed, turned_weights, kept, sums, changed is None and not contiguous)
    return None


def _laid_out(seen: _Seen, x: np.ndarray, out: np.ndarray) -> np.ndarray:
    """A result with the strides that NumPy would give it, since layers keep channels last."""
    if not seen.copied:
        return seen.back(out)
    copy = np.empty_like(x)
    copy[...] = out
    return copy


def _fit(seen: _Seen, g: np.ndarray, x: np.ndarray, mean: np.ndarray, deviation: np.ndarray, statistics: str) -> bool:
    """Whether a gradient, means and deviations have the expected sizes; the loops only receive addresses."""
    about_mean, scaled = statistics == "moments", statistics != "nothing"
    kept = (not about_mean or mean.size == seen.shape.rows) and (not scaled or deviation.size == seen.shape.rows)
    return kept and g.shape == x.shape and g.dtype == x.dtype


def _working(dtype: np.dtype) -> np.dtype:
    return FLOAT32 if is_half(dtype) else dtype


def standardize(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, *, dim: Dim = -1, eps: float = 0.0, statistics: str = "moments"
) -> Standardized:
    """(x - mean) / deviation * weight + bias, laid out as x is, whose dtype it has; mean and deviation are float32 for
    half types.

    Arguments:
        x: float16, bfloat16, float32 or float64.
        weight, bias: of one shape, which broadcasts to that of x.
        dim: the dimensions of a row.
        eps: added to the mean square.
        statistics: "moments", the mean and sqrt(var + eps), var biased; "square", 0 and sqrt(mean(x**2) + eps); or
            "nothing", 0 and 1.
    """
    working = _working(x.dtype)
    demand = current_demand()
    if any(demand) and not readable(x.dtype):
        made = standardize(x.astype(working), weight, bias, dim=dim, eps=eps, statistics=statistics)
        return made._replace(output=made.output.astype(x.dtype))
    seen = _vector_view("Standardize", statistics, x.shape, x.strides, x.dtype, dim, weight.shape, demand)
    if seen is None and any(demand) and x.size and x.ndim:
        return _alone(x, weight, bias, dim, eps, statistics)
    if seen is None or bias.shape != weight.shape:
        if x.dtype == weight.dtype == bias.dtype == working:
            return _standardize(x, weight, bias, dim=dim, eps=eps, statistics=statistics)
        arrays = (each.astype(working, copy=False) for each in (x, weight, bias))
        made = _standardize(*arrays, dim=dim, eps=eps, statistics=statistics)
        return made._replace(output=made.output.astype(x.dtype, copy=False))
    mean = np.empty(seen.kept, working) if statistics == "moments" else np.zeros((1,) * x.ndim, working)
    deviation = np.empty(seen.kept, working) if statistics != "nothing" else np.ones((1,) * x.ndim, working)
    of_rows = mean, deviation, seen.weighting(weight, working), seen.weighting(bias, working)
    out = run(seen.plan, seen.there(x), None, None, *of_rows, eps=eps)
    if x.dtype == FLOAT64 and not (_SQUARES_FIT[0] < deviation.min() and deviation.max() < _SQUARES_FIT[1]):
        return _standardize(x, weight, bias, dim=dim, eps=eps, statistics=statistics)
    return Standardized(_laid_out(seen, x, out), seen.back(mean), seen.back(deviation))


def _alone(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, dim: Dim, eps: float, statistics: str) -> Standardized:
    """`standardize` with weights that loops do not know."""
    working, one = _working(x.dtype), (1,) * x.ndim
    plain = np.ones(one, working), np.zeros(one, working)
    made = standardize(x.astype(working, copy=False), *plain, dim=dim, eps=eps, statistics=statistics)
    output = made.output * weight.astype(working, copy=False) + bias.astype(working, copy=False)
    return made._replace(output=output.astype(x.dtype, copy=False))


def standardize_gradient(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, deviation: np.ndarray, weight: np.ndarray, *, dim: Dim = -1,
    statistics: str = "moments",
) -> StandardizeGradients:  # fmt: skip
    """Of `standardize`, from the gradient of its output, its input, and its mean and deviation: with h = g * weight and
    y = (x - mean) / deviation, (h - mean(h) - y * mean(h * y)) / deviation, the sums of g * y, and those of g, in the
    shape of the weights. Means that the statistics do not have are left out."""
    working, dtype, demand = _working(x.dtype), x.dtype, current_demand()
    seen = _vector_view("StandardizeGradient", statistics, x.shape, x.strides, x.dtype, dim, weight.shape, demand)
    if any(demand) and not readable(dtype):
        wide = (each.astype(working) for each in (g, x))
        made = standardize_gradient(*wide, mean, deviation, weight, dim=dim, statistics=statistics)
        return made._replace(input=made.input.astype(dtype))
    if seen is None and any(demand) and x.size and x.ndim:
        g, x, weight = (each.astype(working, copy=False) for each in (g, x, weight))
        arrays = np.ascontiguousarray(g * weight), x
        one = np.ones((1,) * x.ndim, working)
        of_input = standardize_gradient(*arrays, mean, deviation, one, dim=dim, statistics=statistics).input
        y = (x - mean) / deviation
        sums_of = (_summed_to(np.asarray(each), weight.shape) for each in (g * y, g))
        return StandardizeGradients(of_input.astype(dtype, copy=False), *sums_of)
    if seen is None or not _fit(seen, g, x, mean, deviation, statistics):
        arrays = (each.astype(working, copy=False) for each in (g, x, mean, deviation, weight))
        made = _standardize_gradient(*arrays, dim=dim, statistics=statistics)
        return made._replace(input=made.input.astype(x.dtype, copy=False))
    sums = np.zeros((2, *seen.sums), FLOAT64 if seen.weights.lie == "columns" else working)
    mean, deviation = (np.ascontiguousarray(seen.there(each), working) for each in (mean, deviation))
    weighting = seen.weighting(weight, working)
    of_rows = mean, deviation, weighting, weighting, *sums
    of_input = run(seen.plan, seen.there(g), seen.there(x), None, *of_rows)
    of_weight, of_bias = sum_over(sums.reshape(2, -1, weight.size), 1).astype(working, copy=False)
    if seen.order is not None:
        of_weight, of_bias = (seen.back(each.reshape(seen.padded)) for each in (of_weight, of_bias))
    made = _laid_out(seen, x, of_input), of_weight.reshape(weight.shape), of_bias.reshape(weight.shape)
    return StandardizeGradients(*made)


standardize.by_passes = _standardize
standardize_gradient.by_passes = _standardize_gradient
