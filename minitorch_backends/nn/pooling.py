"""Functions of images as modules: pooling, changes of size, windows as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..tensor.tensor import Tensor
from . import functional as F
from .module import Module
from .module_internals import Constants

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "Fold", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "Unfold", "Upsample",
]  # fmt: skip

Given = int | Sequence[int]


class _OfWindows(Constants, Module):
    """A function of windows; the repr shows some of its options."""

    function: Callable[..., Any]
    _shown: tuple[str, ...] = ()

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)


class _MaxPool(_OfWindows):
    """The largest value of each window; see `functional.max_pool2d`."""

    _shown = "kernel_size", "stride", "padding", "dilation", "ceil_mode"

    def __init__(
        self,
        kernel_size: Given,
        stride: Given | None = None,
        padding: Given = 0,
        dilation: Given = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.padding, self.dilation = kernel_size, padding, dilation
        self.stride = kernel_size if stride is None else stride
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        steps = self.kernel_size, self.stride, self.padding, self.dilation
        return type(self).function(input, *steps, self.ceil_mode, self.return_indices)


class MaxPool1d(_MaxPool, function=F.max_pool1d):
    """The largest value of each window of (N, C, L), or (C, L)."""


class MaxPool2d(_MaxPool, function=F.max_pool2d):
    """The largest value of each window of images (N, C, H, W), or (C, H, W)."""


class MaxPool3d(_MaxPool, function=F.max_pool3d):
    """The largest value of each window of volumes (N, C, D, H, W), or (C, D, H, W)."""


class _FractionalMaxPool(_OfWindows):
    """The largest value of windows that begin at random places; see `functional.fractional_max_pool2d`."""

    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: Given,
        output_size: Given | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"{name}(): one of output_size and output_ratio must be given, got {output_size} and {output_ratio}"
            )
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,)
        if output_ratio is not None and not all(0 < each < 1 for each in ratios):
            raise ValueError(f"{name}(): output_ratio must be between 0 and 1, got {output_ratio}")
        self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        options = self.output_size, self.output_ratio, self.return_indices, self._random_samples
        return type(self).function(input, self.kernel_size, *options)


class FractionalMaxPool2d(_FractionalMaxPool, function=F.fractional_max_pool2d):
    """The largest value of windows of images (N, C, H, W), or (C, H, W), that begin at random places."""


class FractionalMaxPool3d(_FractionalMaxPool, function=F.fractional_max_pool3d):
    """The largest value of windows of volumes (N, C, D, H, W), or (C, D, H, W), that begin at random places."""


class _AvgPool(_OfWindows):
    """The mean of each window; see `functional.avg_pool2d`."""

    _shown = "kernel_size", "stride", "padding"

    def __init__(
        self,
        kernel_size: Given,
        stride: Given | None = None,
        padding: Given = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self.kernel_size, self.padding, self.ceil_mode = kernel_size, padding, ceil_mode
        self.stride = kernel_size if stride is None else stride
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        options = self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override
        return type(self).function(input, self.kernel_size, self.stride, *options)


class AvgPool1d(_AvgPool, function=F.avg_pool1d):
    """The mean of each window of (N, C, L), or (C, L)."""


class AvgPool2d(_AvgPool, function=F.avg_pool2d):
    """The mean of each window of images (N, C, H, W), or (C, H, W)."""


class AvgPool3d(_AvgPool, function=F.avg_pool3d):
    """The mean of each window of volumes (N, C, D, H, W), or (C, D, H, W)."""


class _AdaptiveAvgPool(_OfWindows):
    """Means to a given size; see `functional.adaptive_avg_pool2d`."""

    _shown = ("output_size",)

    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPool, function=F.adaptive_avg_pool1d):
    """Means over windows of (N, C, L), or (C, L), as many as `output_size` says."""


class AdaptiveAvgPool2d(_AdaptiveAvgPool, function=F.adaptive_avg_pool2d):
    """Means over windows of images (N, C, H, W), or (C, H, W), as many as `output_size` says."""


class AdaptiveAvgPool3d(_AdaptiveAvgPool, function=F.adaptive_avg_pool3d):
    """Means over windows of volumes (N, C, D, H, W), or (C, D, H, W), as many as `output_size` says."""


class _AdaptiveMaxPool(_OfWindows):
    """Largest values to a given size; see `functional.adaptive_max_pool2d`."""

    _shown = ("output_size",)

    def __init__(self, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> None:
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return type(self).function(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool, function=F.adaptive_max_pool1d):
    """Largest values in windows of (N, C, L), or (C, L), as many as `output_size` says."""


class AdaptiveMaxPool2d(_AdaptiveMaxPool, function=F.adaptive_max_pool2d):
    """Largest values in windows of images (N, C, H, W), or (C, H, W), as many as `output_size` says."""


class AdaptiveMaxPool3d(_AdaptiveMaxPool, function=F.adaptive_max_pool3d):
    """Largest values in windows of volumes (N, C, D, H, W), or (C, D, H, W), as many as `output_size` says."""


class _MaxUnpool(_OfWindows):
    """Put values back at the places where pooling found them; see `functional.max_unpool2d`."""

    _shown = "kernel_size", "stride", "padding"

    def __init__(self, kernel_size: Given, stride: Given | None = None, padding: Given = 0) -> None:
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return type(self).function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpool, function=F.max_unpool1d):
    """Values put back to (N, C, L), or (C, L)."""


class MaxUnpool2d(_MaxUnpool, function=F.max_unpool2d):
    """Values put back to images (N, C, H, W), or (C, H, W)."""


class MaxUnpool3d(_MaxUnpool, function=F.max_unpool3d):
    """Values put back to volumes (N, C, D, H, W), or (C, D, H, W)."""


class Unfold(_OfWindows):
    """`functional.unfold`: windows of images as columns."""

    _shown = "kernel_size", "dilation", "padding", "stride"

    def __init__(self, kernel_size: Given, dilation: Given = 1, padding: Given = 0, stride: Given = 1) -> None:
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(_OfWindows):
    """`functional.fold`: images from columns of windows."""

    _shown = "output_size", "kernel_size", "dilation", "padding", "stride"

    def __init__(
        self, output_size: Given, kernel_size: Given, dilation: Given = 1, padding: Given = 0, stride: Given = 1
    ) -> None:
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


class Upsample(Module):
    """`functional.interpolate` to a size, or by a factor."""

    def __init__(
        self,
        size: Given | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        options = self.mode, self.align_corners, self.recompute_scale_factor
        return F.interpolate(input, self.size, self.scale_factor, *options)

    def extra_repr(self) -> str:
        how = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{how}, mode={self.mode!r}"
