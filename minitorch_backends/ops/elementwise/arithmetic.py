"""Sums, products, quotients, remainders and divisors, element by element."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.half_types import identity
from ...dispatch.op import Array, Forms, composite, op, synonyms
from ...tensor.casting import cast_checked
from ...tensor.dtypes import dtype_of
from ...tensor.tensor import Tensor
from ..gradients import conjugate, zero
from .unary import unary_ufunc

__all__ = [
    "add", "addcdiv", "addcmul", "copysign", "div", "divide", "floor_divide", "fmod", "gcd", "lcm", "lerp", "mul",
    "multiply", "neg", "negative", "positive", "reciprocal", "remainder", "rsub", "sub", "subtract", "true_divide",
]  # fmt: skip


# Sums


def _scale(array: np.ndarray, factor: Any) -> np.ndarray:
    """`factor * array` in the type of the array. Raises RuntimeError for a fractional factor of integers."""
    if isinstance(factor, float) and array.dtype.kind in "biu":
        raise RuntimeError(
            f"for integral input tensors, alpha must not be a floating point number, got {factor}; use an int"
        )
    return array * cast_checked(np.asarray(factor), dtype_of(array))


def _times(g: Tensor, alpha: Any) -> Tensor:
    """The gradient of an input that is multiplied by a Python number."""
    return g if alpha == 1 else g * alpha.conjugate()


@op(
    forms=Forms(deprecated=("input, alpha, other",), operators=("__add__", "__iadd__")),
    input=identity,
    other=_times,
    promote=True,
    only_tensors=None,
    ufunc=np.add,
    traits="silent inplace",
)
def add(input: Array, other: Array, *, alpha: complex = 1) -> Array:
    """`input + alpha * other`."""
    return np.add(input, other if alpha == 1 else _scale(other, alpha))


@op(
    forms=Forms(deprecated=("input, alpha, other",), operators=("__sub__", "__isub__")),
    input=identity,
    other=lambda g, alpha: _times(g, -alpha),
    promote=True,
    only_tensors=None,
    ufunc=np.subtract,
    traits="silent no_booleans inplace",
    takes="ifc",
)
def sub(input: Array, other: Array, *, alpha: complex = 1) -> Array:
    """`input - alpha * other`. Raises RuntimeError for booleans, which have `^` and `logical_not`."""
    return np.subtract(input, other if alpha == 1 else _scale(other, alpha))


@op(
    input=lambda g, alpha: _times(g, -alpha),
    other=identity,
    promote=True,
    only_tensors=("input",),
    ufunc=lambda input, other: np.subtract(other, input),
    traits="silent no_booleans function",
    takes="ifc",
)
def rsub(input: Array, other: Array, *, alpha: complex = 1) -> Array:
    """`other - alpha * input`."""
    return np.subtract(other, input if alpha == 1 else _scale(input, alpha))


@op(
    input=lambda g: -g,
    traits="narrow_rules silent inplace",
    ufunc=np.negative,
    takes="ifc",
    forms=Forms(operators=("__neg__",)),
)
def neg(input: Array) -> Array:
    """`-input`. Raises RuntimeError for booleans, which have `~`."""
    return np.negative(input)


@composite(takes="ifc")
def positive(input: Tensor) -> Tensor:
    """`+input`: the tensor itself. Raises RuntimeError for booleans."""
    if input._array.dtype.kind == "b":
        raise RuntimeError(
            "the + operator on a bool tensor is not supported; convert it first, with .long() for example"
        )
    return input


# Products and quotients


@op(
    takes="bifcn",
    input=lambda g, other: g * conjugate(other),
    other=lambda g, input: g * conjugate(input),
    promote=True,
    only_tensors=None,
    ufunc=np.multiply,
    traits="silent inplace",
    forms=Forms(operators=("__mul__", "__imul__")),
)
def mul(input: Array, other: Array) -> Array:
    """`input * other`."""
    return np.multiply(input, other)


def _refuse_zero(name: str, input: np.ndarray, divisor: np.ndarray) -> None:
    if divisor.dtype.kind in "iu" and input.size and not divisor.all():
        raise RuntimeError(
            f"{name}: ZeroDivisionError, an integer divisor is 0; expected none that is, or floating types"
        )


_quotient = functools.partial(op, traits="inplace", promote=True, takes="if")


@_quotient(
    input=zero,
    other=zero,
    only_tensors=None,
    ufunc=np.floor_divide,
    forms=Forms(operators=("__floordiv__", "__rfloordiv__", "__ifloordiv__")),
)
def floor_divide(input: Array, other: Array) -> Array:
    """`floor(input / other)`, in the inputs' type. Raises RuntimeError for integers divided by zero."""
    _refuse_zero("floor_divide", input, other)
    return np.floor_divide(input, other)


@_quotient(input=zero, other=zero, name=("div_trunc", "div"), traits="inplace function")
def trunc_divide(input: Array, other: Array) -> Array:
    """`div` with the rounding mode "trunc"."""
    _refuse_zero("div", input, other)
    if input.dtype.kind in "iu":
        return np.floor_divide(input - np.fmod(input, other), other)
    return np.trunc(np.divide(input, other))


def _by_mode(quotient: Callable[..., Any], floored: Callable[..., Any], truncated: Callable[..., Any]) -> Any:
    """What users call: `quotient` where no `rounding_mode` is given."""
    modes = {None: quotient, "floor": floored, "trunc": truncated}

    @functools.wraps(quotient)
    def divide(*args: Any, rounding_mode: str | None = None, **named: Any) -> Any:
        if rounding_mode not in tuple(modes):
            raise RuntimeError(
                f"div expected rounding_mode to be one of None, 'trunc', or 'floor', got {rounding_mode!r}"
            )
        return modes[rounding_mode](*args, **named)

    return divide


@op(
    input=lambda g, other: g / conjugate(other),
    other=lambda g, input, other: -g * conjugate(input / other / other),
    promote="float",
    only_tensors=None,
    ufunc=np.divide,
    traits="inplace",
    forms=Forms(operators=("__truediv__", "__rtruediv__", "__itruediv__")),
)
def div(input: Array, other: Array) -> Array:
    """`input / other`, where integers give the default dtype; `rounding_mode` "floor" or "trunc" rounds in their type.

    Raises RuntimeError for another mode, and for integers divided by zero and rounded.
    """
    return np.true_divide(input, other)


_mode = inspect.Parameter("rounding_mode", inspect.Parameter.KEYWORD_ONLY, default=None)
_signature = inspect.Signature([*inspect.signature(div).parameters.values(), _mode])
div = _by_mode(div, floor_divide, trunc_divide)
div.__signature__ = _signature
Tensor.div_ = _by_mode(Tensor.div_, Tensor.floor_divide_, Tensor.div_trunc_)  # type: ignore[attr-defined, method-assign]
Tensor.div_.__wrapped__ = div  # type: ignore[attr-defined]
del Tensor.div_trunc_  # type: ignore[attr-defined]


@_quotient(
    input=identity,
    other=lambda g, input, other: -g * floor_divide(input, other),
    ufunc=np.remainder,
    traits="inplace rounds",
    forms=Forms(operators=("__mod__", "__rmod__", "__imod__")),
)
def remainder(input: Array, other: Array) -> Array:
    """What `floor_divide` leaves, with the sign of `other`: Python's `%`.

    Raises RuntimeError for integers divided by zero.
    """
    _refuse_zero("remainder", input, other)
    return np.remainder(input, other)


@_quotient(
    input=identity,
    other=lambda g, input, other: -g * div(input, other, rounding_mode="trunc"),
    only_tensors=("input",),
    ufunc=np.fmod,
    traits="inplace rounds",
)
def fmod(input: Array, other: Array) -> Array:
    """The remainder with the sign of `input`, as C has it. Raises RuntimeError for integers divided by zero."""
    _refuse_zero("fmod", input, other)
    return np.fmod(input, other)


reciprocal = unary_ufunc(np.reciprocal, "`1 / input`.", gradient=lambda g, out: -g * conjugate(out * out))


@op(promote=True, only_tensors=("input", "other"), takes="i", traits="inplace")
def gcd(input: Array, other: Array) -> Array:
    """The greatest common divisor."""
    return np.gcd(input, other)


@op(promote=True, only_tensors=("input", "other"), takes="i", traits="inplace")
def lcm(input: Array, other: Array) -> Array:
    """The least common multiple."""
    return np.lcm(input, other)


@op(
    input=lambda g, input, out: g * (out.sign() * input.sign()),
    other=lambda g: zero(g),
    promote="float",
    only_tensors=("input",),
    takes="f",
    ufunc=np.copysign,
    traits="inplace",
)
def copysign(input: Array, other: Array) -> Array:
    """The magnitude of `input` with the sign of `other`, that of a zero too."""
    return np.copysign(input, other)


# Combinations


@op(
    input=lambda g, weight: g - g * conjugate(weight),
    end=lambda g, weight: g * conjugate(weight),
    weight=lambda g, input, end: g * conjugate(end - input),
    promote=True,
    only_tensors=("input", "end"),
    takes="fc",
    traits="inplace",
)
def lerp(input: Array, end: Array, weight: Array) -> Array:
    """`input + weight * (end - input)`, computed from the nearer end, so that weights 0 and 1 give the ends exactly."""
    difference, near = end - input, np.abs(weight) < 0.5
    if weight.ndim == 0:
        return input + weight * difference if near else end - difference * (1 - weight)
    return np.where(near, input + weight * difference, end - difference * (1 - weight))


def _whole(value: Any, like: np.ndarray) -> Any:
    """A factor, truncated to an integer for integer operands."""
    return int(value) if isinstance(value, float) and like.dtype.kind in "iu" else value


@op(
    forms=Forms(deprecated=("input, value, tensor1, tensor2",)),
    input=identity,
    tensor1=lambda g, tensor2, value: _times(g * conjugate(tensor2), value),
    tensor2=lambda g, tensor1, value: _times(g * conjugate(tensor1), value),
    promote=True,
    only_tensors=("input", "tensor1", "tensor2"),
    traits="inplace",
    takes="ifc",
)
def addcmul(input: Array, tensor1: Array, tensor2: Array, *, value: complex = 1) -> Array:
    """`input + value * tensor1 * tensor2`."""
    return input + (tensor1 if value == 1 else _scale(tensor1, _whole(value, tensor1))) * tensor2


@op(
    forms=Forms(deprecated=("input, value, tensor1, tensor2",)),
    input=identity,
    tensor1=lambda g, tensor2, value: _times(g / conjugate(tensor2), value),
    tensor2=lambda g, tensor1, tensor2, value: _times(-g * conjugate(tensor1 / tensor2 / tensor2), value),
    promote=True,
    only_tensors=("input", "tensor1", "tensor2"),
    takes="fc",
    traits="inplace",
)
def addcdiv(input: Array, tensor1: Array, tensor2: Array, *, value: complex = 1) -> Array:
    """`input + value * tensor1 / tensor2`. Raises RuntimeError for integers; divide with a `rounding_mode` first."""
    return input + _scale(tensor1, value) / tensor2


divide = true_divide = div
multiply, subtract, negative = mul, sub, neg
synonyms(div=div, divide=div, true_divide=div, multiply=mul, subtract=sub, negative=neg, __pos__=positive)
# A number on the left: the tensor comes first here too, since the fast path begins with one.
Tensor.__radd__, Tensor.__rmul__, Tensor.__rsub__ = add, mul, rsub  # type: ignore[method-assign]
