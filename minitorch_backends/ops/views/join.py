"""Several tensors into one."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...autograd.modes import derives
from ...dispatch.op import Arrays, composite, op
from ...dispatch.promotion import EVERY_DTYPE
from ...tensor.dtypes import get_default_dtype
from ...tensor.tensor import Tensor, adopt
from ..dims import wrap_dim
from .broadcasting import atleast_1d, atleast_2d, atleast_3d, meshgrid, tensors_of
from .shape import reshape
from .slices import getitem, narrow, unbind

__all__ = [
    "block_diag", "cartesian_prod", "cat", "column_stack", "concat", "concatenate", "dstack", "hstack", "row_stack",
    "stack", "vstack",
]  # fmt: skip


def _sequence_of(name: str, tensors: Any) -> list[Any]:
    tensors = list(tensors)
    if not tensors:
        raise (ValueError if name == "cat" else RuntimeError)(
            f"{name}(): tensors must be a non-empty list of Tensors, got {tensors!r}"
        )
    return tensors


def _tensors_of(name: str, tensors: Any) -> list[Any]:
    """`_sequence_of` for unchecked arguments of users."""
    return _sequence_of(name, tensors_of(name, tensors))


def _pieces(g: Tensor, shapes: list[tuple[int, ...]], dim: int) -> list[Tensor]:
    """The parts of the gradient of `cat` that belong to inputs of these shapes."""
    dim, start, pieces, by_ops = wrap_dim(dim, g._array.ndim), 0, [], derives()
    for shape in shapes:
        if len(shape) < g._array.ndim:
            pieces.append(reshape(narrow(g, dim, start, 0), (0,)))
            continue
        part = (slice(None),) * dim + (slice(start, start + shape[dim]),)
        pieces.append(getitem(g, part) if by_ops else adopt(g._array[part]))
        start += shape[dim]
    return pieces


_joining = functools.partial(op, traits="function row_major silent unwidened", promote=True)


@_joining(
    takes=EVERY_DTYPE,
    tensors=lambda g, tensors_shape, dim: _pieces(g, tensors_shape, dim),
    autocast="widest",
    batch="join",
)
def cat(tensors: Arrays, dim: int = 0) -> np.ndarray:
    """The tensors one after the other along `dim`; their other sizes must agree. Tensors of shape (0,) count for
    nothing.

    Raises RuntimeError for an empty list, for 0-dim tensors and for other sizes that differ.
    """
    kept = [each for each in _sequence_of("cat", tensors) if each.shape != (0,)] or list(tensors)
    dim = wrap_dim(dim, kept[0].ndim)
    try:
        return np.concatenate(kept, dim)
    except ValueError:
        _refuse_unlike(kept, dim)
        raise


def _refuse_unlike(arrays: list[np.ndarray], dim: int) -> None:
    """Raise RuntimeError for the first array that cannot be joined to those before."""
    first = arrays[0].shape
    for position, each in enumerate(arrays):
        if each.ndim == 0:
            raise RuntimeError(
                f"zero-dimensional tensor (at position {position}) cannot be concatenated; use stack, or reshape(1)"
            )
        if each.ndim != len(first) or each.shape[:dim] + each.shape[dim + 1 :] != first[:dim] + first[dim + 1 :]:
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {dim}. Expected {list(first)} but got "
                f"{list(each.shape)} for tensor number {position} in the list"
            ) from None


@_joining(takes=EVERY_DTYPE, tensors=lambda g, dim: list(unbind(g, dim)), autocast="widest", batch="join")
def stack(tensors: Arrays, dim: int = 0) -> np.ndarray:
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


@composite(method=False)
def hstack(tensors: Any) -> Tensor:
    """The tensors side by side: along the second dimension, or the first of vectors."""
    tensors = [atleast_1d(each) for each in _tensors_of("hstack", tensors)]
    return cat(tensors, 0 if tensors[0]._array.ndim == 1 else 1)


@composite(method=False)
def vstack(tensors: Any) -> Tensor:
    """The tensors below one another: along the first dimension; vectors are rows."""
    return cat([atleast_2d(each) for each in _tensors_of("vstack", tensors)], 0)


row_stack = vstack


@composite(method=False)
def dstack(tensors: Any) -> Tensor:
    """The tensors behind one another: along the third dimension."""
    return cat([atleast_3d(each) for each in _tensors_of("dstack", tensors)], 2)


@composite(method=False)
def column_stack(tensors: Any) -> Tensor:
    """The tensors side by side, vectors and scalars as columns."""
    columns = [
        reshape(each, (-1, 1)) if each._array.ndim < 2 else each for each in _tensors_of("column_stack", tensors)
    ]
    return cat(columns, 1)


# Along the diagonal


def _corners(shapes: Any) -> Any:
    """The rows and columns of each block, of tensors of these shapes."""
    row = column = 0
    for shape in shapes:
        height, width = (1, 1, *shape)[-2:]
        yield slice(row, row + height), slice(column, column + width)
        row, column = row + height, column + width


@_joining(
    tensors=lambda g, tensors_shape: [
        reshape(getitem(g, corner), shape) for corner, shape in zip(_corners(tensors_shape), tensors_shape, strict=True)
    ],
    name=("blocks_on_diagonal", "block_diag"),
    batch="loop: a fixed number of dimensions",
)
def blocks_on_diagonal(tensors: Arrays) -> np.ndarray:
    """The tensors as blocks on the diagonal of a matrix of zeros; vectors are rows."""
    shapes = [each.shape for each in tensors]
    sizes = ((1, 1, *shape)[-2:] for shape in shapes)
    out = np.zeros([sum(each) for each in zip(*sizes, strict=True)], tensors[0].dtype)
    for each, corner in zip(tensors, _corners(shapes), strict=True):
        out[corner] = each
    return out


@composite(method=False)
def block_diag(*tensors: Any) -> Tensor:
    """A matrix with the tensors as blocks on its diagonal, zero elsewhere; vectors are rows, 0-dim tensors 1 x 1.

    Raises RuntimeError for a tensor of more than 2 dimensions.
    """
    for position, each in enumerate(tensors_of("block_diag", tensors)):
        if each.ndim > 2:
            raise RuntimeError(
                f"block_diag(): tensors must have at most 2 dimensions, got shape {list(each.shape)} at {position}"
            )
    return blocks_on_diagonal(list(tensors)) if tensors else adopt(np.zeros((1, 0), get_default_dtype().dtype))


@composite(method=False)
def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of one element of each vector, one in a row, the last one changing fastest. Raises RuntimeError
    for other than vectors."""
    if any(each._array.ndim != 1 for each in tensors_of("cartesian_prod", tensors)):
        raise RuntimeError(f"cartesian_prod expects vectors, got shapes {[list(each.shape) for each in tensors]}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([reshape(each, (each._array.size,)) for each in meshgrid(*tensors)], 1)
