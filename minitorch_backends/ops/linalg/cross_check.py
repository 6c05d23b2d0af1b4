"""`backends.cross_check`: every factorisation and solution is made by a second implementation as well, and a warning
gives the figures where the two disagree beyond what rounding explains.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...kernels.linalg.residuals import residuals
from ...kernels.registry import Kernel

__all__ = ["CrossCheckWarning", "cross_check"]


class CrossCheckWarning(UserWarning):
    """Two families of algorithms disagree on a matrix beyond the bound."""


def _allowed(arrays: tuple[np.ndarray, ...]) -> float:
    """p(n) in units of roundoff: generous for a stable method, and passed at once by one that is not."""
    return 50.0 + 10.0 * max(arrays[0].shape[-2:])


def cross_check(
    kernel: Kernel, arrays: tuple[np.ndarray, ...], keywords: dict[str, Any], result: Any, prefer: str
) -> None:
    """Run the next implementation that is not the one that ran, and compare what does not depend on the gauge."""
    decision = kernel.decide(*arrays, prefer=prefer, **keywords)
    if len(decision.candidates) < 2:
        return
    first, second = (each.name for each in decision.candidates[:2])
    other = kernel(*arrays, prefer=second, decided_by="cross_check = True", **keywords)
    complaints = [*_unlike(kernel.name, result, other, arrays)]
    allowed = _allowed(arrays)
    for name, outcome in ((first, result), (second, other)):
        for measure, units in residuals(kernel.name, arrays, keywords, outcome).items():
            if not units <= allowed:
                complaints.append(f"the {measure} error of {name!r} is {units:.3g} units of roundoff, over {allowed:g}")
    if complaints:
        shape = "x".join(map(str, arrays[0].shape))
        warnings.warn(
            f"cross_check: {kernel.name} of {shape} {arrays[0].dtype.name} by {first!r} and by {second!r}: "
            + "; ".join(complaints),
            CrossCheckWarning,
            stacklevel=2,
        )


def _unlike(name: str, one: Any, other: Any, arrays: tuple[np.ndarray, ...]) -> list[str]:
    """What the two say differently: which matrices failed, and eigenvalues or singular values."""
    info, also = getattr(one, "info", None), getattr(other, "info", None)
    if info is not None and not np.array_equal(info == 0, np.asarray(also) == 0):
        return [f"info is {np.asarray(info).tolist()} and {np.asarray(also).tolist()}"]
    values = {"eigh": "w", "svd": "S"}.get(name)
    if values is None:
        return []
    first, second = getattr(one, values), getattr(other, values)
    scale = float(np.abs(first).max(initial=0)) * float(np.finfo(first.dtype).eps) / 2
    distance = float(np.abs(first - second).max(initial=0))
    units = distance / scale if scale else (np.inf if distance else 0.0)
    if units <= _allowed(arrays):
        return []
    return [f"the values differ by {distance:.3g}, {units:.3g} units of roundoff of the largest"]
