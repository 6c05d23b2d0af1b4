"""`backends.cross_check`: a second implementation repeats every factorisation and solution, and a warning gives the
figures if the two differ by more than rounding explains."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ...kernels.linalg.residuals import residuals
from ...kernels.registry import Kernel
from ...kernels.runtime.context import warn_caller


class CrossCheckWarning(UserWarning):
    """Two families of algorithms disagree on a matrix beyond the bound."""


def _error_bound(arrays: tuple[np.ndarray, ...]) -> float:
    """p(n) in units of roundoff: generous for a stable method, and passed at once by one that is not."""
    return 50.0 + 10.0 * max(arrays[0].shape[-2:])


def second_family(
    kernel: Kernel, arrays: tuple[np.ndarray, ...], keywords: dict[str, Any], prefer: str
) -> tuple[str, str] | None:
    """The names of the implementation that runs and of the next one that is another function; None without one."""
    first, *others = kernel.decide(*arrays, prefer=prefer, **keywords).candidates
    unlike = (each.name for each in others if inspect.unwrap(each.run) is not inspect.unwrap(first.run))
    second = next(unlike, None)
    return None if second is None else (first.name, second)


def cross_check(
    kernel: Kernel, arrays: tuple[np.ndarray, ...], keywords: dict[str, Any], result: Any, names: tuple[str, str]
) -> None:
    """Run the second implementation after the first, and compare what does not depend on the gauge."""
    first, second = names
    other = kernel(*arrays, prefer=second, decided_by="cross_check = True", **keywords)
    complaints = [*_unlike(kernel.name, result, other, arrays)]
    allowed = _error_bound(arrays)
    # A comparison is impossible if one of them reports failure, or neither has finite numbers.
    failed = any(np.any(getattr(each, "info", 0)) for each in (result, other)) or not (
        _finite(result) or _finite(other)
    )
    for name, outcome in () if failed else ((first, result), (second, other)):
        for measure, units in residuals(kernel.name, arrays, keywords, outcome).items():
            if not units <= allowed:
                complaints.append(f"the {measure} error of {name!r} is {units:.3g} units of roundoff, over {allowed:g}")
    if complaints:
        shape = "x".join(map(str, arrays[0].shape))
        warn_caller(
            f"cross_check: {kernel.name} of {shape} {arrays[0].dtype.name} by {first!r} and by {second!r}: "
            + "; ".join(complaints),
            CrossCheckWarning,
        )


def _finite(result: Any) -> bool:
    arrays = result if isinstance(result, tuple) else (result,)
    return all(np.isfinite(each).all() for each in arrays if isinstance(each, np.ndarray))


def _unlike(name: str, one: Any, other: Any, arrays: tuple[np.ndarray, ...]) -> list[str]:
    """Differences between the two: which matrices failed, and eigenvalues or singular values."""
    info, also = getattr(one, "info", None), getattr(other, "info", None)
    if info is not None and also is not None:
        differing = (info == 0) != (also == 0)
        if (differing & ~_rounding_decides(name, one, info, other, arrays)).any():
            return [f"info is {np.asarray(info).tolist()} and {np.asarray(also).tolist()}"]
        if differing.any():
            return []
    values = {"eigh": "w", "svd": "S"}.get(name)
    if values is None:
        return []
    first, second = getattr(one, values), getattr(other, values)
    scale = float(np.abs(first).max(initial=0)) * float(np.finfo(first.dtype).eps) / 2
    distance = float(np.abs(first - second).max(initial=0))
    units = distance / scale if scale else (np.inf if distance else 0.0)
    if units <= _error_bound(arrays):
        return []
    return [f"the values differ by {distance:.3g}, {units:.3g} units of roundoff of the largest"]


def _rounding_decides(name: str, one: Any, info: np.ndarray, other: Any, arrays: tuple) -> np.ndarray:
    """Whether a matrix is so close to singular that its smallest nonzero pivot is rounding error."""
    if name not in ("cholesky", "lu_factor", "solve", "inv"):
        return np.zeros(info.shape, bool)
    pivots = zip(_pivots(name, one, arrays), _pivots(name, other, arrays), strict=True)
    smallest, largest = (np.where(info == 0, first, second) for first, second in pivots)
    units = _error_bound(arrays) * float(np.finfo(arrays[0].dtype).eps)
    return (smallest > 0) & (smallest <= units * largest)


def _pivots(name: str, result: Any, arrays: tuple) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest pivot of each matrix; for an inverse, what stands for them."""
    if name == "inv":
        size = np.abs(result.inverse).max((-2, -1), initial=0)
        smallest = np.divide(1, size, out=np.zeros_like(size), where=size > 0)
        return smallest, np.abs(arrays[0]).max((-2, -1), initial=0)
    diagonal = np.abs((result.L if name == "cholesky" else result.LU).diagonal(0, -2, -1))
    pivots = diagonal**2 if name == "cholesky" else diagonal
    return pivots.min(-1, initial=np.inf), pivots.max(-1, initial=0)
