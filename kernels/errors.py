"""How far the result of a kernel call is from what its arguments ask for."""

from __future__ import annotations

from typing import Any

import numpy as np

from .linalg.residuals import residuals
from .registry import Call, kernels, unobserved

__all__ = ["errors_of"]


def errors_of(call: Call) -> dict[str, float]:
    """The errors of one call by measure: "backward" (and others) of factorisations and solutions, in units of the
    type's roundoff; "relative" of what a precision acts on, the error of its worst result against the kernel's
    definition in float64, both by their Frobenius norms. Empty for what has no measure.
    """
    kernel = kernels[call.kernel]
    found = residuals(call.kernel, call.arrays, call.keywords, call.result)
    if found or kernel.bound.keys() == {"ieee"}:
        return found
    with unobserved():
        exact = kernel.reference(*call.arrays, **call.keywords)
    pairs = zip(_arrays(call.result), _arrays(exact), strict=True)
    return {"relative": max((_relative(value, wanted) for value, wanted in pairs), default=0.0)}


def _arrays(result: Any) -> list[np.ndarray]:
    """The floating results, of one array or several."""
    several = result if isinstance(result, tuple) else (result,)
    return [each for each in several if isinstance(each, np.ndarray) and each.dtype.kind not in "biu"]


def _relative(value: np.ndarray, wanted: np.ndarray) -> float:
    """Where the definition is finite. Differences to a result of zeros are infinite."""
    finite = np.isfinite(wanted)
    kept = wanted[finite]
    error, size = np.linalg.norm(value[finite].astype(kept.dtype) - kept), np.linalg.norm(kept)
    return float(error / size) if size else float("inf") if error else 0.0
