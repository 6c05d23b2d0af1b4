"""Arrays as the compiled loops of `maps` see them: in lines."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from .. import cpu, threading
from ..gemm.workspace import address_of, empty

__all__ = ["LENGTH", "Lines", "leaf_of", "lines_of", "mapped"]

LENGTH = 1 << 13
"""Numbers that a thread takes at a time."""

_LEAST_LINE = 32
"""Numbers of a line, each of which is a call of 10 ns."""


class Lines(NamedTuple):
    """How `maps.run` sees two arrays. `second_is` is a tag of `maps`, `step` is in numbers."""

    second_is: str
    length: int
    period: int
    step: int


@functools.lru_cache(1024)
def lines_of(shape: tuple[int, ...], other: tuple[int, ...]) -> Lines | None:
    """Of contiguous arrays of these shapes, the second of which broadcasts to the first by one run of dimensions; None
    for others, and where lines would be short."""
    if shape == other:
        return Lines("Each", LENGTH, 1 << 62, LENGTH)
    if len(other) > len(shape):
        return None
    padded = (1,) * (len(shape) - len(other)) + other
    present = [each for each, size in enumerate(padded) if size != 1]
    if not present:
        return Lines("One", LENGTH, 1, 0)
    start, stop = present[0], present[-1] + 1
    if padded[start:stop] != shape[start:stop]:
        return None
    inner, period = math.prod(shape[stop:]), math.prod(shape[start:stop])
    lines = Lines("Each", period, 1, 0) if stop == len(shape) else Lines("One", inner, period, 1)
    return lines if lines.length >= _LEAST_LINE else None


@functools.cache
def leaf_of(tag: str, dtype: np.dtype, second_is: str = "Each") -> int | None:
    """The address of a function's loops over arrays of a dtype; None for dtypes that there are none for."""
    from ..gemm.loops import leaf_address
    from ..gemm.sources import ELEMENTS
    from . import functions, maps

    if dtype.name not in ELEMENTS or (dtype == np.float16 and not cpu.converts_half()):
        return None
    return leaf_address(maps.Map(getattr(functions, tag)(), getattr(maps, second_is)(), ELEMENTS[dtype.name]))


def mapped(leaf: int, first: np.ndarray, second: np.ndarray, lines: Lines | None) -> np.ndarray:
    """The function of contiguous arrays of one dtype, whose shapes are seen as `lines`."""
    from . import maps

    assert lines is not None
    out, size = empty(first.shape, first.dtype), first.itemsize
    places = address_of(first), address_of(second), address_of(out)
    maps.run(*threading.pool(), leaf, *places, first.size, lines.length, size, lines.period, lines.step * size)
    return out
