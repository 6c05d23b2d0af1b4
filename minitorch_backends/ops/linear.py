"""The affine map of a layer, and the weight that a layer keeps packed for inference."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..autograd.versions import writes
from ..flags import current
from ..kernels.gemm import Kept, gains_by_keeping
from ..kernels.gemm import linear as kernel
from ..kernels.registry import ArraySpec
from ..op import composite
from ..samples import Sample, between, sample
from ..tensor import Tensor, adopt
from .addmm import addmm
from .products import float32_call

__all__ = ["PackedWeight", "linear"]


def _samples() -> Iterator[Sample]:
    weight, bias = between(-1, 1, 3, 4, seed=1), between(-1, 1, 3, seed=2)
    yield sample(between(-1, 1, 2, 4), weight)
    yield sample(between(-1, 1, 2, 5, 4), weight, bias)
    yield sample(between(-1, 1, 8, 4)[::2, ::-2].T, weight, bias)
    yield sample(between(-1, 1, 4), weight, bias)
    yield sample(between(-1, 1, 2, 4), weight[0])
    yield sample(between(-1, 1, 0, 4), weight, bias)


def _reference(input: Any, weight: Any, bias: Any = 0) -> Any:
    return input @ weight.T + bias


@composite(takes="ifc", method=False, reference=_reference, samples=_samples)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias.

    input: (..., in_features); weight: (out_features, in_features) or (in_features); bias: (out_features) or ().
    """
    if bias is None or not _fuses(input, weight, bias):
        product = input @ weight.t()
        return product if bias is None else product + bias
    rows = input if input.ndim == 2 else input.flatten(0, -2)
    out = addmm(bias, rows, weight.t())
    return out if input.ndim == 2 else out.unflatten(0, input.shape[:-1])


_LEAST_FUSED, _LEAST_FUSED_OF_HALVES = 1 << 20, 1 << 14
"""Values of the result from which the bias is added while the product is stored, which takes 20 us of Python, and of
half types is rounded once. [4096, 256] to 512 takes 3.8 ms in place of 4.5, in float16 4.2 of 13.5, [64, 256] to 256 in
float16 162 us of 226."""


def _fuses(input: Tensor, weight: Tensor, bias: Tensor) -> bool:
    x, w, b = input._array, weight._array, bias._array
    if x.ndim < 2 or w.ndim != 2 or b.ndim > 1 or not x.dtype == w.dtype == b.dtype:
        return False
    values = math.prod(x.shape[:-1]) * w.shape[0]
    return values >= (_LEAST_FUSED_OF_HALVES if x.dtype.itemsize == 2 else _LEAST_FUSED)


_FLOAT32 = np.dtype(np.float32)


class PackedWeight:
    """A layer's weight in the form that products read, kept while its memory, its version and the flags are the same.

    Inference with fixed weights pays for packing once. In-place operations on the weight are noticed, those through
    `weight.data` too; writes into the array behind the engine's back (`weight.detach().numpy()[...] = ...`) are not.
    """

    __slots__ = ("_key", "_kept", "_source")

    def __init__(self) -> None:
        self._source: np.ndarray | None = None
        self._key: tuple | None = None
        self._kept: Kept | None = None

    def __reduce__(self) -> tuple:
        return PackedWeight, ()

    def linear(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`linear` where nothing is recorded: from the packed weight, when products of these shapes gain by it."""
        x, w, b = input._array, weight._array, None if bias is None else bias._array
        fits = x.ndim >= 2 and w.ndim == 2 and x.shape[-1] == w.shape[1] and (b is None or b.dtype is _FLOAT32)
        if not fits or x.dtype is not _FLOAT32 or w.dtype is not _FLOAT32:
            return linear(input, weight, bias)
        state = current()
        decided_by, keywords = state.derived.get("float32 product") or float32_call(state)
        if "prefer" in keywords or not gains_by_keeping(
            ArraySpec(x.shape, x.dtype), ArraySpec(w.shape[::-1], w.dtype), **keywords
        ):
            return linear(input, weight, bias)
        version = writes(weight)
        if version is None:
            return linear(input, weight, bias)
        key = (version, *keywords.items())
        if self._source is not w or self._key != key:
            self._kept, self._source, self._key = Kept(w.T, **keywords), w, key
        arrays = (x, self._kept) if b is None else (x, self._kept, b)
        return adopt(kernel(*arrays, decided_by=decided_by, **keywords))
