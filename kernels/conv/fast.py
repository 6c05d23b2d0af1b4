"""Which convolutions the compiled implementations take, and why not. Nothing here imports the compiler."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import precision as precisions
from ..gemm.compiled import computed
from ..registry import ArraySpec
from .setting import setting_of

__all__ = [
    "Compiled",
    "conv_depthwise",
    "conv_direct",
    "conv_implicit",
    "input_gradient_depthwise",
    "input_gradient_direct",
    "input_gradient_implicit",
    "refuses_depthwise",
    "refuses_direct",
    "refuses_implicit",
    "refuses_weight_depthwise",
    "refuses_weight_implicit",
    "slower_weight_implicit",
    "weight_gradient_depthwise",
    "weight_gradient_direct",
    "weight_gradient_implicit",
    "workspace_direct",
    "workspace_implicit",
    "workspace_weight_direct",
    "workspace_weight_implicit",
]

_SUMS_BYTES = _CHUNK_BYTES = 1 << 21


def _unknown(isa: str, x: ArraySpec, other: ArraySpec, precision: str, rounding: str) -> str | None:
    """Why arrays of these dtypes are not convolved at this precision by any loops of an instruction set."""
    if precision not in precisions.PRECISIONS or rounding not in precisions.ROUNDINGS:
        return f"does not know precision {precision!r} with rounding {rounding!r}"
    if x.dtype != other.dtype:
        return f"takes arrays of one dtype, not {x.dtype.name} and {other.dtype.name}"
    if computed(isa, x.dtype, precision) is None:
        return f"has no loops for {x.dtype.name} at {precision}"
    if not 3 <= x.ndim <= 5:
        return f"takes one to three spatial dimensions, not {x.ndim - 2}"
    if 0 in other.shape or 0 in x.shape[1:]:
        return "leaves empty arrays to others"
    return None


def refuses_direct(
    x: ArraySpec, weight: ArraySpec, *others: ArraySpec, precision: str = "ieee", rounding: str = "rna", **_: Any
) -> str | None:
    """Why a convolution, or the gradient with respect to its input, is not done on tiles."""
    return _unknown("amx", x, weight, precision, rounding)


def _not_depthwise(channels: int, groups: int) -> str | None:
    if channels != groups:
        return f"takes one channel in each group, not {channels // groups}"
    return None


def refuses_depthwise(
    x: ArraySpec,
    weight: ArraySpec,
    *others: ArraySpec,
    groups: int = 1,
    precision: str = "ieee",
    rounding: str = "rna",
    **_: Any,
) -> str | None:
    """Why a convolution, or the gradient with respect to its input, is not done channel by channel."""
    other = _not_depthwise(groups * weight.shape[1], groups)
    return other or _unknown("avx512", x, weight, precision, rounding)


def refuses_weight_depthwise(
    x: ArraySpec, g: ArraySpec, *, groups: int = 1, precision: str = "ieee", rounding: str = "rna", **_: Any
) -> str | None:
    """Why the gradient with respect to a weight is not computed channel by channel."""
    return _not_depthwise(x.shape[1], groups) or _unknown("avx512", x, g, precision, rounding)


def refuses_implicit(
    x: ArraySpec, weight: ArraySpec, *others: ArraySpec, precision: str = "ieee", rounding: str = "rna", **_: Any
) -> str | None:
    """Why a convolution, or the gradient with respect to its input, is not done as an implicit product."""
    return _unknown("avx512", x, weight, precision, rounding)


def refuses_weight_implicit(
    x: ArraySpec, g: ArraySpec, *, precision: str = "ieee", rounding: str = "rna", **_: Any
) -> str | None:
    """Why the gradient with respect to a weight is not done as an implicit product."""
    return _unknown("avx512", x, g, precision, rounding)


_LEAST_CHANNELS = 8
"""Of a group, which fill enough of a panel (bench/NOTES.md, "Convolutions")."""


def slower_weight_implicit(x: ArraySpec, g: ArraySpec, *, groups: int = 1, **_: Any) -> str | None:
    """Why columns are faster."""
    if x.shape[1] // groups < _LEAST_CHANNELS:
        return f"is slower for {x.shape[1] // groups} channels in a group; faster from {_LEAST_CHANNELS}"
    return None


def _packed_bytes(x: ArraySpec, channels: int, item: int) -> int:
    """Bytes of the activations with their channels in whole cache lines, padding (at most a kernel's) aside."""
    line = -(-channels * item // 64) * 64
    return x.shape[0] * math.prod(size + 2 for size in x.shape[2:]) * line


def workspace_direct(x: ArraySpec, weight: ArraySpec, *_: ArraySpec, precision: str = "ieee", **keywords: Any) -> int:
    """About what a convolution on tiles takes: all activations packed, and two megabytes of sums."""
    parts = {"bf16": 1, "bf16x3": 2, "tf32": 2, "fp16": 2}.get(precision, 3) if x.dtype == np.float32 else 1
    return parts * _packed_bytes(x, x.shape[1], 2) + _SUMS_BYTES


def workspace_implicit(x: ArraySpec, *_: ArraySpec, **__: Any) -> int:
    """About what an implicit product takes: all activations with their padding."""
    return math.prod(x.shape[:2]) * math.prod(size + 2 for size in x.shape[2:]) * max(4, x.dtype.itemsize)


def workspace_weight_direct(x: ArraySpec, g: ArraySpec, *, precision: str = "ieee", **keywords: Any) -> int:
    """About what a weight's gradient on tiles takes: both operands in lines, and again for the product, x twice."""
    parts = {"bf16": 1, "bf16x3": 2, "tf32": 2, "fp16": 2}.get(precision, 3) if x.dtype == np.float32 else 1
    return parts * (3 * _packed_bytes(x, x.shape[1], 2) + 2 * _packed_bytes(g, g.shape[1], 2)) + _SUMS_BYTES


def workspace_weight_implicit(x: ArraySpec, g: ArraySpec, *, kernel_size: tuple[int, ...], **_: Any) -> int:
    """About what an implicit product takes: some positions packed, and the weight in blocks."""
    return _CHUNK_BYTES + math.prod(kernel_size) * (x.shape[1] + 31) * (g.shape[1] + 31) * max(4, x.dtype.itemsize)


class Compiled(NamedTuple):
    """An implementation that is imported, with the compiler, when it is called first.

    Attributes:
        function: imports and returns it, a function of a `Setting` and of the arrays.
        kind: of its setting.
    """

    function: Callable[[], Callable[..., np.ndarray]]
    kind: str

    def __call__(self, x: np.ndarray, *others: Any, **keywords: Any) -> np.ndarray:
        return self.prepared(x.ndim - 2, keywords)(x, *others)

    def prepared(self, dims: int, keywords: dict[str, Any]) -> Callable[..., np.ndarray]:
        """The function of the arrays alone."""
        return functools.partial(self.function(), setting_of(self.kind, dims, **keywords))


def _direct() -> Any:
    from . import direct

    return direct


def _channelwise() -> Any:
    from . import channelwise

    return channelwise


def _implicit() -> Any:
    from . import implicit

    return implicit


def _of_weight() -> Any:
    from . import weight_direct

    return weight_direct


def _of_weight_implicit() -> Any:
    from . import weight_implicit

    return weight_implicit


conv_direct = Compiled(lambda: _direct().convolve, "forward")
input_gradient_direct = Compiled(lambda: _direct().convolve, "input")
weight_gradient_direct = Compiled(lambda: _of_weight().weight_gradient, "weight")
conv_depthwise = Compiled(lambda: _channelwise().convolve, "forward")
input_gradient_depthwise = Compiled(lambda: _channelwise().convolve, "input")
weight_gradient_depthwise = Compiled(lambda: _channelwise().weight_gradient, "weight")
conv_implicit = Compiled(lambda: _implicit().convolve, "forward")
input_gradient_implicit = Compiled(lambda: _implicit().convolve, "input")
weight_gradient_implicit = Compiled(lambda: _of_weight_implicit().weight_gradient, "weight")
