"""Values around a tensor: constants, or its own."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from ...dispatch.op import Array, composite, op
from ...dispatch.promotion import EVERY_DTYPE
from ...tensor.casting import fitted_number
from ...tensor.dtypes import dtype_of
from ...tensor.size import addressable
from ...tensor.tensor import Tensor, adopt
from ..functional import functional
from .slices import narrow

Pairs = tuple[tuple[int, int], ...]


def _inside(shape: Sequence[int], pairs: Pairs) -> Any:
    """Where the values of an array of this shape lie once pairs (before, after) stand around its dimensions."""
    return tuple(slice(before, before + size) for (before, _), size in zip(pairs, shape, strict=True))


def _without(g: Tensor, input_shape: tuple[int, ...], pairs: Pairs) -> Tensor:
    for dim, ((before, after), size) in enumerate(zip(pairs, input_shape, strict=True)):
        if before or after:
            g = narrow(g, dim, before, size)
    return g


@op(takes=EVERY_DTYPE, traits="row_major function unwidened silent", input=_without, batch="pad")
def constant_pad(input: Array, pairs: Pairs, value: complex = 0.0) -> Array:
    """`input` padded with `value`, by (before, after) pairs, one per dimension."""
    out = _wider(input, pairs)
    out[...] = fitted_number(np.asarray(value), dtype_of(input)) if value or dtype_of(input).letter == "n" else value
    out[_inside(input.shape, pairs)] = input
    return out


def _wider(input: Array, pairs: Pairs) -> np.ndarray:
    """Memory for a padded array, in the layout of the original."""
    shape = tuple(before + size + after for (before, after), size in zip(pairs, input.shape, strict=True))
    addressable(shape)
    order = sorted(range(input.ndim), key=lambda dim: -abs(input.strides[dim]))
    return np.empty([shape[dim] for dim in order], input.dtype).transpose(np.argsort(order))


def pairs_of(padding: Sequence[int], ndim: int) -> Pairs:
    """torch's list (last dimension first) as a pair for each dimension of a tensor."""
    pairs = [(before, after) for before, after in zip(padding[::2], padding[1::2], strict=True)]
    return (*((0, 0),) * (ndim - len(pairs)), *reversed(pairs))


_MODES = ("reflect", "replicate", "circular")


def _indices(size: int, before: int, after: int, mode: str) -> np.ndarray:
    places = np.arange(-before, size + after)
    if mode == "replicate":
        return places.clip(0, size - 1)
    if mode == "circular":
        return places % size
    return size - 1 - np.abs(size - 1 - np.abs(places))


def _fold_gradient(g: Tensor, input_shape: tuple[int, ...], pairs: Pairs, mode: str) -> Tensor:
    for dim, ((before, after), size) in reversed(list(enumerate(zip(pairs, input_shape, strict=True)))):
        if before or after:
            shape = *g._array.shape[:dim], size, *g._array.shape[dim + 1 :]
            zeros = adopt(np.zeros(shape, g._array.dtype))
            g = zeros.index_add(dim, adopt(_indices(size, before, after, mode)), g)
    return g


def _refuse_too_many(shape: tuple[int, ...], pairs: Pairs, mode: str) -> None:
    for dim, ((before, after), size) in enumerate(zip(pairs, shape, strict=True)):
        if before or after:
            most = {"reflect": size - 1, "circular": size, "replicate": max(before, after)}[mode]
            if max(before, after) > most or size == 0:
                raise RuntimeError(
                    f"pad: mode {mode!r} takes at most {most if size else 0} values on each side of dimension {dim} of "
                    f"{list(shape)}, got {(before, after)}"
                )


@op(traits="row_major function unwidened wide_rules silent", input=_fold_gradient, autocast="float32", batch="pad")
def mirrored_pad(input: Array, pairs: Pairs, mode: str) -> Array:
    """`input` padded with its own values, by (before, after) pairs, one per dimension.

    Raises RuntimeError if it has too few values.
    """
    _refuse_too_many(input.shape, pairs, mode)
    out, inside = _wider(input, pairs), _inside(input.shape, pairs)
    out[inside] = input
    for dim, ((before, after), size) in enumerate(zip(pairs, input.shape, strict=True)):
        if before or after:
            made, end = out[(*(slice(None),) * (dim + 1), *inside[dim + 1 :])].swapaxes(0, dim), before + size
            if mode == "reflect":
                left, right = made[before + 1 : 2 * before + 1][::-1], made[end - 1 - after : end - 1][::-1]
            elif mode == "replicate":
                left, right = made[before : before + 1], made[end - 1 : end]
            else:
                left, right = made[size:end], made[before : before + after]
            made[:before], made[end:] = left, right
    return out


@functional
@composite(method=False)
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: complex | None = None) -> Tensor:
    """Pad the last dimensions; `pad` is (before, after) for the last one, then for the one before it, and so on.
    Negative numbers crop.

    `mode` is "constant" (with `value`, by default 0), or "reflect", "replicate" or "circular". The latter pad the last
    one to three dimensions of a tensor with one or two dimensions in front of them. Raises RuntimeError for unsuitable
    sizes, NotImplementedError for other modes.
    """
    padding = tuple(map(index, pad))
    if len(padding) % 2 or len(padding) > 2 * input.ndim:
        raise RuntimeError(
            f"pad: expected pairs of numbers for at most the {input.ndim} dimensions of {list(input.shape)}, "
            f"got {padding}; the length must be divisible by 2"
        )
    pairs = pairs_of(padding, input.ndim)
    if mode != "constant":
        if mode not in _MODES:
            raise NotImplementedError(f"pad: mode {mode!r} is unknown; expected constant, {', '.join(_MODES)}")
        if value:
            raise RuntimeError(f"pad: mode {mode!r} takes no value, got {value}")
        if len(padding) // 2 not in (input.ndim - 1, input.ndim - 2) or not 0 < len(padding) <= 6:
            raise NotImplementedError(
                f"pad: mode {mode!r} pads the last one to three dimensions of a tensor that has one or two more; "
                f"got {padding} for {list(input.shape)}"
            )
    widths = tuple((max(before, 0), max(after, 0)) for before, after in pairs)
    if mode in ("reflect", "replicate"):  # cropped values still appear in the reflection
        return _without_ends(_mirror(input, widths, mode), pairs)
    input = _without_ends(input, pairs)
    if mode == "constant":
        return constant_pad(input, widths, 0.0 if value is None else value)
    return _mirror(input, widths, mode)


def _mirror(input: Tensor, widths: Pairs, mode: str) -> Tensor:
    return mirrored_pad(input, widths, mode) if any(map(any, widths)) else input


def _without_ends(input: Tensor, pairs: Pairs) -> Tensor:
    """The tensor without what negative numbers take away."""
    for dim, (before, after) in enumerate(pairs):
        if before < 0 or after < 0:
            input = _cut(input, dim, before, after)
    return input


def _cut(input: Tensor, dim: int, before: int, after: int) -> Tensor:
    left, length = max(-before, 0), input.shape[dim] + min(before, 0) + min(after, 0)
    if length < 0:
        raise RuntimeError(
            f"pad: {(before, after)} takes {-min(before, 0) - min(after, 0)} values from dimension {dim} of size "
            f"{input.shape[dim]}; expected no more than it has"
        )
    return narrow(input, dim, left, length)
