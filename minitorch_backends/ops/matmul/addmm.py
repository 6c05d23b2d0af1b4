"""A matrix product scaled, and added to something: addmm and its relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.half_types import widen
from ...backends.operands import by_formats
from ...backends.precision_policy import resolve
from ...dispatch.op import Array, Forms, composite, op
from ...kernels.arrays.elementwise import is_half
from ...kernels.precisions.float8 import from_float32, is_float8
from ...kernels.runtime.shapes import broadcast_shapes
from ...tensor.casting import cast_unchecked, fitted_number
from ...tensor.dtypes import INTEGER, bool_, promote_types, to_dtype
from ...tensor.tensor import Tensor
from ..gradients import conjugate
from .dispatch import fused_sum, product, product_by_role, refuse_mixed, shape_error, wide_product
from .matmul import adjoint, gradient_of_right, is_wider, of_dims, times

__all__ = ["addbmm", "addmm", "addmv", "addr", "baddbmm"]


def add_product(
    name: str,
    x: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    beta: Any,
    alpha: Any,
    precision: str | None,
    out_dtype: Any = None,
) -> np.ndarray:
    """beta * x + alpha * (a @ b). If beta is 0, x is not read, and may contain NaN. An `out_dtype` of float32 keeps
    half products unrounded."""
    refuse_mixed(a, b)
    wide = out_dtype is not None and is_wider(name, a.dtype, out_dtype)
    if not (wide and x.dtype == np.float32):
        refuse_mixed(x, a)
    if beta != 1 or alpha != 1:
        _refuse_unheld(name, a.dtype, beta=beta, alpha=alpha)
    if a.shape[-1] != b.shape[-2]:
        raise shape_error(a, b)
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2]) if a.ndim > 2 or b.ndim > 2 else ()
    refuse_unfit(name, x, (*batch, a.shape[-2], b.shape[-1]))
    if wide or is_float8(a.dtype):  # in float32, rounded once
        total: np.ndarray = wide_product(a, b) * np.float32(alpha)
        if beta != 0:
            total = total + cast_unchecked(x, total.dtype) * np.float32(beta)
        return total if wide else from_float32(total, a.dtype)
    if is_half(a.dtype) and by_formats(precision) and resolve("matmul", a.dtype, precision).keywords.get("operands"):
        # in float32, rounded once
        total = product_by_role(a, b, precision, wide=True) * np.float32(alpha)
        total = total + cast_unchecked(x, total.dtype) * np.float32(beta) if beta else total
        return cast_unchecked(total, a.dtype)
    if (result := fused_sum(a, b, x, alpha, beta, precision)) is not None:
        return result
    result = product(a, b, precision)
    if alpha != 1:
        result *= np.asarray(alpha).astype(a.dtype)
    return result if beta == 0 else np.add(result, x if beta == 1 else x * np.asarray(beta).astype(a.dtype), out=result)


def _refuse_unheld(name: str, dtype: np.dtype, **factors: Any) -> None:
    """Reject alpha and beta that are not numbers (TypeError) or that the result dtype cannot hold (RuntimeError). Half
    types are multiplied in float32."""
    for factor, value in factors.items():
        if isinstance(value, (str, bytes, list, tuple)) or value is None:
            raise TypeError(f"{name}(): argument {factor!r} must be a number, not {type(value).__name__} {value!r}")
        try:
            fitted_number(np.asarray(value), to_dtype(np.float32 if is_half(dtype) or is_float8(dtype) else dtype))
        except RuntimeError as error:
            raise RuntimeError(f"{name}(): argument {factor!r}: {error}") from None


def refuse_unfit(name: str, x: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raise RuntimeError for an addend that does not broadcast to the shape of the product."""
    if x.shape == shape[len(shape) - x.ndim :]:
        return
    try:
        np.broadcast_to(x, shape)
    except ValueError:
        raise RuntimeError(
            f"{name}(): what is added, of shape {list(x.shape)}, does not broadcast to the product's, {list(shape)}"
        ) from None


def _gradient_of_addend(g: Tensor, beta: Any) -> Tensor:
    return g if beta == 1 else widen(g) * conjugate(beta)


def _scaled_product(a: Tensor, b: Tensor, alpha: Any, precision: str | None) -> Tensor:
    """conj(alpha) * (a @ b), rounded once; for a half type beside float32, in float32."""
    if a.dtype is not b.dtype:
        a, b = widen(a), widen(b)
    if alpha == 1:
        return times(a, b, precision)
    scaled = addmm if a.ndim == 2 else baddbmm
    return scaled(a.new_empty(()), a, b, beta=0, alpha=conjugate(alpha), precision=precision)


def _scaled_first(first: str, second: str) -> tuple[str, str]:
    """torch's deprecated argument orders, with factors before their operands."""
    return f"beta, input, alpha, {first}, {second}", f"beta, input, {first}, {second}"


@op(
    traits="inplace unwidened", takes="ifcn", product=("matmul", {"mat1": "", "mat2": ""}),
    forms=Forms(deprecated=_scaled_first("mat1", "mat2")), input=_gradient_of_addend,
    mat1=lambda g, mat2, alpha, precision: _scaled_product(g, adjoint(mat2), alpha, precision),
    mat2=lambda g, mat1, mat2_shape, mat2_strides, alpha, precision: (
        gradient_of_right(g, mat1, mat2_shape, mat2_strides, precision)
        if alpha == 1 and g.dtype is mat1.dtype
        else _scaled_product(adjoint(mat1), g, alpha, precision)
    ),
    autocast="lower", batch="add_product",
)  # fmt: skip
def addmm(
    input: Array,
    mat1: Array,
    mat2: Array,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    out_dtype: Any = None,
    precision: str | None = None,
) -> np.ndarray:
    """beta * input + alpha * (mat1 @ mat2) for matrices.

    `input` broadcasts, and is not read if beta is 0. `out_dtype` is as in `mm`, and may be the dtype of `input`. Raises
    RuntimeError for operands other than matrices.
    """
    if mat1.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(
            f"addmm(): mat1 and mat2 must be 2-D, and their shapes are {list(mat1.shape)} and {list(mat2.shape)}"
        )
    return add_product("addmm", input, mat1, mat2, beta, alpha, precision, out_dtype)


@op(
    traits="inplace unwidened", takes="ifcn", product=("matmul", {"batch1": "", "batch2": ""}),
    forms=Forms(deprecated=_scaled_first("batch1", "batch2")), input=_gradient_of_addend,
    batch1=lambda g, batch2, alpha, precision: _scaled_product(g, adjoint(batch2), alpha, precision),
    batch2=lambda g, batch1, alpha, precision: _scaled_product(adjoint(batch1), g, alpha, precision), autocast="lower",
    batch="loop: a fixed number of dimensions",
)  # fmt: skip
def baddbmm(
    input: Array,
    batch1: Array,
    batch2: Array,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    out_dtype: Any = None,
    precision: str | None = None,
) -> np.ndarray:
    """beta * input + alpha * (batch1 @ batch2) for batches of matrices of equal number; `out_dtype` as in `addmm`.
    Raises RuntimeError for others."""
    if batch1.ndim != 3 or batch2.ndim != 3 or batch1.shape[0] != batch2.shape[0]:
        raise RuntimeError(
            "baddbmm(): batch1 and batch2 must be 3-D with equal first sizes, and their shapes are "
            f"{list(batch1.shape)} and {list(batch2.shape)}"
        )
    return add_product("baddbmm", input, batch1, batch2, beta, alpha, precision, out_dtype)


@composite(inplace=True, takes="ifc", deprecated=_scaled_first("mat", "vec"), product="matmul", autocast="unchanged")
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1, precision: str | None = None
) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
    of_dims("addmv", ("mat", mat, 2), ("vec", vec, 1))
    column = input.unsqueeze(-1) if input.ndim else input
    return addmm(column, mat, vec.unsqueeze(-1), beta=beta, alpha=alpha, precision=precision).squeeze(-1)


@composite(inplace=True, takes="bifc", deprecated=_scaled_first("vec1", "vec2"), product="matmul", autocast="unchanged")
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1, precision: str | None = None
) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2), in the type that all three promote to. Raises RuntimeError for integers
    with factors that are none."""
    of_dims("addr", ("vec1", vec1, 1), ("vec2", vec2, 1))
    dtype = promote_types(promote_types(input.dtype, vec1.dtype), vec2.dtype)
    if dtype.category <= INTEGER and (isinstance(beta, float) or isinstance(alpha, float)):
        raise RuntimeError(f"addr(): for integers, beta and alpha must be no floating point numbers: {beta}, {alpha}")
    if dtype is bool_:
        product = vec1.unsqueeze(1).logical_and(vec2.unsqueeze(0))
        refuse_unfit("addr", input._array, product._array.shape)
        return product & bool(alpha) | input & bool(beta)
    column, row = vec1.to(dtype).unsqueeze(1), vec2.to(dtype).unsqueeze(0)
    return addmm(input.to(dtype), column, row, beta=beta, alpha=alpha, precision=precision)


@composite(inplace=True, takes="ifc", deprecated=_scaled_first("batch1", "batch2"), product="matmul", autocast="lower")
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, precision: str | None = None
) -> Tensor:
    """beta * input + alpha * the sum of the products of two batches of matrices: one product over batch and inner size.
    Raises RuntimeError for shapes that do not go together."""
    of_dims("addbmm", ("batch1", batch1, 3), ("batch2", batch2, 3))
    batch, rows, inner_size = batch1.shape
    if batch2.shape[:2] != (batch, inner_size):
        raise RuntimeError(
            f"addbmm(): shapes {list(batch1.shape)} and {list(batch2.shape)} cannot be multiplied batch by batch"
        )
    side_by_side = batch1.transpose(0, 1).reshape(rows, batch * inner_size)
    stacked = batch2.reshape(batch * inner_size, batch2.shape[2])
    return addmm(input, side_by_side, stacked, beta=beta, alpha=alpha, precision=precision)
