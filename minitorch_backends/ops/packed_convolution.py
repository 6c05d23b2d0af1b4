"""The weight that a convolution keeps packed for inference, and the bias and ReLU that are done while it stores."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.conv import Kept
from ..kernels.conv import conv as kernel
from ..kernels.conv.shapes import output_size, steps
from ..tensor import Tensor, adopt
from . import conv as functions
from .conv import numbers
from .convolution import run

__all__ = ["PackedConvolution"]

_FUNCTIONS = (functions.conv1d, functions.conv2d, functions.conv3d)
_FLOAT32 = np.dtype(np.float32)


class PackedConvolution:
    """A convolution's weight with its packed forms, kept while its memory and its version are the same.

    Inference with fixed weights pays for packing once for each precision. In-place operations on the weight are noticed
    by its version; writes into the array behind the engine's back are not.
    """

    __slots__ = ("_kept", "_source", "_version")

    def __init__(self) -> None:
        self._source: np.ndarray | None = None
        self._version = -1
        self._kept: Any = None

    def __reduce__(self) -> tuple:
        return PackedConvolution, ()

    def conv(
        self, dims: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
        groups: int, relu: bool = False,
    ) -> Tensor:  # fmt: skip
        """The convolution where nothing is recorded, from the packed weight; `relu` gives max(result, 0)."""
        x, w = input._array, weight._array
        fits = (
            x.ndim == dims + 2 and x.dtype is _FLOAT32 and w.dtype is _FLOAT32 and not isinstance(padding, str)
        ) and x.shape[1] == w.shape[1] * groups  # fmt: skip
        if fits:
            at = steps(dims, *(numbers("conv", "steps", each, dims) for each in (stride, padding, dilation)))
            fits = 0 not in x.shape[1:] and min(output_size(x.shape[2:], w.shape[2:], at)) > 0
        if not fits or (bias is not None and bias._array.dtype is not _FLOAT32):
            result = _FUNCTIONS[dims - 1](input, weight, bias, stride, padding, dilation, groups)
            return result.relu() if relu else result
        if self._source is not w or self._version != weight._version:
            self._kept, self._source, self._version = Kept(w), w, weight._version
        arrays = (x, self._kept) if bias is None else (x, self._kept, bias._array)
        options: dict[str, Any] = {"relu": True} if relu else {}
        return adopt(run(kernel, *arrays, **at._asdict(), groups=groups, **options))
