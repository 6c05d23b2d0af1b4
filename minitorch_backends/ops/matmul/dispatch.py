"""Dispatch of array products under the current flags, as `resolve` determines."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.modes import grad_mode
from ...backends.operands import Operands, Roles, by_formats
from ...backends.precision_policy import Call, decision, resolve
from ...dispatch.promotion import EVERY_CATEGORY, refusal_of_dtype
from ...flags import State, per_state
from ...kernels import registry
from ...kernels.arrays.elementwise import cast
from ...kernels.gemm import addmm as kernel_addmm
from ...kernels.gemm import gains_by_packing
from ...kernels.gemm import matmul as kernel
from ...kernels.gemm.half import half_matmul
from ...kernels.gemm.scaled import scaled_matmul
from ...kernels.precisions.float8 import FORMATS, from_float32, is_float8
from ...kernels.precisions.products import is_emulated, is_scaled
from ...kernels.precisions.rounding import Rounded, remainder
from ...kernels.registry import ArraySpec
from ...kernels.runtime.invariance import is_demanded
from ...kernels.runtime.shapes import broadcast_shapes
from ...tensor.casting import cast_unchecked
from ...tensor.dtypes import to_dtype
from .by_role import multiply_rounded, round_along, with_remainders


def refuse_mixed(a: np.ndarray | ArraySpec, b: np.ndarray | ArraySpec) -> None:
    """Raise RuntimeError for factors of different dtypes."""
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"expected both factors to have the same dtype, but got {to_dtype(a.dtype)!r} and {to_dtype(b.dtype)!r}; "
            "convert one with .to(dtype)"
        )


def shape_error(a: np.ndarray | ArraySpec, b: np.ndarray | ArraySpec) -> RuntimeError:
    """The error for factors whose inner sizes differ."""
    first, second = ("x".join(map(str, each.shape)) for each in (a, b))
    return RuntimeError(
        f"mat1 and mat2 shapes cannot be multiplied ({first} and {second}); "
        f"expected the last size of the first, {a.shape[-1]}, to equal the size of the second it meets, "
        f"{b.shape[max(b.ndim - 2, 0)]}"
    )


def check_factors(a: ArraySpec, b: ArraySpec) -> None:
    """Raise RuntimeError for arrays that `matmul` does not multiply."""
    refuse_mixed(a, b)
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D; use * for scalars"
        )
    if a.shape[-1] != b.shape[max(b.ndim - 2, 0)]:
        raise shape_error(a, b)
    try:
        broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise RuntimeError(
            f"the batch dimensions {list(a.shape[:-2])} and {list(b.shape[:-2])} do not broadcast; "
            "expected equal sizes, or 1, counted from the right"
        ) from None


def with_vectors(
    a: ArraySpec, b: ArraySpec, prepare: Callable[[ArraySpec, ArraySpec], Callable[..., np.ndarray]]
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The product that `prepare` gives for two shapes of matrices, also where one is a vector: a row on the left, a
    column on the right, whose dimension of size 1 the result does not have."""
    if a.ndim > 1 and b.ndim > 1:
        return prepare(a, b)
    left: Any = (None, ...) if a.ndim == 1 else ...
    right: Any = (..., None) if b.ndim == 1 else ...
    rest: Any = (..., *[0] * (a.ndim == 1), 0 if b.ndim == 1 else slice(None))
    rows = ArraySpec((1, *a.shape) if a.ndim == 1 else a.shape, a.dtype)
    columns = ArraySpec((*b.shape, 1) if b.ndim == 1 else b.shape, b.dtype)
    multiply = prepare(rows, columns)
    return lambda x, y: multiply(x[left], y[right])[rest]


_mode = grad_mode.get


def product(a: np.ndarray, b: np.ndarray, precision: Any = None, kind: str = "matmul") -> np.ndarray:
    """(..., m, k) times (..., k, n) at the precision of the call, or of the flags for this kind of product.

    Precisions apply to float32 and complex64. Batch dimensions broadcast; either factor may be a vector. Raises
    RuntimeError for mismatched shapes and for factors of different dtypes.
    """
    if by_formats(precision) and not is_float8(a.dtype):
        return product_by_role(a, b, precision, kind)
    if precision is None or type(precision) is str or is_float8(a.dtype):
        if a.dtype is not b.dtype:
            refuse_mixed(a, b)
        return prepare(a.dtype, a.shape, b.shape, _mode().backward, precision, kind)(a, b)
    call = resolve(kind, a.dtype, precision)  # recorded, with its origin
    multiply = functools.partial(_kernel(call), decided_by=call.decided_by, **call.keywords)
    return _check_shapes(ArraySpec(a.shape, a.dtype), ArraySpec(b.shape, b.dtype), lambda *_: multiply)(a, b)


def product_by_role(
    a: np.ndarray, b: np.ndarray, precision: Any, kind: str = "matmul", wide: bool = False
) -> np.ndarray:
    """The product of operands in the formats of their roles, or of the pair that a call names. In float32 if `wide`."""
    if a.dtype is not b.dtype:
        refuse_mixed(a, b)
    found = resolve(kind, a.dtype, precision).keywords.get("operands")
    if found is None:
        if wide and a.dtype.itemsize == 2:
            return wide_product(a, b)
        rest = precision.otherwise if type(precision) is Roles else None
        if rest is None:
            return prepare(a.dtype, a.shape, b.shape, _mode().backward, precision, kind)(a, b)
        return product(a, b, rest, kind)
    check_factors(ArraySpec(a.shape, a.dtype), ArraySpec(b.shape, b.dtype))
    lengths = a.shape[-1], a.shape[-1]
    if found.stored_across:  # the blocks of the one operand with a format lie along its other dimension
        lengths = a.shape[-2] if a.ndim > 1 else a.shape[-1], b.shape[-1]
    operands: Operands = with_remainders(found, lengths)

    def round_side(x: np.ndarray, name: str, side: int) -> Rounded:
        axis = -1 if side == 0 or x.ndim == 1 else -2
        return round_along(kind, x, name, -3 - axis if operands.stored_across and x.ndim > 1 else axis, operands)

    return multiply_rounded(kind, operands, (a, b), round_side, lambda x, y, p: product(x, y, p, kind), wide)


def _kernel(call: Call) -> Any:
    return half_matmul if "sums" in call.keywords else kernel


def wide_product(
    a: np.ndarray,
    b: np.ndarray,
    *scales: np.ndarray,
    kinds: tuple[np.dtype, ...] = (),
    block: int = 0,
    inside: bool = False,
    fast: bool = False,
) -> np.ndarray:
    """The product of matrices or batches of half or 8-bit types in float32, under the current flags.

    `scales`, `block`, `inside` and `fast` are those of `kernels.gemm.scaled`; `kinds` are the dtypes of the values if
    the arrays have others. Raises RuntimeError for products that the device of `backends.profile` does not support.
    """
    kinds = kinds or (a.dtype, b.dtype)
    for dtype in kinds:
        if is_float8(dtype) and dtype.name not in FORMATS:
            raise refusal_of_dtype("matmul", to_dtype(dtype), EVERY_CATEGORY)
    call, other = (resolve("matmul", dtype) for dtype in kinds)
    unit, of_other = (each.keywords.get("unit") for each in (call, other))
    if "partial" in call.keywords and not scales and unit is None:
        return kernel(a.astype(_FLOAT32), b.astype(_FLOAT32), decided_by=call.decided_by, **call.keywords)
    options: dict[str, Any] = {"block": block, "inside": inside} if block else {}
    if unit is None or of_other is None:
        return scaled_matmul(a, b, *scales, decided_by=call.decided_by, **options)
    if inside and not {block} <= {*unit.scaled_blocks} & {*of_other.scaled_blocks}:
        raise RuntimeError(
            f"profile = {unit.profile!r} has no matrix unit for scales of blocks of {block} of {unit.operand}; set "
            "backends.profile to None, or to a device that has, such as 'b200'"
        )
    return scaled_matmul(a, b, *scales, decided_by=call.decided_by, **options, unit=unit, fast=fast)


def _narrow_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return from_float32(wide_product(a, b), a.dtype)


@per_state()
def prepare(
    state: State,
    dtype: np.dtype,
    a_shape: tuple[int, ...],
    b_shape: tuple[int, ...],
    _: bool,
    precision: str | None = None,
    kind: str = "matmul",
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The cached function for products of two shapes, since checks and resolution take longer than small products."""
    a, b = ArraySpec(a_shape, dtype), ArraySpec(b_shape, dtype)
    kind = "vector" if kind == "matmul" and 1 in (a.ndim, b.ndim) else kind
    return _check_shapes(a, b, lambda a, b: prepared_product(a, b, precision, kind))


def _check_shapes(
    a: ArraySpec, b: ArraySpec, prepare: Callable[[ArraySpec, ArraySpec], Callable[..., np.ndarray]]
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    check_factors(a, b)
    return with_vectors(a, b, prepare)


def prepared_product(
    a: ArraySpec, b: ArraySpec, precision: str | None = None, kind: str = "matmul"
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The function that `product` calls for matrices or batches of these shapes and one dtype under the current
    flags."""
    if is_float8(a.dtype):
        return _narrow_product
    call = resolve(kind, a.dtype, precision)
    if "operands" in call.keywords:
        return functools.partial(product_by_role, precision=precision, kind=kind)
    decided_by = call.decided_by
    if is_scaled(call.choice.precision) and (note := remainder(call.choice.precision, a.shape[-1])):
        decided_by += f"; {note}"
    return _kernel(call).prepare(a, b, decided_by, **call.keywords)


_LEAST_FUSED = 500_000
"""Minimum number of elements of a result for which fusing the addend into the product pays off."""


_MOST_CAST = 1 << 14
"""Maximum number of elements of a half-type factor for which casts and a small float32 product are faster than a fused
product."""

_FLOAT32 = np.dtype(np.float32)


def fused_sum(
    a: np.ndarray, b: np.ndarray, addend: np.ndarray, alpha: float, beta: float, precision: str | None
) -> np.ndarray | None:
    """alpha * (a @ b) + beta * addend, fused into the store of the product; half types are rounded once.

    None if flags round sums of half types along the way. None also for small results of other dtypes, and if the
    product does not run on the loops with an epilogue.
    """
    if a.dtype.kind in "cbiu" or (a.dtype.itemsize > 2 and math.prod(a.shape[:-1]) * b.shape[-1] < _LEAST_FUSED):
        return None
    call = plain_call(a.dtype, precision)
    if call is None or (a.dtype.itemsize > 2 and ("prefer" in call.keywords or not _packs(a, b, call))):
        return None
    half, fixed = a.dtype.itemsize == 2, is_demanded()
    if fixed and not half and (alpha, beta) != (1, 1):
        return None
    small = alpha == beta == 1 and max(a.size, b.size) <= _MOST_CAST and not _packs(a, b, call)
    if half and (small or fixed):
        exact: Any = "ieee"
        if registry.observing:
            exact = decision("ieee", call.decided_by, holds_always=True, by_role=True)
        total = product(_cast(a, _FLOAT32), _cast(b, _FLOAT32), exact)
        total = total if alpha == 1 else total * np.float32(alpha)
        if beta:
            total = total + (_cast(addend, _FLOAT32) if beta == 1 else _cast(addend, _FLOAT32) * np.float32(beta))
        return _cast(total, a.dtype)
    sums: dict[str, Any] = {"alpha": float(alpha), "beta": float(beta)}
    return kernel_addmm(a, b, addend, decided_by=call.decided_by, **sums, **call.keywords)


def _packs(a: np.ndarray, b: np.ndarray, call: Call) -> bool:
    return gains_by_packing(ArraySpec(a.shape, a.dtype), ArraySpec(b.shape, b.dtype), **call.keywords)


def _cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Small arrays between float32 and a half type, by the loops that `converted` uses for large ones."""
    found = cast(array, dtype)
    return cast_unchecked(array, dtype) if found is None else found


def plain_call(dtype: np.dtype, precision: Any = None) -> Call | None:
    """How the kernel `matmul` is called for a dtype; None where sums are rounded on the way, or by a device's rule, or
    in parts."""
    call = resolve("matmul", dtype, precision)
    special = call.keywords.keys() & {"sums", "unit", "partial", "operands"} or is_emulated(call.choice.precision)
    return None if special else call
