"""Layers of normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops.creation.factories import ones, tensor, zeros
from ..tensor.tensor import Parameter, Tensor
from . import functional as F
from . import init
from .module import Module
from .module_internals import Constants

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
    "LayerNorm", "RMSNorm",
]  # fmt: skip


# Over the last dimensions, or groups of channels


def _shape_of(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Module):
    """`functional.layer_norm` over the last dimensions, with a weight of ones and a bias of zeros to learn."""

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape, self.eps, self.elementwise_affine = _shape_of(normalized_shape), eps, elementwise_affine
        shape, options = self.normalized_shape, {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(ones(shape, **options)) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(zeros(shape, **options)) if elementwise_affine and bias else None)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """`functional.group_norm` of channels in `num_groups` groups, with a weight of ones and a bias of zeros to learn
    for each channel. Raises ValueError for a number of groups that does not divide that of channels."""

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        options = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(ones(num_channels, **options)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_channels, **options)) if affine and bias else None)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class RMSNorm(Module):
    """`functional.rms_norm` over the last dimensions, with a weight of ones to learn."""

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape, self.eps, self.elementwise_affine = _shape_of(normalized_shape), eps, elementwise_affine
        weight = Parameter(ones(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


# Without


# Over channels


class _OfChannels(Constants, Module):
    """What normalisations over channels have: a weight of ones and a bias of zeros to learn, and running statistics in
    buffers."""

    ndims: tuple[int, ...]
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        options = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(ones(num_features, **options)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_features, **options)) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **options) if tracked else None)
        self.register_buffer("running_var", ones(num_features, **options) if tracked else None)
        self.register_buffer("num_batches_tracked", tensor(0) if tracked else None)

    def reset_running_stats(self) -> None:
        """Forget what has been seen."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset statistics, weight and bias."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _refuse(self, input: Tensor) -> None:
        """Raise ValueError for inputs of other dimensions."""
        if input.ndim not in self.ndims:
            expected = " or ".join(f"{each}D" for each in self.ndims)
            raise ValueError(f"expected {expected} input (got {input.ndim}D input of shape {list(input.shape)})")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_OfChannels):
    """`functional.batch_norm`; `momentum=None` averages all batches equally."""

    def forward(self, input: Tensor) -> Tensor:
        self._refuse(input)
        share = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                share = 1 / self.num_batches_tracked.item()
        own = self.training or self.running_mean is None
        kept = (self.running_mean, self.running_var) if not own or self.track_running_stats else (None, None)
        return F.batch_norm(input, *kept, self.weight, self.bias, own, share, self.eps)


class BatchNorm1d(_BatchNorm, ndims=(2, 3)):
    """Batch normalisation of (N, C) or (N, C, L)."""


class BatchNorm2d(_BatchNorm, ndims=(4,)):
    """Batch normalisation of images (N, C, H, W)."""


class BatchNorm3d(_BatchNorm, ndims=(5,)):
    """Batch normalisation of volumes (N, C, D, H, W)."""


class _InstanceNorm(_OfChannels):
    """`functional.instance_norm`. Weights and running statistics (used in evaluation) are optional."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._refuse(input)
        if input.ndim < max(self.ndims):
            return self.forward(input.unsqueeze(0)).squeeze(0)
        own, kept = self.training or not self.track_running_stats, (self.running_mean, self.running_var)
        momentum = 0.0 if self.momentum is None else self.momentum
        return F.instance_norm(input, *kept, self.weight, self.bias, own, momentum, self.eps)


class InstanceNorm1d(_InstanceNorm, ndims=(2, 3)):
    """Instance normalisation of (N, C, L), or (C, L)."""


class InstanceNorm2d(_InstanceNorm, ndims=(3, 4)):
    """Instance normalisation of images (N, C, H, W), or (C, H, W)."""


class InstanceNorm3d(_InstanceNorm, ndims=(4, 5)):
    """Instance normalisation of volumes (N, C, D, H, W), or (C, D, H, W)."""
