"""Convolution by explicit im2col: the input window of each output position becomes a column of a matrix, which the
product kernel multiplies. It takes every dtype, size and precision, and is the last implementation of its kernels.

Method: K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for document processing"
(2006). Columns are built for a block of images, or a part of one image, at a time, so that they take at most
`COLUMN_BYTES` or `workspace_limit` (or one position's size if that is larger).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..gemm import matmul
from ..precisions.products import OF_HALF
from ..registry import without_observers
from ..runtime.context import restore_on_failure
from ..runtime.invariance import is_demanded
from .shapes import empty_output, is_channels_last, lay_out_weight, output_size, pad, steps, windows

COLUMN_BYTES = 1 << 25
"""What the columns of one block take at most, unless those of one position take more."""


class _Product:
    """Products of arrays of one dtype at one precision; half types in float32 where they are summed up further."""

    def __init__(self, dtype: np.dtype, summed: bool, keywords: dict[str, Any]) -> None:
        self.dtype, self.keywords = dtype, keywords
        if summed and dtype.name in OF_HALF:
            self.dtype, self.keywords = np.dtype(np.float32), {**keywords, "precision": OF_HALF[dtype.name]}

    @restore_on_failure
    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        with without_observers():
            return matmul(a.astype(self.dtype, copy=False), b.astype(self.dtype, copy=False), **self.keywords)


def _blocks(
    images: int, output: Sequence[int], position_bytes: int, limit: int | None
) -> Iterator[tuple[slice, tuple[slice, ...]]]:
    """Images and a box of the output's positions that are done together: as many trailing dimensions as fit, and a part
    of the one in front of them."""
    fitting = COLUMN_BYTES if limit is None else min(limit, COLUMN_BYTES)
    left, counts = max(1, fitting // max(1, position_bytes)), []
    for length in (*reversed(output), images):
        counts.append(max(1, min(length, left)))
        left = left // counts[-1] if counts[-1] == length else 1
    sizes, steps_of = (images, *output), tuple(reversed(counts))
    for starts in itertools.product(*map(range, [0] * len(sizes), sizes, steps_of)):
        box = [slice(a, min(a + n, size)) for a, n, size in zip(starts, steps_of, sizes, strict=True)]
        yield box[0], tuple(box[1:])


def workspace_bytes(
    images: int, channels: int, kernel: Sequence[int], output: Sequence[int], itemsize: int, limit: int | None
) -> int:
    """Bytes that the columns of the largest block take."""
    position = channels * math.prod(kernel) * itemsize
    for batch, places in itertools.islice(_blocks(images, output, position, limit), 1):
        return math.prod(each.stop - each.start for each in (batch, *places)) * position
    return 0


def _columns(
    seen: np.ndarray, groups: int, images: slice, places: tuple[slice, ...], channels_last: bool
) -> np.ndarray:
    """The columns of a block of windows (N, C, *K, *out): (groups, C/groups K, positions), as a transposed view of
    (groups, positions, K C/groups) for channels-last arrays, with the taps in front of the channels there."""
    dims = (seen.ndim - 2) // 2
    block = seen[(images, *(slice(None),) * (1 + dims), *places)]
    block = block.reshape(block.shape[0], groups, block.shape[1] // groups, *block.shape[2:])
    taps, spots = tuple(range(3, 3 + dims)), tuple(range(3 + dims, 3 + 2 * dims))
    positions = block.shape[0] * math.prod(block.shape[3 + dims :])
    depth = math.prod(block.shape[2 : 3 + dims])
    if channels_last:
        return block.transpose(1, 0, *spots, *taps, 2).reshape(groups, positions, depth).mT
    return block.transpose(1, 2, *taps, 0, *spots).reshape(groups, depth, positions)


def _matrix(weight: np.ndarray, groups: int, channels_last: bool) -> np.ndarray:
    """The weights as (groups, O/groups, depth), in the order of the columns."""
    if channels_last:
        weight = np.moveaxis(weight, 1, -1)
    return weight.reshape(groups, len(weight) // groups, math.prod(weight.shape[1:]))


def _split(x: np.ndarray, groups: int, images: slice, places: tuple[slice, ...] = ()) -> np.ndarray:
    """A block of an array (N, O, *out) as (groups, O/groups, images, rows, ...): a view of it, for plain layouts."""
    block = x[(images, slice(None), *places)]
    block = block.reshape(block.shape[0], groups, block.shape[1] // groups, *block.shape[2:])
    return np.moveaxis(block, 0, 2)


def conv_explicit(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None, *, stride: Sequence[int] = (),
    padding: Sequence[int] = (), dilation: Sequence[int] = (), groups: int = 1, relu: bool = False,
    workspace_limit: int | None = None, **keywords: Any,
) -> np.ndarray:  # fmt: skip
    """The convolution by products of the weights with the columns; `keywords` are those of `matmul`."""
    kernel, channels_last = weight.shape[2:], is_channels_last(x)
    at = steps(len(kernel), stride, padding, dilation)
    output = output_size(x.shape[2:], kernel, at)
    y = empty_output((len(x), len(weight), *output), x.dtype, channels_last)
    if y.size == 0:
        return y
    multiply, by_taps = _Product(x.dtype, bias is not None, keywords), channels_last and not is_demanded()
    seen, matrix = windows(pad(x, at.padding), kernel, output, at), _matrix(weight, groups, by_taps)
    addend = None if bias is None else bias.astype(multiply.dtype, copy=False).reshape(groups, len(weight) // groups, 1)
    for images, places in _blocks(len(x), output, x.shape[1] * math.prod(kernel) * x.itemsize, workspace_limit):
        columns = _columns(seen, groups, images, places, by_taps)
        product = multiply(columns.mT, matrix.mT).mT if by_taps else multiply(matrix, columns)
        if addend is not None:
            product += addend
        if relu:
            np.maximum(product, 0, out=product)
        here = _split(y, groups, images, places)
        here[...] = product.reshape(here.shape)
    return y


def input_gradient_explicit(
    g: np.ndarray, weight: np.ndarray, *, input_size: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (), dilation: Sequence[int] = (), groups: int = 1, workspace_limit: int | None = None,
    **keywords: Any,
) -> np.ndarray:  # fmt: skip
    """The gradient with respect to x of shape (N, C, *input_size): columns by a product, added where they came from."""
    kernel, channels_last = weight.shape[2:], is_channels_last(g)
    at = steps(len(kernel), stride, padding, dilation)
    channels, output = weight.shape[1] * groups, g.shape[2:]
    multiply = _Product(g.dtype, math.prod(kernel) > 1, keywords)
    wide_size = [length + 2 * pad for length, pad in zip(input_size, at.padding, strict=True)]
    wide = empty_output((len(g), channels, *wide_size), multiply.dtype, channels_last)
    wide[...] = 0
    matrix = _matrix(weight, groups, False)
    for images, places in _blocks(len(g), output, channels * math.prod(kernel) * g.itemsize, workspace_limit):
        block = _split(g, groups, images, places)
        flat = block.reshape(groups, block.shape[1], math.prod(block.shape[2:]))
        columns = multiply(matrix.mT, flat)
        columns = columns.reshape(groups, weight.shape[1], *kernel, *block.shape[2:])
        target = _split(wide, groups, images)
        taps: Any = itertools.product(*map(range, kernel))
        for tap in taps:
            spots: list[Any] = [
                slice(i * gap + place.start * step, i * gap + (place.stop - 1) * step + 1, step)
                for i, gap, place, step in zip(tap, at.dilation, places, at.stride, strict=True)
            ]
            target[(..., *spots)] += columns[(slice(None), slice(None), *tap)]
    inside: Any = (..., *(slice(pad, pad + size) for pad, size in zip(at.padding, input_size, strict=True)))
    result = wide[inside]
    if any(at.padding) or result.dtype != g.dtype:
        whole = empty_output(result.shape, g.dtype, channels_last)
        whole[...] = result
        return whole
    return result


def weight_gradient_explicit(
    x: np.ndarray, g: np.ndarray, *, kernel_size: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (), dilation: Sequence[int] = (), groups: int = 1, workspace_limit: int | None = None,
    **keywords: Any,
) -> np.ndarray:  # fmt: skip
    """The gradient with respect to the weight: products of g with the columns, summed over the blocks."""
    channels_last = is_channels_last(x)
    at = steps(len(kernel_size), stride, padding, dilation)
    channels, outputs, output = x.shape[1] // groups, g.shape[1] // groups, g.shape[2:]
    multiply = _Product(x.dtype, True, keywords)
    total = np.zeros((groups, outputs, channels * math.prod(kernel_size)), multiply.dtype)
    if x.size and g.size:
        seen = windows(pad(x, at.padding), kernel_size, output, at)
        for images, places in _blocks(
            len(x), output, x.shape[1] * math.prod(kernel_size) * x.itemsize, workspace_limit
        ):
            block = _split(g, groups, images, places)
            flat = block.reshape(groups, outputs, math.prod(block.shape[2:]))
            total += multiply(flat, _columns(seen, groups, images, places, channels_last).mT)
    if channels_last:
        total = np.moveaxis(total.reshape(groups * outputs, *kernel_size, channels), -1, 1)
    return lay_out_weight(total.reshape(groups * outputs, channels, *kernel_size).astype(x.dtype, copy=False), x)
