"""fold, unfold and max_unpool, under torch's names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...dispatch.op import composite
from ...tensor.size import addressable
from ...tensor.tensor import Tensor
from ..functional import functional
from ..images.pool import add_batch, count_of
from .functions import numbers
from .im2col import Windows, fold_windows, unfold_windows, unpool

Sizes = tuple[int, ...]
Given = int | Sequence[int]


# Unpooling


def _max_unpool(
    name: str, dims: int, input: Tensor, indices: Tensor, kernel_size: Given, stride: Given | None, padding: Given,
    output_size: Sequence[int] | None,
) -> Tensor:  # fmt: skip
    x, unbatched = add_batch(name, input, dims)
    if indices._array.dtype != np.int64:
        raise RuntimeError(f"{name}: elements in indices should be type int64 but got: {indices.dtype!r}")
    if indices.shape != input.shape:
        raise RuntimeError(
            f"{name}: expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got "
            f"indices tensor with shape: {list(indices.shape)}"
        )
    kernel, pads = numbers(name, "kernel_size", kernel_size, dims), numbers(name, "padding", padding, dims)
    steps = kernel if stride is None else numbers(name, "stride", stride, dims)
    size = tuple(
        (count - 1) * step - 2 * pad + taps
        for count, step, pad, taps in zip(x._array.shape[2:], steps, pads, kernel, strict=True)
    )
    if output_size is not None:
        wanted = tuple(output_size)[-dims:]
        if len(wanted) != dims:
            raise ValueError(
                f"{name}: output_size should be {dims} or {dims + 2} sizes, and it is {tuple(output_size)}"
            )
        for dim, (each, usual, step) in enumerate(zip(wanted, size, steps, strict=True)):
            if not usual - step < each < usual + step:
                raise ValueError(
                    f"{name}: invalid output_size {tuple(output_size)} (dim {dim} must be between {usual - step} and "
                    f"{usual + step})"
                )
        size = wanted
    if min(size) < 0:
        raise ValueError(f"{name}: sizes of the result must not be negative, and they are {size}")
    places = indices._array
    if places.size and not 0 <= places.min() <= places.max() < math.prod(size):
        worst = int(places.max()) if places.max() >= math.prod(size) else int(places.min())
        raise RuntimeError(
            f"{name}: found an invalid max index: {worst} (output volumes are of size {'x'.join(map(str, size))})"
        )
    addressable((*x.shape[:2], *size))
    result = unpool(x, indices.unsqueeze(0) if unbatched else indices, size)
    return result.squeeze(0) if unbatched else result


def _declare(dims: int) -> Callable[..., Tensor]:
    unpool_name = f"max_unpool{dims}d"

    @functional
    @composite(name=unpool_name, method=False, autocast="float32")
    def unpool_largest(
        input: Tensor,
        indices: Tensor,
        kernel_size: Given,
        stride: Given | None = None,
        padding: Given = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        """Images of zeros with values at the `indices` that pooling of the largest ones returned.

        `output_size` chooses among the sizes that would have been pooled to the same one. Raises ValueError for
        another size, RuntimeError for indices outside.
        """
        return _max_unpool(unpool_name, dims, input, indices, kernel_size, stride, padding, output_size)

    return unpool_largest


max_unpool1d, max_unpool2d, max_unpool3d = map(_declare, (1, 2, 3))


# Columns


def _columns(name: str, size: Sizes, kernel_size: Given, dilation: Given, padding: Given, stride: Given) -> Windows:
    named = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    kernel, gaps, pads, steps = (numbers(name, argument, value, 2) for argument, value in named.items())
    for argument, values in (("kernel size", kernel), ("dilation", gaps), ("stride", steps)):
        if min(values) < 1:
            raise RuntimeError(f"{name}: {argument} should be greater than zero, but got {list(values)}")
    if min(pads) < 0:
        raise RuntimeError(f"{name}: padding should be non-negative, but got {list(pads)}")
    output = tuple(map(count_of, size, kernel, steps, pads, gaps, (False, False)))
    if min(output) < 1:
        raise RuntimeError(
            f"{name}: given spatial size {size}, kernel_size={kernel}, dilation={gaps}, padding={pads}, "
            f"stride={steps}, calculated shape of the array of sliding blocks as {output}, but its components must be "
            "at least one"
        )
    return Windows(size, kernel, steps, pads, gaps, output)


@functional(name="unfold")
@composite(method=False, takes="bfc")
def unfold_images(
    input: Tensor, kernel_size: Given, dilation: Given = 1, padding: Given = 0, stride: Given = 1
) -> Tensor:
    """What each window of images (N, C, H, W), or (C, H, W), sees, zeros around them: (N, C * kernel, windows)."""
    if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
        raise (IndexError if input.ndim < 3 else RuntimeError)(
            f"unfold: expected a 3D or 4D (batch mode) tensor with non-zero sizes, except an optional batch size of 0, "
            f"got {list(input.shape)}"
        )
    x = input if input.ndim == 4 else input.unsqueeze(0)
    at = _columns("unfold", x._array.shape[2:], kernel_size, dilation, padding, stride)
    found = unfold_windows(x, at).reshape(x.shape[0], x.shape[1] * math.prod(at.kernel), math.prod(at.output))
    return found if input.ndim == 4 else found.squeeze(0)


@functional
@composite(method=False, takes="fc")
def fold(
    input: Tensor, output_size: Given, kernel_size: Given, dilation: Given = 1, padding: Given = 0, stride: Given = 1
) -> Tensor:
    """Images (N, C, *output_size) from windows (N, C * kernel, windows), whose values are added where they overlap: the
    transpose of `unfold_images`. Raises RuntimeError for windows whose number or size does not fit `output_size`."""
    shape = input.shape
    if input.ndim not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            f"fold: expected 2D or 3D (batch mode) tensor with non-zero sizes, except an optional batch size of 0, "
            f"got {list(shape)}"
        )
    at = _columns("fold", numbers("fold", "output_size", output_size, 2), kernel_size, dilation, padding, stride)
    taps, count = math.prod(at.kernel), math.prod(at.output)
    if shape[-2] % taps:
        raise RuntimeError(
            f"fold: expected size of input's dimension {input.ndim - 2} to be divisible by the product of kernel_size, "
            f"but it is {shape[-2]} and kernel_size={at.kernel}"
        )
    if shape[-1] != count:
        raise RuntimeError(
            f"fold: given output_size={at.size}, kernel_size={at.kernel}, dilation={at.dilation}, "
            f"padding={at.padding}, stride={at.stride}, expected size of input's dimension {input.ndim - 1} to match "
            f"the number of sliding blocks, {' * '.join(map(str, at.output))} = {count}, but it is {shape[-1]}"
        )
    x = input if input.ndim == 3 else input.unsqueeze(0)
    result = fold_windows(x.reshape(x.shape[0], shape[-2] // taps, *at.kernel, *at.output), at)
    return result if input.ndim == 3 else result.squeeze(0)
