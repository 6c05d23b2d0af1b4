"""Functions of the standard that make arrays or deal with types, and are not ours under another name."""

from __future__ import annotations

import math
from typing import Any

from ...ops import limits
from ...ops import names as ops
from ...tensor.dtypes import (
    BOOL,
    COMPLEX,
    FLOATING,
    INTEGER,
    DType,
    dtype_or_default,
    promote_types,
    result_dtype,
    scalar_dtype,
    to_dtype,
)
from ...tensor.tensor import Tensor

__all__ = [
    "arange", "astype", "can_cast", "empty", "eye", "finfo", "full", "iinfo", "isdtype", "linspace", "meshgrid", "ones",
    "result_type", "zeros",
]  # fmt: skip


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Numbers from `start` (0, if it is the only limit) to before `stop`; none if `step` leads away from it."""
    start, stop = (0, start) if stop is None else (start, stop)
    if (stop - start) * math.copysign(1, step) <= 0:
        kinds = tuple(map(scalar_dtype, (start, stop, step)))
        return ops.zeros(0, dtype=result_dtype(kinds) if dtype is None else dtype, device=device)
    return ops.arange(start, stop, step, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """A matrix with ones on its diagonal `k`."""
    n_cols = n_rows if n_cols is None else n_cols
    rows, columns = ops.arange(n_rows, device=device)[:, None], ops.arange(n_cols, device=device)
    return (rows + max(-n_rows, min(k, n_cols)) == columns).to(dtype_or_default(dtype))


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An uninitialised array of these sizes (an int for one)."""
    return ops.empty(shape, dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of ones with these sizes (an int for one)."""
    return ops.ones(shape, dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of zeros with these sizes (an int for one)."""
    return ops.zeros(shape, dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of these sizes (an int for one) filled with `fill_value`."""
    return ops.full((shape,) if isinstance(shape, int) else shape, fill_value, dtype=dtype, device=device)


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`, which is the last of them if `endpoint`."""
    if endpoint:
        return ops.linspace(start, stop, num, dtype=dtype, device=device)
    return ops.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinate arrays; the first two dimensions are exchanged unless `indexing` is "ij"."""
    return ops.meshgrid(*arrays, indexing=indexing)


# Types


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The elements cast to `dtype`; the array itself if nothing changes and `copy` is False."""
    return x.to(dtype=dtype, device=device, copy=copy)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion would convert `from_`, a dtype or an array, to `to`."""
    source, target = from_.dtype if isinstance(from_, Tensor) else to_dtype(from_), to_dtype(to)
    try:
        return promote_types(source, target) is target
    except RuntimeError:
        return False


def finfo(type: Any, /) -> limits.FloatLimits:
    """The limits of a floating or complex type, or of that of an array."""
    found = limits.finfo(type.dtype if isinstance(type, Tensor) else type)
    return found._replace(dtype=to_dtype(found.dtype))  # type: ignore[arg-type]


def iinfo(type: Any, /) -> limits.IntegerLimits:
    """The limits of an integer type, or of that of an array."""
    found = limits.iinfo(type.dtype if isinstance(type, Tensor) else type)
    return found._replace(dtype=to_dtype(found.dtype))  # type: ignore[arg-type]


KINDS = {
    "bool": lambda dtype: dtype.category == BOOL,
    "signed integer": lambda dtype: dtype.category == INTEGER and dtype.is_signed,
    "unsigned integer": lambda dtype: dtype.category == INTEGER and not dtype.is_signed,
    "integral": lambda dtype: dtype.category == INTEGER,
    "real floating": lambda dtype: dtype.category == FLOATING,
    "complex floating": lambda dtype: dtype.category == COMPLEX,
    "numeric": lambda dtype: dtype.category > BOOL,
}
"""The standard's kinds of dtypes."""


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether `dtype` is of a kind, named as in the standard, is the dtype `kind`, or one of a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if not isinstance(kind, str):
        return dtype is to_dtype(kind)
    if kind not in KINDS:
        raise ValueError(f"isdtype(): kind must be one of {', '.join(KINDS)}, got {kind!r}")
    return KINDS[kind](dtype)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The common dtype of arrays and dtypes, whatever the dimensions; Python numbers only widen the category."""
    dtypes, numbers = [], []
    for value in arrays_and_dtypes:
        if isinstance(value, (bool, int, float, complex)):
            numbers.append(scalar_dtype(value))
        else:
            dtypes.append(value.dtype if isinstance(value, Tensor) else to_dtype(value))
    return result_dtype(tuple(dtypes), (), tuple(numbers))
