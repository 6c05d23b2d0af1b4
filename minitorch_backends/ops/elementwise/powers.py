"""Powers and roots, element by element."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ...dispatch.op import Array, Forms, composite, op
from ...kernels.arrays import elementwise
from ...kernels.arrays.elementwise import power
from ...tensor.casting import cast_checked
from ...tensor.dtypes import DType, complex128, float64, promote_types
from ...tensor.tensor import Tensor
from ..gradients import conjugate, zero
from .unary import unary_ufunc

__all__ = ["float_power", "pow", "rsqrt", "sqrt", "square"]


def _base_gradient(g: Tensor, input: Tensor, exponent: Any) -> Tensor:
    """g * exponent * input^(exponent - 1), and 0 for 0^0, where that would be 0 * inf."""
    if not isinstance(exponent, Tensor):
        return zero(g) if exponent == 0 else g * conjugate(input ** (exponent - 1) * exponent)
    lowered = (exponent - 1).where((exponent != 0) | (input != 0), 1)
    return g * conjugate(exponent * input**lowered)


def _exponent_gradient(g: Tensor, input: Tensor, exponent: Tensor, out: Tensor) -> Tensor:
    """g * out * log(input), and 0 for the finite powers of 0; of a negative number to a complex power, too."""
    input = input.to(promote_types(input.dtype, out.dtype))  # the dtype of the computation
    return g * conjugate(out * input.where((input != 0) | (exponent.real < 0), 1).log())


def _refused_outside(value: int, dtype: DType, index: int) -> np.ndarray:
    """Reject exponents that would wrap around, and negative ones (allowed in a tensor)."""
    if index == 0:
        return np.asarray(value).astype(dtype.dtype)
    if value < 0 and not np.iinfo(dtype.dtype).min:
        raise RuntimeError(f"value cannot be converted to type {dtype!r} without overflow: {value} is negative")
    if value < 0:
        raise RuntimeError(f"integers to negative integer powers are not allowed, got {value}; use a floating type")
    return cast_checked(np.asarray(value), dtype)


@op(
    input=_base_gradient,
    exponent=_exponent_gradient,
    promote=True,
    scalar=_refused_outside,
    ufunc=operator.pow,
    traits="inplace",
    forms=Forms(operators=("__pow__", "__rpow__", "__ipow__")),
)
def pow(input: Array, exponent: Array) -> Array:
    """`input ** exponent`. Integers to negative powers give the integer part, which is 0 except for 1 and -1.

    Raises RuntimeError for integers to a negative Python integer.
    """
    if input.dtype.kind == "b":
        return input | ~exponent
    if exponent.dtype.kind == "i" and (negative := exponent < 0).any():
        whole = np.where(input == 1, 1, np.where(input == -1, 1 - 2 * (exponent % 2), 0))
        return np.where(negative, whole, input ** np.where(negative, 0, exponent)).astype(input.dtype)
    # As a Python number, an exponent of 2 or 0.5 gives a square or a square root, at a third of the time.
    return power(input, exponent.item() if exponent.ndim == 0 else exponent)


def _double(*operands: Any) -> DType:
    """The compute dtype of `float_power`."""
    is_complex = any(each.is_complex() if isinstance(each, Tensor) else isinstance(each, complex) for each in operands)
    return complex128 if is_complex else float64


@composite()
def float_power(input: Any, exponent: Any) -> Tensor:
    """`input ** exponent` in float64, or complex128 if either is complex. One of the two may be a number."""
    dtype = _double(input, exponent)
    return pow(*(each.to(dtype) if isinstance(each, Tensor) else each for each in (input, exponent)))


def _float_power_(self: Tensor, exponent: Any) -> Tensor:
    """`float_power`, written into this tensor, which must be of the type of the result."""
    if self.dtype is not (wanted := _double(self, exponent)):
        raise RuntimeError(
            f"float_power_(): the base must be of the result's dtype {wanted!r}, got {self.dtype!r}; use float_power"
        )
    return self.pow_(exponent.to(wanted) if isinstance(exponent, Tensor) else exponent)


Tensor.float_power_ = _float_power_  # type: ignore[assignment, method-assign]


# The gradient overflows no sooner than the result.
@op(input=lambda g, input: g * conjugate(input) * 2, ufunc=np.square, traits="inplace")
def square(input: Array) -> Array:
    """`input * input`; int64 for booleans."""
    return np.square(input.astype(np.int64) if input.dtype.kind == "b" else input)


sqrt = unary_ufunc(np.sqrt, "The square root; NaN for negative reals.", gradient=lambda g, out: g / conjugate(out * 2))

rsqrt = unary_ufunc(
    elementwise.rsqrt, "`1 / sqrt(input)`.", gradient=lambda g, out: g * conjugate(out * out * out * -0.5)
)
