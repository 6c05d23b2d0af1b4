"""Winograd's minimal convolutions F(2x2, 3x3) and F(4x4, 3x3): 2.25 and 4 times fewer products than direct sums.

Tiles of the image and the weights are transformed, multiplied place by place, which is one product of matrices for each
place of a tile, and transformed back. All transforms are in float32. (S. Winograd, "Arithmetic complexity of
computations", 1980; A. Lavin, S. Gray, "Fast algorithms for convolutional neural networks", arXiv 1509.09308, with the
points 0, 1, -1, infinity and, for tiles of six, 2 and -2.)

Errors are relative to the largest sums of a tile: those of F(2x2) as large as direct sums', those of F(4x4) three to
nine times in the mean, and up to 25 times. Rounded operands are amplified as much, so that F(4x4) takes only precisions
that are as good as float32's, and F(2x2) those down to bf16x3.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import cpu, threading
from ..gemm import compiled, matmul
from ..gemm.workspace import empty
from ..registry import ArraySpec
from .kept import array_of, form_of
from .shapes import empty_output, is_channels_last, steps

__all__ = ["conv", "conv_refuses", "conv_workspace", "input_gradient", "input_gradient_refuses",
           "input_gradient_workspace"]  # fmt: skip

_G = {
    4: ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
    6: (
        (1 / 4, 0, 0), (-1 / 6, -1 / 6, -1 / 6), (-1 / 6, 1 / 6, -1 / 6), (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6), (0, 0, 1),
    ),
}  # fmt: skip
"""The transform of the weights, by the side of a tile."""

_PRECISIONS = {4: ("ieee", "bf16x9", "bf16x6", "tf32x3", "bf16x3"), 6: ("ieee", "bf16x9", "bf16x6", "tf32x3")}

_BLOCK_BYTES = 1 << 26
"""Of transformed values and products, unless those of one image take more."""


def _refusal(tile: int, x: ArraySpec, weight: ArraySpec, keywords: dict[str, Any]) -> str | None:
    if x.dtype != np.float32 or weight.dtype != np.float32:
        return f"transforms float32 arrays only, not {x.dtype.name} and {weight.dtype.name}"
    if weight.shape[2:] != (3, 3):
        return f"takes kernels of 3 x 3 only, not {' x '.join(map(str, weight.shape[2:]))}"
    for name in ("stride", "dilation"):
        if any(each != 1 for each in keywords.get(name, ())):
            return f"takes steps of 1 only, and {name} is {keywords[name]}"
    if keywords.get("groups", 1) != 1:
        return f"does not group channels, and groups is {keywords['groups']}"
    if 0 in x.shape or 0 in weight.shape:
        return f"transforms no empty arrays, {list(x.shape)} and {list(weight.shape)}"
    precision = keywords.get("precision", "ieee")
    if precision not in _PRECISIONS[tile]:
        return f"would amplify the error of {precision}; takes {', '.join(_PRECISIONS[tile])}"
    return None


def conv_refuses(tile: int) -> Callable[..., str | None]:
    return lambda x, weight, *_, **keywords: _refusal(tile, x, weight, keywords)


def input_gradient_refuses(tile: int) -> Callable[..., str | None]:
    def refuses(g: ArraySpec, weight: ArraySpec, *, input_size: Sequence[int], **keywords: Any) -> str | None:
        padding = keywords.get("padding", ())
        if any(pad > 2 for pad in padding):
            return f"takes a padding of at most 2, and it is {padding}"
        return _refusal(tile, g, weight, keywords)

    return refuses


def slower(tile: int) -> Callable[..., str | None]:
    """Why others are usually better. On the 3 x 3 layers of ResNet-50 (bench/NOTES.md) direct sums on tiles take less
    time than either, whose transforms go through memory."""

    def sentence(*_: ArraySpec, **__: Any) -> str | None:
        if tile == 6:
            return "loses three to nine times in accuracy; cudnn.benchmark = True times it"
        return "is slower than direct sums for most shapes; cudnn.benchmark = True times it"

    return sentence


def _bytes(tile: int, images: int, channels: int, outputs: int, size: Sequence[int]) -> int:
    tiles = math.prod(-(-each // (tile - 2)) for each in size)
    one = tile * tile * tiles * (channels + outputs) * 4
    block = max(1, min(images, _BLOCK_BYTES // one))
    return block * one + tile * tile * channels * outputs * 4


def conv_workspace(tile: int) -> Callable[..., int]:
    def workspace(x: ArraySpec, weight: ArraySpec, *_: ArraySpec, padding: Sequence[int] = (), **__: Any) -> int:
        pads = padding or (0, 0)
        size = [length + 2 * pad - 2 for length, pad in zip(x.shape[2:], pads, strict=True)]
        return _bytes(tile, x.shape[0], x.shape[1], weight.shape[0], size)

    return workspace


def input_gradient_workspace(tile: int) -> Callable[..., int]:
    def workspace(g: ArraySpec, weight: ArraySpec, *, input_size: Sequence[int], **_: Any) -> int:
        return _bytes(tile, g.shape[0], g.shape[1], weight.shape[1], input_size)

    return workspace


def _transformed(weight: np.ndarray, tile: int) -> np.ndarray:
    """The weights (O, C, 3, 3) as (tile * tile, O, C), transformed in float64 and rounded once."""
    matrix = np.array(_G[tile])
    values = np.einsum("ir,ocrs,js->ijoc", matrix, weight.astype(np.float64), matrix, optimize=True)
    return np.ascontiguousarray(values.reshape(tile * tile, *weight.shape[:2]).astype(np.float32))


def _turned(weight: np.ndarray, tile: int) -> np.ndarray:
    """The weights with which the gradient with respect to the input is a convolution."""
    return _transformed(weight.transpose(1, 0, 2, 3)[..., ::-1, ::-1], tile)


def _convolve(
    x: np.ndarray, values: np.ndarray, bias: np.ndarray, tile: int, before: Sequence[int], size: Sequence[int],
    relu: bool, keywords: dict[str, Any],
) -> np.ndarray:  # fmt: skip
    """The convolution of x with transformed weights, `before` zeros in front of it, to results of spatial `size`."""
    from . import winograd_loops as loops

    last, outputs = is_channels_last(x), values.shape[1]
    y = empty_output((len(x), outputs, *size), x.dtype, last)
    down, across = (-(-each // (tile - 2)) for each in size)
    pool, threads = threading.pool()
    scratch = np.empty((threads, loops.scratch_size(tile)), np.float32)
    block = max(1, min(len(x), _BLOCK_BYTES // (tile * tile * down * across * (x.shape[1] + outputs) * 4)))
    read: Any = loops.ReadChannels if last else loops.ReadPlanes
    write: Any = loops.WriteChannels if last else loops.WritePlanes
    source, target = (np.moveaxis(each, 1, -1) if last else each for each in (x, y))
    if not source.flags.c_contiguous:
        source = np.ascontiguousarray(source)
    right = values.mT if last else values
    for first in range(0, len(x), block):
        images = source[first : first + block]
        count = len(images) * down * across
        shape = (tile * tile, count, x.shape[1]) if last else (tile * tile, x.shape[1], count)
        seen = empty(shape, x.dtype)
        job: tuple[Any, ...] = images, seen, bias, scratch, tile, *before, down, across, False
        loops.start(pool, threads, len(images) * (down if last else x.shape[1]), read(*job))
        products = _multiply(seen, right, keywords) if last else _multiply(right, seen, keywords)
        job = target[first : first + block], products, bias, scratch, tile, 0, 0, down, across, relu
        loops.start(pool, threads, len(images) * (down if last else outputs), write(*job))
    return y


def conv(tile: int) -> Callable[..., np.ndarray]:
    """The convolution by tiles of this side."""

    def run(
        x: np.ndarray, weight: Any, bias: np.ndarray | None = None, *, padding: Sequence[int] = (), relu: bool = False,
        **keywords: Any,
    ) -> np.ndarray:  # fmt: skip
        at = steps(2, (), padding)
        values = form_of(weight, f"winograd{tile}", functools.partial(_transformed, tile=tile))
        size = [length + 2 * pad - 2 for length, pad in zip(x.shape[2:], at.padding, strict=True)]
        added = np.zeros(len(array_of(weight)), x.dtype) if bias is None else np.ascontiguousarray(bias)
        return _convolve(x, values, added, tile, at.padding, size, relu, _of_products(keywords))

    return run


def input_gradient(tile: int) -> Callable[..., np.ndarray]:
    """The gradient with respect to the input by tiles of this side."""

    def run(
        g: np.ndarray, weight: Any, *, input_size: Sequence[int], padding: Sequence[int] = (), **keywords: Any
    ) -> np.ndarray:
        at = steps(2, (), padding)
        values = form_of(weight, f"winograd{tile} turned", functools.partial(_turned, tile=tile))
        before = [2 - pad for pad in at.padding]
        none = np.zeros(values.shape[1], g.dtype)
        return _convolve(g, values, none, tile, before, tuple(input_size), False, _of_products(keywords))

    return run


def _multiply(a: np.ndarray, b: np.ndarray, keywords: dict[str, Any]) -> np.ndarray:
    """A batch of products; exact ones by this project's own loops at any size, since the threads of a BLAS would be in
    the way of those of the transforms."""
    precision = keywords.get("precision", "ieee")
    if precision in compiled.EXACT:
        for isa in compiled.ISAS[1:]:
            if cpu.refusal(isa) is None:
                from ..gemm.product import product

                return product(a, b, isa=isa, precision=compiled.computed(isa, a.dtype, precision) or "ieee")
    return matmul(a, b, **keywords)


def _of_products(keywords: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in keywords.items() if name in ("precision", "rounding")}
