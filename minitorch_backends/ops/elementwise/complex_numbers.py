"""Complex numbers: parts, conjugates, absolute values and angles, which real numbers have too."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...dispatch.op import Array, Forms, composite, op, synonyms
from ...kernels.arrays.elementwise import sign as sign_of_real
from ...kernels.runtime.shapes import broadcast_shapes
from ...tensor.dtypes import dtype_of
from ...tensor.tensor import Tensor
from ..gradients import zero
from ..predicates import declare_method

__all__ = [
    "abs", "absolute", "angle", "complex", "conj", "conj_physical", "imag", "isreal", "polar", "real", "resolve_conj",
    "resolve_neg", "sgn", "view_as_complex", "view_as_real",
]  # fmt: skip


def _is_complex(tensor: Tensor) -> bool:
    return tensor._array.dtype.kind == "c"


# Parts


_parts = functools.partial(op, traits="function view unwidened", takes="c")


@_parts(input=lambda g: g, name="real_part", traits="unwidened view function silent")
def _real_part(input: Array) -> Array:
    """The real parts of complex numbers, a view."""
    return input.real


@_parts(input=lambda g: g * 1j, name="imag", traits="unwidened view function silent")
def imag(input: Array) -> Array:
    """The imaginary parts, a view. Raises RuntimeError for real tensors."""
    return input.imag


@composite(method=False)
def real(input: Tensor) -> Tensor:
    """The real parts: a view of a complex tensor, a real one itself."""
    return _real_part(input) if _is_complex(input) else input


@composite()
def conj(input: Tensor) -> Tensor:
    """The conjugates; a real tensor itself."""
    return conj_physical(input) if _is_complex(input) else input


@composite()
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugates are computed at once."""
    return input


@op(input=lambda g: conj(g), traits="silent inplace")
def conj_physical(input: Array) -> Array:
    """The conjugates, in new memory."""
    return np.conjugate(input) if input.dtype.kind == "c" else input.copy()


def _set_real(self: Tensor, value: Any) -> None:
    real(self)[...] = value


def _set_imag(self: Tensor, value: Any) -> None:
    imag(self)[...] = value


Tensor.real, Tensor.imag = property(real, _set_real), property(imag, _set_imag)  # type: ignore[assignment, method-assign]


@_parts(input=lambda g: view_as_complex(g.contiguous()))
def view_as_real(input: Array) -> Array:
    """A view of complex numbers as real ones, with a last dimension of size 2 for the two parts."""
    return input[..., None].view(input.real.dtype)


@op(input=lambda g: view_as_real(g), traits="view function unwidened", takes="f", autocast="float32")
def view_as_complex(input: Array) -> Array:
    """Complex numbers from their parts in the last dimension, of size 2: a view; of half types a
    copy in complex64.

    Raises RuntimeError for another size, and for parts that do not lie side by side.
    """
    if not input.ndim or input.shape[-1] != 2:
        raise RuntimeError(
            f"view_as_complex takes a last dimension of size 2, got shape {list(input.shape)}; use stack"
        )
    if input.itemsize == 2:
        return (input[..., 0].astype(np.float64) + 1j * input[..., 1]).astype(np.complex64)
    if input.size and input.strides[-1] != input.itemsize:
        raise RuntimeError(
            f"view_as_complex takes a last dimension with stride 1, and it is {input.strides[-1] // input.itemsize} of "
            f"shape {list(input.shape)}; use contiguous() first"
        )
    return input.view(np.complex64 if input.itemsize == 4 else np.complex128)[..., 0]


def _refuse_mixed(name: str, argument: str, part: np.ndarray, other: str, like: np.ndarray) -> None:
    if part.dtype != like.dtype:
        raise RuntimeError(
            f"{name}(): {argument} must have the dtype of {other}, {dtype_of(like)!r}, got {dtype_of(part)!r}; use "
            f"{argument}.to({other}.dtype)"
        )


@op(real=lambda g: g.real, imag=lambda g: g.imag, takes="f", traits="function")
def complex(real: Array, imag: Array) -> Array:
    """Complex numbers from real and imaginary parts of one dtype, which may be infinite or NaN."""
    _refuse_mixed("complex", "imag", imag, "real", real)
    shape = broadcast_shapes(real.shape, imag.shape)
    out = np.empty(shape, np.complex128 if real.dtype == np.float64 else np.complex64)
    out.real, out.imag = real, imag
    return out


# Lengths and directions


def _complex_sign(array: np.ndarray) -> np.ndarray:
    """z / |z| and 0 for 0."""
    length = np.abs(array)
    return np.where(length == 0, 0, array / length).astype(array.dtype)


def _sgn_gradient(g: Tensor, input: Tensor, out: Tensor) -> Tensor:
    """For z / |z|: the part of g at right angles to it, over |z|; nothing for reals, and where z is 0."""
    if not _is_complex(input):
        return zero(g)
    nonzero = input != 0
    across = g - out * real(g * conj(out))
    return (across / input.where(nonzero, 1).abs()).where(nonzero, 0)


@op(input=_sgn_gradient, traits="inplace")
def sgn(input: Array) -> Array:
    """`sign`, and for complex numbers the one of length 1 in the same direction, or 0."""
    if input.dtype.kind == "b":
        return input.copy()
    return _complex_sign(input) if input.dtype.kind == "c" else sign_of_real(input)


@op(
    input=lambda g, input: g * sgn(input),
    ufunc=np.abs,
    traits="silent inplace",
    takes="ifcn",
    forms=Forms(operators=("__abs__",)),
)
def abs(input: Array) -> Array:
    """The absolute value, real for complex numbers. Raises RuntimeError for booleans."""
    return np.abs(input)


def _angle_gradient(g: Tensor, input: Tensor) -> Tensor:
    """i z / |z|^2, and 0 at 0; reals have one angle on either side of 0."""
    if not _is_complex(input):
        return zero(g)
    nonzero = input != 0
    length = input.where(nonzero, 1).abs()
    return (g * input * 1j / (length * length)).where(nonzero, 0)


@op(input=_angle_gradient, promote="float", traits="silent")
def angle(input: Array) -> Array:
    """The angle from the positive reals, in [-pi, pi]: for reals 0, or pi where they are negative; NaN for NaN."""
    if input.dtype.kind == "c":
        return np.arctan2(input.imag, input.real)
    return np.where(np.isnan(input), input, np.where(input < 0, np.pi, 0)).astype(input.dtype)


@op(
    abs=lambda g, angle: g * complex(angle.cos(), -angle.sin()),
    angle=lambda g, out: g * conj(out * 1j),
    takes="f",
    traits="function",
    autocast="float32",
)
def polar(abs: Array, angle: Array) -> Array:
    """Complex numbers from absolute values and angles of one dtype."""
    _refuse_mixed("polar", "angle", angle, "abs", abs)
    return abs * np.cos(angle) + 1j * (abs * np.sin(angle))


absolute = abs
synonyms(absolute=abs)


@op(traits="silent")
def isreal(input: Array) -> Array:
    """Where an element has no imaginary part."""
    return np.isreal(input)


@declare_method
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: no view negates, here."""
    return input
