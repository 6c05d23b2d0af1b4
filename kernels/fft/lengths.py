"""How lengths are divided: into the radices of passes, and into the rows and columns of a matrix."""

from __future__ import annotations

import functools
import math

from ..runtime import cpu
from .crossovers import crossovers

_VECTOR_BYTES = {"portable": 16, "avx2": 32, "avx512": 64, "avx512_bf16": 64, "amx": 64}


def lanes_of(size: int) -> int:
    """How many elements of `size` bytes a vector of this CPU holds."""
    return _VECTOR_BYTES[cpu.capability()] // size


_COSTS = {
    2: 1.0, 3: 1.05, 4: 1.05, 5: 1.15, 6: 1.25, 7: 1.35, 8: 1.2, 9: 1.5, 10: 1.5, 11: 1.9, 12: 1.55, 13: 2.2, 14: 1.9,
    15: 2.0, 16: 1.6,
}  # fmt: skip
"""What a pass of each radix costs: as much as any takes to read and write rows, and its arithmetic; bench/NOTES.md has
what was measured."""


@functools.lru_cache(4096)
def _cheapest(n: int) -> tuple[float, tuple[int, ...]]:
    """The cost of the passes of length n, and their radices, the largest first."""
    if n == 1:
        return 0.0, ()
    found = []
    for r, cost in _COSTS.items():
        if n % r == 0:
            rest, radices = _cheapest(n // r)
            found.append((cost + rest, tuple(sorted((r, *radices), reverse=True))))
    return min(found, default=(math.inf, ()))


@functools.lru_cache(4096)
def factors(n: int) -> tuple[int, ...] | None:
    """The radices of the passes of length n, whose product it is; None where a prime factor has no pass."""
    cost, radices = _cheapest(n)
    return None if cost == math.inf else radices or (1,)


@functools.lru_cache(4096)
def matrix(n: int, lanes: int) -> tuple[int, int] | None:
    """The rows and columns into which a length is divided: both at least `lanes`, near each other, so that few
    lanes are computed twice and rows of the result begin on cache lines; None where the length has no such factors."""
    if factors(n) is None:
        return None
    best, cost = None, math.inf
    for a in range(lanes, n // lanes + 1):
        if n % a == 0:
            b = n // a
            repeated = (-(-a // lanes) * lanes / a) + (-(-b // lanes) * lanes / b)
            new = repeated * (1 + 0.25 * abs(math.log2(a / b))) * (1.0 if 2 * a % lanes == 0 else 1.001)
            if new < cost:
                best, cost = (a, b), new
    return best


_ABREAST_BYTES = 512


def vectors_abreast(n: int, size: int, lanes: int) -> int:
    """How many vectors of columns are read together: one, or of what no cache holds as many as 512 bytes of a row have,
    since the next row is in another page of memory."""
    return max(_ABREAST_BYTES // (2 * size * lanes), 1) if n * 2 * size >= crossovers.row.beyond_caches_bytes else 1


def passes_caches(n: int, rows: int, size: int, lanes: int) -> bool:
    """Whether a matrix of so many rows is written past the caches: all of its vectors are whole cache lines then."""
    whole_lines = lanes * size >= 32 and rows * 2 * size % 64 == 0
    return whole_lines and n * 2 * size >= crossovers.row.beyond_caches_bytes


@functools.lru_cache(4096)
def narrow_lanes(n: int, size: int) -> int | None:
    """The lanes of the longest vectors, shorter than the CPU's, for which n has a matrix; None where there are none, of
    16 bytes or more."""
    lanes = lanes_of(size) // 2
    while lanes * size >= 16 and matrix(n, lanes) is None:
        lanes //= 2
    return lanes if lanes * size >= 16 else None


POWERS = {16: (4, 4), 32: (4, 8), 64: (8, 8), 128: (8, 16), 256: (16, 16), 512: (16, 32)}
"""Rows and columns of the powers of two that are transformed in registers; longer ones take as long in passes."""

SMOOTH = (36, 48, 60, 72, 80, 96, 100, 112, 120, 144, 160, 192, 200, 240, 384, 480)
"""Other lengths that are: of matrices whose columns do not fill vectors."""

IN_REGISTERS = (*POWERS, *SMOOTH)

_MOST_COLUMNS = 32


@functools.lru_cache(4096)
def matrix_in_registers(n: int, lanes: int) -> tuple[int, int] | None:
    """Rows and columns of a length that is transformed in registers, in vectors of so many lanes; of a smooth one half
    as many rows, a quarter, or as many as there are lanes."""
    if n in POWERS:
        return POWERS[n]
    rows = [a for a in (lanes // 2, lanes // 4, lanes) if a and n % a == 0 and n // a <= _MOST_COLUMNS]
    return (rows[0], n // rows[0]) if rows else None


def sharing(n: int, lanes: int, spectra: bool = False) -> int:
    """How many transforms share vectors in registers: 1, 2, 4, or 0 where the matrix does not suit so many lanes. Two
    take fewer shuffles than one does, but spectra of real numbers need whole rows in a vector."""
    found = matrix_in_registers(n, lanes)
    if found is None:
        return 0
    a, b = found
    if n in SMOOTH:
        return lanes // a
    if n == 128 and a == lanes and not spectra:
        return 2
    if a % lanes == 0 and b % lanes == 0:
        return 1
    if 2 * a == lanes and b in (a, lanes):
        return 2
    return 4 if 4 * a == lanes and 2 * b == lanes else 0


def in_registers(n: int, lanes: int, real: bool) -> bool:
    """Whether the matrices that share vectors stay in registers. They go through memory between the steps where they
    would fill nearly all 32, or three quarters of them in spectra of real numbers, which need more registers."""
    share = sharing(n, lanes)
    numbers = share * n + (1 if real else 0)
    return (share > 1 or matrix_in_registers(n, lanes) == (lanes, lanes)) and numbers <= (12 if real else 14) * lanes


def members_of_lanes(lanes: int, size: int) -> list[tuple[int, int]]:
    """The member and the number of each lane of a vector of the complex numbers of two members, which are transforms or
    the halves of neighbouring numbers: in turn, but one after the other in vectors of 16 bytes, whose shuffles take
    half of each operand."""
    half = lanes // 2
    return [divmod(lane, half) if lanes * size == 16 else (lane % 2, lane // 2) for lane in range(lanes)]


def places_of_lanes(share: int, lanes: int, size: int) -> list[tuple[int, int]]:
    """The transform and which of its neighbouring numbers is in each lane, where so many transforms share a vector."""
    pairs = members_of_lanes(lanes, size)
    if share == 1:
        return [(0, number + member * lanes // 2) for member, number in pairs]
    width = lanes // share
    return [(number // width * 2 + member, number % width) for member, number in pairs]


def numbers_of_lanes(share: int, lanes: int, size: int) -> list[int]:
    return [number for _, number in places_of_lanes(share, lanes, size)]


def spectra_in_registers(n: int, lanes: int, real: str) -> bool:
    """Whether half the spectra of real numbers are made, or read, where transforms of n complex numbers are: they are
    made where a vector holds whole rows of the transform."""
    found = matrix_in_registers(n, lanes)
    assert found is not None
    return real == "halved" or (real == "real" and found[0] * sharing(n, lanes, True) == lanes)


@functools.lru_cache(4096)
def lanes_in_registers(n: int, size: int, real: str = "") -> int | None:
    """The lanes of the longest vectors that suit the matrix of n; None where n is not transformed in registers.
    `real`: the numbers stand for 2n real ones, whose spectra take less time as lanes than after registers where those
    do not make them."""
    lanes = lanes_of(size)
    if n in SMOOTH:
        suits = lanes * size >= 32 and sharing(n, lanes) > 0
        return lanes if suits and (not real or spectra_in_registers(n, lanes, real)) else None
    if n not in POWERS or (n > 128 and real and lanes * size == 32 and size == 8):  # quicker in passes (bench/NOTES.md)
        return None
    return next((some for some in (lanes, lanes // 2) if sharing(n, some)), None)


def sharing_rows(rows: int, lanes: int) -> int:
    """How many transforms have room in a vector, each `rows` lanes of a half or a quarter: 1, 2 or 4."""
    return 4 if 4 * rows <= lanes else 2 if 2 * rows <= lanes else 1


def columns_of_wide(rows: int, lanes: int) -> int:
    """How many columns of a transform a vector has, whose matrices have so many rows: all lanes, or every other one."""
    return lanes // min(sharing_rows(rows, lanes), 2)


MOST_REPEATED = 1.8
"""Lanes of a wide matrix in ratio to those that do something, up to which one is tried."""

_TURNED, _EACH_PASS, _MASKED, _BEYOND_L1 = 1.0, 0.25, 1.2, 1.1
"""What wide matrices cost besides the butterflies, in the unit of `_COSTS`: columns to split and turn, and each pass of
rows; factors for rows that do not fill their part of a vector, and for data of more than the L1 cache."""


def _cost_of_wide(a: int, b: int, size: int) -> float:
    """What a wide matrix of a rows and b columns costs; infinite where too many lanes do nothing. Rows and columns that
    do not fill vectors need masks, which vectors of 64 bytes have."""
    lanes, across = lanes_of(size), factors(b)
    share = sharing_rows(a, lanes)
    width = columns_of_wide(a, lanes)
    columns, rows = -(-b // width) * width / b, lanes / (share * a)
    filled = rows == 1 and b >= width
    if a not in _COSTS or across is None or columns * rows > MOST_REPEATED or not (filled or lanes * size == 64):
        return math.inf
    passes = sum(_EACH_PASS + _COSTS[r] for r in across) * (1 if rows == 1 else _MASKED)
    beyond = share > 1 and 4 * share * a * b * 2 * size > 48 << 10
    return (columns * (_TURNED + _COSTS[a]) + rows * passes) * (_BEYOND_L1 if beyond else 1)


@functools.lru_cache(4096)
def rows_of_wide(n: int, size: int) -> int | None:
    """The rows of the cheapest matrix whose columns fit a vector, alone or with those of one or three other transforms;
    None if none fits, or too many lanes would be idle."""
    found = [(_cost_of_wide(a, n // a, size), a) for a in range(4, lanes_of(size) + 1) if n % a == 0 and a < n]
    cost, a = min(found, default=(math.inf, 0))
    return None if cost == math.inf else a
