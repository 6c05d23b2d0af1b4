"""Comparisons, choices between tensors, and what kind of number an element is."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...dispatch.op import Array, Forms, composite, op, synonyms
from ...dispatch.promotion import EVERY_DTYPE
from ...kernels.arrays.elementwise import each as each_element
from ...kernels.arrays.elementwise import select
from ...kernels.precisions.float8 import PACKED
from ...tensor.call_errors import argument_errors, install
from ...tensor.casting import cast_checked
from ...tensor.tensor import Tensor, kind_of
from ..gradients import no_derivative

__all__ = [
    "allclose", "clamp", "clamp_max", "clamp_min", "clip", "eq", "equal", "fmax", "fmin", "ge", "greater",
    "greater_equal", "gt", "heaviside", "isclose", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "le", "less",
    "less_equal", "lt", "maximum", "minimum", "ne", "not_equal", "where",
]  # fmt: skip


def _numbers(*arrays: np.ndarray) -> list[np.ndarray]:
    """What NumPy compares: pairs of 4-bit numbers as bytes."""
    return [each.view(np.uint8) if each.dtype.kind == "V" and each.dtype == PACKED else each for each in arrays]


@op(takes="bifcnp", promote=True, only_tensors=("input",), traits="silent inplace", ufunc=np.equal)
def eq(input: Array, other: Array) -> Array:
    """Where the two are equal; NaN equals nothing."""
    return np.equal(*_numbers(input, other))


@op(takes="bifcnp", promote=True, only_tensors=("input",), traits="silent inplace", ufunc=np.not_equal)
def ne(input: Array, other: Array) -> Array:
    """True where the two differ."""
    return np.not_equal(*_numbers(input, other))


_ordering: Any = functools.partial(op, promote=True, only_tensors=("input",), traits="silent inplace", takes="bif")


@_ordering(ufunc=np.less, forms=Forms(operators=("__lt__",)))
def lt(input: Array, other: Array) -> Array:
    """Where `input` is less."""
    return np.less(input, other)


@_ordering(ufunc=np.less_equal, forms=Forms(operators=("__le__",)))
def le(input: Array, other: Array) -> Array:
    """Where `input` is less or equal."""
    return np.less_equal(input, other)


@_ordering(ufunc=np.greater, forms=Forms(operators=("__gt__",)))
def gt(input: Array, other: Array) -> Array:
    """Where `input` is greater."""
    return np.greater(input, other)


@_ordering(ufunc=np.greater_equal, forms=Forms(operators=("__ge__",)))
def ge(input: Array, other: Array) -> Array:
    """Where `input` is greater or equal."""
    return np.greater_equal(input, other)


_COMPARABLE = (Tensor, bool, int, float, complex, np.ndarray, np.generic)


def _equals(self: Tensor, other: Any) -> Tensor:
    return eq(self, other) if isinstance(other, _COMPARABLE) else NotImplemented


def _differs(self: Tensor, other: Any) -> Tensor:
    return ne(self, other) if isinstance(other, _COMPARABLE) else NotImplemented


# `x == None` is False and `x != "text"` is True, as for any two unrelated objects.
Tensor.__eq__, Tensor.__ne__ = _equals, _differs  # type: ignore[method-assign, assignment]


# Kinds of numbers


@op(takes="bifcn", traits="silent")
def isnan(input: Array) -> Array:
    """Where an element is not a number."""
    return np.isnan(input)


@op(takes="bifcn", traits="silent")
def isfinite(input: Array) -> Array:
    """Whether each element is neither infinite nor NaN."""
    return np.isfinite(input)


@op(takes="bifcn", traits="silent")
def isinf(input: Array) -> Array:
    """Where an element is infinite."""
    return np.isinf(input)


@op(traits="silent", takes="bif")
def isposinf(input: Array) -> Array:
    """Where an element is inf."""
    return input == np.inf


@op(traits="silent", takes="bif")
def isneginf(input: Array) -> Array:
    """Where an element is -inf."""
    return input == -np.inf


@op(promote=True, only_tensors=("input", "other"))
def isclose(input: Array, other: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> np.ndarray:
    """Where `|input - other| <= atol + rtol * |other|`; with `equal_nan` NaN is close to NaN. Raises RuntimeError for a
    negative tolerance."""
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance < 0:
            raise RuntimeError(f"isclose(): {name} must be at least 0, got {tolerance}")
    if input.dtype.kind == "b":
        return input == other
    if input.dtype.kind in "iu":  # differences as unsigned integers, which hold all of them
        distance = np.subtract(np.maximum(input, other), np.minimum(input, other)).view(f"u{input.itemsize}")
        return distance <= atol + rtol * np.abs(other.astype(np.float64))
    finite = np.isfinite(other)
    close = (input == other) | (finite & (np.abs(np.subtract(input, other)) <= atol + rtol * np.abs(other)))
    return close | (np.isnan(input) & np.isnan(other)) if equal_nan else close


@argument_errors
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether `isclose` holds for every element."""
    return bool(isclose(input, other, rtol, atol, equal_nan)._array.all())


@argument_errors
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and equal elements. Raises TypeError for arguments that are not
    tensors."""
    for each in (input, other):
        if not isinstance(each, Tensor):
            raise TypeError(f"equal(): operands must be Tensors, got {kind_of(each)}; use (input == other).all()")
    return input._array.shape == other._array.shape and bool(eq(input, other)._array.all())


Tensor.allclose, Tensor.equal = allclose, equal  # type: ignore[method-assign]


# Choices


def _of_the_chosen(g: Tensor, passed_over: Tensor, tied: Tensor) -> Tensor:
    """The gradient of an extremum's operand: g where it was chosen, and half where both were. NaN passes nothing over,
    and each of the two gets g."""
    return (g / 2).where(tied, g.where(passed_over.logical_not(), 0))


_extremum = functools.partial(op, only_tensors=("input", "other"), promote=True, takes="bif", traits="silent")


@_extremum(
    input=lambda g, input, other: _of_the_chosen(g, input < other, input == other),
    other=lambda g, input, other: _of_the_chosen(g, other < input, input == other),
    ufunc=np.maximum,
)
def maximum(input: Array, other: Array) -> Array:
    """The larger of the two, NaN where one is; where they are equal, each gets half of the gradient."""
    return np.maximum(input, other)


@_extremum(
    input=lambda g, input, other: _of_the_chosen(g, input > other, input == other),
    other=lambda g, input, other: _of_the_chosen(g, other > input, input == other),
    ufunc=np.minimum,
)
def minimum(input: Array, other: Array) -> Array:
    """The smaller of the two, NaN where one is; where they are equal, each gets half of the gradient."""
    return np.minimum(input, other)


def _first_of_zeros(found: Any, input: np.ndarray) -> np.ndarray:
    """What is found, with `input` where it and the result are zero: NumPy returns either by the element's place."""
    out = np.asarray(found)
    if out.dtype.kind not in "biu" and (zeros := out == 0).any():
        np.copyto(out, input, where=zeros & (input == 0))
    return out


@_extremum(
    input=lambda g, input, other: g.where((input >= other) | (other != other), 0),
    other=lambda g, input, other: g.masked_fill((input >= other) | (other != other), 0),
)
def fmax(input: Array, other: Array) -> Array:
    """The larger of the two, or the one that is not NaN; `input` where they are equal."""
    return _first_of_zeros(np.fmax(input, other), input)


@_extremum(
    input=lambda g, input, other: g.where((input <= other) | (other != other), 0),
    other=lambda g, input, other: g.masked_fill((input <= other) | (other != other), 0),
)
def fmin(input: Array, other: Array) -> Array:
    """The smaller of the two, or the one that is not NaN; `input` where they are equal."""
    return _first_of_zeros(np.fmin(input, other), input)


@op(
    takes=EVERY_DTYPE,
    input=lambda g, condition: where(condition, g, 0),
    other=lambda g, condition: where(condition, 0, g),
    promote=("input", "other"),
    traits="unwidened silent function",
    scalar=lambda value, dtype, index: cast_checked(np.asarray(value), dtype),
    forms=Forms(aliases={"self": "input"}),
)
def where(condition: Array, input: Array | None = None, other: Array | None = None) -> Array:
    """`input` where the boolean `condition` is True, and `other` elsewhere. With the condition alone, the indices of
    its True elements.

    Raises RuntimeError for a condition that is not boolean, and TypeError if only one of the two values is given.
    """
    if input is None and other is None:
        return np.nonzero(np.atleast_1d(condition))  # type: ignore[return-value] # what most calls give is declared
    if input is None or other is None:
        raise TypeError(
            "where() takes a condition and two values, or the condition alone, and one of the two is missing"
        )
    if condition.dtype != bool:
        if condition.dtype != np.uint8:
            raise RuntimeError(
                f"where expected condition to be a boolean tensor, got {condition.dtype}; use condition != 0"
            )
        condition = condition != 0
    return select(condition, input, other)


def _where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """This tensor where `condition` holds, and `other` elsewhere."""
    return where(condition, self, other)


install(where=_where_method)

greater, greater_equal, less, less_equal, not_equal = gt, ge, lt, le, ne
synonyms(greater=gt, greater_equal=ge, less=lt, less_equal=le, not_equal=ne)


# Limits


def _within(g: Tensor, input: Tensor, min: Any, max: Any) -> Tensor:
    """The gradient of `input`: g where it lies within the limits, which count as within."""
    inside: Any = None if min is None else input >= min
    if max is not None:
        inside = input <= max if inside is None else inside & (input <= max)
    return g.where(inside, 0)


@op(
    input=_within,
    min=lambda g, input, min, max: g.where(input < min if max is None else (input < min) & (min < max), 0),
    max=lambda g, input, min, max: g.where(input > max if min is None else (input > max) | (min > max), 0),
    promote=True,
    only_tensors=("input",),
    takes="bif",
    scalar=lambda value, dtype, index: cast_checked(np.asarray(value), dtype),
    traits="inplace",
)
def clamp(input: Array, min: Array | None = None, max: Array | None = None) -> Array:
    """Clamp `input` to [min, max], tensors or numbers that broadcast. `max` wins where they cross; NaN stays NaN.

    Raises RuntimeError if both are None.
    """
    if min is None and max is None:
        raise RuntimeError("clamp: at least one of min and max must not be None; pass a tensor or a number")
    if min is not None and max is not None:
        return np.clip(input, min, max)  # on one thread it is faster than two passes of two threads
    return each_element(np.minimum, input, max) if min is None else each_element(np.maximum, input, min)


@composite(inplace=True, takes="bif")
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """`clamp` from below only."""
    return clamp(input, min)


@composite(inplace=True, takes="bif")
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """`clamp` from above only."""
    return clamp(input, None, max)


clip = clamp
synonyms(clip=clamp)


@op(input=no_derivative("heaviside"), values=no_derivative("heaviside"), takes="bif", traits="inplace")
def heaviside(input: Array, values: Array) -> Array:
    """0 where `input` is negative, 1 where it is positive, `values`, of its dtype, where it is 0, NaN where it is.
    Raises NotImplementedError for different dtypes."""
    if input.dtype != values.dtype:
        raise NotImplementedError(
            f"heaviside is not implemented for tensors with different dtypes, got {input.dtype} and {values.dtype}"
        )
    step = np.where(input == 0, values, (input > 0).astype(input.dtype))
    return np.where(input != input, input, step)
