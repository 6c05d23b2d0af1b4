"""Float64 products from products of 8-bit integers: what each name means, and the parts of an operand.

* Slices (Ozaki's scheme I): each row of a and column of b is a fixed-point number of `count` digits of 8 bits, scaled
  by a power of two so that the largest fills the first. A digit is an int8 in [-128, 127], the last one to nearest, so
  that 8 * count - 1 bits below the row's largest number stay. Products of digits i and j are summed exactly (int32) for
  i + j < count; sums of equal i + j are added in float64, small ones first. Sources: K. Ozaki et al., "Error-free
  transformations of matrix multiplication by using fast routines of matrix multiplication and its applications", 2012;
  H. Ootomo, K. Ozaki, R. Yokota, "DGEMM on integer matrix multiplication unit", arXiv 2306.11975, 2024.
* Moduli (scheme II): rows and columns are scaled by powers of two and truncated to integers whose products are certain
  to lie below half of the product of `count` coprime moduli up to 256. That is decided by norms (Cauchy and Schwarz, in
  the form of arXiv 2606.29129, which does not depend on the scale), or by a product of the leading 6 bits of
  magnitudes, rounded up (the accurate mode; its bound is closer where exponents are spread). A product of residues for
  each modulus, and the Chinese remainder theorem, give the exact product of the integers, which is rounded once.
  Source: K. Ozaki, Y. Uchino, T. Imamura, arXiv 2504.08009, whose moduli these are.

A count of 0 is chosen for each product: the least that keeps a number of bits of every result, whose largest term may
lie below the product of the largest numbers of its row and column (A. Schwarz et al., arXiv 2511.13778).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .products import MODULI, modulus_limit

Multiply = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A product of matrices that is exact for small integers."""


def greatest_exponents(x: np.ndarray, axis: int) -> np.ndarray:
    """e with |x| < 2**e along an axis, of size 1 there; 0 for zeros."""
    return np.frexp(np.abs(x).max(axis, keepdims=True, initial=0))[1]


_EDGE = 128 / 255
"""The largest fraction that digits from -128 on reach; up to 1 - _EDGE are left above zero."""


def digits(x: np.ndarray, exponents: np.ndarray, count: int) -> list[np.ndarray]:
    """The digits of finite numbers below 2**exponents, as float64: x = sum of d * 2**(exponents - 6 - 8 * place)."""
    rest, found = np.ldexp(x, 6 - exponents), []
    for place in range(count):
        last = place == count - 1
        digit = np.clip(np.rint(rest) if last else np.floor(rest + _EDGE), -128, 127)
        found.append(digit)
        rest = (rest - digit) * 256
    return found


_ROUNDING = 2.0**-20
"""More than logarithms are off by."""


def scales_by_norms(x: np.ndarray, axis: int, count: int) -> np.ndarray:
    """The exponents by which rows are scaled, of size 1 along the axis."""
    own = greatest_exponents(x, axis)
    norms = np.sqrt(np.square(np.ldexp(x, -own)).sum(axis, keepdims=True))
    return _room(norms, count) - own


def scales_by_sums(a: np.ndarray, b: np.ndarray, count: int, multiply: Multiply) -> tuple[np.ndarray, np.ndarray]:
    """Those of rows of a and columns of b, by bounds of the sums of magnitudes."""
    of_a, of_b = 6 - greatest_exponents(a, -1), 6 - greatest_exponents(b, -2)
    bounds = np.sqrt(multiply(*(np.ceil(np.ldexp(np.abs(x), scale)) for x, scale in ((a, of_a), (b, of_b)))))
    largest = (bounds.max(axis, keepdims=True, initial=0) for axis in (-1, -2))
    return tuple(scale + _room(each, count) for scale, each in zip((of_a, of_b), largest, strict=True))


def _room(norms: np.ndarray, count: int) -> np.ndarray:
    """The greatest powers of two by which numbers of these norms can be multiplied."""
    with np.errstate(divide="ignore"):
        room = modulus_limit(count) - _ROUNDING - np.log2(norms)
    return np.floor(np.where(norms > 0, room, 0)).astype(np.int64)


def residues(x: np.ndarray, scales: np.ndarray, count: int) -> list[np.ndarray]:
    """The residues of numbers that are scaled and truncated to integers."""
    integers = np.trunc(np.ldexp(x, scales))
    return [balance(np.fmod(integers, p), p) for p in MODULI[:count]]


def balance(x: np.ndarray, p: int) -> np.ndarray:
    """The residues of integers below 2**52, between -p/2 and p/2, without p/2 itself."""
    x = x - p * np.rint(x / p)
    x[x < -(p // 2)] += p
    x[x >= (p + 1) // 2] -= p
    return x


def from_residues(found: list[np.ndarray]) -> np.ndarray:
    """The integers of residues, rounded once: digits of a mixed radix (H. Garner, 1959), from the last on in pairs of
    float64 whose sums are exact to 2**-100 (T. Dekker, 1971)."""
    mixed: list[np.ndarray] = []
    for place, (residue, p) in enumerate(zip(found, MODULI, strict=False)):
        value = residue
        for digit, q in zip(mixed, MODULI[:place], strict=True):
            value = balance((value - digit) * pow(q, -1, p), p)
        mixed.append(value)
    high, low = mixed[-1], np.zeros_like(mixed[-1])
    for digit, p in zip(mixed[-2::-1], MODULI[len(mixed) - 2 :: -1], strict=True):
        exponents = np.frexp(high)[1] - 26
        top = np.ldexp(np.rint(np.ldexp(high, -exponents)), exponents)
        product, error = _two_sum(top * p, (high - top) * p)
        high, more = _two_sum(product, digit)
        high, low = _two_sum(high, more + error + low * p)
    return high + low


def _two_sum(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A sum and its error."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


_BLOCK = 32


def span(a: np.ndarray, b: np.ndarray) -> int:
    """An upper bound of how many bits the largest term of any result lies below the product of the largest numbers of
    its row and column, from the largest and least of blocks along K."""
    if not (a.size and b.size):
        return 0
    none = -(1 << 20)
    rows, columns = (np.where(x == 0, none, np.frexp(x)[1]) for x in (a, b.swapaxes(-1, -2)))
    best = np.full((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), 2 * none)
    for first in range(0, a.shape[-1], _BLOCK):
        left, right = (x[..., first : first + _BLOCK] for x in (rows, columns))
        largest, least = left.max(-1)[..., None], left.min(-1)[..., None]
        ends = largest + right.min(-1)[..., None, :], least + right.max(-1)[..., None, :]
        best = np.maximum(best, np.maximum(*ends))
    of_row, of_column = rows.max(-1)[..., None], columns.max(-1)[..., None, :]
    return int(np.where((of_row > none) & (of_column > none), of_row + of_column - best, 0).max(initial=0))
