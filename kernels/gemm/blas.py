"""Matrix products by NumPy: through its BLAS with operands rounded or split in front, and the portable definition.

A sum over the terms (i, j) of a precision is a sum over the parts i of a of a_i @ (b_0 + ... + b_j), because each part of a
meets the leading parts of b, whose sum is exact in fp32: as many BLAS products as there are parts, not terms. Nine terms
are the exact product, which is what an fp32 product accumulates anyway, so bf16x9 is the fp32 product.
"""

from __future__ import annotations

import math

import numpy as np

from .. import precision as precisions
from ..quiet import restore, silence
from ..registry import ArraySpec

__all__ = ["matmul", "matmul_portable", "refuses"]

_BLAS_DTYPES = frozenset(np.dtype(name) for name in ("float32", "float64", "complex64", "complex128"))
_AS_THEY_ARE = frozenset({"ieee", "bf16x9"})


def _accumulates_wider(dtype: np.dtype) -> bool:
    """Whether products of this dtype are summed in float32 and rounded once: float16 and bfloat16."""
    return dtype == np.float16 or dtype.name == "bfloat16"


def refuses(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> str | None:
    """Why BLAS does not multiply these. Raises ValueError on an unknown precision or rounding."""
    if precision not in precisions.PRECISIONS or rounding not in precisions.ROUNDINGS:
        known = f"{', '.join(precisions.PRECISIONS)}; roundings: {', '.join(precisions.ROUNDINGS)}"
        raise ValueError(f"no precision {precision!r} with rounding {rounding!r}; precisions: {known}")
    if a.dtype in _BLAS_DTYPES or _accumulates_wider(a.dtype):
        return None
    return f"BLAS has no product for {a.dtype.name}"


def matmul(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
    """The product by NumPy's BLAS. `precision` and `rounding` act on float32 operands only; others are exact products,
    accumulated in their own dtype or, for float16 and bfloat16, in float32 with one rounding at the end."""
    token = silence()
    try:
        if a.dtype == np.float32:
            if precision in _AS_THEY_ARE:
                return _product(a, b)
            return _reduced(a, b, precision, rounding)
        if a.dtype in _BLAS_DTYPES:
            return _product(a, b)
        return _product(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    finally:
        restore(token)


def matmul_portable(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
    """The definition in NumPy: each term's product in float64, one rounding at the end; integers wrap around.

    Slower than `matmul` and closer to the exact sums; takes every dtype.
    """
    if a.dtype.kind not in "fcV" or a.dtype.itemsize >= 8 and a.dtype != np.complex64:
        token = silence()
        try:
            return np.matmul(a, b)
        finally:
            restore(token)
    token = silence()
    try:
        if a.dtype != np.float32:
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            return np.matmul(a.astype(wide), b.astype(wide)).astype(a.dtype)
        row = precisions.PRECISIONS[precision]
        parts_of_a, parts_of_b = _parts(a, precision, rounding), _parts(b, precision, rounding)
        products = [np.matmul(parts_of_a[i].astype(np.float64), parts_of_b[j].astype(np.float64)) for i, j in row.terms]
        leading = products.pop()
        return (_add_finite(leading, sum(products[1:], products[0])) if products else leading).astype(np.float32)
    finally:
        restore(token)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of two arrays of a dtype that BLAS has, any batch dimensions and strides."""
    if a.ndim == 2 and b.ndim == 2:
        return np.dot(a, b)  # 0.2 us less than np.matmul, and it copies strides that BLAS does not take
    if b.ndim == 2 and a.size:  # one product in place of one for each matrix of the batch
        return np.dot(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[-1])
    return np.matmul(_for_blas(a), _for_blas(b))


def _for_blas(x: np.ndarray) -> np.ndarray:
    """`x`, or a copy where the strides of its matrices would have NumPy fall back to a plain triple loop."""
    rows, columns = x.shape[-2:]
    row_stride, column_stride = x.strides[-2:]
    row_major = column_stride == x.itemsize and row_stride >= columns * x.itemsize
    column_major = row_stride == x.itemsize and column_stride >= rows * x.itemsize
    return x if row_major or column_major else np.ascontiguousarray(x)


def _parts(x: np.ndarray, precision: str, rounding: str) -> tuple[np.ndarray, ...]:
    from .. import rounding as rounding_kernels

    if precision == "tf32":
        return (rounding_kernels.round_to(x, precision, rounding),)
    return rounding_kernels.split(x, precision)


def _reduced(a: np.ndarray, b: np.ndarray, precision: str, rounding: str) -> np.ndarray:
    """The float32 product at a precision of one, two or three parts that leaves terms out."""
    parts_of_a, parts_of_b = _parts(a, precision, rounding), _parts(b, precision, rounding)
    last = len(parts_of_a) - 1
    sums_of_b = [parts_of_b[0]]
    for part in parts_of_b[1:]:
        sums_of_b.append(sums_of_b[-1] + part)
    cross = None
    for i in range(last, 0, -1):
        product = _product(parts_of_a[i], sums_of_b[last - i])
        cross = product if cross is None else np.add(cross, product, out=cross)
    leading = _product(parts_of_a[0], sums_of_b[last])
    return leading if cross is None else _add_finite(leading, cross)


def _add_finite(leading: np.ndarray, cross: np.ndarray) -> np.ndarray:
    """leading + cross in place, without the entries of cross that are not finite: Inf and NaN are the leading term's."""
    finite = np.isfinite(cross)
    if not finite.all():
        np.copyto(cross, 0, where=~finite)
    leading += cross
    return leading
