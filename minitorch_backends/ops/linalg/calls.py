"""Calls of linear algebra kernels under the flags: the family tried first, the precision, and the cross-check by a
second family."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.precision_policy import resolve
from ...flags import State, current
from ...kernels.linalg.choice import preferred_name
from ...kernels.registry import Kernel
from .cross_check import cross_check, second_family


def call(kernel: Kernel, *arrays: np.ndarray, driver: str | None = None, **keywords: Any) -> Any:
    """The kernel's result, by the family that the flag or the call's driver prefers."""
    state, choice = current(), resolve("linalg", arrays[0].dtype).choice
    if driver is not None:
        keywords["driver"] = driver
    decision = _decision(state, driver)
    if choice.precision != "ieee":
        decision += f"; {choice.decided_by} acts in solve, inv, lstsq and cholesky_solve, which refine their results"
    return _run(state, kernel, arrays, keywords, decision, driver)


def call_at_precision(
    kernel: Kernel, *arrays: np.ndarray, precision: str | None, refine: bool = True, **keywords: Any
) -> Any:
    """The same for a task that can run at a lower precision and be refined: the call's precision, or the flags'."""
    state, lower = current(), resolve("linalg", arrays[0].dtype, precision)
    if not lower.keywords:
        return _run(state, kernel, arrays, keywords, _decision(state, None), None)
    keywords |= lower.keywords
    if not refine:
        keywords["refine"] = False
    return _run(state, kernel, arrays, keywords, lower.decided_by, None)


def _decision(state: State, driver: str | None) -> str:
    if driver is not None:
        return f"driver={driver!r} of the call"
    library = state.read("cuda.linalg_library")
    return f"cuda.linalg_library = {library!r}" + (", by size" if library == "default" else "")


def _run(
    state: State, kernel: Kernel, arrays: tuple, keywords: dict[str, Any], decided_by: str, driver: str | None
) -> Any:
    lowered = "precision" in keywords
    prefer = preferred_name(kernel.name, arrays[0].shape, state.read("cuda.linalg_library"), driver, lowered)
    if not state.read("cross_check"):
        return kernel(*arrays, decided_by=decided_by, prefer=prefer, **keywords)
    names = second_family(kernel, arrays, keywords, prefer)
    if names is None:
        decided_by += "; cross_check finds no second family that takes this"
    result = kernel(*arrays, decided_by=decided_by, prefer=prefer, **keywords)
    if names is not None:
        cross_check(kernel, arrays, keywords, result, names)
    return result


def transpose_last(a: np.ndarray) -> np.ndarray:
    return a.swapaxes(-1, -2)
