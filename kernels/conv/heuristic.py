"""The default algorithm: the first row of `TABLE`, for a kernel and its number of taps, that does not refuse the call
("fft" compares numbers of operations, see `fourier.py`). The measurements are in bench/NOTES.md, "Convolutions"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..gemm.compiled import computed_precision
from ..precisions.products import PRECISIONS
from ..registry import ArraySpec
from .shapes import output_size, steps

TIMED = "cudnn.benchmark = True times it"
"""What helps where an algorithm is only usually slower."""

_BOTH = ("conv", "conv_input_gradient")
_ALL = (*_BOTH, "conv_weight_gradient")


class Row(NamedTuple):
    """One algorithm of some kernels.

    Attributes:
        least_taps: the minimum number of taps for which it is a default, infinity for never.
        otherwise: why it is not a default below.
    """

    algorithm: str
    kernels: tuple[str, ...]
    least_taps: float = 0
    otherwise: str = ""

    def refusal(self, taps: int) -> str | None:
        """Why the algorithm is not the default for a kernel of so many taps, or None."""
        if taps >= self.least_taps:
            return None
        return f"{self.otherwise}; {TIMED}"


TABLE = (
    Row("winograd2", _BOTH, math.inf, "transforms its weights, which costs more than it saves unless they are kept"),
    Row("fft", _ALL),
    Row("depthwise", _ALL),
    Row("direct", _ALL),
    Row("implicit", _ALL),
    Row("explicit", _ALL),
)
"""Best first."""


_TILE_NS, _PACK_NS = {1: 100.0, 2: 170.0, 3: 290.0}, {1: 0.25, 2: 0.35, 3: 0.45}
_VECTOR_NS, _LAY_OUT_NS, _MARGIN = 0.0131, 0.12, 1.1
"""On tiles, by the parts of an operand: of 32 positions, 32 outputs and 32 channels of a tap; of laying out a value. On
vectors of 16 outputs: of a product; of laying out a value; by how much they must be faster. (One thread, Xeon.)"""


def slower_on_tiles(
    x: ArraySpec, weight: ArraySpec, *_: ArraySpec, stride: Sequence[int] = (), padding: Sequence[int] = (),
    dilation: Sequence[int] = (), groups: int = 1, precision: str = "ieee", input_size: Sequence[int] = (),
    kernel_size: Sequence[int] = (), **__: Any,
) -> str | None:  # fmt: skip
    """Why a convolution, or one of its gradients, is left to vectors: few channels or outputs leave most of a tile
    empty. Weights, which may be kept packed, are not counted."""
    outputs, channels, *kernel = weight.shape
    if kernel_size:
        outputs, channels, kernel = channels, x.shape[1] // groups, list(kernel_size)
    inner, size, outputs = computed_precision("amx", x.dtype, precision), x.shape[2:], outputs // groups
    if inner is None or (input_size and max(stride, default=1) > 1):  # each phase is a pass of its own on vectors
        return None
    if input_size:
        outputs, channels = channels, outputs
    else:
        size = output_size(size, kernel, steps(len(kernel), stride, padding, dilation))
    parts, taps, images = PRECISIONS[inner].bf16_parts, math.prod(kernel), x.shape[0] * groups
    folded, values = 1 if input_size or channels * kernel[-1] > 32 else kernel[-1], math.prod(x.shape)
    blocks = images * -(-math.prod(size) // 32) * -(-channels * folded // 32) * (taps // folded) * -(-outputs // 32)
    products = images * math.prod(size) * channels * taps * -(-outputs // 16) * 16
    on_vectors = products * _VECTOR_NS + values * _LAY_OUT_NS
    if blocks * _TILE_NS[parts] + values * folded * _PACK_NS[parts] <= _MARGIN * on_vectors:
        return None
    return f"leaves {channels} channels and {outputs} outputs to vectors, since they fill little of its tiles; {TIMED}"
