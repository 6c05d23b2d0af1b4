"""Samples and references of `ops/views/rearrange.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..samples import between, sample, samples_of_shapes, strided_matrix
from ..table import declare

declare(
    "flip",
    np.flip,
    samples_of_shapes(
        ((3, 4), (0,)), ((3, 4), (0, -1)), ((3, 4), ()), (strided_matrix(), (1,)), ((0, 3), (0,)), ((), ())
    ),
)
declare("fliplr", np.fliplr, samples_of_shapes(((3, 4),), (strided_matrix(),), ((0, 3),)))
declare("flipud", np.flipud, samples_of_shapes(((3, 4),), ((3,),), (strided_matrix(),), ((0, 3),)))
declare(
    "rot90",
    np.rot90,
    samples_of_shapes(((3, 4),), ((3, 4), 2), ((3, 4), -1), ((2, 3, 4), 1, (2, 0)), (strided_matrix(), 3), ((0, 3),)),
)
declare(
    "roll",
    lambda input, shifts, dims=None: np.roll(input, shifts, dims),
    samples_of_shapes(
        ((3, 4), 2), ((3, 4), -1, 1), ((3, 4), (1, 2), (0, 1)), (strided_matrix(), 1, 0), ((0, 3), 1, 0), ((), 1)
    ),
)


def _repeat_reference(input: np.ndarray, *repeats: Any) -> np.ndarray:
    return np.tile(input, repeats[0] if isinstance(repeats[0], tuple) else repeats)


declare(
    "repeat",
    _repeat_reference,
    samples_of_shapes(
        ((3, 2), 2, 3), ((3,), (2, 1, 2)), ((), 2, 3), (strided_matrix(), 1, 2), ((0, 3), 2, 1), ((3,), 0)
    ),
)
declare(
    "tile",
    _repeat_reference,
    samples_of_shapes(((3, 2), 2), ((3, 2), (2, 1)), ((3,), 2, 2), ((), 3), (strided_matrix(), 2), ((0, 3), 2)),
)


def _repeat_interleave_samples() -> Any:
    yield from samples_of_shapes(
        ((3, 2), 2), ((3, 2), 2, 0), ((3, 2), 3, -1), (strided_matrix(), 2, 1), ((), 2), ((0, 3), 2, 0)
    )()
    yield sample(between(-2, 2, 3, 2), np.array([1, 0, 2]), 0)
    yield sample(between(-2, 2, 3), np.array([2]))


declare(
    "repeat_interleave", lambda input, repeats, dim=None: np.repeat(input, repeats, dim), _repeat_interleave_samples
)


_triangle_samples = samples_of_shapes(
    ((3, 4),), ((3, 4), 1), ((4, 3), -2), ((2, 3, 3), 1), (strided_matrix(), 0), ((0, 3),)
)
declare("tril", np.tril, _triangle_samples)
declare("triu", np.triu, _triangle_samples)


def _diag_embed_reference(input: np.ndarray, offset: int = 0, dim1: int = -2, dim2: int = -1) -> np.ndarray:
    side = input.shape[-1] + abs(offset)
    out = np.zeros((*input.shape[:-1], side, side), input.dtype)
    for position in range(input.shape[-1]):
        out[..., position + max(-offset, 0), position + max(offset, 0)] = input[..., position]
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


declare(
    "diag_embed",
    _diag_embed_reference,
    samples_of_shapes(
        ((3,),), ((2, 3),), ((2, 3), 1), ((2, 3), -2, 0, 2), ((2, 3), 1, 2, 0), (strided_matrix(),), ((0,),), ((0,), 2)
    ),
)
declare("diag", np.diag, samples_of_shapes(((3,),), ((3,), 1), ((3, 4),), ((3, 4), -1), (strided_matrix(), 1), ((0,),)))
declare("diagflat", np.diagflat, samples_of_shapes(((3,), 1), ((2, 2),), (strided_matrix(),), ((),), ((0, 3),)))
declare("trace", np.trace, samples_of_shapes(((3, 4),), (strided_matrix(),), ((0, 3),)))


def _shuffle_reference(input: Any, upscale_factor: int) -> np.ndarray:
    *batch, channels, height, width = input.shape
    r = upscale_factor
    out = np.empty((*batch, channels // r**2, height * r, width * r), input.dtype)
    for i in range(r):
        for j in range(r):
            out[..., i::r, j::r] = input[..., i * r + j :: r * r, :, :]
    return out


def _unshuffle_reference(input: Any, downscale_factor: int) -> np.ndarray:
    *batch, channels, height, width = input.shape
    r = downscale_factor
    out = np.empty((*batch, channels * r**2, height // r, width // r), input.dtype)
    for i in range(r):
        for j in range(r):
            out[..., i * r + j :: r * r, :, :] = input[..., i::r, j::r]
    return out


declare(
    "pixel_shuffle",
    _shuffle_reference,
    lambda: iter(
        [
            sample(between(-2, 2, 2, 8, 2, 3), 2),
            sample(between(-2, 2, 2, 3, 9).transpose(2, 0, 1), 3),
            sample(between(-2, 2, 0, 4, 2, 2), 2),
        ]
    ),
)


declare(
    "pixel_unshuffle",
    _unshuffle_reference,
    lambda: iter(
        [
            sample(between(-2, 2, 2, 3, 4, 6), 2),
            sample(between(-2, 2, 3, 6, 2).transpose(2, 0, 1), 3),
            sample(between(-2, 2, 0, 4, 2, 2), 2),
        ]
    ),
)


def _channel_shuffle_reference(input: np.ndarray, groups: int) -> np.ndarray:
    batch, channels, *sizes = input.shape
    return input.reshape(batch, groups, channels // groups, *sizes).swapaxes(1, 2).reshape(input.shape)


declare(
    "channel_shuffle",
    _channel_shuffle_reference,
    lambda: iter(
        [
            sample(between(-2, 2, 2, 6, 3), 2),
            sample(between(-2, 2, 3, 2, 4).transpose(1, 2, 0), 4),
            sample(between(-2, 2, 0, 4, 2, 2), 2),
        ]
    ),
)
