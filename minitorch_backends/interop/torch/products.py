"""Matrix products."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...autograd.half_types import product_precision, rounding_once
from ...nn import functional as F
from ...ops.matmul.linear import affine
from ...ops.matmul.scaled import _scaled_mm
from ...ops.names import addbmm, addmm, addmv, baddbmm, bmm, dot, einsum, matmul, mm, mv, vdot
from ...tensor.dtypes import DType, to_dtype
from ...tensor.tensor import Tensor, adopt
from .table import runs

for _function in (vdot, addmv, addbmm):
    runs(_function.__name__)(_function)
for _function in (bmm, mv, dot, matmul):
    runs(_function.__name__, again=matmul.op.forward)(_function)
runs("baddbmm", again=baddbmm.op.forward)(baddbmm)
runs("mm", narrow=True, again=matmul.op.forward)(mm)
runs("addmm", narrow=True, again=addmm.op.forward)(addmm)


def _layer(input: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """`linear` of arrays, as one op where that is one."""
    if input.ndim > 1 and weight.ndim == 2 and (bias is None or bias.ndim < 2):
        return affine.op.forward(input, weight, bias)
    return F.linear(adopt(input), adopt(weight), None if bias is None else adopt(bias))._array


runs("linear", "mkldnn_linear", again=_layer)(F.linear)


@runs("_addmm_activation")
def _addmm_activation(
    input: Tensor, first: Tensor, second: Tensor, *, beta: Any = 1, alpha: Any = 1, use_gelu: bool = False
) -> Tensor:
    out = addmm(input, first, second, beta=beta, alpha=alpha)
    return F.gelu(out) if use_gelu else F.relu(out)


def _dtype_of(dtype: torch.dtype | None) -> DType | None:
    return None if dtype is None else to_dtype(str(dtype).removeprefix("torch."))


@runs("mm.dtype")
def _mm(input: Tensor, mat2: Tensor, out_dtype: torch.dtype) -> Tensor:
    return mm(input, mat2, _dtype_of(out_dtype))


@runs("bmm.dtype")
def _bmm(input: Tensor, mat2: Tensor, out_dtype: torch.dtype) -> Tensor:
    return bmm(input, mat2, _dtype_of(out_dtype))


@runs("addmm.dtype", mixed=True)
def _addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: torch.dtype, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    return addmm(input, mat1, mat2, beta=beta, alpha=alpha, out_dtype=_dtype_of(out_dtype))


@runs("baddbmm.dtype", mixed=True)
def _baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, out_dtype: torch.dtype, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    return baddbmm(input, batch1, batch2, beta=beta, alpha=alpha, out_dtype=_dtype_of(out_dtype))


@runs("_scaled_mm", mixed=True, narrow=True)
def _run_scaled_mm(
    input: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    return _scaled_mm(input, mat2, scale_a, scale_b, bias, scale_result, _dtype_of(out_dtype), use_fast_accum)


@runs("_scaled_mm_v2", mixed=True, narrow=True)
def _scaled_by_recipes(
    input: Tensor,
    mat2: Tensor,
    scale_a: list[Tensor],
    recipe_a: list[int],
    swizzle_a: list[int],
    scale_b: list[Tensor],
    recipe_b: list[int],
    swizzle_b: list[int],
    bias: Tensor | None,
    out_dtype: torch.dtype | None,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    recipes_a, recipes_b = ([F.ScalingType(each) for each in recipe] for recipe in (recipe_a, recipe_b))
    swizzles_a, swizzles_b = ([F.SwizzleType(each) for each in swizzle] or None for swizzle in (swizzle_a, swizzle_b))
    return F.scaled_mm(
        input, mat2, scale_a, recipes_a, scale_b, recipes_b, swizzles_a, swizzles_b,
        bias, _dtype_of(out_dtype), contraction_dim, use_fast_accum,
    )  # fmt: skip


@runs("_trilinear")
def _trilinear(
    first: Tensor,
    second: Tensor,
    third: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    """The sum over the dimensions `sumdim` of the product of three tensors, after `unsqueeze` at `expand`."""
    dims = string.ascii_letters[: first.ndim + len(expand1)]
    operands = [
        "".join(label for place, label in enumerate(dims) if place not in expand)
        for expand in (expand1, expand2, expand3)
    ]
    kept = "".join(label for place, label in enumerate(dims) if place not in sumdim)
    return _sums(f"{','.join(operands)}->{kept}", first, second, third, product_precision(first))


@rounding_once
def _sums(equation: str, first: Tensor, second: Tensor, third: Tensor, precision: str | None) -> Tensor:
    return einsum(equation, first, second, third, precision=precision)
