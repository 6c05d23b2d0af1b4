"""Iterative refinement: a solution from factors of low precision is brought to the accuracy of float32.

x is corrected by the solution for the residual b - a @ x, which is a product of float32 values summed in float32: fixed
precision refinement, whose backward error is that of a stable float32 solver as long as the factors are good enough for
the condition of a (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, chapter 12; A. Haidar et al.,
"Harnessing GPU tensor cores for fast FP16 arithmetic to speed up mixed-precision iterative refinement solvers", 2018).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["MOST_STEPS", "Refined", "backward_error", "refined"]

MOST_STEPS = 12
"""Corrections after which a matrix is given up on."""

_ROUNDOFF = 2.0**-24


class Refined(NamedTuple):
    """A solution, how many corrections it took, its backward error, and whether that is what float32 promises."""

    x: np.ndarray
    steps: int
    error: float
    converged: bool


def backward_error(residual: np.ndarray, norm: float, x: np.ndarray, b: np.ndarray) -> float:
    """The largest over the columns of ||b - a x|| / (||a|| ||x|| + ||b||), in the norm of the largest magnitude.

    J. Rigal and J. Gaches, "On the compatibility of a given solution with the data of a linear system" (1967).
    """
    scale = norm * np.abs(x).max(0, initial=0) + np.abs(b).max(0, initial=0)
    found = np.abs(residual).max(0, initial=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.max(np.where(found == 0, 0, found / scale), initial=0))


def refined(
    apply: Callable[[np.ndarray], np.ndarray],
    norm: float,
    solve: Callable[[np.ndarray], np.ndarray],
    b: np.ndarray,
) -> Refined:
    """Refine solve(b) for one matrix: `apply` multiplies by it in float32, `norm` is its largest row sum of magnitudes.

    Stops when the backward error is a unit roundoff, or when a correction no longer halves it; then it has converged if
    the error is below sqrt(n) units, which a float32 factorisation reaches.
    """
    enough = _ROUNDOFF * np.sqrt(b.shape[0])
    with np.errstate(all="ignore"):
        x = solve(b)
        residual = b - apply(x)
        error = backward_error(residual, norm, x, b)
        for step in range(MOST_STEPS):
            if not error > _ROUNDOFF:
                return Refined(x, step, error, error == error)
            better = x + solve(residual)
            residual = b - apply(better)
            smaller = backward_error(residual, norm, better, b)
            if not smaller < error:
                return Refined(x, step, error, error <= enough)
            x, halved, error = better, smaller <= error / 2, smaller
            if not halved:
                return Refined(x, step + 1, error, error <= enough)
    return Refined(x, MOST_STEPS, error, error <= enough)
