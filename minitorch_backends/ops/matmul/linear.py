"""The affine map of a layer, and the weight that a layer keeps packed for inference."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...autograd.half_types import product_precision, rounding_once
from ...autograd.views import is_parameter
from ...backends import precision_policy
from ...backends.operands import LAYER_ROLES, Operands, Roles, act_on, formats_of, swap
from ...backends.precision_policy import Call
from ...dispatch.op import Array, composite, op
from ...kernels.arrays.elementwise import is_half
from ...kernels.gemm import Kept, gains_by_keeping
from ...kernels.gemm import linear as kernel
from ...kernels.precisions.float8 import is_float8
from ...kernels.precisions.rounding import Rounded
from ...kernels.registry import ArraySpec
from ...serialization.safe_globals import always_safe
from ...tensor.tensor import Tensor, adopt
from ..einsum.api import einsum
from ..functional import functional
from ..packed import Forms, Packed
from .addmm import add_product, refuse_unfit
from .by_role import multiply_rounded, promoted_block, round_along, to_dtype, with_remainders
from .dispatch import plain_call, product
from .matmul import is_plain, times

__all__ = ["PackedWeight", "linear"]


def _flat(tensor: Tensor) -> Tensor:
    return tensor.unsqueeze(0) if tensor.ndim == 1 else tensor.flatten(0, -2)


def _of_input(g: Tensor, weight: Tensor, precision: str | None) -> Tensor:
    if is_plain(g, weight):
        return adopt(product(g._array, weight._array, precision))
    return times(g, weight.conj(), precision)


def _of_weight(g: Tensor, input: Tensor, precision: str | None) -> Tensor:
    if is_plain(g, input):
        rows, factor = g._array, input._array
        if rows.ndim != 2:
            rows, factor = (each.reshape(math.prod(each.shape[:-1]), each.shape[-1]) for each in (rows, factor))
        return adopt(product(rows.T, factor, swap(precision)))
    return times(_flat(g).mT, _flat(input).conj(), swap(precision))


@op(
    takes="ifcn",
    traits="unwidened function",
    product=("matmul", {"input": "activation", "weight": "weight"}),
    input=_of_input,
    weight=_of_weight,
    bias=lambda g: g,
    batch="affine",
)
def affine(input: Array, weight: Array, bias: Array | None = None, *, precision: str | None = None) -> np.ndarray:
    """`linear` with a matrix as weight, recorded as one op: its gradient has the memory layout of the weight and needs
    no copy."""
    shape = input.shape
    rows = input if len(shape) == 2 else input.reshape(math.prod(shape[:-1]), shape[-1])
    if bias is None:
        out = product(rows, weight.T, precision)
    else:
        out = add_product("linear", bias, rows, weight.T, 1, 1, precision)
    return out if len(shape) == 2 else out.reshape(*shape[:-1], len(weight))


@functional
@composite(takes="ifcn", method=False, product="matmul", autocast="lower")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias.

    input: (..., in_features); weight: (out_features, in_features) or (in_features); bias: (out_features) or ().
    """
    if _is_one_op(input, weight, bias):
        return affine(input, weight, bias)
    if bias is not None and weight.ndim == 1 and is_half(weight._array.dtype):
        return linear(input, weight.unsqueeze(0), bias).squeeze(-1)
    product = input @ weight.t()
    if bias is None:
        return product
    try:
        result = product + bias
    except RuntimeError:
        refuse_unfit("linear", bias._array, product._array.shape)
        raise
    if result._array.shape != product._array.shape:
        refuse_unfit("linear", bias._array, product._array.shape)
    return result


def _is_one_op(input: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether to compute `affine`: of a vector only in half types, where the bias is added before rounding."""
    x, w, b = input._array, weight._array, None if bias is None else bias._array
    if x.ndim == 0 or w.ndim != 2 or x.shape[-1] != w.shape[1] or x.dtype != w.dtype:
        return False
    if b is not None and (b.ndim > 1 or b.dtype != x.dtype):
        return False
    return x.ndim > 1 or is_half(x.dtype) or is_float8(x.dtype)


@always_safe
class PackedWeight(Packed):
    """A layer's weight in the packed form of products, and rounded to formats of operands."""

    __slots__ = ()

    def linear(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`linear` where nothing is recorded: from the packed weight, when products of these shapes gain by it."""
        if not isinstance(input, Tensor):
            return linear(input, weight, bias)  # type: ignore[unreachable]  # it raises TypeError
        x, w, b = input._array, weight._array, None if bias is None else bias._array
        fits = x.ndim >= 2 and w.ndim == 2 and x.shape[-1] == w.shape[1] and (b is None or b.dtype == x.dtype)
        forms = self.forms_of(weight) if fits and x.dtype == w.dtype else None
        if forms is None:
            return linear(input, weight, bias)
        roles = None
        if precision_policy.by_role:
            roles = Roles("activation", "weight")
            operands = formats_of(roles, x.dtype.name)
            if operands is not None:
                return adopt(_linear_by_role(x, w, b, operands, forms))
        planned = plain_call(x.dtype, roles)
        out = None if planned is None else from_packed(x, w, b, planned, forms)
        return linear(input, weight, bias) if out is None else adopt(out)


def from_packed(
    x: np.ndarray, w: np.ndarray, b: np.ndarray | None, planned: Call, forms: Forms, name: str = ""
) -> np.ndarray | None:
    """The result from the packed weight, in a format; None where products of these shapes do not gain by it."""
    keywords = planned.keywords
    if "prefer" in keywords or not gains_by_keeping(
        ArraySpec(x.shape, x.dtype), ArraySpec(w.shape[::-1], w.dtype), **keywords
    ):
        return None
    kept = forms.get((name, w.dtype, *keywords.items()), lambda: Kept(w.T, **keywords))
    arrays = (x, kept) if b is None else (x, kept, b)
    return kernel(*arrays, decided_by=planned.decided_by, **keywords)


def _linear_by_role(x: np.ndarray, w: np.ndarray, b: np.ndarray | None, operands: Operands, forms: Forms) -> np.ndarray:
    """The same in the formats of operands: the weight is rounded once."""
    if operands.is_pair and promoted_block(*operands[:2]):
        return affine.op.forward(x, w, b, precision=Roles("activation", "weight"))
    fused, of_weight = None if operands.is_pair else b, operands.right or ""
    operands = with_remainders(operands, (w.shape[1], w.shape[1]))
    is_random = operands.draws(1)

    def round_side(array: np.ndarray, name: str, side: int) -> Rounded:
        if side == 0 or is_random:
            return round_along("linear", array, name, -1, operands)
        return forms.get((name,), lambda: round_along("linear", array, name, -1, operands))

    def multiply(x: np.ndarray, w: np.ndarray, precision: Any) -> np.ndarray:
        planned = None if is_random else plain_call(x.dtype, precision)
        out = None if planned is None else from_packed(x, w, fused, planned, forms, of_weight)
        return affine.op.forward(x, w, fused, precision=precision) if out is None else out

    wide = operands.is_pair and b is not None
    out = multiply_rounded("matmul", operands, (x, w), round_side, multiply, wide)
    return to_dtype(out + to_dtype(b, out.dtype), x.dtype) if wide and b is not None else out


# The bilinear map of a layer


@functional
@composite(method=False, takes="ifc", product="matmul")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The sums over i and j of input1[..., i] * weight[o, i, j] * input2[..., j], for each o, and a bias.

    input1: (..., in1); input2: (..., in2), with equal leading sizes; weight: (out, in1, in2); bias: (out). Runs the
    kernels of matmul, at its precision. Raises RuntimeError for shapes that do not fit.
    """
    first, second, sizes = list(input1.shape), list(input2.shape), list(weight.shape)
    fits = len(sizes) == 3 and first[-1:] == sizes[1:2] and second[-1:] == sizes[2:] and first[:-1] == second[:-1]
    if not fits or (bias is not None and list(bias.shape) != sizes[:1]):
        raise RuntimeError(
            f"bilinear(): expected inputs (..., in1) and (..., in2), a weight (out, in1, in2) and a bias (out), "
            f"got {first}, {second}, {sizes} and {None if bias is None else list(bias.shape)}"
        )
    if precision_policy.by_role and act_on(LAYER_ROLES) and is_parameter(weight):
        return _sums(input1, input2, weight, bias, None)  # a copy in float32 would not be the parameter
    return rounding_once(_sums)(input1, input2, weight, bias, product_precision(input1))


def _sums(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None, precision: str | None) -> Tensor:
    result = einsum("...i,oij,...j->...o", input1, weight, input2, precision=precision)
    return result if bias is None else result + bias
