"""Fourier transforms of lengths with large prime factors by Bluestein's algorithm; `chirp.py` has its formulas."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ..registry import ArraySpec
from ..runtime import threading, workspace
from ..runtime.first_use import load
from ..runtime.plan_cache import fft_plans
from ..runtime.workspace import address_of
from . import choice, stockham
from .contract import complex_of, divisor, fft, lengths_of, real_of
from .crossovers import crossovers
from .lengths import factors, lanes_of

_ODD = (1, 3, 5, 9, 15)


@functools.lru_cache(4096)
def smooth_length(n: int, lanes: int) -> int:
    """The least length for which convolutions of n numbers are whole, of those with many factors 2."""
    least = max(2 * n - 1, lanes * lanes)
    return min(odd << max(math.ceil(math.log2(least / odd)), 0) for odd in _ODD)


_TOGETHER, _TOGETHER_BYTES = 16, 1 << 17
"""Rows that are transformed together at most, and bytes of them: what two such blocks take stays in the L2 cache."""

_FEW = 4
"""Rows by which the kind of the smooth transforms is chosen, however many there are, so that the bits are the same."""


class Chirp(NamedTuple):
    """A plan: its table, bytes that a thread needs besides two blocks of rows, the plan of the smooth length, and the
    factors."""

    place: int
    worker_bytes: int
    nbytes: int
    held: tuple[Any, ...]


def _plan(n: int, dtype: np.dtype, kind: str) -> Chirp:
    """The plan of n complex numbers with parts of this dtype, by smooth transforms of this kind."""
    from . import plan as planning
    from .chirp import CHIRP_FIELDS, factors_of, leaf_of_products

    size = dtype.itemsize
    lanes = lanes_of(size)
    m = smooth_length(n, lanes)
    inner = planning.plan_long(m, dtype) if kind == "long" else planning.make_plan(m, dtype, kind)
    of_chirp = planning.roots(np.arange(n, dtype=np.int64) ** 2, 2 * n, np.dtype(np.longdouble))
    chirp = of_chirp[:, 0] + 1j * of_chirp[:, 1]
    response = np.zeros(m, np.clongdouble)
    response[:n] = chirp.conj()
    response[m - n + 1 :] = chirp[:0:-1].conj()
    spectrum = load("scipy.fft").fft(response) / m
    held = (factors_of(chirp, dtype), factors_of(spectrum, dtype))
    fields = {"plan": inner.place, "n": n, "m": m, "size": size}
    fields |= {"chirp": address_of(held[0]), "spectrum": address_of(held[1])}
    fields["multiply"] = leaf_of_products(size, lanes)
    table = np.array([fields[name] for name in CHIRP_FIELDS], np.int64)
    nbytes = table.nbytes + inner.nbytes + sum(each.nbytes for each in held)
    return Chirp(address_of(table), inner.worker_bytes, nbytes, (table, inner, held))


def _along_last(x: np.ndarray, inverse: bool, scale: float, kept: int) -> np.ndarray:
    from .chirp import Chirps, transform_by_chirp

    rows = stockham.rows_of(x)
    batch, n = rows.shape
    part = np.dtype(f"f{x.itemsize // 2}")
    pool, threads = threading.pool() if batch > 1 else (0, 1)
    tasks = min(batch, threads)
    m = smooth_length(n, lanes_of(part.itemsize))
    row_bytes = m * x.itemsize
    together = max(min(_TOGETHER, _TOGETHER_BYTES // row_bytes, batch // tasks), 1)
    kind = choice.kind_of(m, _FEW, part.itemsize) or "long"
    plan = fft_plans.get((n, "chirp", part.char, kind), lambda: _plan(n, part, kind), kept)
    out = choice.empty(rows.shape, x.dtype)
    worker_bytes = 2 * together * row_bytes + plan.worker_bytes
    with workspace.Workspace(threads * worker_bytes) as memory:
        job = Chirps(
            plan.place, int(inverse), choice.factor_of(scale), address_of(rows), rows.strides[0],
            address_of(out), out.strides[0], batch, -(-batch // tasks), together, memory, worker_bytes,
        )  # fmt: skip
        transform_by_chirp(pool, threads, job)
    return out.reshape(x.shape)


def _complex_axis(x: np.ndarray, axis: int, inverse: bool, scale: float, kept: int) -> np.ndarray:
    if factors(x.shape[axis]) is not None:
        return stockham.along_axis(x, axis, inverse, scale, kept)
    return np.moveaxis(_along_last(np.moveaxis(x, axis, -1), inverse, scale, kept), -1, axis)


def _real_axis(x: np.ndarray, axis: int, n: int, inverse: bool, scale: float, kept: int) -> np.ndarray:
    """Real numbers, or half their spectra: two rows as one of complex numbers, or each row as one; by Stockham's
    algorithm where it has passes for half as many."""
    if factors(n) is not None:
        return stockham.real_axis(x, axis, n, "halved" if inverse else "real", scale, kept)
    from . import pairs

    x = np.moveaxis(x, axis, -1)
    rows = x.reshape(-1, x.shape[-1])
    powers = pairs.powers_for(rows) if len(rows) > 1 else None
    if powers is None:
        z = stockham.mirror_spectrum(rows, n) if inverse else rows.astype(complex_of(x.dtype))
        z = _complex_axis(z, 1, inverse, scale, kept)
        out = z.real.copy() if inverse else z[:, : n // 2 + 1].copy()
    else:
        z = pairs.spectra_joined(rows, n, powers) if inverse else pairs.join_rows(rows, powers)
        z = _complex_axis(z, 1, inverse, scale, kept)
        out = pairs.split_rows(z, powers) if inverse else pairs.parted_spectra(z, powers)
    return np.moveaxis(out.reshape(*x.shape[:-1], -1), -1, axis)


def _refuses(x: ArraySpec, *, kind: str, axes: tuple[int, ...], last: int = 0, **_: Any) -> str | None:
    least = crossovers.row.chirp_numbers
    if not axes or math.prod(x.shape) < least:
        return f"starts later than SciPy, and {math.prod(x.shape)} numbers are few; faster from {least}"
    shape, size = list(x.shape), real_of(x.dtype).itemsize
    for axis, n in reversed(list(zip(axes, lengths_of(x.shape, kind, axes, last), strict=True))):
        if kind in ("real", "halved") and axis == axes[-1]:
            if sentence := _refuses_real(tuple(shape), axis, n, size, kind):
                return sentence
            shape[axis] = n // 2 + 1
        elif factors(n) is not None:
            found = stockham.axis_kind((*shape[:axis], n, *shape[axis + 1 :]), axis, n, size)[0]
            if found is None:
                return f"has no passes for length {n} of {list(x.shape)}"
    return None


def _refuses_real(shape: tuple[int, ...], axis: int, n: int, size: int, kind: str) -> str | None:
    """SciPy has passes of real numbers for every small factor, and no chirp before 50."""
    rows = math.prod(shape) // shape[axis]
    if factors(n) is not None:
        passes = stockham.real_kind(shape, axis, n, size, kind)
        return None if passes else f"has no passes for {n} real numbers, as SciPy has"
    row = crossovers.row
    least = row.chirp_real_numbers
    if n < row.chirp_real_length or (n < row.chirp_real_long and rows * n < least):
        return f"takes longer than SciPy for {rows} times {n} real numbers; faster from {least}"
    return None


@fft.impl("bluestein", refuses=_refuses)
def fft_bluestein(
    x: np.ndarray, *, kind: str, axes: tuple[int, ...], scaling: str = "none", last: int = 0, plans: int = 0
) -> np.ndarray:
    """One axis after the other, those with small factors by Stockham's algorithm; real numbers of any length, two
    rows as one of complex ones. Of real numbers the last axis comes first, of half a spectrum it comes last."""
    lengths = lengths_of(x.shape, kind, axes, last)
    scale, inverse = 1 / divisor(lengths, scaling), kind in ("inverse", "halved")
    order = list(zip(axes, lengths, strict=True))
    if kind == "real":
        x, scale = _real_axis(x, *order.pop(), False, scale, plans), 1.0
    ends = order.pop() if kind == "halved" else None
    for axis, _ in reversed(order):
        x, scale = _complex_axis(x, axis, inverse, scale, plans), 1.0
    return x if ends is None else _real_axis(x, *ends, True, scale, plans)
