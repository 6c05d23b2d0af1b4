"""Two rows of real numbers as the two parts of one row of complex ones, for lengths that cannot be halved.

The transform Z of x + i y, of real x and y, has X[k] = (Z[k] + conj Z[n - k]) / 2 and
Y[k] = (Z[k] - conj Z[n - k]) / 2i (J. Cooley, P. Lewis and P. Welch, "The fast Fourier transform algorithm:
programming considerations in the calculation of sine, cosine and Laplace transforms", 1970). Of an odd number of rows
the last is its own partner.

The errors of a row are relative to the norm of both, and so rows are first brought to norms near 1 by powers of two,
which is exact. Where that cannot be (zeros, infinities, NaN, extreme magnitudes), rows keep to themselves.
"""

from __future__ import annotations

import numpy as np

from ..runtime.jit import njit
from .choice import empty


def powers_for(x: np.ndarray) -> np.ndarray | None:
    """For each row the power of two that brings its norm to between 1/2 and 1; None if some row has none, or one that
    is not a normal number, or whose inverse is not."""
    parts = _parts(x)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", parts, parts)
    if not (np.isfinite(squares).all() and (squares > np.finfo(squares.dtype).tiny * 2.0**24).all()):
        return None
    return np.ldexp(squares.dtype.type(1), -np.frexp(np.sqrt(squares))[1]).astype(squares.dtype)


@njit
def _join(x, powers, z):
    last = x.shape[0] - 1
    for pair in range(z.shape[0]):
        other, out = min(2 * pair + 1, last), z[pair]
        first, second, a, b = x[2 * pair], x[other], powers[2 * pair], powers[other]
        for j in range(first.size):
            out[2 * j], out[2 * j + 1] = a * first[j], b * second[j]


@njit
def _part(z, factors, x):
    last = x.shape[0] - 1
    for pair in range(z.shape[0]):
        other, row = min(2 * pair + 1, last), z[pair]
        first, second, a, b = x[2 * pair], x[other], factors[2 * pair], factors[other]
        for j in range(first.size):
            first[j], second[j] = a * row[2 * j], b * row[2 * j + 1]


@njit
def _part_spectra(z, halves, out):
    """Numbers are pairs of parts; halves are half of what the rows are multiplied by."""
    last, size = out.shape[0] - 1, z.shape[1]
    for pair in range(z.shape[0]):
        other, row = min(2 * pair + 1, last), z[pair]
        first, second, a, b = out[2 * pair], out[other], halves[2 * pair], halves[other]
        first[0], first[1], second[0], second[1] = 2 * a * row[0], 0, 2 * b * row[1], 0
        for j in range(2, first.size, 2):
            re, im, of_re, of_im = row[j], row[j + 1], row[size - j], row[size - j + 1]
            first[j], first[j + 1] = a * (re + of_re), a * (im - of_im)
            second[j], second[j + 1] = b * (im + of_im), b * (of_re - re)
        if size % 4 == 0:  # an even length, at whose middle a number is its own mirror
            first[first.size - 1] = second[first.size - 1] = 0


@njit
def _join_spectra(spectra, powers, z):
    """What lies in the imaginary parts at frequency 0, and in the middle of an even length, counts for nothing."""
    last, size = spectra.shape[0] - 1, z.shape[1]
    for pair in range(z.shape[0]):
        other, out = min(2 * pair + 1, last), z[pair]
        first, second, a, b = spectra[2 * pair], spectra[other], powers[2 * pair], powers[other]
        out[0], out[1] = a * first[0], b * second[0]
        for j in range(2, (size + 2) // 4 * 2, 2):
            re, im, of_re, of_im = a * first[j], a * first[j + 1], b * second[j], b * second[j + 1]
            out[j], out[j + 1] = re - of_im, im + of_re
            out[size - j], out[size - j + 1] = re + of_im, of_re - im
        if size % 4 == 0:
            out[size // 2], out[size // 2 + 1] = a * first[size // 2], b * second[size // 2]


def _parts(array: np.ndarray) -> np.ndarray:
    """Complex rows as twice as many real numbers."""
    return np.ascontiguousarray(array).view(array.real.dtype)


def join_rows(x: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """(ceil(rows / 2), n) complex of (rows, n) real numbers times powers."""
    z = empty(((len(x) + 1) // 2, x.shape[1]), np.result_type(x.dtype, np.complex64))
    _join(np.ascontiguousarray(x), powers, _parts(z))
    return z


def split_rows(z: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """(rows, n) real numbers, divided by powers, of (ceil(rows / 2), n) complex ones."""
    x = empty((len(powers), z.shape[1]), z.real.dtype)
    _part(_parts(z), 1 / powers, x)
    return x


def parted_spectra(z: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """(rows, n // 2 + 1), half the spectra of rows that were multiplied by powers, of those (ceil(rows / 2), n) of
    pairs of them."""
    out = empty((len(powers), z.shape[1] // 2 + 1), z.dtype)
    _part_spectra(_parts(z), 0.5 / powers, _parts(out))
    return out


def spectra_joined(spectra: np.ndarray, n: int, powers: np.ndarray) -> np.ndarray:
    """The way back: the spectra (ceil(rows / 2), n) of pairs of rows, of half the spectrum of each times powers."""
    z = empty(((len(spectra) + 1) // 2, n), spectra.dtype)
    _join_spectra(_parts(spectra), powers, _parts(z))
    return z
