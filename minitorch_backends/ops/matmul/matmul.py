"""Matrix products. All call `product`, which resolves the precision by the flags and calls the kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...autograd.half_types import widen
from ...autograd.modes import grad_mode
from ...backends.operands import by_formats, swap
from ...dispatch.op import Array, Forms, composite, op
from ...kernels.arrays.elementwise import is_half
from ...kernels.registry import ArraySpec
from ...tensor import instrumentation
from ...tensor.casting import cast_unchecked
from ...tensor.dtypes import float32, to_dtype
from ...tensor.tensor import Tensor, adopt, not_a_tensor
from .dispatch import check_factors, prepare, product, refuse_mixed, wide_product

__all__ = ["bmm", "dot", "matmul", "mm", "mv", "vdot"]

_mode = grad_mode.get

# Gradients. A vector stands as a matrix of one row (on the left) or one column (on the right).


def _gradient_of_left(
    g: Tensor, other: Tensor, input_shape: tuple, input_strides: tuple, precision: str | None
) -> Tensor:
    if len(input_shape) == other._array.ndim == 2 and is_plain(g, other):
        return _laid_out(g._array, other._array.T, input_strides, precision)
    if other.ndim == 1:
        g, other = g.unsqueeze(-1), other.unsqueeze(-1)
    if len(input_shape) == 1 and other.ndim == 2 == g.ndim + 1:
        return times(g, adjoint(other), precision)
    if len(input_shape) == 1:
        return _summed_later(g.unsqueeze(-2), adjoint(other), (), precision).squeeze(-2)
    return _summed_later(g, adjoint(other), input_shape[:-2], precision)


def gradient_of_right(
    g: Tensor, input: Tensor, other_shape: tuple, other_strides: tuple, precision: str | None
) -> Tensor:
    """The gradient of the right factor. A right factor shared by a batch of left factors sees their rows as one
    matrix."""
    if len(other_shape) <= 2 < input.ndim:
        g, input = g.flatten(0, -len(other_shape)), input.flatten(0, -2)
    if len(other_shape) == input._array.ndim == 2 and is_plain(g, input):
        return _laid_out(input._array.T, g._array, other_strides, precision)
    if input.ndim == 1:
        g, input = g.unsqueeze(-1 if len(other_shape) == 1 else -2), input.unsqueeze(0)
    elif len(other_shape) == 1 and g.ndim == 1:
        return times(adjoint(input), g, precision)
    if len(other_shape) == 1:
        g = g if g.ndim > 1 else g.unsqueeze(-1)
        return times(adjoint(input), g, precision).squeeze(-1)
    return _summed_later(adjoint(input), g, other_shape[:-2], precision)


def _summed_later(a: Tensor, b: Tensor, batch: tuple[int, ...], precision: str | None) -> Tensor:
    """`times`, in float32 for half types if the result will be summed to a smaller `batch` and rounded."""
    if is_half(a._array.dtype) and max(a._array.shape[:-2], b._array.shape[:-2], key=math.prod) != batch:
        return times(widen(a), widen(b), precision if by_formats(precision) else "ieee")
    return times(a, b, precision)


def _laid_out(a: np.ndarray, b: np.ndarray, strides: tuple[int, int], precision: str | None) -> Tensor:
    """The product of two matrices in the memory layout of these strides. A layer multiplies by its transposed weight;
    copying
    that gradient into the weight's order would take as long as the product."""
    if strides[0] < strides[1]:
        return adopt(product(b.T, a.T, swap(precision)).T)
    return adopt(product(a, b, precision))


def is_plain(g: Tensor, factor: Tensor) -> bool:
    """Whether both are real and of one type with nothing to record: then the product of their arrays is the gradient,
    in half the time of views and ops."""
    dtype = g._array.dtype
    plain = g._node is None and factor._node is None and dtype is factor._array.dtype
    return plain and dtype.kind == "f" and not instrumentation.is_observed()


def times(a: Tensor, b: Tensor, precision: Any) -> Tensor:
    """The product at a given precision, or at that of the flags; a call without keywords takes half the time."""
    return matmul(a, b) if precision is None else matmul(a, b, precision=precision)


def adjoint(matrix: Tensor) -> Tensor:
    return matrix.mT.conj() if matrix._array.dtype.kind == "c" else matrix.mT


# The ops


@op(
    forms=Forms(operators=("__matmul__", "__rmatmul__")),
    takes="ifcn",
    traits="unwidened silent",
    product=("matmul", {"input": "", "other": ""}),
    input=_gradient_of_left,
    other=gradient_of_right,
    autocast="lower",
    batch="multiply",
)
def matmul(input: Array, other: Array, *, precision: str | tuple[str, str] | None = None) -> np.ndarray:
    """The matrix product over the last two dimensions; the others broadcast. A vector is a row on the left and a column
    on the right.

    `precision` sets the precision of this float32 or complex64 product, or as a pair the formats of both operands; None
    uses the flags (`explain.precision_of("matmul")`). Raises RuntimeError for mismatched sizes and operands of
    different dtypes.
    """
    if precision is None:  # as `product` does, without a call in between
        if (dtype := input.dtype) is not other.dtype:
            refuse_mixed(input, other)
        return prepare(dtype, input.shape, other.shape, _mode().backward)(input, other)
    return product(input, other, precision)


@op(
    traits="function unwidened silent",
    takes="f",
    product="matmul",
    input=lambda g, other: times(g.to(widen(other).dtype), adjoint(widen(other)), None),
    other=lambda g, input: times(adjoint(widen(input)), g.to(widen(input).dtype), None),
    batch="loop: a fixed number of dimensions",
)
def product_to(input: Array, other: Array, out_dtype: Any) -> np.ndarray:
    """The product of matrices or batches with elements of `out_dtype`, of the operands' for None: of half types in
    float32 the sums, which are not rounded. Raises RuntimeError for shapes that do not multiply."""
    wanted = to_dtype(input.dtype if out_dtype is None else out_dtype)
    check_factors(ArraySpec(input.shape, input.dtype), ArraySpec(other.shape, other.dtype))
    wide = is_half(input.dtype) and wanted is float32
    return wide_product(input, other) if wide else cast_unchecked(product(input, other), wanted.dtype)


def is_wider(name: str, dtype: np.dtype, out_dtype: Any) -> bool:
    """Whether a product of operands of a dtype is returned in float32.

    Raises RuntimeError for any `out_dtype` other than the operands' and, for half types, float32, as torch does.
    """
    wanted, own = to_dtype(out_dtype), to_dtype(dtype)
    if wanted is own:
        return False
    if not (wanted is float32 and is_half(dtype)):
        raise RuntimeError(
            f"{name}(): out_dtype must be {own!r}, the operands', or mt.float32 for half types, got {wanted!r}"
        )
    return True


def _to(name: str, a: Tensor, b: Tensor, out_dtype: Any, precision: str | None) -> Tensor:
    wide = out_dtype is not None and is_wider(name, a._array.dtype, out_dtype)
    return product_to(a, b, float32) if wide else times(a, b, precision)


def of_dims(name: str, *expected: tuple[str, Tensor, int]) -> None:
    for argument, tensor, dims in expected:
        if not isinstance(tensor, Tensor):
            raise not_a_tensor(name, argument, tensor)
        if tensor.ndim != dims:
            raise RuntimeError(
                f"{name}(): argument {argument!r} must be {dims}-D, and it has shape {list(tensor.shape)}"
            )


@composite(takes="ifcn", product="matmul", autocast="lower")
def mm(input: Tensor, mat2: Tensor, out_dtype: Any = None, *, precision: str | None = None) -> Tensor:
    """The product of two matrices; see `matmul`. `out_dtype` may be float32 for half types, whose sums are then not
    rounded."""
    of_dims("mm", ("input", input, 2), ("mat2", mat2, 2))
    return _to("mm", input, mat2, out_dtype, precision)


@composite(takes="ifcn", product="matmul", autocast="lower")
def bmm(input: Tensor, mat2: Tensor, out_dtype: Any = None, *, precision: str | None = None) -> Tensor:
    """The products of two batches of matrices, (b, n, m) and (b, m, p); batches do not broadcast. `out_dtype` as in
    `mm`. Raises RuntimeError for batches of different sizes."""
    of_dims("bmm", ("input", input, 3), ("mat2", mat2, 3))
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(f"bmm(): expected batches of equal size, got {input.shape[0]} and {mat2.shape[0]}")
    return _to("bmm", input, mat2, out_dtype, precision)


@composite(takes="ifc", product="matmul", autocast="unchanged")
def mv(input: Tensor, vec: Tensor, *, precision: str | None = None) -> Tensor:
    """The product of a matrix and a vector."""
    of_dims("mv", ("input", input, 2), ("vec", vec, 1))
    return times(input, vec, precision)


@composite(takes="ifc", product="matmul", autocast="unchanged")
def dot(input: Tensor, tensor: Tensor, *, precision: str | None = None) -> Tensor:
    """The sum of the products of two vectors, without conjugation."""
    of_dims("dot", ("input", input, 1), ("tensor", tensor, 1))
    return times(input, tensor, precision)


@composite(takes="ifc", product="matmul", autocast="unchanged")
def vdot(input: Tensor, other: Tensor, *, precision: str | None = None) -> Tensor:
    """The sum of the products of two vectors, the first conjugated."""
    of_dims("vdot", ("input", input, 1), ("other", other, 1))
    return matmul(input.conj() if input.is_complex() else input, other, precision=precision)
