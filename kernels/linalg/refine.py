"""Iterative refinement: a solution from factors of low precision is brought to the accuracy of its type.

The correction is the solution for the residual, which is a product of values of that type, float32 or float64: fixed
precision refinement, whose backward error is that of a stable solver as long as the factors are good enough for
the condition of the matrix (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, chapter 12; A. Haidar et
al., "Harnessing GPU tensor cores for fast FP16 arithmetic to speed up mixed-precision iterative refinement solvers",
2018).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..runtime.threading import pool

MOST_STEPS = 12
"""Corrections after which a matrix is given up on."""


class Refined(NamedTuple):
    """A solution, how many corrections it took, its backward error, and whether that is what its type promises."""

    x: np.ndarray
    steps: int
    error: float
    converged: bool


def row_norm(a: np.ndarray) -> float:
    """The largest sum of magnitudes of a row of a (m, n)."""
    from .few_sides import largest_row_sum

    a = a if a.strides[-1] == a.itemsize else np.ascontiguousarray(a)
    return float(largest_row_sum(*pool(), a, np.empty(a.shape[0], a.dtype)))


def _backward_error(residual: np.ndarray, norm: float, x: np.ndarray, b: np.ndarray) -> float:
    """The largest over the columns of ||b - a x|| / (||a|| ||x|| + ||b||), in the norm of the largest magnitude.

    J. Rigal and J. Gaches, "On the compatibility of a given solution with the data of a linear system" (1967).
    """
    scale = norm * np.abs(x).max(0, initial=0) + np.abs(b).max(0, initial=0)
    found = np.abs(residual).max(0, initial=0)
    return float(np.max(np.where(found == 0, 0, found / scale), initial=0))


def refine_solution(
    x: np.ndarray, b: np.ndarray, norm: float, apply: Callable[[np.ndarray], np.ndarray],
    correction: Callable[[np.ndarray], np.ndarray], small: float | None = None,
) -> Refined:  # fmt: skip
    """Refine the solution x (n, k) for b: `apply` multiplies by the matrix in ieee, whose row norm is `norm`, and
    `correction` solves for a residual.

    Stops when the backward error is `small` (by default max(1, sqrt(n) / 16) unit roundoffs, half of what exact
    factors leave for random matrices) or when a correction no longer halves it; then it has converged if the error is
    at most four times that: one of 600 that was let off at sixteen times left 14 times the error of float32.
    """
    usual = float(np.finfo(b.dtype).eps / 2) * max(1.0, b.shape[0] ** 0.5 / 16)
    small, enough = usual if small is None else small, 4 * usual
    with np.errstate(all="ignore"):
        residual = b - apply(x)
        error = _backward_error(residual, norm, x, b)
        for step in range(MOST_STEPS):
            if not error > small:
                return Refined(x, step, error, error == error)
            better = x + correction(residual)
            residual = b - apply(better)
            smaller = _backward_error(residual, norm, better, b)
            if not smaller < error:
                return Refined(x, step, error, error <= enough)
            x, halved, error = better, smaller <= error / 2, smaller
            if not halved:
                return Refined(x, step + 1, error, error <= enough)
    return Refined(x, MOST_STEPS, error, error <= enough)


def in_each(
    problems: Iterable[tuple[Refined, np.ndarray]], again: Callable[[int], np.ndarray], precision: str
) -> dict[str, Any]:
    """Write the solution of each problem to the array beside it; those that did not converge come from `again`, which
    solves problem i in ieee. Returns what there is to report."""
    steps, error, repeated = 0, 0.0, 0
    for index, (found, out) in enumerate(problems):
        if found.converged:
            out[...], steps, error = found.x, max(steps, found.steps), max(error, found.error)
        else:
            out[...], repeated = again(index), repeated + 1
    return {
        "factored_at": precision,
        "refinements": steps,
        "backward_error": float(f"{error:.3g}"),
        "solved_again_in_ieee": repeated,
    }
