"""Powers and exponentials of matrices."""

from __future__ import annotations

import math

import numpy as np

from ...dispatch.op import Array, Forms, composite, op
from ...kernels import linalg as kernels
from ...tensor.tensor import Tensor, adopt
from ..matmul.dispatch import product
from ..matmul.matmul import adjoint
from ..views.join import cat
from .checks import call, declare, of_floating, of_numbers, of_square
from .solve import inv

__all__ = ["matrix_exp", "matrix_power"]


@composite(takes="ifc", product="matmul")
def matrix_power(input: Tensor, n: int) -> Tensor:
    """The n-th power of square matrices by repeated squaring, of the inverse for negative n. input: (..., m, m).

    Raises RuntimeError for other matrices, and for negative powers of integers, TypeError for an n other than an int.
    """
    of_numbers("matrix_power", input, "input")
    of_square("matrix_power", input)
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"linalg.matrix_power(): argument 'n' must be int, not {type(n).__name__}")
    if n < 0:
        of_floating("matrix_power", input, "input")
        return matrix_power(inv(input), -n)
    if n == 0:
        identity = adopt(np.eye(input._array.shape[-1], dtype=input._array.dtype))
        return identity.expand(input.shape).where(adopt(np.ones(input._array.shape, bool)), input)
    result, square = None, input
    while n:
        if n & 1:
            result = square if result is None else result @ square
        n >>= 1
        square = square @ square if n else square
    return result if result is not input else input.clone()  # type: ignore[return-value]


# The exponential

_PADE = {
    3: (120.0, 60.0, 12.0, 1.0),
    5: (30240.0, 15120.0, 3360.0, 420.0, 30.0, 1.0),
    7: (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
    9: (
        17643225600.0, 8821612800.0, 2075673600.0, 302702400.0, 30270240.0, 2162160.0, 110880.0, 3960.0, 90.0, 1.0,
    ),
    13: (
        64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
        10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
    ),
}  # fmt: skip
_REACH = {
    8: {
        3: 1.495585217958292e-2, 5: 2.539398330063230e-1, 7: 9.504178996162932e-1, 9: 2.097847961257068,
        13: 5.371920351148152,
    },
    4: {3: 4.258730016922831e-1, 5: 1.880152677804762, 7: 3.925724783138660},
}  # fmt: skip
"""For each size of a real number, the 1-norms up to which each approximant is accurate: Higham's theta_m."""


def _exponential(A: np.ndarray) -> np.ndarray:
    """Scaling and squaring with diagonal Pade approximants (Higham, 2005, algorithm 2.3), for one matrix or a batch of
    equal treatment: the largest norm of the batch decides."""
    n, reach = A.shape[-1], _REACH[A.real.dtype.itemsize]
    largest = float(np.abs(A).sum(-2).max(initial=0))
    if not math.isfinite(largest):
        return np.full_like(A, np.nan)
    degree = next((m for m, limit in reach.items() if largest <= limit), max(reach))
    squarings = max(0, math.ceil(math.log2(largest / reach[degree]))) if largest > reach[degree] else 0
    A = A * A.real.dtype.type(2.0**-squarings) if squarings else A
    odd, even = _pade(A, degree, np.eye(n, dtype=A.dtype))
    x = call(kernels.solve, even - odd, even + odd).x
    for _ in range(squarings):
        x = _square(x)
    return x


def _square(x: np.ndarray) -> np.ndarray:
    """x @ x, scaled by powers of two, so that fp16 can hold operands of any size."""
    largest = np.abs(x).max((-2, -1), keepdims=True)
    exponents = np.where(np.isfinite(largest), np.frexp(largest)[1], 0).clip(max=np.finfo(largest.dtype).maxexp - 1)
    scale = np.ldexp(np.ones((), largest.dtype), exponents)
    x = x / scale
    return product(x, x) * scale * scale  # twice, as 0 times an infinite square of the scale is NaN


def _pade(A: np.ndarray, degree: int, identity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The odd and the even part of the numerator, over its constant term, so that fp16 holds all operands."""
    b = [A.real.dtype.type(value / _PADE[degree][0]) for value in _PADE[degree]]
    A2 = product(A, A)
    powers = [identity, A2]
    while len(powers) < (4 if degree == 13 else (degree + 1) // 2):
        powers.append(product(powers[-1], A2))
    if degree < 13:
        odd = sum(b[2 * k + 1] * power for k, power in enumerate(powers))
        return product(A, np.asarray(odd)), np.asarray(sum(b[2 * k] * power for k, power in enumerate(powers)))
    _, _, A4, A6 = powers
    high = product(A6, b[13] * A6 + b[11] * A4 + b[9] * A2)
    odd = product(A, high + b[7] * A6 + b[5] * A4 + b[3] * A2 + b[1] * identity)
    high = product(A6, b[12] * A6 + b[10] * A4 + b[8] * A2)
    return odd, high + b[6] * A6 + b[4] * A4 + b[2] * A2 + b[0] * identity


def _exponential_gradient(g: Tensor, A: Tensor) -> Tensor:
    """The Frechet derivative at A.H in the direction g: the upper right block of the exponential of [[A.H, g],
    [0, A.H]] (Mathias, 1996; Higham, Functions of Matrices, theorem 3.6)."""
    n, AH = A._array.shape[-1], adjoint(A)
    upper, lower = cat([AH, g], -1), cat([AH * 0, AH], -1)
    return matrix_exp(cat([upper, lower], -2))[..., :n, n:]


@op(name="matrix_exp", takes="fc", forms=Forms(aliases={"input": "A"}), A=_exponential_gradient, product="matmul")
def matrix_exp(A: Array) -> Array:
    """The exponential of square matrices, sum A^k / k!. A: (..., n, n)."""
    of_square("matrix_exp", A)
    if not A.size:
        return A.copy()
    if A.ndim == 2:
        return _exponential(A)
    stack = A.reshape(-1, *A.shape[-2:])
    norms = np.abs(stack).sum(-2).max(-1)
    # Matrices of a like norm together: one approximant and one number of squarings for each group.
    groups = np.where(norms > 0, np.ceil(np.log2(np.where(norms > 0, norms, 1))), -np.inf).clip(-8)
    out = np.empty_like(stack)
    for group in np.unique(groups[~np.isnan(groups)]):
        out[groups == group] = _exponential(stack[groups == group])
    out[np.isnan(groups)] = np.nan
    return out.reshape(A.shape)


@declare(takes="ifc", product="matmul", name="linalg_matrix_power")
def _linalg_matrix_power(A: Tensor, n: int) -> Tensor:
    """`matrix_power`, as `linalg` calls its arguments."""
    return matrix_power(A, n)
