"""How arrays lie in memory, and how the compiled loops of `maps` see them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...runtime import cpu, threading
from ...runtime.invariance import isa_demanded
from ...runtime.workspace import address_of, empty
from .turned import in_order
from .ufuncs import LENGTH

_FLOAT32 = np.dtype(np.float32)


def is_half(dtype: np.dtype) -> bool:
    """Whether it is float16 or bfloat16, whose kind NumPy calls void."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def are_alike(arrays: tuple[np.ndarray, ...]) -> bool:
    """Whether arrays have one shape and dtype."""
    shape, dtype = arrays[0].shape, arrays[0].dtype
    for each in arrays:  # noqa: SIM110  (a generator takes half a microsecond)
        if each.shape != shape or each.dtype != dtype:
            return False
    return True


def memory_order(array: np.ndarray) -> tuple[int, ...] | None:
    """Its dimensions from the outermost in memory to the innermost; None where they are in that order."""
    order = tuple(sorted(range(array.ndim), key=lambda dim: -abs(array.strides[dim])))
    return None if order == tuple(range(array.ndim)) else order


def in_rows(array: Any) -> np.ndarray:
    """An array in row-major order, itself if it is, or if it has images with channels last."""
    array = np.asarray(array)
    last = array.ndim in (4, 5) and np.moveaxis(array, 1, -1).flags.c_contiguous
    return array if array.flags.c_contiguous or last else in_order(array)


def back(array: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """An array whose dimensions were put in this order as it was."""
    return array.transpose(sorted(range(len(order)), key=order.__getitem__))


def leaf_of(tag: str, dtype: np.dtype) -> int | None:
    """The address of a function's loops over arrays of a dtype; None for dtypes that there are none for."""
    return _leaf(tag, dtype, not isa_demanded())


@functools.cache
def _leaf(tag: str, dtype: np.dtype, fused: bool) -> int | None:
    from ...block.loops import leaf_address
    from ...block.sources import ELEMENTS, UNFUSED
    from . import angles, functions, gamma, mathematics
    from .maps import Map

    if dtype.name not in ELEMENTS or not readable(dtype):
        return None
    [function] = [getattr(module, tag) for module in (functions, mathematics, angles, gamma) if tag in vars(module)]
    return leaf_address(Map(function(), (ELEMENTS if fused else UNFUSED)[dtype.name]))


def readable(dtype: np.dtype) -> bool:
    """Whether loops read a floating type on this CPU."""
    return dtype != np.float16 or cpu.converts_half()


@functools.cache
def cast_leaf(source: np.dtype, target: np.dtype) -> int | None:
    """The address of the loops that convert between float32 and a half type; None for other dtypes."""
    from ...block.loops import leaf_address
    from ...block.sources import ELEMENTS
    from .maps import Cast

    halves = [dtype for dtype in (source, target) if is_half(dtype) and readable(dtype)]
    if len(halves) != 1 or _FLOAT32 not in (source, target):
        return None
    return leaf_address(Cast(ELEMENTS[source.name], ELEMENTS[target.name]))


def cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """An array converted between float32 and a half type, laid out as it was; None for others."""
    if not array.flags.c_contiguous:
        order = memory_order(array)
        found = None if order is None else cast(array.transpose(order), dtype)
        return None if found is None or order is None else back(found, order)
    leaf = cast_leaf(array.dtype, dtype)
    return None if leaf is None else map_arrays(leaf, array, array, empty(array.shape, dtype))


def by_vectors(tag: str, *arrays: np.ndarray) -> np.ndarray:
    """The function of one or two real arrays of one dtype that broadcast, in row-major order, in vectors whatever their
    sizes are, so that a number of the result depends on its operands alone."""
    dtype = arrays[0].dtype
    if not readable(dtype):
        return by_vectors(tag, *[x.astype(_FLOAT32) for x in arrays]).astype(dtype)
    same = len({x.shape for x in arrays}) == 1
    arrays = tuple(np.ascontiguousarray(x) for x in (arrays if same else np.broadcast_arrays(*arrays)))
    shape = np.broadcast_shapes(*[x.shape for x in arrays])
    leaf = leaf_of(tag, dtype)
    if leaf is None:
        raise RuntimeError(f"{tag} has no loops for {dtype.name}, which backends.invariant asks for")
    return map_arrays(leaf, arrays[0], arrays[-1]).reshape(shape)


@functools.cache
def _loops() -> Any:
    from . import maps

    return maps


def map_arrays(leaf: int, first: np.ndarray, second: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """The function of contiguous arrays of one dtype and shape, in `out` where there is one, or of that dtype."""
    alone = first.size <= LENGTH
    if out is None:
        out = np.empty(first.shape, first.dtype) if alone else empty(first.shape, first.dtype)
    places = address_of(first), address_of(second), address_of(out)
    pool = (0, 1) if alone else threading.pool()
    _loops().run(*pool, leaf, *places, first.size, first.itemsize, out.itemsize)
    return out
