"""Parts of a tensor as views: slices, single indices, diagonals, sliding windows, and splitting into several."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from operator import index as as_int
from typing import Any

import numpy as np

from ...dispatch.op import Array, Forms, composite, op
from ...kernels.runtime.shapes import windows
from ...tensor.dtypes import INTEGER, int64
from ...tensor.registry import registry
from ...tensor.tensor import Tensor
from ..dims import clamp_diagonal, integer, wrap_dim
from ..indexing.index_parsing import refusal, refuse_index_dtype
from ..predicates import declare_method
from .view_replay import view_embed

__all__ = [
    "chunk", "diagonal", "dsplit", "hsplit", "narrow", "narrow_copy", "select", "split", "split_with_sizes",
    "tensor_split", "unbind", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "vsplit",
]  # fmt: skip


MOST_VIEWS = 1 << 24
"""The most views that one call makes: of more, each of some 300 bytes, memory is full."""


def embed(view: Any, g: Tensor, shape: tuple[int, ...], **metadata: Any) -> Tensor:
    """The gradient of the op `view`: zeros of `shape` with `g` added at the place of the view."""
    return view_embed(g, shape, ((view.op, metadata, None),))


def slice_index(ndim: int, dim: int, part: Any) -> tuple[Any, ...]:
    """The index that takes `part` of dimension `dim`, counted from the front, and everything of the others."""
    return (slice(None),) * dim + (part,) + (slice(None),) * (ndim - dim - 1)


_slice = functools.partial(op, traits="view silent unwidened")


@_slice(
    input=lambda g, input_shape, index: embed(getitem, g, input_shape, index=index),
    traits="unwidened silent view function",
    batch="read",
)
def getitem(input: Array, index: Any) -> Array:
    """The view selected by a tuple of ints, slices, None and an Ellipsis. Without an Ellipsis the last dimension may
    not be selected away. Raises TypeError for bounds other than integers."""
    try:
        return input[index]
    except IndexError:
        raise refusal(index, input.shape) from None
    except TypeError:
        raise TypeError(f"slice indices must be integers or None, got {index}") from None


@composite()
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The view at one `index` of dimension `dim`, which is removed. Raises IndexError out of range."""
    shape = input._array.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor; expected at least one dimension")
    dim, index = wrap_dim(dim, len(shape)), as_int(index)
    if not -shape[dim] <= index < shape[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {dim}")
    return getitem(input, (*slice_index(len(shape), dim, index), ...))


@composite()
def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """The view of `length` elements of dimension `dim` from `start` on, which may count from the end.

    Raises IndexError for a start and RuntimeError for a length out of range.
    """
    shape = input._array.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor; expected at least one dimension")
    if isinstance(start, Tensor) and (start.ndim or start.dtype.category != INTEGER):
        raise RuntimeError(
            f"narrow(): start must be an int or a 0-dim tensor of an integer, got {start.dtype!r}{list(start.shape)}"
        )
    dim, start = wrap_dim(dim, len(shape)), as_int(start)
    size = shape[dim]
    if not -size <= start <= size:
        raise IndexError(
            f"narrow(): start {start} out of range for dimension {dim} of size {size}; expected -{size} to {size}"
        )
    start += size if start < 0 else 0
    if length < 0 or start + length > size:
        raise RuntimeError(
            f"narrow(): start ({start}) + length ({length}) exceeds dimension {dim} of size {size}, or length is "
            "negative"
        )
    return getitem(input, slice_index(len(shape), dim, slice(start, start + length)))


@_slice(
    input=lambda g, input_shape, offset, dim1, dim2: embed(
        diagonal, g, input_shape, offset=offset, dim1=dim1, dim2=dim2
    ),
    batch="shift dim1 dim2",
)
def diagonal(input: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """The view of the diagonal of two dimensions, `offset` above the main one, as a new last dimension.

    Raises IndexError for dims out of range and RuntimeError for the same dim twice.
    """
    first, second = wrap_dim(dim1, input.ndim), wrap_dim(dim2, input.ndim)
    if first == second:
        raise RuntimeError(
            f"diagonal dimensions cannot be identical, got {dim1} and {dim2} of shape {list(input.shape)}"
        )
    view = input.diagonal(clamp_diagonal(offset, input.shape[first], input.shape[second]), first, second)
    view.setflags(write=input.flags.writeable)
    return view


@_slice(
    input=lambda g, input_shape, dimension, size, step: embed(
        unfold, g, input_shape, dimension=dimension, size=size, step=step
    ),
    batch="shift dimension",
)
def unfold(input: Array, dimension: int, size: int, step: int) -> Array:
    """The view of all windows of `size` elements along `dimension`, `step` apart, as a new last dimension. Windows may
    overlap.

    Raises RuntimeError for a size or step out of range.
    """
    dimension, rows = wrap_dim(dimension, input.ndim), input if input.ndim else input[None]
    if not 0 <= size <= rows.shape[dimension]:
        raise RuntimeError(
            f"maximum size for tensor at dimension {dimension} is {rows.shape[dimension]} but size is {size}"
        )
    if step < 1:
        raise RuntimeError(f"step is {step} but must be > 0")
    found = windows(rows, size, dimension)
    found = found[slice_index(found.ndim, dimension, slice(None, None, step))]
    return found if input.ndim else found[0]


def _refuse_many_views(name: str, count: int) -> None:
    if count > MOST_VIEWS:
        raise RuntimeError(f"{name}(): the tensor must be cut into at most {MOST_VIEWS} views, got {count}")


def _sections(size: int, split_size_or_sections: Any, dim: int) -> list[int]:
    """The sizes of the pieces of a dimension."""
    if isinstance(split_size_or_sections, (tuple, list)):
        sections = [as_int(each) for each in split_size_or_sections]
        if min(sections, default=0) < 0 or sum(sections) != size:
            raise RuntimeError(
                f"split_with_sizes expects sizes that sum exactly to {size} (the size of dimension {dim}), got "
                f"{sections}"
            )
        return sections
    each = as_int(split_size_or_sections)
    _refuse_many_views("split", -(-size // each) if each > 0 else 0)
    if each < 0 or (each == 0 and size):
        raise RuntimeError(f"split expects split_size be positive, but got {each} for dimension {dim} of size {size}")
    return [min(each, size - start) for start in range(0, size, each)] if size else [0]


@_slice(
    tensor=lambda g, dim: registry["cat"].public(list(g), dim),
    forms=Forms(aliases={"split_size": "split_size_or_sections"}),
    batch="shift dim",
)
def split(tensor: Array, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[np.ndarray, ...]:
    """Views of pieces along dimension `dim`: of one size (the last may be smaller), or of the sizes in a list.

    Raises RuntimeError for sizes that do not add up, IndexError for a dim out of range.
    """
    if tensor.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor, got a 0-dim one; use reshape(1)")
    dim, start, pieces = wrap_dim(dim, tensor.ndim), 0, []
    for size in _sections(tensor.shape[dim], split_size_or_sections, dim):
        pieces.append(tensor[slice_index(tensor.ndim, dim, slice(start, start + size))])
        start += size
    return tuple(pieces)


@_slice(input=lambda g, dim: registry["stack"].public(list(g), dim), batch="along")
def unbind(input: Array, dim: int = 0) -> tuple[np.ndarray, ...]:
    """Views at every index of dimension `dim`, which is removed. Raises IndexError for a dim out of range."""
    if input.ndim == 0:
        raise IndexError("unbind: dimension specified as 0 but tensor has no dimensions; use reshape(1)")
    rows = np.moveaxis(input, dim, 0) if wrap_dim(dim, input.ndim) else input
    _refuse_many_views("unbind", rows.shape[0])
    return tuple(rows[position, ...] for position in range(rows.shape[0]))


@composite()
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of at most `chunks` pieces of equal size along dimension `dim`; the last may be smaller. Raises
    RuntimeError for fewer than one chunk and for 0-dim tensors."""
    if chunks < 1:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if input._array.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor, got a 0-dim one; use reshape(1)")
    size = input._array.shape[wrap_dim(dim, input._array.ndim)]
    if size:
        return split(input, -(-size // chunks), dim)
    return split(input, [0] * integer("chunk", "chunks", chunks, most=MOST_VIEWS), dim)


_CUTS = {"indices": "indices_or_sections", "sections": "indices_or_sections"}


@composite()
def split_with_sizes(input: Tensor, split_sizes: Iterable[int], dim: int = 0) -> tuple[Tensor, ...]:
    """`split` by a list of sizes."""
    return split(input, list(split_sizes), dim)


@composite(aliases={"tensor_indices_or_sections": "indices_or_sections", **_CUTS})
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of a number of pieces along dimension `dim`, the first ones larger by one if needed, or of pieces split at
    indices. Raises RuntimeError for fewer than one piece and for 0-dim tensors."""
    if input._array.ndim == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, got a 0-dim one; use reshape(1)")
    size = input._array.shape[wrap_dim(dim, input._array.ndim)]
    if isinstance(indices_or_sections, Tensor):
        refuse_index_dtype("tensor_split", "indices_or_sections", indices_or_sections._array, (int64,))
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, (tuple, list)):
        indices = [integer("tensor_split", "indices_or_sections", each) for each in indices_or_sections]
        cuts = [0, *(slice(each).indices(size)[1] for each in indices), size]
    else:
        sections = integer("tensor_split", "indices_or_sections", indices_or_sections, most=MOST_VIEWS)
        if sections < 1:
            raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
        smaller, larger = divmod(size, sections)
        cuts = [k * smaller + min(k, larger) for k in range(sections + 1)]
    dim = wrap_dim(dim, input._array.ndim)
    parts = (slice(start, max(start, stop)) for start, stop in itertools.pairwise(cuts))
    return tuple(getitem(input, slice_index(input._array.ndim, dim, part)) for part in parts)


def _cut(name: str, input: Tensor, *indices_or_sections: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    """`tensor_split` along `dim` for tensors of at least `least` dimensions, and only into equal sections."""
    shape, cuts = input._array.shape, indices_or_sections[0] if len(indices_or_sections) == 1 else indices_or_sections
    if len(shape) < least:
        raise RuntimeError(f"{name} requires a tensor with at least {least} dimensions, got shape {list(shape)}")
    if isinstance(cuts, int) and (cuts < 1 or shape[dim] % cuts):
        raise RuntimeError(
            f"{name} attempted to split along dimension {dim}, but its size {shape[dim]} is not divisible by "
            f"{cuts}; use tensor_split"
        )
    return tensor_split(input, cuts, dim)


@composite(aliases=_CUTS)
def hsplit(input: Tensor, *indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the second dimension, or the first of a vector. Raises RuntimeError for unequal sections."""
    return _cut("hsplit", input, *indices_or_sections, dim=min(input._array.ndim - 1, 1), least=1)


@composite(aliases=_CUTS)
def vsplit(input: Tensor, *indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the first dimension of a matrix or more. Raises RuntimeError for unequal sections."""
    return _cut("vsplit", input, *indices_or_sections, dim=0, least=2)


@composite(aliases=_CUTS)
def dsplit(input: Tensor, *indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the third dimension. Raises RuntimeError for unequal sections."""
    return _cut("dsplit", input, *indices_or_sections, dim=2, least=3)


@composite()
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of `narrow`."""
    return input.narrow(dim, start, length).clone()


@declare_method
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk`."""
    return input.chunk(chunks, dim)


@declare_method
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split`."""
    return input.split(split_size, dim)


@declare_method
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes`."""
    return input.split_with_sizes(split_sizes, dim)
