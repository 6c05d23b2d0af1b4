"""Arrays as the compiled loops of `maps` see them."""

from __future__ import annotations

import functools

import numpy as np

from .. import cpu, threading
from ..gemm.workspace import address_of, empty

__all__ = ["LENGTH", "leaf_of", "mapped"]

LENGTH = 1 << 13
"""Numbers that a thread takes at a time."""


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
