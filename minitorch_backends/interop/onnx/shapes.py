"""Operators that move values, and those that return or change shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...nn import functional as F
from ...ops import names as ops
from ...ops.dims import wrap_dim, wrap_dims
from ...ops.names import tensor
from ...tensor.dtypes import int64
from ...tensor.tensor import Tensor
from .table import choice, operator


@operator("Shape")
def shape(x: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    return tensor(list(x.shape[start:end]), dtype=int64)


@operator("Size")
def size(x: Tensor) -> Tensor:
    return tensor(x.numel(), dtype=int64)


@operator("Reshape")
def reshape(x: Tensor, shape: list[int], *, allowzero: int = 0) -> Tensor:
    """Another shape; 0 keeps a size, unless `allowzero`."""
    return ops.reshape(x, [x.shape[place] if each == 0 and not allowzero else each for place, each in enumerate(shape)])


@operator("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """A matrix, whose rows are the axes before `axis`."""
    axis = axis + x.ndim if axis < 0 else axis
    return ops.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Squeeze")
def squeeze(x: Tensor, axes: list[int] | None = None) -> Tensor:
    """Without the axes, whose sizes must be 1, or without all that are."""
    if axes is None:
        return ops.squeeze(x)
    for axis in axes:
        if x.shape[axis] != 1:
            raise RuntimeError(f"Squeeze: axes must have size 1, got axis {axis} of shape {list(x.shape)}")
    return ops.squeeze(x, tuple(axes)) if axes else x


@operator("Unsqueeze")
def unsqueeze(x: Tensor, axes: list[int]) -> Tensor:
    count = x.ndim + len(axes)
    for axis in sorted(wrap_dims(axes, count)):
        x = ops.unsqueeze(x, axis)
    return x


@operator("Transpose")
def transpose(x: Tensor, *, perm: list[int] | None = None) -> Tensor:
    return ops.permute(x, perm or list(range(x.ndim))[::-1])


@operator("Expand")
def expand(x: Tensor, shape: list[int]) -> Tensor:
    return ops.broadcast_to(x, ops.broadcast_shapes(tuple(x.shape), tuple(shape)))


@operator("Tile")
def tile(x: Tensor, repeats: list[int]) -> Tensor:
    return ops.tile(x, tuple(repeats))


@operator("Concat")
def concatenate(*inputs: Tensor, axis: int) -> Tensor:
    return ops.cat(list(inputs), axis)


@operator("Split")
def split(
    x: Tensor, split: list[int] | None = None, *, axis: int = 0, num_outputs: int | None = None, outputs: int = 1
) -> tuple[Tensor, ...]:
    """Parts of the sizes `split`, or of equal sizes with a possibly smaller last one."""
    length, count = x.shape[axis], num_outputs or outputs
    each = -(-length // count)
    sizes = split or [max(min(each, length - place * each), 0) for place in range(count)]
    return tuple(ops.split(x, sizes, axis))


@operator("Slice")
def slices(
    x: Tensor, starts: list[int], ends: list[int], axes: list[int] | None = None, steps: list[int] | None = None
) -> Tensor:
    """Ranges of axes, as Python's slices are; they were attributes before opset 10."""
    for place, axis in enumerate(axes if axes is not None else range(len(starts))):
        step = 1 if steps is None else steps[place]
        found = _range(x.shape[axis], starts[place], ends[place], step)
        if step > 0:
            key = slice(found.start, found.stop, step) if len(found) else slice(0, 0)
            x = x[(slice(None),) * wrap_dim(axis, x.ndim) + (key,)]
        else:
            x = ops.index_select(x, axis, tensor(list(found), dtype=int64))
    return x


def _range(length: int, start: int, end: int, step: int) -> range:
    """The places of a slice: ends far below zero are in front of the first place."""
    front = step < 0 and end < -length
    return range(length)[slice(start, None if front else end, step)]


_MIRRORS = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}
"""This package's names for the modes of Pad other than "constant"."""


@operator("Pad")
def pad(
    x: Tensor, pads: list[int], value: float | None = None, axes: list[int] | None = None, *, mode: str = "constant"
) -> Tensor:
    """Values around axes: `pads` has those before each axis, then those after each; negative ones take values away."""
    chosen = wrap_dims(axes, x.ndim) if axes is not None else tuple(range(x.ndim))
    pairs = [(0, 0)] * x.ndim
    for place, axis in enumerate(chosen):
        pairs[axis] = pads[place], pads[len(chosen) + place]
    if mode == "constant":
        return F.pad(x, [count for pair in reversed(pairs) for count in pair], "constant", value or 0.0)
    for axis, pair in enumerate(pairs):
        if any(pair):
            x = _mirror(x, axis, pair, choice(_MIRRORS, mode, "mode"))
    return x


def _mirror(x: Tensor, axis: int, pair: tuple[int, int], mode: str) -> Tensor:
    """Padded along one axis, as the last of three dimensions, which the mirroring modes require."""
    moved = ops.movedim(x, axis, -1)
    flat = ops.reshape(moved, (1, math.prod(moved.shape[:-1]), moved.shape[-1]))
    return ops.movedim(ops.reshape(F.pad(flat, pair, mode), (*moved.shape[:-1], -1)), -1, axis)


@operator("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Channels as pixels of blocks; the first channels are the block's depth, or with "CRD" the last ones are."""
    _check_blocks(x, blocksize, x.shape[1:2], blocksize**2)
    if mode == "CRD":
        return F.pixel_shuffle(x, blocksize)
    batch, channels, height, width = x.shape
    parts = ops.reshape(x, (batch, blocksize, blocksize, channels // blocksize**2, height, width))
    return ops.reshape(parts.permute(0, 3, 4, 1, 5, 2), (batch, -1, height * blocksize, width * blocksize))


def _check_blocks(x: Tensor, blocksize: int, sizes: Sequence[int], divisor: int) -> None:
    """Raise ValueError unless x is images whose sizes the blocks divide."""
    if x.ndim != 4 or blocksize < 1 or any(size % divisor for size in sizes):
        raise ValueError(f"images must divide into blocks of size {blocksize}, got shape {list(x.shape)}")


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """The inverse of `depth_to_space`."""
    _check_blocks(x, blocksize, x.shape[2:], blocksize)
    if mode == "CRD":
        return F.pixel_unshuffle(x, blocksize)
    batch, channels, height, width = x.shape
    parts = ops.reshape(x, (batch, channels, height // blocksize, blocksize, width // blocksize, blocksize))
    return ops.reshape(
        parts.permute(0, 3, 5, 1, 2, 4), (batch, channels * blocksize**2, height // blocksize, width // blocksize)
    )


@operator("Trilu")
def triangle(x: Tensor, k: int = 0, *, upper: int = 1) -> Tensor:
    return ops.triu(x, k) if upper else ops.tril(x, k)


@operator("ReverseSequence")
def reverse_sequence(x: Tensor, lengths: list[int], *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """Of each sequence the first `lengths` steps in the opposite order."""
    rows = ops.movedim(x, (batch_axis, time_axis), (0, 1))
    turned = [ops.cat([ops.flip(row[:length], (0,)), row[length:]]) for row, length in zip(rows, lengths, strict=True)]
    return ops.movedim(ops.stack(turned), (0, 1), (batch_axis, time_axis))


@operator("Einsum")
def einsum(*inputs: Tensor, equation: str) -> Any:
    return ops.einsum(equation, *inputs)
