"""The weight that a convolution keeps packed for inference, and the bias and ReLU that are done while it stores."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends import precision_policy
from ...backends.operands import Roles, formats_of
from ...kernels.conv import Kept
from ...kernels.conv import conv as kernel
from ...kernels.conv import conv_input_gradient as transposed_kernel
from ...kernels.conv.shapes import Steps, output_size, steps, transposed_size
from ...kernels.registry import Kernel
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


def _roles_of(dtype: np.dtype) -> Roles | None:
    """The roles of the operands where one of them has a format."""
    if not precision_policy.by_role:
        return None
    roles = Roles("activation", "weight")
    return None if formats_of(roles, dtype.name) is None else roles


def _are_kept(roles: Roles | None, x: np.ndarray, w: np.ndarray, bias: Tensor | None) -> bool:
    """Whether layers of these dtypes keep packed weights: those of float32, and of half types by role."""
    one = bias is None or bias._array.dtype is x.dtype
    return x.dtype is w.dtype and one and (x.dtype is _FLOAT32 or roles is not None)


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
        roles = _roles_of(x.dtype)
        fits = _are_kept(roles, x, w, bias) and x.ndim == dims + 2 and not isinstance(padding, str)
        fits = fits and x.shape[1] == w.shape[1] * groups
        if fits:
            at = steps(dims, *(numbers("conv", "steps", each, dims) for each in (stride, padding, dilation)))
            legal = _legal(x, w, at.stride, at.dilation, at.padding)
            fits = legal and min(output_size(x.shape[2:], w.shape[2:], at)) > 0
        if not fits:
            result = _FUNCTIONS[dims - 1](input, weight, bias, *options)
            return result.relu() if relu else result
        rest = () if bias is None else (bias._array,)
        stored: dict[str, Any] = {"relu": True} if relu else {}
        return adopt(self._run(kernel, x, weight, rest, roles, **at._asdict(), groups=groups, **stored))

    def conv_transposed(
        self, input: Tensor, weight: Tensor, bias: Tensor | None, options: tuple[Sizes, Sizes, Sizes, int, Sizes]
    ) -> Tensor:
        """The transposed convolution where nothing is recorded, from the packed weight.

        `options` are stride, padding, output padding, groups and dilation.
        """
        x, w, (stride, padding, output_padding, groups, dilation) = input._array, weight._array, options
        dims = w.ndim - 2
        roles = _roles_of(x.dtype)
        fits = _are_kept(roles, x, w, bias) and x.ndim == dims + 2 and x.shape[1] == w.shape[0]
        fits = fits and all(more < step for more, step in zip(output_padding, stride, strict=True)) and x.size > 0
        fits = fits and _legal(x, w, stride, dilation, (*padding, *output_padding))
        least = transposed_size(x.shape[-dims:], w.shape[2:], Steps(stride, padding, dilation))
        size = tuple(map(sum, zip(least, output_padding, strict=True)))
        if not fits or min(size) < 1:
            return _TRANSPOSED[dims - 1](input, weight, bias, *options)
        at: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        result = self._run(transposed_kernel, x, weight, (), roles, input_size=size, **at)
        if bias is not None:
            result += bias._array.reshape(-1, *(1,) * dims)
        return adopt(result)

    def _run(
        self, kernel: Kernel, x: np.ndarray, weight: Tensor, rest: tuple, roles: Roles | None, **keywords: Any
    ) -> np.ndarray:
        """Run a kernel with the packed forms of the weight; by roles, of the weight in its format."""
        w, forms = weight._array, self.forms_of(weight)
        if roles is not None:
            return run(kernel, x, w, *rest, precision=roles, forms=forms, **keywords)
        return run(kernel, x, Kept(w) if forms is None else forms.get((), lambda: Kept(w)), *rest, **keywords)
