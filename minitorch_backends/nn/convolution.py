"""Layers of images: convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd.modes import derives
from ..kernels.conv.shapes import Steps, transposed_size
from ..ops.conv.packed import PackedConvolution
from ..ops.creation.factories import empty
from ..tensor.tensor import Parameter, Tensor
from . import functional as F
from . import init
from .module import Module
from .module_internals import Constants

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

Given = int | Sequence[int]

_CONVOLUTIONS = (F.conv1d, F.conv2d, F.conv3d)
_TRANSPOSED = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
_PADDINGS = ("zeros", "reflect", "replicate", "circular")


def _numbers(value: Given, dims: int) -> tuple[int, ...]:
    return (value,) * dims if isinstance(value, int) else tuple(value)


class _Convolution(Constants, Module):
    """What all convolutions have: a weight that starts uniform within 1 / sqrt(fan in), as in torch, and a bias."""

    dims: int
    transposed = False
    output_padding: tuple[int, ...] = ()
    weight: Parameter
    bias: Parameter | None

    def _set(
        self, channels: tuple[int, int], kernel_size: Given, options: tuple[Given, Given | str, Given, int], bias: bool,
        padding_mode: str, **placement: Any,
    ) -> None:  # fmt: skip
        """Check and set what the constructors have in common; `options` are stride, padding, dilation and groups."""
        (in_channels, out_channels), (stride, padding, dilation, groups) = channels, options
        if groups < 1:
            raise ValueError(f"groups must be a positive integer, and is {groups}")
        for name, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            if count % groups:
                raise ValueError(f"{name}={count} must be divisible by groups={groups}")
        if padding_mode not in _PADDINGS:
            raise ValueError(f"padding_mode={padding_mode!r} is unknown; expected one of {', '.join(_PADDINGS)}")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = _numbers(kernel_size, self.dims), _numbers(stride, self.dims)
        self.dilation, self.padding_mode = _numbers(dilation, self.dims), padding_mode
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"invalid padding string {padding!r}; expected 'valid', 'same' or numbers")
            if padding == "same" and max(self.stride) > 1:
                raise ValueError(f"padding='same' is not supported for strided convolutions; got stride={self.stride}")
        self.padding = padding if isinstance(padding, str) else _numbers(padding, self.dims)
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first, second // groups, *self.kernel_size)
        self.weight = Parameter(empty(*shape, **placement))
        self.register_parameter("bias", Parameter(empty(out_channels, **placement)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialise weights and biases."""
        fan_in = math.prod(self.weight.shape[1:])
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}", f"kernel_size={self.kernel_size}", f"stride={self.stride}"]
        if isinstance(self.padding, str) or any(self.padding):
            parts.append(f"padding={self.padding!r}")
        if any(each != 1 for each in self.dilation):
            parts.append(f"dilation={self.dilation}")
        if any(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
        parts += [f"groups={self.groups}"] * (self.groups != 1) + ["bias=False"] * (self.bias is None)
        parts += [f"padding_mode={self.padding_mode}"] * (self.padding_mode != "zeros")
        return ", ".join(parts)


class _Forward(_Convolution):
    """`functional.conv1d` to `conv3d` with a weight and a bias to learn; under no_grad from the packed weight."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Given,
        stride: Given = 1,
        padding: Given | str = 0,
        dilation: Given = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._packed = PackedConvolution()
        channels, options = (in_channels, out_channels), (stride, padding, dilation, groups)
        self._set(channels, kernel_size, options, bias, padding_mode, device=device, dtype=dtype)

    def _around(self) -> list[int]:
        """The padding in the form of `functional.pad`."""
        if isinstance(self.padding, str):
            reach = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            total = reach if self.padding == "same" else [0] * self.dims
            pairs = [(each // 2, each - each // 2) for each in total]
        else:
            pairs = [(each, each) for each in self.padding]
        return [number for pair in reversed(pairs) for number in pair]

    def forward(self, input: Tensor) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._around(), self.padding_mode), 0
        options = self.stride, padding, self.dilation, self.groups
        if derives():
            return _CONVOLUTIONS[self.dims - 1](input, self.weight, self.bias, *options)
        return self._packed.conv(input, self.weight, self.bias, options)


class Conv1d(_Forward, dims=1):
    """Convolution of (N, C, L), or (C, L)."""


class Conv2d(_Forward, dims=2):
    """Convolution of images (N, C, H, W), or (C, H, W)."""


class Conv3d(_Forward, dims=3):
    """Convolution of volumes (N, C, D, H, W), or (C, D, H, W)."""


class _Transposed(_Convolution):
    """`functional.conv_transpose1d` to `conv_transpose3d` with a weight and a bias to learn; under no_grad from the
    packed weight."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Given,
        stride: Given = 1,
        padding: Given = 0,
        output_padding: Given = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Given = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'only "zeros" padding mode is supported for {type(self).__name__}; got {padding_mode!r}')
        self.output_padding = _numbers(output_padding, self.dims)
        self._packed = PackedConvolution()
        channels, options = (in_channels, out_channels), (stride, padding, dilation, groups)
        self._set(channels, kernel_size, options, bias, padding_mode, device=device, dtype=dtype)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        more = self.output_padding if output_size is None else self._more(input, tuple(output_size))
        options: Any = (self.stride, self.padding, more, self.groups, self.dilation)
        if not derives():
            return self._packed.conv_transposed(input, self.weight, self.bias, options)
        return _TRANSPOSED[self.dims - 1](input, self.weight, self.bias, *options)

    def _more(self, input: Tensor, output_size: tuple[int, ...]) -> tuple[int, ...]:
        """The output padding that gives this size. Raises ValueError where none does."""
        sizes = input.shape[-self.dims :]
        wanted = output_size[-self.dims :]
        at: Any = Steps(self.stride, self.padding, self.dilation)  # type: ignore[arg-type]
        least = transposed_size(sizes, self.kernel_size, at)
        most = [size + step - 1 for size, step in zip(least, self.stride, strict=True)]
        if len(output_size) not in (self.dims, input.ndim) or not all(
            low <= size <= high for low, size, high in zip(least, wanted, most, strict=True)
        ):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {[*least]} to {most} (for an "
                f"input of {list(sizes)})"
            )
        return tuple(size - low for size, low in zip(wanted, least, strict=True))


class ConvTranspose1d(_Transposed, dims=1):
    """Transposed convolution of (N, C, L), or (C, L)."""


class ConvTranspose2d(_Transposed, dims=2):
    """Transposed convolution of images (N, C, H, W), or (C, H, W)."""


class ConvTranspose3d(_Transposed, dims=3):
    """Transposed convolution of volumes (N, C, D, H, W), or (C, D, H, W)."""
