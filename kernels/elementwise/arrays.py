"""Arrays as the compiled loops of `maps` see them."""

from __future__ import annotations

import functools

import numpy as np

from .. import cpu, threading
from ..gemm.workspace import address_of, empty

__all__ = ["LENGTH", "back", "leaf_of", "mapped", "memory_order"]

LENGTH = 1 << 13
"""Numbers that a thread takes at a time."""


def memory_order(array: np.ndarray) -> tuple[int, ...] | None:
    """Its dimensions from the outermost in memory to the innermost; None where they are in that order."""
    order = tuple(sorted(range(array.ndim), key=lambda dim: -abs(array.strides[dim])))
    return None if order == tuple(range(array.ndim)) else order


def back(array: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """An array whose dimensions were put in this order as it was."""
    return array.transpose(sorted(range(len(order)), key=order.__getitem__))


@functools.cache
def leaf_of(tag: str, dtype: np.dtype) -> int | None:
    """The address of a function's loops over arrays of a dtype; None for dtypes that there are none for."""
    from ..gemm.loops import leaf_address
    from ..gemm.sources import ELEMENTS
    from . import functions
    from .maps import Map

    if dtype.name not in ELEMENTS or (dtype == np.float16 and not cpu.converts_half()):
        return None
    return leaf_address(Map(getattr(functions, tag)(), ELEMENTS[dtype.name]))


def mapped(leaf: int, first: np.ndarray, second: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """The function of contiguous arrays of one dtype and shape, in `out` where there is one."""
    from . import maps

    out = empty(first.shape, first.dtype) if out is None else out
    places = address_of(first), address_of(second), address_of(out)
    maps.run(*threading.pool(), leaf, *places, first.size, first.itemsize)
    return out
