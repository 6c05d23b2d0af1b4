"""Starting values for parameters, written in place and unrecorded. Every function returns its tensor.

`generator=None` draws from the default generator, see `manual_seed`.
"""

from __future__ import annotations

import math
from typing import Any

from ..autograd.modes import no_grad
from ..autograd.mutation import refuse_unwritable
from ..linalg import qr
from ..namespaces import serve
from ..ops.creation.factories import empty
from ..ops.elementwise.special import ndtri
from ..tensor.call_errors import argument_errors
from ..tensor.dtypes import float64
from ..tensor.tensor import Tensor

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_",
    "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip


@argument_errors
@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Values between `a` and `b`, all equally likely."""
    return tensor.uniform_(a, b, generator=generator)


@argument_errors
@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal values."""
    return tensor.normal_(mean, std, generator=generator)


@argument_errors
@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """The value `val` everywhere."""
    return tensor.fill_(val)


@argument_errors
def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


@argument_errors
def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def _of_matrix(name: str, tensor: Tensor) -> None:
    if tensor.ndim != 2:
        raise ValueError(f"{name} expects a tensor of 2 dimensions, got shape {list(tensor.shape)}")


@argument_errors
@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity. Raises ValueError unless it has two dimensions."""
    _of_matrix("eye_", tensor)
    zeros_(tensor).diagonal().fill_(1)
    return tensor


@argument_errors
@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The weight of a convolution that hands on as many channels as it can, in each of `groups`.

    Raises ValueError for other than three to five dimensions, and for channels that groups do not divide.
    """
    if not 3 <= tensor.ndim <= 5:
        raise ValueError(f"dirac_ expects a tensor of 3, 4 or 5 dimensions, got shape {list(tensor.shape)}")
    if groups < 1:
        raise ValueError(f"dirac_(): groups must be a positive integer, got {groups}")
    if tensor.shape[0] % groups:
        raise ValueError(f"dirac_: {tensor.shape[0]} output channels cannot be divided into {groups} groups")
    outputs, middle = tensor.shape[0] // groups, tuple(size // 2 for size in tensor.shape[2:])
    zeros_(tensor)
    for group in range(groups):
        for channel in range(min(outputs, tensor.shape[1])):
            tensor[(group * outputs + channel, channel, *middle)] = 1
    return tensor


_LEAST = 5e-324
"""The smallest positive float64 number: a probability whose quantile is finite."""


@argument_errors
@no_grad()
def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Normal values between `a` and `b`, as if others had been drawn again: the inverse of the distribution function,
    of uniform numbers. Raises NotImplementedError for integers, ValueError for a std that is not positive and for a
    above b."""
    refuse_unwritable("trunc_normal", tensor)
    if not tensor.is_floating_point():
        raise NotImplementedError(f"trunc_normal_(): tensor must be floating, got {tensor.dtype!r}")
    mean, std, a, b = map(float, (mean, std, a, b))
    if not (std > 0 and a <= b):
        raise ValueError(f"trunc_normal_(): std must be positive and a at most b, got std={std}, a={a}, b={b}")
    side = -1 if a > mean else 1  # probabilities below the mean may be tiny; no cancellation
    ends = sorted(side * (end - mean) / std for end in (a, b))
    low, high = (math.erfc(-end / math.sqrt(2)) / 2 for end in ends)
    chances = tensor.to(float64, copy=True).uniform_(low, high, generator=generator).clamp_(min=_LEAST)
    return tensor.copy_(ndtri(chances).mul_(side * std).add_(mean)).clamp_(a, b)


@argument_errors
@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """`gain` times a matrix with orthonormal rows or columns, the fewer of both, uniformly distributed: the Q of a
    normal matrix, whose R has a positive diagonal (Saxe et al., 2013). Dimensions from the second on count as columns.

    Raises ValueError for fewer than two dimensions.
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_ expects a tensor of at least 2 dimensions, got shape {list(tensor.shape)}")
    if not tensor.numel():
        return tensor
    refuse_unwritable("orthogonal", tensor)
    gain = float(gain)
    flat = normal_(tensor.detach().clone(), generator=generator).reshape(tensor.shape[0], -1)
    wide = flat.shape[0] < flat.shape[1]
    Q, R = qr(flat.mT if wide else flat)
    Q = Q * R.diagonal().sgn()
    return tensor.copy_((Q.mT if wide else Q).reshape(tensor.shape)).mul_(gain)


_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5 / 3,
    "relu": math.sqrt(2),
    "selu": 3 / 4,
}


@argument_errors
def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain of weights before a nonlinearity.

    `param` is the slope of "leaky_relu", by default 0.01. Raises ValueError for an unknown nonlinearity.
    """
    if nonlinearity == "leaky_relu":
        if not (param is None or (isinstance(param, (int, float)) and not isinstance(param, bool))):
            raise ValueError(f"negative_slope {param!r} is not a number; leave it out for 0.01")
        slope = 0.01 if param is None else param
        return math.sqrt(2 / (1 + slope * slope))  # slope**2 would raise where it overflows
    if nonlinearity not in _GAINS:
        raise ValueError(
            f"unsupported nonlinearity {nonlinearity!r}; expected one of {', '.join([*_GAINS, 'leaky_relu'])}"
        )
    return _GAINS[nonlinearity]


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """The numbers of inputs and of outputs that each output and each input is connected to."""
    if tensor.ndim < 2:
        raise ValueError(f"fan in and fan out need a tensor of at least 2 dimensions, got shape {list(tensor.shape)}")
    receptive_field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive_field, tensor.shape[0] * receptive_field


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode {mode!r} is not supported; expected 'fan_in' or 'fan_out'")
    return calculate_gain(nonlinearity, a) / math.sqrt(max(_calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"], 1))


@argument_errors
def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Uniform values that keep the variance of activations, or with "fan_out" of gradients (He et al., 2015).

    `a` is the slope of the leaky relu that follows.
    """
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


@argument_errors
def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """`kaiming_uniform_` with normal values."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


@argument_errors
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform values that keep the variances of activations and of gradients about equal (Glorot and Bengio, 2010)."""
    bound = gain * math.sqrt(6 / max(sum(_calculate_fan_in_and_fan_out(tensor)), 1))
    return uniform_(tensor, -bound, bound, generator)


@argument_errors
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """`xavier_uniform_` with normal values."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / max(sum(_calculate_fan_in_and_fan_out(tensor)), 1)), generator)


@argument_errors
@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normal values; the share `sparsity` of each column, rounded up, is zero (Martens, 2010).
    Raises ValueError for other than matrices, and for a share outside of [0, 1]."""
    if tensor.ndim != 2:
        raise ValueError(f"sparse_(): tensor must have 2 dimensions, got shape {list(tensor.shape)}")
    if not isinstance(sparsity, int | float) or not 0 <= sparsity <= 1:
        raise ValueError(f"sparse_(): sparsity must be a number from 0 to 1, got {sparsity!r}")
    normal_(tensor, 0.0, std, generator)
    rows, columns = tensor.shape
    order = uniform_(empty(rows, columns), generator=generator).argsort(0)
    return tensor.masked_fill_(order.argsort(0) < math.ceil(sparsity * rows), 0.0)


serve(__name__)
