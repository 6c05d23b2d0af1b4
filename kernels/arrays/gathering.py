"""Multithreaded gather and scatter along one dimension.

Arrays are (outer, count, inner), an index is (outer, wanted, inner), int64. Elements have 1, 2, 4 or 8 bytes.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..runtime import threading
from ..runtime.shapes import expect
from ..runtime.workspace import address_of, empty

_FLIPS: dict[tuple[int, bool], np.unsignedinteger] = {
    (size, flips): word(flips << (8 * size - 1))
    for size, word in {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}.items()
    for flips in (False, True)
}
"""The bit of a sign, or none, in a word of the size of elements."""

_NUMBERS = 1 << 13
"""Numbers that a thread takes at a time."""

_NOTHING = -(1 << 63)
"""No index that is skipped."""


def gather(x: np.ndarray, index: np.ndarray, skip: int | None = None, negative: bool = False) -> np.ndarray | None:
    """x[o, index[o, w, i], i] for each place of the index, and 0 where that is `skip`; or minus that, of real x.
    None where the index names no element."""
    (outer, count, inner), wanted = x.shape, index.shape[1]
    expect("index", index, (outer, wanted, inner), np.int64)
    out = np.empty(index.shape, x.dtype) if index.size < _NUMBERS else empty(index.shape, x.dtype)
    return out if _run("Gather", x, index, out, (outer * wanted, wanted, count, inner), skip, negative) else None


def scatter(
    values: np.ndarray, index: np.ndarray, count: int, skip: int | None = None, negative: bool = False
) -> np.ndarray | None:
    """Zeros (outer, count, inner) with values[o, w, i] at [o, index[o, w, i], i], the last one of several, but none
    where the index is `skip`; or minus that. None where the index names no element."""
    outer, wanted, inner = index.shape
    expect("index", index, index.shape, np.int64)
    expect("values", values, index.shape, values.dtype)
    out = empty((outer, count, inner), values.dtype)
    return out if _run("Scatter", values, index, out, (outer, wanted, count, inner), skip, negative) else None


def _run(
    name: str, source: np.ndarray, index: np.ndarray, out: np.ndarray, sizes: tuple[int, ...], skip: int | None,
    negative: bool,
) -> bool:  # fmt: skip
    """Whether all indices name elements."""
    source, index, wrong = np.ascontiguousarray(source), np.ascontiguousarray(index), np.zeros(1, np.int64)
    lines, by_sign = sizes[0], negative and source.dtype.kind not in "iu"
    block = max(1, _NUMBERS * lines // max(out.size + index.size, 1))
    pool, threads = (0, 1) if lines <= block else threading.pool()
    places = address_of(source), address_of(index), address_of(out), address_of(wrong)
    skipped, flip = _NOTHING if skip is None else skip, _FLIPS[source.itemsize, by_sign]
    loops = _loops()
    loops.run(pool, threads, getattr(loops, name)(*places, *sizes, block, skipped, flip))
    if negative and not by_sign:
        np.negative(out, out=out)
    return not wrong[0]


@functools.cache
def _loops() -> Any:
    from . import gathering_loops

    return gathering_loops
