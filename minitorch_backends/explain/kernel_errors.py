"""The error of the result of a kernel call."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.linalg.residuals import residuals
from ..kernels.registry import Call, kernels, without_observers
from ..kernels.runtime.context import restore_on_failure

_SAME_PRODUCT = {"linear": "matmul", "half_matmul": "matmul"}
"""Kernels whose operands are kept or whose sums are rounded, and the one that multiplies the same arrays."""

_OF_LOWER_PRECISION = frozenset({"precision", "rounding", "halves", "sums", "unit"})
"""Keywords that do not act on float64."""


@restore_on_failure
def errors_of(call: Call) -> dict[str, float]:
    """The errors of one call by measure; empty for calls without a measure.

    "backward" (and others) belongs to factorisations and solutions, in units of the dtype's roundoff. "relative"
    belongs to kernels with a precision: the largest error of its results against float64, in the Frobenius norm.
    """
    kernel = kernels[call.kernel]
    found = residuals(call.kernel, call.arrays, call.keywords, call.result)
    if found or kernel.bound.keys() == {"ieee"}:
        return found
    with without_observers():
        exact = _in_double(call)
    pairs = zip(_arrays(call.result), _arrays(exact), strict=True)
    return {"relative": max((_relative(value, wanted) for value, wanted in pairs), default=0.0)}


def _in_double(call: Call) -> Any:
    """The results in float64 or complex128: by the kernel itself, which is far quicker than its definition, unless the
    arguments have these types already."""
    arrays = [getattr(each, "array", each) for each in call.arrays]  # of weights that are kept
    wide = [each if each.dtype.kind in "biu" else each.astype(_double(each.dtype)) for each in arrays]
    if any(each.dtype == _double(each.dtype) for each in arrays):
        return kernels[call.kernel].reference(*call.arrays, **call.keywords)
    kernel = kernels[_SAME_PRODUCT.get(call.kernel, call.kernel)]
    keywords = {name: value for name, value in call.keywords.items() if name not in _OF_LOWER_PRECISION}
    if kernel.name != "matmul":
        return kernel(*wide, **keywords)
    a, b, *addend = wide
    return np.add(kernel(a, b, **keywords), *addend) if addend else kernel(a, b, **keywords)


def _double(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def _arrays(result: Any) -> list[np.ndarray]:
    """The floating results, of one array or several."""
    several = result if isinstance(result, tuple) else (result,)
    return [each for each in several if isinstance(each, np.ndarray) and each.dtype.kind not in "biu"]


def _relative(value: np.ndarray, wanted: np.ndarray) -> float:
    """Where the definition is finite. Differences to a result of zeros are infinite."""
    difference, finite = value.astype(wanted.dtype) - wanted, np.isfinite(wanted)
    if not finite.all():
        difference, wanted = difference[finite], wanted[finite]
    error, size = np.linalg.norm(difference), np.linalg.norm(wanted)
    return float(error / size) if size else float("inf") if error else 0.0
