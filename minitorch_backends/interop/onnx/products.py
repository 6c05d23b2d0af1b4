"""Products: matrices, convolutions and their transposes. Flags of precision act on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ... import linalg
from ...autograd.modes import derives
from ...nn import functional as F
from ...ops import names as ops
from ...ops.conv.packed import PackedConvolution
from ...tensor.dtypes import float64, int32
from ...tensor.tensor import Tensor
from .table import Statistics, operator

operator("MatMul", inputs=2)(ops.matmul)
operator("Det", inputs=1)(linalg.det)


@operator("Gemm")
def gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0,
) -> Tensor:  # fmt: skip
    """alpha * a @ b + beta * c, with optional transposition of each matrix."""
    a, b = a.T if transA else a, b.T if transB else b
    if c is not None:
        return ops.addmm(c, a, b, alpha=alpha, beta=beta)
    return ops.matmul(a, b) if alpha == 1 else alpha * ops.matmul(a, b)


@operator("MatMulInteger")
def matmul_integer(a: Tensor, b: Tensor, a_zero: Statistics | None = None, b_zero: Statistics | None = None) -> Tensor:
    """The product of bytes minus their zero points, of rows and of columns, in int32."""
    a, b = a.to(int32), b.to(int32)
    if a_zero is not None:
        a = a - (a_zero.to(int32).unsqueeze(-1) if a_zero.ndim else a_zero.to(int32))
    if b_zero is not None:
        b = b - b_zero.to(int32)
    return ops.matmul(a, b)


# Convolutions


class Steps(NamedTuple):
    """Where the windows of a convolution or of pooling lie, one number for each spatial axis."""

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]


class Pads(NamedTuple):
    """The padding before and after each spatial axis."""

    before: Sequence[int]
    after: Sequence[int]

    @property
    def is_symmetric(self) -> bool:
        return list(self.before) == list(self.after)


def pads_of(sizes: Sequence[int], steps: Steps, pads: Sequence[int] | None, auto_pad: str) -> Pads:
    """The padding of windows over axes of these sizes: as given, or so that there are ceil(size / stride) windows, with
    the odd one behind (SAME_UPPER) or in front (SAME_LOWER)."""
    dims = len(sizes)
    for name, numbers in zip(("kernel_shape", "strides", "dilations"), steps, strict=True):
        if len(numbers) != dims or min(numbers, default=1) < 1:
            raise ValueError(f"{name} must be {dims} positive numbers, got {list(numbers)}")
    if pads and len(pads) != 2 * dims:
        raise ValueError(f"pads must be {2 * dims} numbers, got {pads}")
    if auto_pad in ("NOTSET", "VALID"):
        pads = pads if pads and auto_pad == "NOTSET" else [0] * 2 * dims
        return Pads(pads[:dims], pads[dims:])
    totals = [
        max((-(-size // stride) - 1) * stride + (taps - 1) * dilation + 1 - size, 0)
        for size, taps, stride, dilation in zip(sizes, *steps, strict=True)
    ]
    return _share_pads(totals, auto_pad)


def _share_pads(totals: Sequence[int], auto_pad: str) -> Pads:
    less, more = [each // 2 for each in totals], [each - each // 2 for each in totals]
    return Pads(less, more) if auto_pad == "SAME_UPPER" else Pads(more, less)


def pad(x: Tensor, pads: Pads, value: float = 0.0) -> Tensor:
    """x with a value around its spatial axes; negative numbers take values away."""
    pairs = zip(reversed(pads.before), reversed(pads.after), strict=True)
    return F.pad(x, [count for pair in pairs for count in pair], "constant", value)


@operator("Conv")
def convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, kernel_shape: list[int] | None = None,
    strides: list[int] | None = None, pads: list[int] | None = None, dilations: list[int] | None = None,
    group: int = 1, auto_pad: str = "NOTSET", packed: PackedConvolution | None = None,
) -> Tensor:  # fmt: skip
    dims = weight.ndim - 2
    steps = Steps(weight.shape[2:], strides or [1] * dims, dilations or [1] * dims)
    around = pads_of(x.shape[2:], steps, pads, auto_pad)
    if not around.is_symmetric:
        x, around = pad(x, around), Pads([0] * dims, [0] * dims)
    options = tuple(steps.strides), tuple(around.before), tuple(steps.dilations), group
    if packed is not None and not derives():
        return packed.conv(x, weight, bias, options)
    return getattr(F, f"conv{dims}d")(x, weight, bias, *options)


@operator("ConvTranspose")
def transposed_convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, kernel_shape: list[int] | None = None,
    strides: list[int] | None = None, pads: list[int] | None = None, dilations: list[int] | None = None,
    group: int = 1, auto_pad: str = "NOTSET", output_padding: list[int] | None = None,
    output_shape: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """The transpose of a convolution. Padding takes values of the result away, on each side its own number."""
    dims = weight.ndim - 2
    steps = Steps(weight.shape[2:], strides or [1] * dims, dilations or [1] * dims)
    extra = output_padding or [0] * dims
    around = _transposed_pads(x.shape[2:], steps, extra, pads, auto_pad, output_shape)
    function = getattr(F, f"conv_transpose{dims}d")
    options = {"stride": tuple(steps.strides), "groups": group, "dilation": tuple(steps.dilations)}
    if around.is_symmetric and min(around.before) >= 0:
        return function(x, weight, bias, padding=tuple(around.before), output_padding=tuple(extra), **options)
    after = [more - each for each, more in zip(around.after, extra, strict=True)]
    ends = Pads([-each for each in around.before], after)
    found = pad(function(x, weight, None, **options), ends)
    return found if bias is None else found + bias.reshape((-1, *[1] * dims))


def _transposed_pads(
    sizes: Sequence[int], steps: Steps, extra: Sequence[int], pads: Sequence[int] | None, auto_pad: str,
    output_shape: Sequence[int] | None,
) -> Pads:  # fmt: skip
    """The padding that is given, or that gives `output_shape`, or with SAME_UPPER and SAME_LOWER size * stride."""
    if output_shape is None and auto_pad in ("NOTSET", "VALID"):
        return pads_of(sizes, steps, pads, auto_pad)
    if output_shape is None:
        output_shape = [size * stride for size, stride in zip(sizes, steps.strides, strict=True)]
    totals = [
        stride * (size - 1) + more + (taps - 1) * dilation + 1 - wanted
        for size, wanted, more, taps, stride, dilation in zip(
            sizes, output_shape[-len(sizes) :], extra, *steps, strict=True
        )
    ]
    return _share_pads(totals, auto_pad)


@operator("ConvInteger")
def convolution_integer(
    x: Tensor, weight: Tensor, x_zero: Statistics | None = None, weight_zero: Statistics | None = None, *,
    kernel_shape: list[int] | None = None, strides: list[int] | None = None, pads: list[int] | None = None,
    dilations: list[int] | None = None, group: int = 1, auto_pad: str = "NOTSET",
) -> Tensor:  # fmt: skip
    """The convolution of bytes minus their zero points in int32: exact in float64."""
    x, weight = x.to(float64), weight.to(float64)
    if x_zero is not None:
        x = x - x_zero.to(float64)
    if weight_zero is not None:
        zero = weight_zero.to(float64)
        weight = weight - zero.reshape((-1, *[1] * (weight.ndim - 1))) if zero.ndim else weight - zero
    found = convolution(
        x, weight, None, strides=strides, pads=pads, dilations=dilations, group=group, auto_pad=auto_pad
    )
    return found.to(int32)
