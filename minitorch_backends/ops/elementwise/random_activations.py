"""Activations that draw random numbers in training: leaky slopes, and samples of a softmax."""

from __future__ import annotations

import math

import numpy as np

from ...dispatch.op import composite
from ...tensor.call_errors import argument_errors, refuse_other_than_bool
from ...tensor.registry import functions
from ...tensor.tensor import Tensor, adopt
from ..dims import wrap_dim
from ..functional import functional
from .activations import leaky_relu


def _uniform(like: Tensor) -> np.ndarray:
    """Numbers in [0, 1) for each element, from the default generator."""
    from ...random import default_generator

    return default_generator.uniform(like._array.shape, np.float64 if like._array.itemsize == 8 else np.float32)


@functional(inplace="both")
@composite(method=False, takes="f", widen=True, stateful=True)
def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """`input` where it is positive, and times a slope elsewhere: in training a random one from `lower` to `upper` for
    each element, otherwise their mean (Xu et al., arXiv 1505.00853).

    Raises RuntimeError for limits that are not finite, or in the wrong order.
    """
    refuse_other_than_bool("rrelu", "training", training)
    if not (math.isfinite(lower) and math.isfinite(upper) and lower <= upper):
        raise RuntimeError(f"rrelu(): lower and upper must be finite and in this order, got {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2)
    slopes = lower + (upper - lower) * _uniform(input)
    return input * adopt(np.where(input._array > 0, 1, slopes).astype(input._array.dtype))


@functional
@argument_errors
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A sample of the concrete distribution along `dim` (Jang et al., arXiv 1611.01144): softmax((logits + Gumbel
    noise) / tau).

    With `hard` the result is a one-hot vector with the gradient of the softmax. `eps` has no effect. Draws from the
    default generator. Raises RuntimeError for dtypes that are not floating, IndexError for a dim out of range,
    TypeError for a `tau` other than a number.
    """
    if not logits.is_floating_point():
        raise RuntimeError(f"gumbel_softmax(): logits must be floating, got {logits.dtype!r}")
    refuse_other_than_bool("gumbel_softmax", "hard", hard)
    if not isinstance(tau, (int, float, np.number)):
        raise TypeError(f"gumbel_softmax(): argument 'tau' must be a number, got {tau!r}")
    axis = wrap_dim(dim, logits.ndim)
    from ...random import default_generator

    drawn = default_generator.exponential(logits._array.shape)
    noise = adopt(-np.log(np.maximum(drawn, np.finfo(np.float64).tiny)))
    soft = ((logits + noise.to(logits.dtype)) / tau).softmax(axis)
    if not hard:
        return soft
    best = soft.detach().argmax(axis, keepdim=True)
    chosen = adopt(np.zeros(soft._array.shape, soft._array.dtype)).scatter(axis, best, 1.0)
    return chosen - soft.detach() + soft


rrelu_ = functions["rrelu_"]
