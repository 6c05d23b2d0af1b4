"""Which shapes and dtypes multiply, and vectors as matrices of one row or one column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...kernels.registry import ArraySpec
from ...kernels.runtime.shapes import broadcast_shapes
from ...tensor.dtypes import to_dtype


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
