"""The affine map of a layer, and the weight that a layer keeps packed for inference."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...autograd.versions import writes
from ...backends import precision_policy
from ...backends.operands import Operands, Roles, formats_of, swap
from ...backends.precision_policy import Call
from ...dispatch.op import Array, composite, op
from ...kernels.arrays.elementwise import is_half
from ...kernels.gemm import Kept, gains_by_keeping
from ...kernels.gemm import linear as kernel
from ...kernels.precisions import find_format
from ...kernels.precisions.float8 import is_float8
from ...kernels.registry import ArraySpec
from ...serialization.safe_globals import always_safe
from ...tensor.tensor import Tensor, adopt
from ..functional import functional
from .addmm import add_product, refuse_unfit
from .by_role import multiply_rounded, round_along, to_dtype
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
    widen=False,
    method=False,
    product="matmul",
    roles={"input": "activation", "weight": "weight"},
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
class PackedWeight:
    """A layer's weight in the packed form of products, cached while its memory, version and the flags are unchanged.

    Inference with fixed weights packs once. In-place operations on the weight are detected, also through `weight.data`.
    Direct writes to the underlying array (`weight.detach().numpy()[...] = ...`), or through another tensor made from
    the same array, are not.
    """

    __slots__ = ("_key", "_kept", "_rounded", "_source")

    def __init__(self) -> None:
        self._source: np.ndarray | None = None
        self._key: tuple | None = None
        self._kept: Kept | None = None
        self._rounded: tuple[Any, np.ndarray] | None = None

    def __reduce__(self) -> tuple:
        return PackedWeight, ()

    def linear(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`linear` where nothing is recorded: from the packed weight, when products of these shapes gain by it."""
        x, w, b = input._array, weight._array, None if bias is None else bias._array
        fits = x.ndim >= 2 and w.ndim == 2 and x.shape[-1] == w.shape[1] and (b is None or b.dtype == x.dtype)
        if precision_policy.by_role and fits and x.dtype == w.dtype and (version := writes(weight)) is not None:
            operands = formats_of(Roles("activation", "weight"), x.dtype.name)
            if operands is not None:
                return adopt(self._linear_by_role(x, w, b, operands, version))
        planned = plain_call(x.dtype) if fits and x.dtype == w.dtype else None
        if planned is None:
            return linear(input, weight, bias)
        version = writes(weight)
        out = None if version is None else self._from_packed(x, w, b, planned, version)
        return linear(input, weight, bias) if out is None else adopt(out)

    def _from_packed(
        self, x: np.ndarray, w: np.ndarray, b: np.ndarray | None, planned: Call, version: Any
    ) -> np.ndarray | None:
        """The result from the packed weight; None where products of these shapes do not gain by it."""
        keywords = planned.keywords
        if "prefer" in keywords or not gains_by_keeping(
            ArraySpec(x.shape, x.dtype), ArraySpec(w.shape[::-1], w.dtype), **keywords
        ):
            return None
        key = (version, *keywords.items())
        if self._source is not w or self._key != key:
            self._kept, self._source, self._key = Kept(w.T, **keywords), w, key
        arrays = (x, self._kept) if b is None else (x, self._kept, b)
        return kernel(*arrays, decided_by=planned.decided_by, **keywords)

    def _linear_by_role(
        self, x: np.ndarray, w: np.ndarray, b: np.ndarray | None, operands: Operands, version: Any
    ) -> np.ndarray:
        """The same in the formats of operands: the weight is rounded once, and kept."""
        fused = None if operands.is_pair else b

        def round_side(array: np.ndarray, name: str, side: int, dtype: np.dtype) -> np.ndarray:
            if side == 0 or "stochastic" in (operands.rounding, find_format(name).rounding):
                return round_along(array, name, -1, operands, dtype)
            key = version, id(array), name, dtype
            if self._rounded is None or self._rounded[0] != key:
                self._rounded = key, round_along(array, name, -1, operands, dtype)
            return self._rounded[1]

        def multiply(x: np.ndarray, w: np.ndarray, precision: Any) -> np.ndarray:
            planned = plain_call(x.dtype, precision)
            out = None if planned is None else self._from_packed(x, w, fused, planned, version)
            return affine.op.forward(x, w, fused, precision=precision) if out is None else out

        out = multiply_rounded("matmul", operands, (x, w), round_side, multiply, wide=operands.is_pair)
        if not operands.is_pair:
            return out
        return to_dtype(out if b is None else out + to_dtype(b, out.dtype), x.dtype)
