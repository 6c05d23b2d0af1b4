"""Convolutions and transposed convolutions of one, two and three spatial dimensions, under torch's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

from ...autograd.half_types import widen
from ...backends import precision_policy
from ...backends.operands import LAYER_ROLES, act_on
from ...dispatch.op import composite
from ...kernels.arrays.elementwise import is_half
from ...kernels.conv.shapes import Steps, output_size, steps, transposed_size
from ...tensor.dtypes import bfloat16, dtype_of
from ...tensor.size import addressable
from ...tensor.tensor import Tensor, not_a_tensor
from ..functional import functional
from ..views.padding import constant_pad
from .convolution import convolution, convolution_input_gradient

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

Sizes = tuple[int, ...]
Given = int | Sequence[int]
"""One number for all spatial dimensions, or one for each."""


# Arguments


def numbers(name: str, argument: str, value: Any, dims: int) -> Sizes:
    """An argument as one int per spatial dimension. Raises TypeError for values that are not ints, RuntimeError for a
    wrong count."""
    if type(value) is int:
        return (value,) * dims
    try:
        found = tuple(map(index, value)) if isinstance(value, (tuple, list)) else (index(value),)
    except TypeError:
        raise TypeError(f"{name}(): argument {argument!r} must be an int or a tuple of ints, not {value!r}") from None
    if len(found) not in (1, dims):
        raise RuntimeError(
            f"{name}: expected {argument} to be a single integer value or a list of {dims} values to match the "
            f"convolution dimensions, but got {argument}={list(found)}"
        )
    return found * dims if len(found) == 1 else found


def _refuse_below(name: str, least: int, **values: Sizes) -> None:
    for argument, value in values.items():
        if min(value) < least:
            kind = "negative" if least == 0 else "non-positive"
            raise RuntimeError(f"{name}: {kind} {argument} is not supported; got {argument}={list(value)}")


def _check(name: str, dims: int, input: Any, weight: Any, bias: Any, groups: int, transposed: bool) -> None:
    """Reject tensors of mismatched shapes or dtypes, as torch does."""
    for argument, tensor in (("input", input), ("weight", weight), ("bias", bias)):
        if not isinstance(tensor, Tensor) and not (argument == "bias" and tensor is None):
            raise not_a_tensor(name, argument, tensor)
    shape, size = list(input.shape), list(weight.shape)
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {name}, but got input of size: {shape}"
        )
    if len(size) != dims + 2:
        raise RuntimeError(f"{name}: expected a weight of {dims + 2} dimensions, got one of size {size}")
    if type(groups) is not int:
        raise TypeError(f"{name}(): argument 'groups' must be an int, not {groups!r}")
    if groups < 1:
        raise RuntimeError(f"{name}: non-positive groups is not supported; got groups={groups}")
    if size[0] < groups or size[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0 and divisible by it, but "
            f"got weight of size {size} instead"
        )
    channels, expected = shape[-dims - 1], size[0] if transposed else size[1] * groups
    if channels != expected:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {size}, expected input{shape} to have {expected} channels, but "
            f"got {channels} channels instead"
        )
    outputs = size[1] * groups if transposed else size[0]
    if bias is not None and tuple(bias.shape) != (outputs,):
        raise RuntimeError(
            f"Given weight of size {size}, expected bias to be 1-dimensional with {outputs} elements, but got bias of "
            f"size {list(bias.shape)} instead"
        )
    for argument, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and tensor._array.dtype is not input._array.dtype:
            raise RuntimeError(
                f"{name}: input and {argument} should have the same dtype, but they have {dtype_of(input._array)!r} "
                f"and {dtype_of(tensor._array)!r}; convert one with .to(dtype)"
            )
    if min(size[2:]) < 1:
        raise RuntimeError(f"{name}: kernel size should be greater than zero, but got {size[2:]}")
    if 0 in shape[-dims:] and shape[-dims - 1] and (len(shape) == dims + 1 or shape[0]):
        raise RuntimeError(f"Only zero batch or zero channel inputs are supported, but got input shape: {shape}")


def _same(name: str, input: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes) -> tuple[Tensor, Sizes]:
    """The input, with one more zero behind where the padding of "same" is not symmetric, and that padding."""
    if max(stride) > 1:
        raise RuntimeError(
            f"{name}: padding='same' is not supported for strided convolutions; got stride={list(stride)}"
        )
    total = [gap * (taps - 1) for gap, taps in zip(dilation, kernel, strict=True)]
    if any(each % 2 for each in total):
        input = constant_pad(input, ((0, 0), (0, 0), *((0, each % 2) for each in total)))
    return input, tuple(each // 2 for each in total)


def _add_batch(input: Tensor, dims: int) -> tuple[Tensor, bool]:
    return (input, False) if input.ndim == dims + 2 else (input.unsqueeze(0), True)


# The functions


def _convolve(
    name: str, dims: int, input: Tensor, weight: Tensor, bias: Tensor | None,
    options: tuple[Given, Given | str, Given, int], precision: str | None,
) -> Tensor:  # fmt: skip
    stride, padding, dilation, groups = options
    _check(name, dims, input, weight, bias, groups, False)
    stride, dilation = numbers(name, "stride", stride, dims), numbers(name, "dilation", dilation, dims)
    _refuse_below(name, 1, stride=stride, dilation=dilation)
    kernel_size = weight._array.shape[2:]
    input, unbatched = _add_batch(input, dims)
    if not isinstance(padding, str):
        padding = numbers(name, "padding", padding, dims)
        _refuse_below(name, 0, padding=padding)
    elif padding == "same":
        input, padding = _same(name, input, kernel_size, stride, dilation)
    elif padding == "valid":
        padding = (0,) * dims
    else:
        raise RuntimeError(f"{name}: invalid padding string {padding!r}; expected 'same', 'valid' or numbers")
    size = input._array.shape[2:]
    if min(output_size(size, kernel_size, steps(dims, stride, padding, dilation))) < 1:
        padded = " x ".join(str(each + 2 * pad) for each, pad in zip(size, padding, strict=True))
        taps = " x ".join(str(gap * (each - 1) + 1) for each, gap in zip(kernel_size, dilation, strict=True))
        raise RuntimeError(
            f"Calculated padded input size per channel: ({padded}). Kernel size: ({taps}). "
            "Kernel size can't be greater than actual input size"
        )
    wide = [each + 2 * pad for each, pad in zip(size, padding, strict=True)]
    addressable((*input._array.shape[:2], *wide))
    stride = tuple(map(min, stride, wide))  # anything farther is also outside the image
    dilation = tuple(1 if taps == 1 else gap for taps, gap in zip(kernel_size, dilation, strict=True))
    result = convolution(input, weight, bias, stride, padding, dilation, groups, precision=precision)
    return result.squeeze(0) if unbatched else result


def _convolve_transposed(
    name: str, dims: int, input: Tensor, weight: Tensor, bias: Tensor | None,
    options: tuple[Given, Given, Given, int, Given], precision: str | None,
) -> Tensor:  # fmt: skip
    stride, padding, output_padding, groups, dilation = options
    _check(name, dims, input, weight, bias, groups, True)
    stride, dilation = numbers(name, "stride", stride, dims), numbers(name, "dilation", dilation, dims)
    padding, more = numbers(name, "padding", padding, dims), numbers(name, "output_padding", output_padding, dims)
    _refuse_below(name, 1, stride=stride, dilation=dilation)
    _refuse_below(name, 0, padding=padding, output_padding=more)
    if any(each >= max(s, d) for each, s, d in zip(more, stride, dilation, strict=True)):
        raise RuntimeError(
            f"{name}: output padding must be smaller than either stride or dilation, but got "
            f"output_padding={list(more)}, stride={list(stride)}, dilation={list(dilation)}"
        )
    input, unbatched = _add_batch(input, dims)
    least = transposed_size(input._array.shape[2:], weight._array.shape[2:], Steps(stride, padding, dilation))
    size = tuple(map(sum, zip(least, more, strict=True)))
    if min(size) < 1:
        given, found = (" x ".join(map(str, each)) for each in (input.shape[2:], size))
        raise RuntimeError(
            f"Given input size per channel: ({given}). Calculated output size per channel: ({found}). Output size is "
            "too small"
        )
    addressable((*input._array.shape[:1], *weight._array.shape[1:2], *size))
    dtype = input.dtype
    by_role = precision is None and precision_policy.by_role and act_on(LAYER_ROLES)
    if bias is not None and is_half(input._array.dtype) and not by_role:  # products are exact; round after the bias
        precision = "bf16" if dtype is bfloat16 else "ieee"
        input, weight, bias = widen((input, weight, bias))
    result = _scatter(input, weight, size, stride, padding, dilation, groups, more, precision)
    if bias is not None:
        result = (result + bias.reshape(-1, *(1,) * dims)).to(dtype)
    return result.squeeze(0) if unbatched else result


def _scatter(
    input: Tensor, weight: Tensor, size: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...],
    dilation: tuple[int, ...], groups: int, more: tuple[int, ...], precision: str | None,
) -> Tensor:  # fmt: skip
    """The transposed convolution without bias.

    A convolution's input gradient has less than one stride of output padding. Larger output padding is taken from the
    padding first, and the remainder is zeros, since no input reaches it.
    """
    beyond = [max(extra - step + 1, 0) for extra, step in zip(more, stride, strict=True)]
    taken = [min(pad, far) for pad, far in zip(padding, beyond, strict=True)]
    reached = tuple(length + 2 * cut - far for length, cut, far in zip(size, taken, beyond, strict=True))
    kept = tuple(pad - cut for pad, cut in zip(padding, taken, strict=True))
    result = convolution_input_gradient(input, weight, reached, stride, kept, dilation, groups, precision=precision)
    if not any(beyond):
        return result
    result = result[(..., *(slice(cut, None) for cut in taken))]
    return constant_pad(result, ((0, 0), (0, 0), *((0, far - cut) for far, cut in zip(beyond, taken, strict=True))))


# Samples and references


def _declare(dims: int) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    name, transposed_name, images = f"conv{dims}d", f"conv_transpose{dims}d", f"images {dims + 2}"

    @functional
    @composite(name=name, method=False, takes="ifc", product="conv", autocast="lower", batch=images)
    def convolve(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Given = 1,
        padding: Given | str = 0,
        dilation: Given = 1,
        groups: int = 1,
        *,
        precision: str | None = None,
    ) -> Tensor:
        """The convolution (N, O, ...) of `input` (N, C, ...), or without N, with `weight` (O, C/groups, ...) plus
        `bias` (O).

        `padding` is the number of zeros on both sides, "same" (keeps the size) or "valid" (none). `precision` sets the
        precision of this float32 convolution; None uses the flags (`explain.precision_of("conv")`). Raises RuntimeError
        for mismatched sizes and dtypes, TypeError for arguments that are not Tensors.
        """
        return _convolve(name, dims, input, weight, bias, (stride, padding, dilation, groups), precision)

    @functional
    @composite(name=transposed_name, method=False, takes="ifc", product="conv", autocast="lower", batch=images)
    def convolve_transposed(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Given = 1,
        padding: Given = 0,
        output_padding: Given = 0,
        groups: int = 1,
        dilation: Given = 1,
        *,
        precision: str | None = None,
    ) -> Tensor:
        """The transpose of the convolution with `weight` (C, O/groups, ...), applied to `input`, plus `bias` (O).

        Output sizes are (size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1. Errors and
        `precision` are those of the convolution.
        """
        options = stride, padding, output_padding, groups, dilation
        return _convolve_transposed(transposed_name, dims, input, weight, bias, options, precision)

    return convolve, convolve_transposed


conv1d, conv_transpose1d = _declare(1)
conv2d, conv_transpose2d = _declare(2)
conv3d, conv_transpose3d = _declare(3)
