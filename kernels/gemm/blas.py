"""Matrix products by NumPy: through its BLAS with operands rounded or split in front, and the definition.

Each part of a meets some parts of b, which `terms` says, and the sum of those is exact in fp32. So the sum over the
terms is one of a_i @ (b_0 + ... + b_j) over i: as many BLAS products as parts, 2 and 3 in place of 3 and 6. All nine
terms sum to the exact product, which fp32 arithmetic accumulates anyway: bf16x9 is the fp32 product.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np

from ..precisions.products import PRECISIONS, ROUNDINGS, is_exact
from ..registry import ArraySpec, without_observers
from ..runtime import invariance
from ..runtime.context import restore_on_failure
from ..runtime.errstate import restore, silence
from ..runtime.first_use import calls_blas
from .complexes import as_real

_FLOAT32, _COMPLEX64 = np.dtype(np.float32), np.dtype(np.complex64)
_BLAS_DTYPES = frozenset(np.dtype(name) for name in ("float32", "float64", "complex64", "complex128"))

_OF_ONE_THREAD = {"matrices": 2**18, "vector": 9000}
"""Multiplications up to which OpenBLAS shares no product with its threads (`interface/gemm.c`, `gemv.c`, `dot.c`)."""


def _is_half(dtype: np.dtype) -> bool:
    """Whether products of this dtype are summed in float32 and rounded once: float16 and bfloat16."""
    return dtype.itemsize == 2 and (dtype == np.float16 or dtype.name == "bfloat16")


def refuses(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> str | None:
    """Why BLAS does not multiply these. Raises ValueError on an unknown precision or rounding."""
    if precision not in PRECISIONS:
        raise ValueError(f"{precision!r} is not a precision of matmul; expected one of {', '.join(PRECISIONS)}")
    if rounding not in ROUNDINGS:
        raise ValueError(f"{rounding!r} is not a rounding of tf32; expected one of {', '.join(ROUNDINGS)}")
    if a.dtype == _COMPLEX64 and not is_exact(precision):
        return f"BLAS rounds no complex numbers to {precision}"
    if a.dtype in _BLAS_DTYPES or _is_half(a.dtype):
        return None
    return f"BLAS has no product for {a.dtype.name}"


@calls_blas
def matmul(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
    """The product by NumPy's BLAS. `precision` and `rounding` act on float32 operands only; others are exact products,
    accumulated in their own dtype or, for float16 and bfloat16, in float32 with one rounding at the end."""
    token = silence()
    try:
        if a.dtype != _FLOAT32 and _is_half(a.dtype):
            return _product(a.astype(_FLOAT32), b.astype(_FLOAT32)).astype(a.dtype)
        if is_exact(precision) or a.dtype != _FLOAT32:
            return _product(a, b)
        return _reduced_product(a, b, precision, rounding)
    finally:
        restore(token)


def specialise(
    a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna"
) -> Callable[..., np.ndarray] | None:
    """For exact products that `matmul` passes on to BLAS as they are, of matrices or of batches: straight there."""
    exact = is_exact(precision) or a.dtype != _FLOAT32
    one_number = 1 in (math.prod(a.shape), math.prod(b.shape))
    if not exact or a.dtype not in _BLAS_DTYPES or one_number or b.ndim < a.ndim:
        return None
    of_batch = product_of_dots if _are_dots(a, b) else matmul_of_batches
    run: Callable[..., np.ndarray] = np.ndarray.dot if a.ndim == b.ndim == 2 else of_batch
    m, k, n = *a.shape[-2:], b.shape[-1]
    return run if m * k * n <= _OF_ONE_THREAD["vector" if 1 in (m, n) else "matrices"] else calls_blas(run)


def matmul_of_batches(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`matmul_of_strided`, in silence."""
    token = silence()
    try:
        return matmul_of_strided(a, b)
    finally:
        restore(token)


def matmul_of_strided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`np.matmul`, which is given copies of operands that it would not give to BLAS."""
    return np.matmul(_for_blas(a), _for_blas(b))


def product_of_dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A batch of products of one row and one column."""
    return dots(a[..., 0, :], b[..., 0])[..., None, None]


def dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sums along the last dimension of the products of real arrays."""
    token = silence()
    try:
        return np.vecdot(a, b)
    finally:
        restore(token)


def _are_dots(a: ArraySpec | np.ndarray, b: ArraySpec | np.ndarray) -> bool:
    return b.ndim > 2 and a.ndim > 2 and a.shape[-2] == b.shape[-1] == 1 and a.dtype.kind == "f"


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of two arrays of a dtype that BLAS has, any batch dimensions and strides."""
    if a.size == 1 or b.size == 1:  # np.dot scales the other operand by it, and skips a zero, which 0 x Inf is not
        return np.multiply(a, b)
    if b.ndim == 2:
        if a.ndim == 2:
            return a.dot(b)  # a third of a microsecond less than np.matmul; copies the strides that BLAS does not take
        if a.size:  # one product in place of one for each matrix of the batch
            return a.reshape(-1, a.shape[-1]).dot(b).reshape(*a.shape[:-1], b.shape[-1])
    return product_of_dots(a, b) if _are_dots(a, b) else matmul_of_strided(a, b)


def _for_blas(x: np.ndarray) -> np.ndarray:
    """`x`, or a copy where the strides of its matrices would have NumPy fall back to a plain triple loop."""
    if x.flags.c_contiguous:
        return x
    rows, columns = x.shape[-2:]
    row_stride, column_stride = x.strides[-2:]
    row_major = column_stride == x.itemsize and row_stride >= columns * x.itemsize
    column_major = row_stride == x.itemsize and column_stride >= rows * x.itemsize
    return x if row_major or column_major else np.ascontiguousarray(x)


def _parts(x: np.ndarray, precision: str, rounding: str) -> tuple[np.ndarray, ...]:
    """The operands that stand for a float32 array at a precision, largest first."""
    if is_exact(precision) and PRECISIONS[precision].parts == 1:
        return (x,)
    from ..precisions.parts import round_to, split

    one_part = PRECISIONS[precision].parts == 1
    return (round_to(x, precision, rounding),) if one_part else split(x, precision)


def _reduced_product(
    a: np.ndarray, b: np.ndarray, precision: str, rounding: str,
    multiply: Callable[[np.ndarray, np.ndarray], np.ndarray] = _product,
) -> np.ndarray:  # fmt: skip
    """The float32 product at a precision that rounds its operands, or that leaves terms out, by products of parts."""
    parts_of_a, parts_of_b = _parts(a, precision, rounding), _parts(b, precision, rounding)
    *smaller, leading = [
        multiply(parts_of_a[i], functools.reduce(np.add, [parts_of_b[j] for j in others]))
        for i, others in _meetings(precision)
    ]
    return _add_finite(leading, smaller)


def refuses_parts(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> str | None:
    """Why float32 products of parts do not make up a product in an order that invariance asks for."""
    if not invariance.is_demanded():
        return "leaves products of parts to BLAS; backends.invariant is not set"
    of_float32 = a.dtype == _FLOAT32 and not (is_exact(precision) and PRECISIONS[precision].parts == 1)
    return None if of_float32 or _is_half(a.dtype) else f"has no parts of {a.dtype.name} at {precision}"


@restore_on_failure
def matmul_of_parts(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
    """The product by float32 products of rounded, split or widened operands, in the order of the kernel's own loops."""
    from .contract import matmul as product

    with without_observers(), np.errstate(invalid="ignore", over="ignore"):
        if _is_half(a.dtype):
            return product(a.astype(_FLOAT32), b.astype(_FLOAT32)).astype(a.dtype)
        return _reduced_product(a, b, precision, rounding, product)


@functools.cache
def _meetings(precision: str) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """For each part of a, small ones first, the parts of b that it meets."""
    terms = sorted(PRECISIONS[precision].terms, key=lambda term: (-term[0], term[1]))
    return tuple((i, tuple(j for _, j in group)) for i, group in itertools.groupby(terms, key=lambda term: term[0]))


def _add_finite(leading: np.ndarray, smaller: list[np.ndarray]) -> np.ndarray:
    """leading plus the sum of `smaller`, in place, without the entries of that sum that are not finite: where Inf and
    NaN appear is for the leading term alone to say."""
    if smaller:
        cross = functools.reduce(lambda total, product: np.add(total, product, out=total), smaller)
        finite = np.isfinite(cross)
        if not finite.all():
            np.copyto(cross, 0, where=~finite)
        leading += cross
    return leading


def refuses_definition(a: ArraySpec, b: ArraySpec, **_: str) -> str | None:
    """Why the definition, whose sums are BLAS's, does not multiply these."""
    if invariance.is_demanded() and a.dtype.kind not in "biu" and a.dtype.kind != "O":
        return f"sums {a.dtype.name} by BLAS, whose order depends on sizes and on the CPU; backends.invariant is set"
    return None


@calls_blas
def matmul_by_definition(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
    """The definition in NumPy: the product of each term in float64, one rounding at the end; integers wrap around.

    Slower than `matmul`, and closer to the exact sums. It takes every dtype.
    """
    token = silence()
    try:
        if a.dtype == _FLOAT32:
            x, y = _parts(a, precision, rounding), _parts(b, precision, rounding)
            *smaller, leading = [_in_double(x[i], y[j]) for i, j in PRECISIONS[precision].terms]
            return _add_finite(leading, smaller).astype(_FLOAT32)
        if a.dtype == _COMPLEX64 and not is_exact(precision):
            return as_real(matmul_by_definition, a, b, precision=precision, rounding=rounding)
        if a.dtype == _COMPLEX64 or _is_half(a.dtype):
            return _in_double(a, b).astype(a.dtype)
        return np.matmul(a, b)
    finally:
        restore(token)


def _in_double(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    return _product(a.astype(wide), b.astype(wide))
