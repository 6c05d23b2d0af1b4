"""How lengths are divided: into the radices of passes, and into the rows and columns of a matrix."""

from __future__ import annotations

import functools
import math

from .. import cpu

__all__ = ["MATRICES", "factors", "lanes_in_registers", "lanes_of", "matrix", "sharing"]

_VECTOR_BYTES = {"portable": 16, "avx2": 32, "avx512": 64, "amx": 64}


def lanes_of(size: int) -> int:
    """How many elements of `size` bytes a vector of this CPU holds."""
    return _VECTOR_BYTES[cpu.capability()] // size


_POWERS = {5: (8, 4), 6: (8, 8), 7: (16, 8), 9: (8, 8, 8), 10: (16, 8, 8)}
"""Radices of powers of two where the largest first are not the best; see bench/NOTES.md."""


@functools.cache
def factors(n: int) -> tuple[int, ...] | None:
    """The radices of the passes of length n, whose product it is; None where a prime factor has no pass."""
    found: list[int] = []
    twos = (n & -n).bit_length() - 1
    odd = n >> twos
    for prime in (13, 11, 7, 5, 3):
        while odd % prime == 0:
            found.append(prime)
            odd //= prime
    if odd > 1:
        return None
    while twos:
        chosen = _POWERS.get(twos, (16 if twos >= 4 else 1 << twos,))
        found[:0] = chosen
        twos -= int(math.log2(math.prod(chosen)))
    return tuple(found) or (1,)


@functools.cache
def matrix(n: int, lanes: int) -> tuple[int, int] | None:
    """The rows and columns into which a length is divided: both at least `lanes`, near each other, and so that few
    lanes are computed twice; None where the length has no such factors."""
    if factors(n) is None:
        return None
    best, cost = None, math.inf
    for a in range(lanes, n // lanes + 1):
        if n % a == 0:
            b = n // a
            repeated = (-(-a // lanes) * lanes / a) + (-(-b // lanes) * lanes / b)
            new = repeated * (1 + 0.25 * abs(math.log2(a / b)))
            if new < cost:
                best, cost = (a, b), new
    return best


MATRICES = {16: (4, 4), 32: (4, 8), 64: (8, 8), 128: (8, 16), 256: (16, 16), 512: (16, 32)}
"""Rows and columns of the lengths that are transformed in registers; longer ones take as long in passes."""


def sharing(n: int, lanes: int) -> int:
    """How many transforms share vectors in registers: 1, 2, or 0 where the matrix does not suit so many lanes."""
    a, b = MATRICES[n]
    if a % lanes == 0 and b % lanes == 0:
        return 1
    return 2 if 2 * a == lanes and b in (a, lanes) else 0


@functools.cache
def lanes_in_registers(n: int, size: int) -> int | None:
    """The lanes of the longest vectors that suit the matrix of n; None where n is not transformed in registers."""
    lanes = lanes_of(size)
    if n not in MATRICES or (n > 128 and lanes * size == 32 and size == 8):  # which passes do quicker (bench/NOTES.md)
        return None
    return next((some for some in (lanes, lanes // 2) if sharing(n, some)), None)
