"""Names of `torch.nn` for several devices, and those of its parts that other libraries import."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ... import nn
from ...nn.convolution import _Convolution as _ConvNd  # noqa: F401
from ...nn.normalization import _BatchNorm, _InstanceNorm  # noqa: F401
from ...nn.normalization import _OfChannels as _NormBase  # noqa: F401
from .parallel import DataParallel  # noqa: F401

NAMES = [
    "DataParallel", "NonDynamicallyQuantizableLinear", "SyncBatchNorm",
    "UpsamplingBilinear2d", "UpsamplingNearest2d", "_BatchNorm", "_ConvNd", "_DropoutNd", "_InstanceNorm", "_NormBase",
    "_get_activation_fn", "_ntuple", "_pair", "_quadruple", "_single", "_triple",
]  # fmt: skip

NonDynamicallyQuantizableLinear, _DropoutNd = nn.Linear, nn.Dropout


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes, which is a single one here."""

    ndims = (2, 3, 4, 5)

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: Any = None,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """Return the module: batches of one process are those of all."""
        return module


class UpsamplingNearest2d(nn.Upsample):
    """`Upsample` of mode "nearest"."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(nn.Upsample):
    """`Upsample` of mode "bilinear", whose corners are aligned."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that repeats a number `n` times, and makes a tuple of other iterables."""
    return lambda x: tuple(x) if isinstance(x, Iterable) else (x,) * n


_single, _pair, _triple, _quadruple = map(_ntuple, (1, 2, 3, 4))


def _get_activation_fn(activation: str) -> Callable[..., Any]:
    """The function of the name "relu" or "gelu"."""
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation must be 'relu' or 'gelu', got {activation!r}")
    return getattr(nn.functional, activation)
