"""Arrays of every memory layout, drawn by hypothesis: permuted, stepped, reversed, sliced, expanded."""

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

__all__ = ["arrays", "axes_of", "exact"]

_SIZES = (1, 2, 3, 7, 16, 33, 100, 257, 1500)
_MOST = 30_000


@st.composite
def arrays(draw: st.DrawFn, dtypes: Any, ndims: tuple[int, int] = (1, 4)) -> np.ndarray:
    """An array of some layout, of numbers about 0, about 1, or all equal, where errors of sums all have one sign."""
    dtype, shape = np.dtype(draw(st.sampled_from(dtypes))), list[int]()
    for _ in range(draw(st.integers(*ndims))):
        shape.append(draw(st.sampled_from([size for size in _SIZES if size * math.prod(shape) <= _MOST])))
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from((1, 1, 1, 2, -1, -3))) for _ in shape]
    gaps = [draw(st.sampled_from((0, 0, 1, 5))) for _ in shape]
    expanded = [draw(st.integers(0, 5)) == 0 for _ in shape]
    sizes = [
        1 if wide else size * abs(step) + gap
        for size, step, gap, wide in zip(shape, steps, gaps, expanded, strict=True)
    ]
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    center, spread = draw(st.sampled_from(((0, 1), (1, 1), (1.1, 0))))
    memory = generator.standard_normal([sizes[axis] for axis in order]) * spread + center
    if dtype.kind == "c":
        memory = memory + 1j * generator.permutation(memory.ravel()).reshape(memory.shape)
    view = memory.astype(dtype).transpose(np.argsort(order))
    view = view[
        tuple(slice(None) if wide else slice(None, None, step) for step, wide in zip(steps, expanded, strict=True))
    ]
    view = view[tuple(slice(None) if wide else slice(size) for size, wide in zip(shape, expanded, strict=True))]
    return np.broadcast_to(view, shape)


def axes_of(array: np.ndarray) -> st.SearchStrategy[tuple[int, ...]]:
    """Some dimensions, at least one."""
    return st.sets(st.integers(0, array.ndim - 1), min_size=1).map(lambda axes: tuple(sorted(axes)))


def exact(array: np.ndarray) -> np.ndarray:
    """The numbers, of twice the digits or more."""
    if array.dtype.kind == "c":
        return array.astype(np.clongdouble)
    return array.astype(np.longdouble if array.dtype == np.float64 else np.float64)
