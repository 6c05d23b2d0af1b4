"""The gauge freedom of eigenvectors and singular vectors, and checks that a loss does not depend on it.

Vectors of equal values may be rotated among themselves. For a loss invariant under such rotations the gradient is 0 / 0
there: the skew-Hermitian part of V.H gV vanishes, over a vanishing difference of values. Its limit depends on the loss.
Suppose the loss uses the vectors in one product V f(w) V.H (or U f(S) V.H). Then V.H gV has the Hermitian part f X,
where X is the gradient of the product between the vectors. The values have the gradient f' diag(X), and the limit is f'
X. So the ratio f' / f can be read off the diagonal. Where the Hermitian part vanishes, so does the limit, unless f
vanishes, as for values of 0. In that case, and if the diagonals are not in one ratio, the limit is unknown: the
gradient is NaN.
"""

from __future__ import annotations

import numpy as np

from ...tensor.tensor import Tensor, adopt
from ..matmul.matmul import adjoint


def is_zero(g: Tensor) -> bool:
    """Whether a gradient is one that nothing has sent: zeros without a history."""
    return g._node is None and not g._array.any()


def over_differences(matrix: Tensor, w: Tensor, equal: np.ndarray | None = None) -> Tensor:
    """matrix_ij / (w_j - w_i), and 0 on the diagonal and where values are `equal`."""
    apart = 1 - np.eye(w._array.shape[-1], dtype=w._array.dtype)
    if equal is not None:
        apart = np.where(equal, 0, apart).astype(apart.dtype)
    return matrix * adopt(apart) / (w[..., None, :] - w[..., :, None] + adopt(1 - apart))


def equal_values(w: Tensor, vanishing: Tensor, turned: Tensor) -> np.ndarray | None:
    """Which pairs of values are equal, and the elements of the matrix `vanishing` 0, up to rounding; None where no two
    are. An element of it is as exact as the columns of `turned` are large. The diagonal is true."""
    values, identity = w._array, np.eye(w._array.shape[-1], dtype=bool)
    gaps = np.abs(values[..., None, :] - values[..., :, None])
    equal = gaps <= _rounding(values) * np.abs(values).max(-1, initial=0)[..., None, None]
    if not (equal & ~identity).any():
        return None
    return (equal & (np.abs(vanishing._array) <= 8 * _rounding(values) * _sizes(turned._array))) | identity


def _rounding(values: np.ndarray) -> float:
    return 8 * max(values.shape[-1], 1) * float(np.finfo(values.dtype).eps)


def _sizes(matrix: np.ndarray) -> np.ndarray:
    """For each pair of columns the largest element of both."""
    columns = np.abs(matrix).max(-2, initial=0)
    return np.maximum(columns[..., None, :], columns[..., :, None])


def through_values(turned: Tensor, w: Tensor, of_values: Tensor, equal: np.ndarray) -> Tensor:
    """The limit of the gradient between the vectors of `equal` values w, from `turned`, V.H gV, and the gradient of the
    values; 0 elsewhere."""
    blocks = adopt(equal.astype(of_values._array.dtype))
    diagonal, even = turned.diagonal(0, -2, -1).real, (turned + adjoint(turned)) / 2
    squares = blocks @ diagonal.square()[..., None]
    ratios = quotient(blocks @ (of_values * diagonal)[..., None], squares)
    small, sizes = _rounding(of_values._array), _sizes(turned._array)
    rest = np.abs(of_values._array - ratios._array[..., 0] * diagonal._array)
    exact = rest <= 8 * small**0.5 * np.abs(of_values._array)
    known = np.all(exact[..., None, :] | ~equal, -1, keepdims=True) & (squares._array > (8 * small * sizes) ** 2)
    hidden = np.any(((w._array == 0) & (of_values._array != 0))[..., None, :] & equal, -1, keepdims=True)  # f(0) = 0
    between = equal & ~np.eye(equal.shape[-1], dtype=bool) & ((np.abs(even._array) > 8 * small * sizes) | hidden)
    return (even * ratios.where(adopt(known & ~hidden), np.nan)).where(adopt(between), 0)


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 where both are 0."""
    nothing = (a._array == 0) & (b._array == 0)
    return a / b.where(adopt(~nothing), 1) if nothing.any() else a / b


def refuse_phases(function: str, vectors: str, along: Tensor, *gradients: Tensor) -> None:
    """Raise RuntimeError if a complex loss changes with the phases of vectors, which are arbitrary.

    `along`: for each vector its inner product with its gradient; the imaginary part is the derivative by the phase.
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
