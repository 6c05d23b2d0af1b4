"""Several tensors into one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import Arrays, composite, op
from ..samples import between, gapped, sample
from ..tensor import Tensor
from .dims import wrap_dim
from .grid import atleast_1d, atleast_2d, atleast_3d, tensors_of
from .shape import reshape
from .slices import narrow, unbind

__all__ = [
    "cat", "column_stack", "concat", "concatenate", "dstack", "hstack", "row_stack", "stack", "vstack",
]  # fmt: skip


def _sequence_of(name: str, tensors: Any) -> list[Any]:
    tensors = list(tensors)
    if not tensors:
        raise RuntimeError(f"{name}(): expected a non-empty list of Tensors, and got {tensors!r}")
    return tensors


def _tensors_of(name: str, tensors: Any) -> list[Any]:
    """`_sequence_of` where nobody has looked at what users gave."""
    return _sequence_of(name, tensors_of(name, tensors))


def _pieces(g: Tensor, shapes: list[tuple[int, ...]], dim: int) -> list[Tensor]:
    """The parts of the gradient of `cat` that belong to inputs of these shapes."""
    dim, start, pieces = wrap_dim(dim, g._array.ndim), 0, []
    for shape in shapes:
        if len(shape) == g._array.ndim:
            pieces.append(narrow(g, dim, start, shape[dim]))
            start += shape[dim]
        else:
            pieces.append(reshape(narrow(g, dim, start, 0), (0,)))
    return pieces


def _cat_samples() -> Any:
    a, b = between(-2, 2, 2, 3), between(-2, 2, 4, 3, seed=1)
    yield sample([a, b])
    yield sample([a, gapped().T], 0)
    yield sample([a, a, b[:2]], 1)
    yield sample([a, b[:2]], -1)
    yield sample([a, np.empty((0, 3))], 0)
    yield sample([a, np.empty(0)], 1)
    yield sample([np.empty((0, 3)), np.empty((0, 3))], 1)


def _cat_reference(tensors: list[np.ndarray], dim: int = 0) -> np.ndarray:
    return np.concatenate([each for each in tensors if each.shape != (0,)], dim)


@op(
    row_major=True,
    tensors=lambda g, tensors_shape, dim: _pieces(g, tensors_shape, dim),
    promote=True,
    widen=False,
    warns=False,
    method=False,
    reference=_cat_reference,
    samples=_cat_samples,
)
def cat(tensors: Arrays, dim=0):
    """The tensors one after the other along `dim`; their other sizes must agree. Tensors of shape (0,) count for
    nothing.

    Raises RuntimeError for an empty list, for 0-dim tensors and for other sizes that differ.
    """
    kept = [each for each in _sequence_of("cat", tensors) if each.shape != (0,)] or list(tensors)
    dim = wrap_dim(dim, kept[0].ndim)
    for position, each in enumerate(kept):
        if each.ndim == 0:
            raise RuntimeError(
                f"zero-dimensional tensor (at position {position}) cannot be concatenated; use stack, or reshape(1)"
            )
        first = kept[0].shape
        if each.ndim != len(first) or each.shape[:dim] + each.shape[dim + 1 :] != first[:dim] + first[dim + 1 :]:
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {dim}. Expected {list(first)} but got "
                f"{list(each.shape)} for tensor number {position} in the list"
            )
    return np.concatenate(kept, dim)


def _stack_samples() -> Any:
    a, b = between(-2, 2, 2, 3), between(-2, 2, 2, 3, seed=1)
    yield sample([a, b])
    yield sample([a, gapped().T], 1)
    yield sample([a, b, a], -1)
    yield sample([between(-2, 2), between(-3, 3)])
    yield sample([between(-2, 2, 0, 3), between(-2, 2, 0, 3)], 2)


@op(
    row_major=True,
    tensors=lambda g, dim: list(unbind(g, dim)),
    promote=True,
    widen=False,
    warns=False,
    method=False,
    reference=np.stack,
    samples=_stack_samples,
)
def stack(tensors: Arrays, dim=0):
    """The tensors, all of one shape, side by side in a new dimension `dim`.

    Raises RuntimeError for shapes that differ.
    """
    shape = _sequence_of("stack", tensors)[0].shape
    dim = wrap_dim(dim, len(shape) + 1)
    for position, each in enumerate(tensors):
        if each.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                f"{list(each.shape)} at entry {position}; use cat, or pad them"
            )
    wider = (*shape[:dim], 1, *shape[dim:])
    return np.concatenate([each.reshape(wider) for each in tensors], dim)


concat = concatenate = cat


def _list_samples() -> Any:
    yield sample([between(-2, 2, 2, 3), between(-2, 2, 2, 3, seed=1)])
    yield sample([gapped(), gapped()])
    yield sample([between(-2, 2, 3), between(-2, 2, 3, seed=1)])
    yield sample([between(-2, 2), between(-3, 3)])
    yield sample([between(-2, 2, 2, 2, 2), between(-3, 3, 2, 2, 2)])
    yield sample([between(-2, 2, 0, 3), between(-2, 2, 0, 3)])


@composite(method=False, reference=np.hstack, samples=_list_samples)
def hstack(tensors: Any) -> Tensor:
    """The tensors side by side: along the second dimension, or the first of vectors."""
    tensors = [atleast_1d(each) for each in _tensors_of("hstack", tensors)]
    return cat(tensors, 0 if tensors[0]._array.ndim == 1 else 1)


@composite(method=False, reference=np.vstack, samples=_list_samples)
def vstack(tensors: Any) -> Tensor:
    """The tensors below one another: along the first dimension; vectors are rows."""
    return cat([atleast_2d(each) for each in _tensors_of("vstack", tensors)], 0)


row_stack = vstack


@composite(method=False, reference=np.dstack, samples=_list_samples)
def dstack(tensors: Any) -> Tensor:
    """The tensors behind one another: along the third dimension."""
    return cat([atleast_3d(each) for each in _tensors_of("dstack", tensors)], 2)


@composite(method=False, reference=np.column_stack, samples=_list_samples)
def column_stack(tensors: Any) -> Tensor:
    """The tensors side by side, vectors and scalars as columns."""
    columns = [
        reshape(each, (-1, 1)) if each._array.ndim < 2 else each for each in _tensors_of("column_stack", tensors)
    ]
    return cat(columns, 1)
