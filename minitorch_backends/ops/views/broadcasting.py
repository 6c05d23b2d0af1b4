"""Common shapes: broadcasting, minimum numbers of dimensions, coordinate grids."""

from __future__ import annotations

import itertools
import math
from operator import index as as_int
from typing import Any

import numpy as np

from ...dispatch.op import composite
from ...kernels.runtime.shapes import broadcast_shapes as shape_of_all
from ...tensor.call_errors import argument_errors
from ...tensor.size import Size, addressable
from ...tensor.tensor import Tensor, adopt, is_foreign, not_a_tensor
from ..dims import shape_of
from .shape import expand, reshape, unsqueeze
from .transpose import transpose

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes", "broadcast_tensors", "broadcast_to", "combinations",
    "meshgrid",
]  # fmt: skip


def tensors_of(name: str, tensors: Any) -> list[Tensor]:
    """The tensors of a user's sequence. Raises TypeError for anything else."""
    if isinstance(tensors, Tensor) or not hasattr(tensors, "__iter__"):
        raise TypeError(f"{name}(): argument 'tensors' must be a sequence of Tensors, not {type(tensors).__name__}")
    for position, each in enumerate(tensors):
        if not isinstance(each, Tensor):
            if is_foreign(each):
                raise not_a_tensor(name, "tensors", each, "a sequence of Tensors")
            raise TypeError(f"{name}(): expected Tensor as element {position} of 'tensors', but got {each!r}")
    return list(tensors)


def _several(name: str, tensors: tuple[Any, ...]) -> list[Tensor]:
    """Several tensors, or those of the one sequence that was given."""
    return tensors_of(name, tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors)


def _at_least(atleast: Any, tensors: tuple[Any, ...]) -> Any:
    return tuple(map(atleast, _several(atleast.__name__, tensors)))


@composite(method=False)
def atleast_1d(*tensors: Any) -> Any:
    """A view with one dimension for a 0-dim tensor, else the tensor; a tuple for several tensors."""
    if len(tensors) != 1 or not isinstance(tensors[0], Tensor):
        return _at_least(atleast_1d, tensors)
    return tensors[0] if tensors[0]._array.ndim else reshape(tensors[0], (1,))


@composite(method=False)
def atleast_2d(*tensors: Any) -> Any:
    """A view with at least two dimensions, new ones first; a tuple for several tensors."""
    if len(tensors) != 1 or not isinstance(tensors[0], Tensor):
        return _at_least(atleast_2d, tensors)
    return tensors[0] if tensors[0]._array.ndim > 1 else reshape(tensors[0], (1, tensors[0]._array.size))


@composite(method=False)
def atleast_3d(*tensors: Any) -> Any:
    """A view with at least three dimensions: (n) becomes (1, n, 1) and (m, n) becomes (m, n, 1); a tuple for several
    tensors."""
    if len(tensors) != 1 or not isinstance(tensors[0], Tensor):
        return _at_least(atleast_3d, tensors)
    flat = atleast_2d(tensors[0])
    return flat if flat._array.ndim > 2 else unsqueeze(flat, 2)


@argument_errors
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape to which tensors of these shapes broadcast. Raises RuntimeError if they do not."""
    tuples = [shape_of(shape) if isinstance(shape, (tuple, list)) else (shape,) for shape in shapes]
    try:
        return Size(shape_of_all(*tuples))
    except ValueError:
        raise RuntimeError(
            f"shapes {[list(each) for each in tuples]} do not broadcast: aligned at the last dimension, sizes must "
            "be equal or 1"
        ) from None


@composite(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Views of the tensors, expanded to their common shape."""
    several = _several("broadcast_tensors", tensors)
    shape = broadcast_shapes(*(each._array.shape for each in several))
    return tuple(expand(each, shape) for each in several)


@composite(method=False)
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Views that hold the coordinates of a grid, from vectors of coordinates along its axes; "xy" exchanges the first
    two axes. Raises RuntimeError for another `indexing`, and for tensors of two dimensions or more."""
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing!r}')
    vectors = [atleast_1d(each) for each in _several("meshgrid", tensors)]
    if any(each._array.ndim != 1 for each in vectors):
        raise RuntimeError(f"meshgrid expects vectors or scalars, got shapes {[list(each.shape) for each in vectors]}")
    sizes = tuple(each._array.size for each in vectors)
    columns = (reshape(each, (each._array.size, *(1,) * (len(sizes) - axis - 1))) for axis, each in enumerate(vectors))
    grids = tuple(expand(each, sizes) for each in columns)
    return tuple(transpose(each, 0, 1) for each in grids) if indexing == "xy" and len(grids) > 1 else grids


@composite(method=False)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of `r` elements of a vector, one per row; with replacement, elements may repeat.

    Raises RuntimeError for inputs that are not vectors, a negative r, and more rows than memory has addresses.
    """
    shape = input._array.shape
    if len(shape) != 1:
        raise RuntimeError(f"combinations(): expected a vector, got shape {list(shape)}")
    r = int(as_int(r))
    if r < 0:
        raise RuntimeError(f"combinations(): r must not be negative, got {r}")
    if r == 0:
        return adopt(np.empty(0, input._array.dtype))
    candidates = shape[0] + r - 1 if with_replacement else shape[0]
    few = min(r, candidates - r) < 64  # otherwise there are more than memory can hold
    count = math.comb(candidates, r) if few else 2**63
    addressable((count, r))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = itertools.chain.from_iterable(choose(range(shape[0]), r))
    return input[adopt(np.fromiter(places, np.int64, count * r).reshape(count, r))]


@composite()
def broadcast_to(input: Tensor, *size: Any) -> Tensor:
    """`expand`, under NumPy's name."""
    return expand(input, *size)
