"""What is free in eigenvectors and singular vectors, and that a loss does not depend on it."""

from __future__ import annotations

import numpy as np

from ...tensor import Tensor, adopt

__all__ = ["is_zero", "over_differences", "refuse_phases"]


def is_zero(g: Tensor) -> bool:
    """Whether a gradient is one that nothing has sent: zeros without a history."""
    return g._node is None and not g._array.any()


def over_differences(matrix: Tensor, w: Tensor) -> Tensor:
    """matrix_ij / (w_j - w_i), and 0 on the diagonal."""
    identity = np.eye(w._array.shape[-1], dtype=w._array.dtype)
    return matrix * adopt(1 - identity) / (w[..., None, :] - w[..., :, None] + adopt(identity))


def refuse_phases(function: str, vectors: str, along: Tensor, *gradients: Tensor) -> None:
    """Raise RuntimeError where a complex loss changes with the phases of vectors, each of which is free.

    `along`: for each vector its inner product with its gradient, whose imaginary part is the derivative by the phase.
    """
    turning = along._array
    if turning.dtype.kind != "c" or not turning.size:
        return
    scale = max(1.0, *(float(np.abs(g._array).max(initial=0)) for g in gradients))
    largest = float(np.abs(turning.imag).max())
    tolerance = (1e-2 if turning.dtype == np.complex64 else 1e-6) * scale
    if largest > tolerance:
        raise RuntimeError(
            f"{function}: The {vectors} in the complex case are specified up to multiplication by e^{{i phi}}. The "
            f"specified loss function depends on this quantity, so it is ill-defined: its derivative by a phase is "
            f"{largest:.3g}, expected at most {tolerance:.1g}"
        )
