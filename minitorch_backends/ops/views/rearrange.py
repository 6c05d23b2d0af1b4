"""Elements in other places: flipped, rolled, repeated, channels as pixels, triangles and diagonals of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index as as_int
from typing import Any

import numpy as np

from ...dispatch.op import Array, Forms, composite, op
from ...dispatch.promotion import EVERY_DTYPE
from ...kernels.arrays.elementwise import select
from ...tensor.memory import contiguous_format
from ...tensor.size import addressable
from ...tensor.tensor import Tensor, adopt, not_a_tensor
from ..dims import clamp_diagonal, existing_dim, shape_of, wrap_dim, wrap_dims
from ..elementwise.cast import clone
from ..functional import functional
from .shape import expand, flatten, ravel, reshape, unsqueeze
from .slices import diagonal
from .slices import diagonal as _diagonal
from .transpose import transpose
from .view_replay import embed_adjoint

__all__ = [
    "channel_shuffle", "diag", "diag_embed", "diagflat", "flip", "fliplr", "flipud", "pixel_shuffle", "pixel_unshuffle",
    "repeat_interleave", "roll", "rot90", "tile", "trace", "tril", "triu",
]  # fmt: skip


def _dims_tuple(dims: Any) -> tuple[int, ...]:
    return tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)


@op(
    takes=EVERY_DTYPE,
    input=lambda g, dims: flip(g, dims),
    traits="unwidened silent",
    forms=Forms(variadic="dims"),
    batch="reorder",
)
def flip(input: Array, dims: Any) -> Array:
    """A copy with the order of the elements along `dims` reversed."""
    reversed_dims = wrap_dims(dims, input.ndim)
    return input[tuple(slice(None, None, -1 if dim in reversed_dims else 1) for dim in range(input.ndim))].copy()


@composite()
def fliplr(input: Tensor) -> Tensor:
    """The second dimension reversed. Raises RuntimeError for fewer than two."""
    if input._array.ndim < 2:
        raise RuntimeError(f"Input must be >= 2-d, got shape {list(input._array.shape)}; use flip(input, 0)")
    return flip(input, (1,))


@composite()
def flipud(input: Tensor) -> Tensor:
    """The first dimension reversed. Raises RuntimeError for a 0-dim tensor."""
    if input._array.ndim < 1:
        raise RuntimeError("Input must be >= 1-d, got a 0-dim tensor")
    return flip(input, (0,))


@composite()
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """A copy, rotated `k` times by 90 degrees in the plane of two dims, from the first towards the second. Raises
    TypeError for dims other than a tuple, RuntimeError for other than two, and for fewer dimensions."""
    if not isinstance(dims, (tuple, list)):
        raise TypeError(f"rot90(): argument 'dims' must be a tuple of ints, not {type(dims).__name__}")
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims {list(dims)}")
    if input._array.ndim < 2:
        raise RuntimeError(f"rot90(): input must have at least 2 dimensions, got {input._array.ndim}")
    first, second = wrap_dims(tuple(dims), input._array.ndim)
    turns = k % 4
    if turns == 0:
        return clone(input)
    if turns == 2:
        return flip(input, (first, second))
    return flip(transpose(input, first, second), (first if turns == 1 else second,))


def _negate(shifts: Any) -> Any:
    return tuple(-shift for shift in shifts) if isinstance(shifts, (tuple, list)) else -shifts


@op(
    takes=EVERY_DTYPE,
    traits="row_major unwidened silent",
    input=lambda g, shifts, dims: roll(g, _negate(shifts), dims),
    batch="reorder",
)
def roll(input: Array, shifts: int | Sequence[int], dims: int | Sequence[int] = ()) -> Array:
    """Roll the elements by `shifts` along `dims`; those that leave at one end re-enter at the other.

    Without dims the flattened tensor is rolled. Raises RuntimeError unless there is one shift per dim.
    """
    shifts = tuple(map(as_int, _dims_tuple(shifts)))
    if dims is None or (isinstance(dims, (tuple, list)) and not dims):
        if len(shifts) != 1:
            raise RuntimeError(f"roll: shifts {list(shifts)} and dimensions must align, and no dims were given")
        return np.roll(input, shifts[0])
    dims = tuple(existing_dim(dim, input.ndim) for dim in _dims_tuple(dims))
    if len(shifts) != len(dims):
        raise RuntimeError(f"roll: shifts {list(shifts)} and dimensions {list(dims)} must align")
    return np.roll(input, shifts, dims)


@composite()
def repeat(input: Tensor, *repeats: Any) -> Tensor:
    """A copy with the tensor repeated `repeats` times along each dimension; additional numbers add leading dimensions.

    Raises RuntimeError for fewer numbers than dimensions, or negative ones.
    """
    repeats, shape = shape_of(repeats), input._array.shape
    if len(repeats) < len(shape):
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor, got "
            f"{list(repeats)} for shape {list(shape)}"
        )
    if min(repeats, default=0) < 0:
        raise RuntimeError(f"repeats are at least 0, got {list(repeats)}")
    shape = (1,) * (len(repeats) - len(shape)) + shape
    pairs = [(repeat, size) for repeat, size in zip(repeats, shape, strict=True)]
    single = reshape(input, tuple(each for size in shape for each in (1, size)))
    result = reshape(
        expand(single, tuple(each for pair in pairs for each in pair)), tuple(math.prod(pair) for pair in pairs)
    )
    shared = result._cell is input._cell  # one version cell: one memory
    return clone(result, memory_format=contiguous_format) if shared else result.contiguous()


@composite()
def tile(input: Tensor, *dims: Any) -> Tensor:
    """`repeat` with missing leading numbers set to 1."""
    repeats = shape_of(dims)
    return repeat(input, (1,) * (input._array.ndim - len(repeats)) + repeats)


@composite()
def repeat_interleave(
    input: Tensor | None = None, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """A copy with each element along `dim` (of the flattened tensor, by default) repeated `repeats` times in a row.

    `repeats` is an int, or a tensor with one int per element. Given alone, it repeats the indices of its own elements.
    Raises RuntimeError for invalid repeats.
    """
    if input is None or repeats is None:
        repeats = repeats if input is None else input
        if not isinstance(repeats, Tensor):
            raise not_a_tensor("repeat_interleave", "repeats", repeats)
        input = adopt(np.arange(repeats.numel()))
    if dim is None:
        input, dim = ravel(input), 0
    dim = existing_dim(dim, input._array.ndim)
    size = input._array.shape[dim]
    if isinstance(repeats, int):
        if repeats < 0:
            raise RuntimeError(f"repeats can not be negative, got {repeats}")
        shape = input._array.shape
        wide = expand(unsqueeze(input, dim + 1), (*shape[: dim + 1], repeats, *shape[dim + 1 :]))
        result = flatten(wide, dim, dim + 1)
        return clone(result) if result._cell is input._cell else result
    if not isinstance(repeats, Tensor):
        raise not_a_tensor("repeat_interleave", "repeats", repeats, "int or Tensor")
    counts = repeats._array
    if (
        counts.dtype.kind != "i"
        or counts.itemsize < 4
        or counts.ndim > 1
        or counts.size not in (1, size)
        or (counts < 0).any()
    ):
        raise RuntimeError(
            f"repeats must be non-negative integers, one or {size} (the size of dim {dim}), got "
            f"{counts.dtype}{list(counts.shape)}"
        )
    counts = np.broadcast_to(counts, size)
    addressable((sum(counts.tolist()),))  # exact, where NumPy's sum wraps around
    places = np.repeat(np.arange(size), counts)
    if output_size is not None and output_size != places.size:
        raise RuntimeError(
            f"allocated size does not match required size: output_size={output_size}, and repeats add up to "
            f"{places.size}"
        )
    return input[(slice(None),) * dim + (places,)]


def _triangle(shape: tuple[int, ...], diagonal: int) -> np.ndarray:
    """True on and below a diagonal of the last two dimensions."""
    rows, columns = shape[-2:]
    shift = clamp_diagonal(diagonal, rows, columns)
    return np.greater_equal.outer(np.arange(rows, dtype=np.int32), np.arange(-shift, columns - shift, dtype=np.int32))


def _refuse_vectors(name: str, input: np.ndarray) -> None:
    if input.ndim < 2:
        raise RuntimeError(
            f"{name}: input tensor must have at least 2 dimensions, got shape {list(input.shape)}; use unsqueeze"
        )


@op(traits="row_major unwidened silent inplace", input=lambda g, diagonal: tril(g, diagonal), batch="trailing 2")
def tril(input: Array, diagonal: int = 0) -> Array:
    """A copy with zeros above the `diagonal`-th diagonal of each matrix.

    Raises RuntimeError for fewer than two dimensions.
    """
    _refuse_vectors("tril", input)
    return select(_triangle(input.shape, diagonal), input, np.zeros((), input.dtype))


@op(traits="row_major unwidened silent inplace", input=lambda g, diagonal: triu(g, diagonal), batch="trailing 2")
def triu(input: Array, diagonal: int = 0) -> Array:
    """A copy with zeros below the `diagonal`-th diagonal of each matrix.

    Raises RuntimeError for fewer than two dimensions.
    """
    _refuse_vectors("triu", input)
    return select(_triangle(input.shape, as_int(diagonal) - 1), np.zeros((), input.dtype), input)


def _square(shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> tuple[int, ...]:
    """The shape of `diag_embed` of a tensor of `shape`, and the dims counted from the front."""
    ndim = len(shape) + 1
    first, second = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(
            f"diagonal dimensions cannot be identical, got {dim1} and {dim2} for a result of {ndim} dimensions"
        )
    rest, side = iter(shape[:-1]), shape[-1] + abs(offset)
    addressable((*shape[:-1], side, side))
    return tuple(side if dim in (first, second) else next(rest) for dim in range(ndim))


@op(
    takes=EVERY_DTYPE,
    input=lambda g, offset, dim1, dim2: diagonal(g, offset, dim1, dim2),
    traits="unwidened silent",
    batch="insert dim1 dim2",
)
def diag_embed(input: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Square matrices, in the dimensions `dim1` and `dim2`, whose `offset`-th diagonal holds the last dimension; zeros
    elsewhere. Raises IndexError for 0-dim tensors."""
    if input.ndim == 0:
        raise IndexError("diag_embed expects at least a 1-dimensional tensor, got a 0-dim one; use reshape(1)")
    step = (diagonal.op, {"offset": offset, "dim1": dim1, "dim2": dim2}, None)
    return embed_adjoint(input, _square(input.shape, offset, dim1, dim2), (step,))


@composite()
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix with the vector on its diagonal, or a copy of the diagonal of a matrix.

    Raises RuntimeError for other tensors.
    """
    if input._array.ndim == 1:
        return diag_embed(input, diagonal)
    if input._array.ndim != 2:
        raise RuntimeError(
            f"diag(): Supports 1D or 2D tensors, got shape {list(input._array.shape)}; use diagonal or diag_embed"
        )
    return clone(_diagonal(input, diagonal))


@composite()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements of the tensor on its `offset`-th diagonal."""
    return diag_embed(ravel(input), offset)


@composite(autocast="float32")
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix. Raises RuntimeError for other tensors."""
    if input._array.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got shape {list(input._array.shape)}")
    return diagonal(input).sum()


def _pixels_check(name: str, input: Tensor, factor: int, argument: str) -> None:
    if not isinstance(input, Tensor):
        raise not_a_tensor(name, "input", input)
    if input.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if factor < 1:
        raise RuntimeError(f"{name} expects a positive {argument}, but got {factor}")


@functional
@composite(method=False)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., C r r, H, W) as (..., C, H r, W r): channels become pixels (W. Shi et al., arXiv 1609.05158). Raises
    RuntimeError for channels that the square of `upscale_factor` does not divide."""
    _pixels_check("pixel_shuffle", input, upscale_factor, "upscale_factor")
    *batch, channels, height, width = input.shape
    r = upscale_factor
    if channels % r**2:
        raise RuntimeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r**2}"
        )
    split = input.reshape(*batch, channels // r**2, r, r, height, width)
    first = len(batch)
    order = [*range(first + 1), first + 3, first + 1, first + 4, first + 2]
    return split.permute(*order).reshape(*batch, channels // r**2, height * r, width * r)


@functional
@composite(method=False)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., C, H r, W r) as (..., C r r, H, W): the inverse of `pixel_shuffle`. Raises RuntimeError for heights and
    widths that `downscale_factor` does not divide."""
    _pixels_check("pixel_unshuffle", input, downscale_factor, "downscale_factor")
    *batch, channels, height, width = input.shape
    r = downscale_factor
    for argument, value, dim in (("height", height, -2), ("width", width, -1)):
        if value % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {argument} to be divisible by downscale_factor, but "
                f"input.size({dim})={value} is not divisible by {r}"
            )
    split = input.reshape(*batch, channels, height // r, r, width // r, r)
    first = len(batch)
    order = [*range(first + 1), first + 2, first + 4, first + 1, first + 3]
    return split.permute(*order).reshape(*batch, channels * r**2, height // r, width // r)


@functional
@composite(method=False)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels of (N, C, ...) in another order: the first ones of all groups, then the second ones, and so on (X.
    Zhang et al., "ShuffleNet", arXiv 1707.01083). Raises RuntimeError for fewer than three dimensions, and for groups
    that do not divide the channels."""
    if input.ndim < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups < 1 or input.shape[1] % groups:
        raise RuntimeError(
            f"channel_shuffle: expected groups to be positive and to divide the {input.shape[1]} channels, got {groups}"
        )
    return input.unflatten(1, (groups, input.shape[1] // groups)).transpose(1, 2).flatten(1, 2)
