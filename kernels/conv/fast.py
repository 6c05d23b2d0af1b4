"""Which convolutions the compiled implementations take, and why not. Nothing here imports the compiler."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..gemm.compiled import computed_by_panels, computed_precision, vector_isa
from ..precisions import products as precisions
from ..registry import ArraySpec
from ..runtime import cpu
from .params import setting_of

Computes = Callable[[str, np.dtype, str], str | None]

_SUMS_BYTES = 1 << 21

CHUNK_BYTES = 1 << 22
"""Of what is packed at a time for a weight's gradient on vector units, unless one image or the sums take more."""


def _unknown(
    isa: str, x: ArraySpec, other: ArraySpec, precision: str, rounding: str, takes: Computes = computed_precision
) -> str | None:
    """The reason why no loops of an instruction set convolve arrays of these dtypes at this precision. `takes` is the
    loops' format."""
    if precision not in precisions.PRECISIONS or rounding not in precisions.ROUNDINGS:
        return f"does not support precision {precision!r} with rounding {rounding!r}"
    if x.dtype != other.dtype:
        return f"takes arrays of one dtype, not {x.dtype.name} and {other.dtype.name}"
    if takes(isa, x.dtype, precision) is None:
        return f"has no loops for {x.dtype.name} at {precision}"
    if not 3 <= x.ndim <= 5:
        return f"takes one to three spatial dimensions, not {x.ndim - 2}"
    if 0 in other.shape or 0 in x.shape[1:]:
        return "leaves empty arrays to others"
    return None


def refuses_direct(
    x: ArraySpec, weight: ArraySpec, *others: ArraySpec, precision: str = "ieee", rounding: str = "rna", **_: Any
) -> str | None:
    """Why a convolution, or one of its gradients, is not done by tiles."""
    return cpu.refusal("amx") or _unknown("amx", x, weight, precision, rounding)


MOST_ACROSS = 4
"""Between the columns that neighbouring lanes read, or write. Where they are further apart, lanes are channels."""


def _not_depthwise(channels: int, outputs: int, groups: int, stride: Sequence[int]) -> str | None:
    if channels != groups:
        return f"takes one channel in each group, not {channels // groups}"
    if max(stride[-1:], default=1) > MOST_ACROSS and (outputs > groups or groups == 1):
        return (
            f"takes a stride of at most {MOST_ACROSS} columns where channels have several outputs each, or there is one"
        )
    return None


def refuses_depthwise(
    x: ArraySpec, weight: ArraySpec, *others: ArraySpec, groups: int = 1, stride: Sequence[int] = (),
    precision: str = "ieee", rounding: str = "rna", **_: Any,
) -> str | None:  # fmt: skip
    """Why a convolution, or the gradient with respect to its input, is not done channel by channel."""
    other = _not_depthwise(groups * weight.shape[1], weight.shape[0], groups, stride)
    return other or _unknown(vector_isa(), x, weight, precision, rounding)


def refuses_weight_depthwise(
    x: ArraySpec, g: ArraySpec, *, groups: int = 1, stride: Sequence[int] = (), precision: str = "ieee",
    rounding: str = "rna", **_: Any,
) -> str | None:  # fmt: skip
    """Why the gradient with respect to a weight is not computed channel by channel."""
    other = _not_depthwise(x.shape[1], g.shape[1], groups, stride)
    return other or _unknown(vector_isa(), x, g, precision, rounding)


def refuses_implicit(
    x: ArraySpec, weight: ArraySpec, *others: ArraySpec, precision: str = "ieee", rounding: str = "rna", **_: Any
) -> str | None:
    """Why a convolution, or one of its gradients, is not done as an implicit product."""
    return _unknown(vector_isa(), x, weight, precision, rounding, computed_by_panels)


def _packed_bytes(x: ArraySpec, channels: int, item: int) -> int:
    """Bytes of the activations with their channels in whole cache lines, padding (at most a kernel's) aside."""
    line = -(-channels * item // 64) * 64
    return x.shape[0] * math.prod(size + 2 for size in x.shape[2:]) * line


def workspace_direct(x: ArraySpec, weight: ArraySpec, *_: ArraySpec, precision: str = "ieee", **keywords: Any) -> int:
    """About what a convolution on tiles takes: all activations packed, and two megabytes of sums."""
    parts = precisions.PRECISIONS[precision].bf16_parts if x.dtype == np.float32 else 1
    return parts * _packed_bytes(x, x.shape[1], 2) + _SUMS_BYTES


def _value_bytes(x: ArraySpec, precision: str) -> int:
    """Bytes of what an implicit product reads for each value."""
    return max(4, x.dtype.itemsize) * (2 if computed_by_panels(vector_isa(), x.dtype, precision) == "bf16x3" else 1)


def workspace_implicit(x: ArraySpec, *_: ArraySpec, precision: str = "ieee", **__: Any) -> int:
    """About what an implicit product takes: all activations with their padding."""
    return math.prod(x.shape[:2]) * math.prod(size + 2 for size in x.shape[2:]) * _value_bytes(x, precision)


def workspace_weight_direct(x: ArraySpec, g: ArraySpec, *, precision: str = "ieee", **keywords: Any) -> int:
    """About what a weight's gradient on tiles takes: both operands in lines, and again for the product, x twice."""
    parts = precisions.PRECISIONS[precision].bf16_parts if x.dtype == np.float32 else 1
    return parts * (3 * _packed_bytes(x, x.shape[1], 2) + 2 * _packed_bytes(g, g.shape[1], 2)) + _SUMS_BYTES


def workspace_weight_implicit(
    x: ArraySpec, g: ArraySpec, *, kernel_size: tuple[int, ...], groups: int = 1, precision: str = "ieee", **_: Any
) -> int:
    """About what an implicit product takes: both operands of some images, one at least, and the weight's sums."""
    channels, outputs = x.shape[1] // groups, -(-g.shape[1] // groups // 32) * 32
    sums = math.prod(kernel_size) * (channels + 13) * outputs * max(4, x.dtype.itemsize)
    positions = math.prod(size + 2 for size in x.shape[2:])
    image = positions * (channels + outputs) * _value_bytes(x, precision)
    return max(image, min(max(CHUNK_BYTES, sums), x.shape[0] * image)) + sums


class Compiled(NamedTuple):
    """An implementation that is imported, with the compiler, when it is called first.

    Attributes:
        module, function: its names, of a function of a `Setting` and of the arrays.
        kind: of its setting.
    """

    module: str
    function: str
    kind: str

    def __call__(self, x: np.ndarray, *others: Any, **keywords: Any) -> np.ndarray:
        return self.prepare(x.ndim - 2, keywords)(x, *others)

    def prepare(self, dims: int, keywords: dict[str, Any]) -> Callable[..., np.ndarray]:
        """The function of the arrays alone."""
        function = getattr(importlib.import_module(f".{self.module}", __package__), self.function)
        return functools.partial(function, setting_of(self.kind, dims, **keywords))


conv_direct = Compiled("direct", "convolve", "forward")
input_gradient_direct = Compiled("direct", "convolve", "input")
weight_gradient_direct = Compiled("weight_direct", "weight_gradient", "weight")
conv_depthwise = Compiled("channelwise", "convolve", "forward")
input_gradient_depthwise = Compiled("channelwise", "convolve", "input")
weight_gradient_depthwise = Compiled("channelwise", "weight_gradient", "weight")
conv_implicit = Compiled("implicit", "convolve", "forward")
input_gradient_implicit = Compiled("implicit", "convolve", "input")
weight_gradient_implicit = Compiled("weight_implicit", "weight_gradient", "weight")
