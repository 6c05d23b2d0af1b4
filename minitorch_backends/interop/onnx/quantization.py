"""Quantization: numbers as small integers times a scale, and products of such, which run on their values."""

from __future__ import annotations

from ...ops import names as ops
from ...ops.dims import wrap_dim
from ...ops.limits import iinfo
from ...tensor.dtypes import DType, float32, int32, uint8
from ...tensor.tensor import Tensor
from .elementwise import to_type
from .files import dtype_of
from .products import convolution_integer
from .table import Statistics, operator


def _along(parameter: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """A scale or a zero point in a shape that meets x: one number, one for each place of an axis, or one for each block
    of values along it."""
    if parameter.numel() == 1 and parameter.ndim < 2:
        return parameter.reshape(())
    axis = wrap_dim(axis, x.ndim)
    if not block_size:
        return parameter.reshape([-1 if place == axis else 1 for place in range(x.ndim)])
    return parameter.repeat_interleave(block_size, axis).narrow(axis, 0, x.shape[axis])


@operator("QuantizeLinear")
def quantize(
    x: Tensor, scale: Statistics, zero_point: Statistics | None = None, *, axis: int = 1, block_size: int = 0,
    saturate: int = 1, output_dtype: int = 0, precision: int = 0,
) -> Tensor:  # fmt: skip
    """round(x / scale) + zero_point, rounded half to even, within the limits of the type."""
    dtype = uint8 if zero_point is None else zero_point.dtype
    if zero_point is None and output_dtype:
        dtype = dtype_of(output_dtype, "the result of QuantizeLinear")
    ratio = x.to(float32) / _along(scale, x, axis, block_size).to(float32)
    if dtype.is_floating_point:
        return to_type(ratio, dtype, saturate)
    zero = 0 if zero_point is None else _along(zero_point, x, axis, block_size).to(float32)
    return _saturate(ops.round(ratio) + zero, dtype)


def _saturate(x: Tensor, dtype: DType) -> Tensor:
    limits = iinfo(dtype)
    return ops.clamp(x, limits.min, limits.max).to(dtype)


@operator("DequantizeLinear")
def dequantize(
    x: Tensor, scale: Statistics, zero_point: Statistics | None = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:  # fmt: skip
    """(x - zero_point) * scale, in the type of the scale."""
    wide = int32 if not x.is_floating_point() else float32
    shifted = x.to(wide) if zero_point is None else x.to(wide) - _along(zero_point, x, axis, block_size).to(wide)
    dtype = dtype_of(output_dtype, "the result of DequantizeLinear") if output_dtype else scale.dtype
    return (shifted.to(float32) * _along(scale, x, axis, block_size).to(float32)).to(dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x as bytes, with the scale and the zero point that its range, zero included, gives."""
    zero = ops.zeros((), dtype=x.dtype)
    low, high = ops.minimum(ops.amin(x), zero), ops.maximum(ops.amax(x), zero)
    scale = (high - low) / 255
    middle = _saturate(ops.round(ops.clamp(-low / scale, 0, 255)), uint8)
    return _saturate(ops.round(x / scale) + middle.to(float32), uint8), scale, middle


@operator("QLinearMatMul")
def quantized_matmul(
    a: Tensor, a_scale: Statistics, a_zero: Statistics, b: Tensor, b_scale: Statistics, b_zero: Statistics,
    y_scale: Statistics, y_zero: Statistics,
) -> Tensor:  # fmt: skip
    """The product of quantized matrices; sums of bytes are exact."""
    rows = (each.unsqueeze(-1) if each.ndim == 1 and each.numel() > 1 else each for each in (a_scale, a_zero))
    scale, zero = rows
    total = ops.matmul(a.to(int32) - zero.to(int32), b.to(int32) - b_zero.to(int32))
    return quantize(total.to(float32) * (scale * b_scale).to(float32), y_scale, y_zero)


@operator("QLinearConv")
def quantized_convolution(
    x: Tensor, x_scale: Statistics, x_zero: Statistics, weight: Tensor, weight_scale: Statistics,
    weight_zero: Statistics, y_scale: Statistics, y_zero: Statistics, bias: Tensor | None = None, *,
    kernel_shape: list[int] | None = None, strides: list[int] | None = None, pads: list[int] | None = None,
    dilations: list[int] | None = None, group: int = 1, auto_pad: str = "NOTSET",
) -> Tensor:  # fmt: skip
    """The convolution of quantized images; sums of bytes are exact."""
    total = convolution_integer(
        x, weight, x_zero, weight_zero, strides=strides, pads=pads, dilations=dilations, group=group, auto_pad=auto_pad
    )
    channels = (-1, *[1] * (x.ndim - 2))
    total = total if bias is None else total + bias.reshape(channels)
    scale = x_scale * (weight_scale.reshape(channels) if weight_scale.numel() > 1 else weight_scale.reshape(()))
    return quantize(total.to(float32) * scale, y_scale, y_zero)
