"""The weight that a convolution keeps packed for inference, and the bias and ReLU that are done while it stores."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends import precision_policy
from ...backends.operands import LAYER_ROLES, act_on
from ...kernels.conv import Kept
from ...kernels.conv import conv as kernel
from ...kernels.conv import conv_input_gradient as transposed_kernel
from ...kernels.conv.shapes import Steps, output_size, steps, transposed_size
from ...serialization.safe_globals import always_safe
from ...tensor.tensor import Tensor, adopt
from ..packed import Packed
from . import functions
from .convolution import run
from .functions import Sizes, numbers

_FUNCTIONS = (functions.conv1d, functions.conv2d, functions.conv3d)
_TRANSPOSED = (functions.conv_transpose1d, functions.conv_transpose2d, functions.conv_transpose3d)
_FLOAT32 = np.dtype(np.float32)


def _legal(x: np.ndarray, w: np.ndarray, stride: Any, dilation: Any, padding: Any) -> bool:
    """Whether these are valid sizes and steps of a convolution; the functions report errors."""
    return 0 not in x.shape[1:] and w.size > 0 and min(*stride, *dilation) > 0 and min(padding) >= 0


@always_safe
class PackedConvolution(Packed):
    """A convolution's weight with its packed forms."""

    __slots__ = ()

    def conv(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, options: tuple[Any, Any, Any, int], relu: bool = False
    ) -> Tensor:
        """The convolution where nothing is recorded, from the packed weight; `relu` gives max(result, 0).

        `options` are stride, padding, dilation and groups.
        """
        x, w, (stride, padding, dilation, groups) = input._array, weight._array, options
        dims = w.ndim - 2
        fits = (
            x.ndim == dims + 2 and x.dtype is _FLOAT32 and w.dtype is _FLOAT32 and not isinstance(padding, str)
        ) and x.shape[1] == w.shape[1] * groups  # fmt: skip
        if fits:
            at = steps(dims, *(numbers("conv", "steps", each, dims) for each in (stride, padding, dilation)))
            legal = _legal(x, w, at.stride, at.dilation, at.padding)
            fits = legal and min(output_size(x.shape[2:], w.shape[2:], at)) > 0
        if not fits or (bias is not None and bias._array.dtype is not _FLOAT32):
            result = _FUNCTIONS[dims - 1](input, weight, bias, *options)
            return result.relu() if relu else result
        if precision_policy.by_role and act_on(LAYER_ROLES):
            result = _FUNCTIONS[dims - 1](input, weight, bias, *options)
            return result.relu() if relu else result
        kept = self._of(weight)
        arrays = (x, kept) if bias is None else (x, kept, bias._array)
        stored: dict[str, Any] = {"relu": True} if relu else {}
        return adopt(run(kernel, *arrays, **at._asdict(), groups=groups, **stored))

    def conv_transposed(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, options: tuple[Sizes, Sizes, Sizes, int, Sizes]
    ) -> Tensor:
        """The transposed convolution where nothing is recorded, from the packed weight.

        `options` are stride, padding, output padding, groups and dilation.
        """
        x, w, (stride, padding, output_padding, groups, dilation) = input._array, weight._array, options
        dims = w.ndim - 2
        fits = x.ndim == dims + 2 and x.dtype is _FLOAT32 and w.dtype is _FLOAT32 and x.shape[1] == w.shape[0]
        fits = fits and all(more < step for more, step in zip(output_padding, stride, strict=True)) and x.size > 0
        fits = fits and _legal(x, w, stride, dilation, (*padding, *output_padding))
        least = transposed_size(x.shape[-dims:], w.shape[2:], Steps(stride, padding, dilation))
        size = tuple(map(sum, zip(least, output_padding, strict=True)))
        if not fits or min(size) < 1 or (bias is not None and bias._array.dtype is not _FLOAT32):
            return _TRANSPOSED[dims - 1](input, weight, bias, *options)
        if precision_policy.by_role and act_on(LAYER_ROLES):
            return _TRANSPOSED[dims - 1](input, weight, bias, *options)
        at: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        result = run(transposed_kernel, x, self._of(weight), input_size=size, **at)
        if bias is not None:
            result += bias._array.reshape(-1, *(1,) * dims)
        return adopt(result)

    def _of(self, weight: Tensor) -> Any:
        """The weight, with the packed forms that kernels leave there."""
        forms = self.forms_of(weight)
        return Kept(weight._array) if forms is None else forms.get((), lambda: Kept(weight._array))
