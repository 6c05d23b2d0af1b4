"""Operators that act on each element."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...nn import functional as F
from ...ops import names as ops
from ...ops.limits import finfo
from ...ops.names import from_numpy
from ...tensor.dtypes import DType, bool_, float8_e4m3fn, float8_e8m0fnu, float32, int32
from ...tensor.tensor import Tensor
from .files import dtype_of
from .table import operator

_UNARY: dict[str, Callable[..., Any]] = {
    "Abs": ops.abs, "Acos": ops.acos, "Acosh": ops.acosh, "Asin": ops.asin, "Asinh": ops.asinh, "Atan": ops.atan,
    "Atanh": ops.atanh, "BitwiseNot": ops.bitwise_not, "Ceil": ops.ceil, "Cos": ops.cos, "Cosh": ops.cosh,
    "Erf": ops.erf, "Exp": ops.exp, "Floor": ops.floor, "HardSwish": F.hardswish, "IsNaN": ops.isnan, "Log": ops.log,
    "Mish": F.mish, "Neg": ops.neg, "Not": ops.logical_not, "Reciprocal": ops.reciprocal, "Relu": F.relu,
    "Round": ops.round, "Sigmoid": ops.sigmoid, "Sign": ops.sign, "Sin": ops.sin, "Sinh": ops.sinh,
    "Softplus": F.softplus, "Softsign": F.softsign, "Sqrt": ops.sqrt, "Tan": ops.tan, "Tanh": ops.tanh,
}  # fmt: skip

_BINARY: dict[str, Callable[..., Any]] = {
    "Add": ops.add, "And": ops.logical_and, "BitwiseAnd": ops.bitwise_and, "BitwiseOr": ops.bitwise_or,
    "BitwiseXor": ops.bitwise_xor, "Equal": ops.eq, "Greater": ops.gt, "GreaterOrEqual": ops.ge, "Less": ops.lt,
    "LessOrEqual": ops.le, "Mul": ops.mul, "Or": ops.logical_or, "Sub": ops.sub, "Xor": ops.logical_xor,
}  # fmt: skip

for _count, _functions in ((1, _UNARY), (2, _BINARY)):
    for _name, _function in _functions.items():
        operator(_name, inputs=_count)(_function)
operator("Where", inputs=3)(ops.where)


# Arithmetic


@operator("Div")
def divide(a: Tensor, b: Tensor) -> Tensor:
    """a / b; integers are divided towards zero."""
    return ops.div(a, b) if a.is_floating_point() else ops.div(a, b, rounding_mode="trunc")


@operator("Mod")
def modulo(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    return ops.fmod(a, b) if fmod else ops.remainder(a, b)


@operator("Pow")
def power(x: Tensor, exponent: Tensor) -> Tensor:
    """x ** exponent, in the type of x."""
    if x.is_floating_point():
        return ops.pow(x, exponent.to(x.dtype))
    return ops.pow(x.double(), exponent.double()).to(x.dtype)


@operator("BitShift")
def bit_shift(x: Tensor, count: Tensor, *, direction: str) -> Tensor:
    return ops.bitwise_left_shift(x, count) if direction == "LEFT" else ops.bitwise_right_shift(x, count)


@operator("Max")
def largest(*inputs: Tensor) -> Tensor:
    return functools.reduce(ops.maximum, inputs)


@operator("Min")
def smallest(*inputs: Tensor) -> Tensor:
    return functools.reduce(ops.minimum, inputs)


@operator("Sum")
def total(*inputs: Tensor) -> Tensor:
    return functools.reduce(ops.add, inputs)


@operator("Mean")
def mean(*inputs: Tensor) -> Tensor:
    return total(*inputs) / len(inputs)


@operator("Clip")
def clip(x: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """x within limits, which were attributes before opset 11."""
    return x if min is None and max is None else ops.clamp(x, _number(min), _number(max))


def _number(limit: Tensor | float | None) -> float | None:
    return limit.item() if isinstance(limit, Tensor) else limit


@operator("IsInf")
def is_infinite(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    wanted = x > 0 if not detect_negative else x < 0 if not detect_positive else None
    if not (detect_negative or detect_positive):
        return ops.zeros_like(x, dtype=bool_)
    return ops.isinf(x) if wanted is None else ops.isinf(x) & wanted


# Types


def to_type(x: Tensor, dtype: DType, saturate: int, round_mode: str = "up") -> Tensor:
    """x in another dtype. With `saturate`, 8-bit floats clamp values out of range to their largest number."""
    if dtype is float8_e8m0fnu:
        return _power_of_two(x, round_mode).to(dtype)
    if dtype.letter == "n":
        largest = finfo(dtype).max
        if saturate:
            x = ops.clamp(x, -largest, largest)
        elif dtype is float8_e4m3fn:  # which .to() saturates; half way to the next number is rounded to even
            x = ops.where(ops.abs(x) > largest + 16, math.nan, x)
    return x.to(dtype)


def _power_of_two(x: Tensor, round_mode: str) -> Tensor:
    """The power of two at or above x, at or below it, or nearest."""
    limits = finfo(float8_e8m0fnu)
    mantissa, exponent = ops.frexp(x.to(float32))
    least = {"up": mantissa > 0.5, "down": ops.zeros_like(mantissa, dtype=bool_), "nearest": mantissa > 0.75}[
        round_mode
    ]
    found = ops.ldexp(ops.ones_like(mantissa), exponent - 1 + least.to(int32))
    found = ops.where(x == 0, limits.smallest_normal, ops.clamp(found, limits.smallest_normal, limits.max))
    return ops.where(ops.isnan(x), math.nan, found)


@operator("Cast")
def cast(x: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return to_type(x, dtype_of(to, "the result of Cast"), saturate, round_mode)


@operator("CastLike")
def cast_like(x: Tensor, target: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return to_type(x, target.dtype, saturate, round_mode)


@operator("Identity")
def identity(x: Tensor) -> Tensor:
    return x


@operator("Dropout")
def dropout(
    x: Tensor, ratio: float = 0.5, training_mode: bool = False, *, seed: int = 0, outputs: int = 1
) -> Tensor | tuple[Tensor, Tensor]:
    """x, since models are called for inference; the mask keeps all."""
    if training_mode and ratio:
        raise NotImplementedError("Dropout: training_mode must be False, got True; export the model for inference")
    return x if outputs < 2 else (x, ops.ones_like(x, dtype=bool_))


# Activations


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return F.leaky_relu(x, alpha)


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """x, and slope * x where it is negative; the slope is broadcast."""
    return ops.where(x < 0, slope * x, x)


@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.elu(x, alpha)


@operator("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.celu(x, alpha)


@operator("Selu")
def selu(x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    return gamma * F.elu(x, alpha)


@operator("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return F.gelu(x, approximate)


@operator("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return x * ops.sigmoid(x * alpha)


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return ops.clamp(x * alpha + beta, 0.0, 1.0)


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.threshold(x, alpha, 0.0)


@operator("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """x moved by the bias towards zero, and zero within -lambd and lambd."""
    moved = ops.where(x < -lambd, x + bias, ops.where(x > lambd, x - bias, ops.zeros_like(x)))
    return moved.to(x.dtype)


# Values


@operator("ConstantOfShape")
def constant_of_shape(shape: list[int], *, value: Tensor | None = None) -> Tensor:
    if value is None:
        return ops.zeros(shape)
    return ops.full(shape, value.item(), dtype=value.dtype)


@operator("Range")
def arange(start: Tensor, limit: Tensor, delta: Tensor, *, stash_type: int = 1) -> Tensor:
    return ops.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


@operator("EyeLike")
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    if x.ndim != 2:
        raise ValueError(f"input must have 2 dimensions, got {list(x.shape)}")
    rows, columns = x.shape
    kind = x.dtype if dtype is None else dtype_of(dtype, "the result of EyeLike")
    return from_numpy(np.eye(rows, columns, k, kind.dtype))


def _window(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def window(size: int, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
        return function(size, bool(periodic)).to(dtype_of(output_datatype, "the result of a window"))

    return window


_WINDOWS: dict[str, Callable[..., Tensor]] = {
    "BlackmanWindow": ops.blackman_window, "HannWindow": ops.hann_window,
    "HammingWindow": functools.partial(ops.hamming_window, alpha=25 / 46, beta=21 / 46),
}  # fmt: skip

for _name, _function in _WINDOWS.items():
    operator(_name)(_window(_function))
