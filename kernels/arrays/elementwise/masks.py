"""Selection between two arrays by a mask, by loops without branches on all threads. NumPy branches at every element,
which takes ten times as long for random masks as for uniform ones."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...runtime import threading
from ...runtime.shapes import broadcast_shapes
from ...runtime.workspace import address_of, empty
from .arrays import back, memory_order

_LEAST = 1 << 13
"""Elements from which loops are worth calling."""

_WORDS = {1: np.uint8(0), 2: np.uint16(0), 4: np.uint32(0), 8: np.uint64(0)}
"""The type tag of elements by size; the loops copy bits, whatever they represent."""


def select(mask: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x where the boolean mask holds and y elsewhere, arrays that broadcast; small ones, and those of two dtypes, by
    `np.where`."""
    known = x.dtype == y.dtype and x.itemsize in _WORDS and not x.size == y.size == 1
    if not known or max(mask.size, x.size, y.size) < _LEAST:
        return np.where(mask, x, y)
    shape = broadcast_shapes(mask.shape, x.shape, y.shape)
    leading = x if x.shape == shape else y
    order = memory_order(leading) if leading.shape == shape and not leading.flags.c_contiguous else None
    operands = [each if each.size == 1 else np.broadcast_to(each, shape) for each in (mask, x, y)]
    if order is not None:
        operands = [each if each.size == 1 else each.transpose(order) for each in operands]
        shape = tuple(shape[dim] for dim in order)
    found = _select_small(shape, np.broadcast_to(operands[0], shape), *operands[1:])
    return found if order is None else back(found, order)


def _select_small(shape: tuple[int, ...], mask: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    mask, x, y = map(np.ascontiguousarray, (mask, x, y))
    out = empty(shape, x.dtype)
    addresses = address_of(mask), address_of(x), address_of(y), address_of(out)
    _loops().choose(*threading.pool(), *addresses, x.size > 1, y.size > 1, out.size, _WORDS[x.itemsize], x.itemsize)
    return out


@functools.cache
def _loops() -> Any:
    from . import mask_loops

    return mask_loops
