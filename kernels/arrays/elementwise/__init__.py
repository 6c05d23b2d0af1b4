"""Functions element by element that NumPy makes in many passes: each by passes, as it is defined, and, for large
arrays, in vectors by all threads.

Operands are of one type, float16, bfloat16, float32 or float64. Half types are computed with in float32 and rounded
once. `MAPPED` has each function by name; its `by_passes` is the definition. What NumPy makes in one pass is in
`threaded`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime.errstate import restore, silence
from ...runtime.first_use import load
from ...runtime.invariance import is_demanded
from .arrays import are_alike, back, by_vectors, cast, in_rows, is_half, leaf_of, map_arrays, memory_order
from .gamma_series import lgamma_beside_zeros
from .masks import select
from .threaded import LARGE, each, least_of, power, threaded_function
from .turned import in_order

__all__ = [
    "LARGE", "MAPPED", "cast", "digamma", "each", "erf", "erfc", "erfinv", "gelu", "gelu_gradient", "hardswish",
    "in_order", "in_rows", "is_half", "least_of", "lgamma", "logsigmoid", "mish", "power", "rsqrt", "select", "sigmoid",
    "sign", "silu", "silu_gradient", "softplus", "tanh_gelu", "tanh_gelu_gradient", "threaded_function",
]  # fmt: skip

MAPPED: dict[str, Callable[..., np.ndarray]] = {}

_LEAST = 1 << 10
"""Elements from which vectors are worth loading and calling. Microseconds of gelu and of silu, by passes and so: of 512
float32 8.5, 10 and 7.3, 10, of 2048 21, 9 and 10, 8."""


def _declare_mapped(tag: str) -> Callable[[Callable[..., np.ndarray]], Callable[..., np.ndarray]]:
    """Declare a function that the class `tag` of `functions` computes too."""

    def declare(by_passes: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        @functools.wraps(by_passes)
        def call(*arrays: np.ndarray) -> np.ndarray:
            first = arrays[0]
            if is_demanded():
                return by_vectors(tag, *arrays)
            if first.size >= _LEAST and (len(arrays) == 1 or are_alike(arrays)):
                leaf = leaf_of(tag, first.dtype)
                if leaf is not None:
                    return _run(leaf, *arrays)
            return _in_passes(by_passes, *arrays)

        call.by_passes, call.tag = by_passes, tag
        MAPPED[by_passes.__name__] = call
        return call

    return declare


def _run(leaf: int, *arrays: np.ndarray) -> np.ndarray:
    """The function of arrays of one shape and dtype; the result is laid out as the first one is."""
    first = arrays[0]
    if not first.flags.c_contiguous and (order := memory_order(first)):
        return back(_run(leaf, *[x.transpose(order) for x in arrays]), order)
    arrays = tuple(map(np.ascontiguousarray, arrays))
    return map_arrays(leaf, arrays[0], arrays[-1])


def _in_passes(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    dtype = arrays[-1].dtype
    if dtype.itemsize == 2:
        arrays = tuple(x.astype(np.float32) for x in arrays)
    token = silence()
    try:
        return np.asarray(function(*arrays)).astype(dtype, copy=False)
    finally:
        restore(token)


def _normal(x: np.ndarray) -> np.ndarray:
    return load("scipy.special").ndtr(x)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    """In one new array; where e**-x overflows, the value is 0 to the smallest normal number."""
    out = np.negative(x, out=np.empty_like(x))
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    return np.reciprocal(out, out=out)


def _tanh_argument(x: Any) -> Any:
    """2 sqrt(2 / pi) (x + 0.044715 x**3)."""
    return 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)


@_declare_mapped("Sigmoid")
def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e**-x)."""
    return _sigmoid(x)


@_declare_mapped("Erf")
def erf(x: np.ndarray) -> np.ndarray:
    """The error function, 2 / sqrt(pi) times the integral of e**(-t**2) from 0 to x."""
    return load("scipy.special").erf(x)


@_declare_mapped("Erfc")
def erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf(x), with small relative errors where that is small."""
    return load("scipy.special").erfc(x)


@_declare_mapped("Erfinv")
def erfinv(x: np.ndarray) -> np.ndarray:
    """The inverse of `erf`; infinite at -1 and 1, NaN beyond."""
    return np.copysign(load("scipy.special").erfinv(x), x)


@_declare_mapped("Lgamma")
def lgamma(x: np.ndarray) -> np.ndarray:
    """The logarithm of the absolute value of the gamma function."""
    size = np.abs(x)
    tiny = size < 1e-300  # where SciPy returns infinity
    value = np.where(tiny, -np.log(size), np.where(np.isinf(x), size, load("scipy.special").gammaln(x)))
    beside_zero = np.abs(x - 1.5) < 0.75  # where SciPy's relative errors grow without bound: it is 0 at 1 and 2
    value[beside_zero] = lgamma_beside_zeros(x[beside_zero])
    return value


@_declare_mapped("Digamma")
def digamma(x: np.ndarray) -> np.ndarray:
    """The derivative of `lgamma`, NaN at negative whole numbers. Of negative numbers by reflection: SciPy's own zeros
    and poles there cost 2 us each, and digits."""
    negative, turn = x < 0, np.pi * (x - np.rint(x))
    value = load("scipy.special").digamma(np.where(negative, 1 - x, x))
    return np.where(negative, np.where(turn == 0, np.nan, value - np.pi / np.tan(turn)), value)


@_declare_mapped("Gelu")
def gelu(x: np.ndarray) -> np.ndarray:
    """x times the distribution function of the standard normal distribution (D. Hendrycks and K. Gimpel, "Gaussian
    Error Linear Units", 2016), with small relative errors for negative x."""
    return x * _normal(x)


@_declare_mapped("GeluGradient")
def gelu_gradient(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """g times the derivative of `gelu` at x."""
    return g * (_normal(x) + x * (np.exp(x * x * -0.5) / math.sqrt(2 * math.pi)))


@_declare_mapped("TanhGelu")
def tanh_gelu(x: np.ndarray) -> np.ndarray:
    """An approximation of `gelu`: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2."""
    return x * _sigmoid(_tanh_argument(x))


@_declare_mapped("TanhGeluGradient")
def tanh_gelu_gradient(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """g times the derivative of `tanh_gelu` at x."""
    x = np.clip(x, -1e3, 1e3)  # beyond it is 0 or 1, and powers of x might be infinite
    gate, slope = _sigmoid(_tanh_argument(x)), 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
    return g * (gate + gate * (1 - gate) * x * slope)


@_declare_mapped("Rsqrt")
def rsqrt(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x)."""
    return np.reciprocal(np.sqrt(x))


@_declare_mapped("Sign")
def sign(x: np.ndarray) -> np.ndarray:
    """-1, 0 or 1; 0 of NaN."""
    return np.subtract(x > 0, x < 0, dtype=x.dtype)


@_declare_mapped("Silu")
def silu(x: np.ndarray) -> np.ndarray:
    """x / (1 + e**-x)."""
    return x * _sigmoid(x)


@_declare_mapped("SiluGradient")
def silu_gradient(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """g times the derivative of `silu` at x."""
    gate = _sigmoid(x)
    return g * (gate + gate * (1 - gate) * x)


@_declare_mapped("Softplus")
def softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + e**x), and x itself beyond 20."""
    return np.where(x > 20, x, np.logaddexp(x, 0))


@_declare_mapped("Logsigmoid")
def logsigmoid(x: np.ndarray) -> np.ndarray:
    """log(1 / (1 + e**-x))."""
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


@_declare_mapped("Mish")
def mish(x: np.ndarray) -> np.ndarray:
    """x tanh(log(1 + e**x)) (D. Misra, "Mish: a self regularized non-monotonic activation function", 2019), with small
    relative errors for negative x."""
    power = np.exp(np.minimum(x, 20))
    n = power * (power + 2)
    return x * (n / (n + 2))


@_declare_mapped("Hardswish")
def hardswish(x: np.ndarray) -> np.ndarray:
    """x min(max(x + 3, 0), 6) / 6 (A. Howard et al., "Searching for MobileNetV3", 2019)."""
    return x * (np.clip(x + 3, 0, 6) / 6)
