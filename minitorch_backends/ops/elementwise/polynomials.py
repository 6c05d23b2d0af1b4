"""Orthogonal polynomials, each by its recurrence in the degree, in float64. As in torch, they have no gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...dispatch.op import Array, op
from ...kernels.runtime.shapes import broadcast_shapes
from ...tensor.tensor import Tensor

__all__: list[str] = []

_HIGHEST_DEGREE = 1 << 16

Recurrence = Callable[[Any, Any, Any, int], Any]
"""P[k] from x, P[k - 1], P[k - 2] and k."""


def _evaluate(name: str, x: np.ndarray, n: np.ndarray, first: Any, following: Recurrence) -> np.ndarray:
    """The polynomials of degrees `n` (the integer parts) at `x`: 1 for degree 0, and 0 for negative degrees."""
    shape = broadcast_shapes(x.shape, n.shape)
    x, degree = np.broadcast_to(x, shape), np.broadcast_to(np.trunc(n), shape)
    highest = int(np.nan_to_num(degree, posinf=np.inf).max(initial=0.0).clip(max=_HIGHEST_DEGREE + 1))
    if highest > _HIGHEST_DEGREE:
        raise RuntimeError(f"{name}(): degree n must be at most {_HIGHEST_DEGREE}, got {degree.max()}")
    before, found = np.ones(x.shape), np.asarray(first(x), np.float64)
    out = np.where(np.isnan(x + degree), np.nan, np.where(degree < 0, 0.0, before))
    for k in range(1, highest + 1):
        if k > 1:
            before, found = found, following(x, found, before, k)
        np.copyto(out, found, where=degree == k)
    return out


def _declare(name: str, doc: str, first: Any, following: Recurrence, shifted: bool = False) -> Callable[..., Tensor]:
    """An op of an argument and a degree."""

    def forward(input: Array, n: Array) -> Array:
        x = input.astype(np.float64)
        return _evaluate(name, 2 * x - 1 if shifted else x, n, first, following).astype(input.dtype)

    forward.__name__, forward.__doc__ = (
        name,
        f"{doc} of degree `n` at `input`. Raises RuntimeError for degrees above 2**16.",
    )
    return op(promote="float", takes="f", method=False)(forward)


def _chebyshev(x: Any, last: Any, before: Any, k: int) -> Any:
    return 2 * x * last - before


_CHEBYSHEV = {
    "t": ("first", lambda x: x),
    "u": ("second", lambda x: 2 * x),
    "v": ("third", lambda x: 2 * x - 1),
    "w": ("fourth", lambda x: 2 * x + 1),
}
"""For each kind: its name, and its polynomial of degree 1."""


def _chebyshev_of(letter: str, shifted: bool) -> Callable[..., Tensor]:
    kind, first = _CHEBYSHEV[letter]
    name = f"{'shifted_' * shifted}chebyshev_polynomial_{letter}"
    doc = f"The {'shifted ' * shifted}Chebyshev polynomial of the {kind} kind{' (at 2 * input - 1)' * shifted}"
    return _declare(name, doc, first, _chebyshev, shifted)


chebyshev_polynomial_t = _chebyshev_of("t", False)
chebyshev_polynomial_u = _chebyshev_of("u", False)
chebyshev_polynomial_v = _chebyshev_of("v", False)
chebyshev_polynomial_w = _chebyshev_of("w", False)
shifted_chebyshev_polynomial_t = _chebyshev_of("t", True)
shifted_chebyshev_polynomial_u = _chebyshev_of("u", True)
shifted_chebyshev_polynomial_v = _chebyshev_of("v", True)
shifted_chebyshev_polynomial_w = _chebyshev_of("w", True)
hermite_polynomial_h = _declare(
    "hermite_polynomial_h",
    "The Hermite polynomial of physics",
    lambda x: 2 * x,
    lambda x, last, before, k: 2 * x * last - 2 * (k - 1) * before,
)
hermite_polynomial_he = _declare(
    "hermite_polynomial_he",
    "The Hermite polynomial of probability theory",
    lambda x: x,
    lambda x, last, before, k: x * last - (k - 1) * before,
)
laguerre_polynomial_l = _declare(
    "laguerre_polynomial_l",
    "The Laguerre polynomial",
    lambda x: 1 - x,
    lambda x, last, before, k: ((2 * k - 1 - x) * last - (k - 1) * before) / k,
)
legendre_polynomial_p = _declare(
    "legendre_polynomial_p",
    "The Legendre polynomial",
    lambda x: x,
    lambda x, last, before, k: ((2 * k - 1) * x * last - (k - 1) * before) / k,
)
