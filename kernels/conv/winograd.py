"""Winograd's minimal convolution F(2x2, 3x3): 2.25 times fewer products than direct sums.

Tiles of the image and the weights are transformed, multiplied (one matrix product per position of a tile), and
transformed back. All transforms are in float32, whatever the precision of the products. A block of tiles passes through
all steps within the cache of one core (`winograd_loops`). (S. Winograd, "Arithmetic complexity of computations", 1980;
A. Lavin, S. Gray, "Fast algorithms for convolutional neural networks", arXiv 1509.09308, with the points 0, 1, -1 and
infinity.)

Errors are relative to the largest sums of a tile, and as large as direct sums'. Rounded operands are amplified, so that
it takes precisions down to bf16x3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..precisions.products import PRODUCT_BOUND
from ..registry import ArraySpec, Refused
from ..runtime import threading
from ..runtime.errstate import restore, silence
from ..runtime.first_use import calls_blas
from .shapes import steps

_MOST_ERROR = 2.0**-14  # of one product, which the transforms amplify


def conv_refuses(x: ArraySpec, weight: ArraySpec, *_: ArraySpec, **keywords: Any) -> str | None:
    if x.dtype != np.float32 or weight.dtype != np.float32:
        return f"transforms float32 arrays only, not {x.dtype.name} and {weight.dtype.name}"
    if weight.shape[2:] != (3, 3):
        return f"takes kernels of 3 x 3 only, not {' x '.join(map(str, weight.shape[2:]))}"
    for name in ("stride", "dilation"):
        if any(each != 1 for each in keywords.get(name, ())):
            return f"takes steps of 1 only, and {name} is {keywords[name]}"
    if keywords.get("groups", 1) != 1:
        return f"does not group channels, and groups is {keywords['groups']}"
    if 0 in x.shape or 0 in weight.shape:
        return f"transforms no empty arrays, {list(x.shape)} and {list(weight.shape)}"
    precision = keywords.get("precision", "ieee")
    if PRODUCT_BOUND.get(precision, math.inf) > _MOST_ERROR:
        taken = ", ".join(name for name, error in PRODUCT_BOUND.items() if error <= _MOST_ERROR)
        return f"would amplify the error of {precision}; takes {taken}"
    return None


def input_gradient_refuses(
    g: ArraySpec, weight: ArraySpec, *, input_size: Sequence[int], **keywords: Any
) -> str | None:
    padding = keywords.get("padding", ())
    if any(pad > 2 for pad in padding):
        return f"takes a padding of at most 2, and it is {padding}"
    return conv_refuses(g, weight, **keywords)


def workspace(x: ArraySpec, weight: ArraySpec, *_: ArraySpec, **__: Any) -> int:
    """About what the values and sums of the threads and the transformed weights take."""
    channels, outputs = x.shape[1], weight.shape[0] * weight.shape[1] // x.shape[1]
    return 16 * (threading.get_num_threads() * 128 * (channels + min(outputs, 140)) + 5 * channels * outputs)


@calls_blas
def _require_finite(x: np.ndarray) -> None:
    """Raise Refused for infinities, which differences of a tile's values make NaN."""
    flat = x.reshape(-1) if x.flags.c_contiguous else x.ravel("K")
    token = silence()
    try:
        squares = flat.dot(flat)
    finally:
        restore(token)
    if not np.isfinite(squares) and not np.isfinite(x).all():
        raise Refused("its input is not finite, and a tile's values would spread")


def conv(
    x: np.ndarray, weight: Any, bias: np.ndarray | None = None, *, padding: Sequence[int] = (), relu: bool = False,
    **_: Any,
) -> np.ndarray:  # fmt: skip
    from .winograd_plans import convolve

    _require_finite(x)
    at = steps(2, (), padding)
    size = [length + 2 * pad - 2 for length, pad in zip(x.shape[2:], at.padding, strict=True)]
    return convolve(x, weight, bias, False, at.padding, size, relu)


def input_gradient(
    g: np.ndarray, weight: Any, *, input_size: Sequence[int], padding: Sequence[int] = (), **_: Any
) -> np.ndarray:
    from .winograd_plans import convolve

    _require_finite(g)
    before = [2 - pad for pad in steps(2, (), padding).padding]
    return convolve(g, weight, None, True, before, tuple(input_size), False)
