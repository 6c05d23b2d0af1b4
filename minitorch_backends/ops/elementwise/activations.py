"""Activation functions of one argument. softmax is in `ops/softmax.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...autograd.modes import derives_from
from ...dispatch.op import Array, composite, op
from ...kernels.arrays import elementwise
from ...kernels.arrays.elementwise import LARGE, threaded_function
from ...tensor.call_errors import argument_errors, refuse_other_than_bool
from ...tensor.casting import fitted_number
from ...tensor.dtypes import FLOATING, bfloat16, dtype_of
from ...tensor.registry import functions
from ...tensor.tensor import Tensor, adopt
from ..dims import wrap_dim
from ..functional import functional
from ..gradients import conjugate
from .unary import unary_ufunc

__all__ = [
    "celu", "elu", "gelu", "glu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish",
    "prelu", "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "softsign",
]  # fmt: skip


_BITS = {2: np.int16, 4: np.int32, 8: np.int64}


# relu, which every hidden layer runs

_FEW = 1024
_ZERO = {np.dtype(dtype): np.zeros((), dtype) for dtype in (np.float32, np.float64, bfloat16.dtype)}
"""Zeros as arrays: np.maximum(x, 0) takes twice the time of a small np.maximum(x, zero)."""


_large_relu: Any = threaded_function("relu")
_large_relu_backward: Any = threaded_function("relu_gradient")
_large_relu6: Any = threaded_function("relu6")
_large_relu6_backward: Any = threaded_function("relu6_gradient")


@op(
    takes="f",
    traits="unwidened silent function",
    grad_output=lambda g, result: relu_backward(g, result),
    result=lambda g, result_shape: adopt(np.zeros(result_shape, g._array.dtype)),
)
def relu_backward(grad_output: Array, result: Array) -> Array:
    """The gradient of relu: `grad_output` where `result` is nonzero, and 0 elsewhere. As in torch, NaN passes it
    through.

    Small arrays use np.where. Large arrays use a bit mask, which does not branch. A product with the boolean mask would
    turn infinite gradients into NaN.
    """
    if result.size >= LARGE and (found := _large_relu_backward(grad_output, result)) is not None:
        return found
    if result.size < _FEW and grad_output.dtype in _ZERO:
        return np.where(result, grad_output, _ZERO[grad_output.dtype])
    bits = _BITS[grad_output.itemsize]
    kept = np.negative(np.not_equal(result, 0).view(np.int8))
    return np.bitwise_and(grad_output.view(bits), kept).view(grad_output.dtype)


@functional(inplace="both")
@op(takes="if", traits="unwidened silent inplace", input=lambda g, out: relu_backward(g, out))
def relu(input: Array) -> Array:
    """max(input, 0), elementwise; NaN stays NaN. The gradient at 0 is 0."""
    if input.size >= LARGE and (found := _large_relu(input, input)) is not None:
        return found
    # Of equal operands, -0.0 and 0.0, loops on x86 return the second, those of float16 the first.
    zero = _ZERO.get(input.dtype)
    return np.maximum(input, 0) if zero is None else np.maximum(zero, input)


# Piecewise linear and exponential


@op(
    takes="f",
    traits="unwidened function",
    gradient=lambda g: g,
    input=lambda g, input_shape: adopt(np.zeros(input_shape, g._array.dtype)),
    batch="loop: bounds of one sample",
)
def piecewise_gradient(gradient: Array, input: Array) -> Array:
    """`gradient`, which depends on `input` only through selections: its own derivative is zero, with a path in the
    graph."""
    return np.positive(gradient)


def _by_choice(gradient: Tensor, input: Tensor) -> Tensor:
    return piecewise_gradient(gradient, input) if derives_from(input) else gradient


@functional(inplace="both")
@op(
    takes="f",
    traits="function",
    input=lambda g, input, negative_slope: _by_choice(g.where(input > 0, g * negative_slope), input),
)
def leaky_relu(input: Array, negative_slope: float = 0.01) -> Array:
    """`input` where it is positive, else `input * negative_slope`."""
    negative_slope = float(negative_slope)
    # A maximum has no branches: five times as quick as np.where on a million values. Infinity times 0 would be NaN.
    if 0 < negative_slope <= 1:
        return elementwise.each(np.maximum, input, elementwise.each(np.multiply, input, negative_slope))
    return elementwise.select(input > 0, input, input * negative_slope)


def _elu_gradient(g: Tensor, input: Tensor, alpha: float) -> Tensor:
    # The exponential of large positive inputs is not used, but its overflow would poison the gradient of g.
    return g.where(input > 0, g * (alpha * input.masked_fill(input >= 0, 0).exp()))


@functional(inplace="both")
@op(takes="f", traits="function", input=_elu_gradient)
def elu(input: Array, alpha: float = 1.0) -> Array:
    """`input` where it is positive, else `alpha * (exp(input) - 1)`."""
    negative = np.asarray(elementwise.each(np.expm1, input))
    return elementwise.select(input > 0, input, elementwise.each(np.multiply, negative, alpha, out=negative))


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805
"""The constant for which standard normal inputs keep mean 0 and variance 1 (Klambauer et al., 2017)."""


@functional(inplace="both")
@composite(method=False, takes="f", widen=True)
def selu(input: Tensor) -> Tensor:
    """`elu`, scaled, with the constants that make a deep network keep mean 0 and variance 1."""
    return elu(input, _SELU_ALPHA) * _SELU_SCALE


@functional(inplace="both")
@composite(method=False, takes="f", widen=True)
def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`input` where it is positive, else `alpha * (exp(input / alpha) - 1)`; the slope is continuous for all alpha.

    Raises RuntimeError for an alpha of 0.
    """
    if alpha == 0:
        raise RuntimeError("celu divides by alpha, got 0; relu() is its limit")
    scaled = input / alpha
    return input.where(input > 0, (elu(scaled) if alpha > 0 else scaled.expm1()) * alpha)


@op(
    takes="f",
    traits="unwidened silent function",
    grad_output=lambda g, input, min_val, max_val: hardtanh_backward(g, input, min_val, max_val),
    input=lambda g, input_shape: adopt(np.zeros(input_shape, g._array.dtype)),
)
def hardtanh_backward(grad_output: Array, input: Array, min_val: float, max_val: float) -> Array:
    """The gradient of hardtanh: `grad_output`, and 0 where `input` is outside the limits or on them."""
    if input.size >= LARGE and (min_val, max_val) == (0, 6):
        found = _large_relu6_backward(grad_output, input)
        if found is not None:
            return found
    outside = np.logical_or(input <= min_val, input >= max_val)
    return np.where(outside, grad_output.dtype.type(0), grad_output)


@functional(inplace="both")
@op(
    takes="if",
    traits="silent function",
    input=lambda g, input, min_val, max_val: hardtanh_backward(g, input, min_val, max_val),
)
def hardtanh(input: Array, min_val: float = -1.0, max_val: float = 1.0) -> Array:
    """`input` brought into [min_val, max_val], which integers cut off to their type. The gradient is 0 outside and on
    the border (`clamp` has 1 there). Raises ValueError if min_val is above max_val."""
    if min_val > max_val:
        raise ValueError(f"min_val cannot be larger than max_val, got {min_val} and {max_val}")
    if input.dtype.kind in "iu":
        return np.clip(input, _whole_limit(min_val, input), _whole_limit(max_val, input))
    if input.size >= LARGE and (min_val, max_val) == (0, 6) and (found := _large_relu6(input, input)) is not None:
        return found
    return np.clip(input, min_val, max_val)


def _whole_limit(limit: float, input: np.ndarray) -> np.ndarray:
    """A limit of integers. Raises RuntimeError where their type does not hold it."""
    whole = np.asarray(math.trunc(limit) if math.isfinite(limit) else limit)
    return fitted_number(np.maximum(whole, 0) if input.dtype.kind == "u" else whole, dtype_of(input))


@functional(inplace=True)
@composite(takes="if", method=False)
def relu6(input: Tensor) -> Tensor:
    """min(max(input, 0), 6)."""
    return hardtanh(input, 0, 6)


@functional(inplace=True)
@op(
    takes="f",
    traits="function",
    input=lambda g, input: _by_choice((g / 6).masked_fill((input <= -3).logical_or(input >= 3), 0), input),
)
def hardsigmoid(input: Array) -> Array:
    """relu6(input + 3) / 6. The gradient is 0 outside and on the border."""
    return np.clip(input + 3, 0, 6) / 6


def _hardswish_gradient(g: Tensor, input: Tensor) -> Tensor:
    return (g * (input * (1 / 3) + 0.5)).where(input < 3, g).masked_fill(input <= -3, 0)


@functional(inplace=True)
@op(takes="f", traits="function", input=_hardswish_gradient)
def hardswish(input: Array) -> Array:
    """input * relu6(input + 3) / 6 (Howard et al., Searching for MobileNetV3, 2019)."""
    return elementwise.hardswish(input)


@functional
@composite(takes="f", widen=True, autocast="lower")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`input` where it is positive, else `input * weight`, with one weight, or one for each channel (dimension 1).
    Raises RuntimeError for another number of weights."""
    if weight.ndim and weight.numel() != 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.ndim != 1 or weight.numel() != channels:
            raise RuntimeError(
                f"prelu takes one weight or one for each of the {channels} channels, got {list(weight.shape)}"
            )
        weight = weight.reshape((-1,) + (1,) * (input.ndim - 2))
    elif weight.ndim:
        weight = weight.reshape(())
    positive = input > 0
    return input.where(positive, input.masked_fill(positive, 0) * weight)  # 0, lest infinity make the weight's NaN


# Smooth


def _softplus_gradient(g: Tensor, input: Tensor, beta: float, threshold: float) -> Tensor:
    scaled = input * beta
    return g.where(scaled > threshold, g * scaled.sigmoid())


@functional
@op(takes="f", traits="function", input=_softplus_gradient)
def softplus(input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """log(1 + exp(beta * input)) / beta; `input` itself where beta * input is above `threshold`."""
    beta, threshold = float(beta), float(threshold)
    if (beta, threshold) == (1, 20):
        return elementwise.softplus(input)
    scaled = input * beta
    return np.where(scaled > threshold, input, elementwise.each(np.logaddexp, scaled, 0) / beta)


@functional
@op(takes="f", traits="function", input=lambda g, input: g * (-input).sigmoid())
def logsigmoid(input: Array) -> Array:
    """log(sigmoid(input)), accurate for inputs of any magnitude."""
    return elementwise.logsigmoid(input)


def _mish_slope(input: Tensor) -> Tensor:
    gate = softplus(input).tanh()
    return gate + input * (1 - gate * gate) * input.sigmoid()


@functional(inplace=True)
@op(takes="f", traits="function", input=lambda g, input: g * _mish_slope(input))
def mish(input: Array) -> Array:
    """input * tanh(softplus(input)) (Misra, 2019)."""
    return elementwise.mish(input)


@functional
@composite(method=False, widen=True, takes="ifc")
def softsign(input: Tensor) -> Tensor:
    """input / (1 + |input|)."""
    return input / (input.abs() + 1)


celu_, relu_, selu_ = functions["celu_"], functions["relu_"], functions["selu_"]


# Activations that multiply their input by a gate: gelu and silu, each with one op as its gradient, and glu


_ROOT, _CUBIC = math.sqrt(2 / math.pi), 0.044715


def _curvature(input: Tensor, slope: Any = 1, bend: Any = 0, argument: Tensor | None = None) -> Tensor:
    """The second derivative of input * sigmoid(u), given the first and second of u, which is the input by default."""
    gate = (input if argument is None else argument).sigmoid()
    return gate * (1 - gate) * (2 * slope + input * ((1 - 2 * gate) * (slope * slope) + bend))


def _gelu_curvature(input: Tensor, approximate: str) -> Tensor:
    if approximate == "none":
        return (input * input * -0.5).exp() * (1 / math.sqrt(2 * math.pi)) * (2 - input * input)
    slope, bend = 2 * _ROOT * (1 + 3 * _CUBIC * input * input), 12 * _ROOT * _CUBIC * input
    return _curvature(input, slope, bend, 2 * _ROOT * (input + _CUBIC * input * input * input))


@op(
    takes="f",
    traits="unwidened wide_rules function",
    grad_output=lambda g, input, approximate: gelu_backward(g, input, approximate),
    input=lambda g, grad_output, input, approximate: g * grad_output * _gelu_curvature(input, approximate),
)
def gelu_backward(grad_output: Array, input: Array, approximate: str) -> Array:
    """The gradient of `gelu`: grad_output times its derivative at `input`."""
    gradient = elementwise.gelu_gradient if approximate == "none" else elementwise.tanh_gelu_gradient
    return gradient(grad_output, input)


@functional
@op(takes="f", traits="unwidened function", input=lambda g, input, approximate: gelu_backward(g, input, approximate))
def gelu(input: Array, approximate: str = "none") -> Array:
    """`input` times the standard normal distribution function, or times its approximation by tanh.

    Hendrycks and Gimpel, Gaussian Error Linear Units, 2016. `approximate` is "none" or "tanh". Raises RuntimeError for
    another `approximate`.
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")
    return (elementwise.gelu if approximate == "none" else elementwise.tanh_gelu)(input)


@op(
    takes="fc",
    traits="unwidened wide_rules function",
    grad_output=lambda g, input: silu_backward(g, conjugate(input)),
    input=lambda g, grad_output, input: conjugate(g) * grad_output * _curvature(conjugate(input)),
)
def silu_backward(grad_output: Array, input: Array) -> Array:
    """The gradient of `silu`: grad_output times the conjugate of its derivative at `input`."""
    return elementwise.silu_gradient(grad_output, input.conj())


@functional(inplace=True)
@op(takes="fc", traits="unwidened function", input=lambda g, input: silu_backward(g, input))
def silu(input: Array) -> Array:
    """input * sigmoid(input), also called swish."""
    return elementwise.silu(input)


@functional
@composite(method=False, takes="f", widen=True)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim`, times the sigmoid of the second half (Dauphin et al., 2016). Raises RuntimeError for
    an odd size of `dim` and for 0-dim tensors."""
    if input.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors; expected at least one dimension to halve")
    size = input.size(dim)
    if size % 2:
        raise RuntimeError(f"glu halves dimension {dim}, whose size must be even, and it is {size}")
    return input.narrow(dim, 0, size // 2) * input.narrow(dim, size // 2, size // 2).sigmoid()


# Activations that draw random numbers in training: leaky slopes, and samples of a softmax


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


# Shrinkage and threshold activations, element by element


@functional(inplace="both")
@composite(method=False, widen=True, takes="if")
def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """`input` where it is above `threshold`, else `value`; integer inputs cut both to integers."""
    if input.dtype.category < FLOATING:
        threshold, value = int(threshold), int(value)
    return input.masked_fill(input <= threshold, value)


@functional
@composite(takes="f", widen=True)
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`input`, or 0 where its magnitude is at most `lambd`."""
    return input.masked_fill(input.abs() <= lambd, 0)


@functional
@composite(method=False, takes="f", widen=True)
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`input` moved towards 0 by `lambd`, and 0 where its magnitude is at most that. Raises RuntimeError for a negative
    `lambd`."""
    if lambd < 0:
        raise RuntimeError(f"softshrink moves values towards 0 by lambd, which cannot be negative, got {lambd}")
    return input - input.clamp(-lambd, lambd)


@functional
@composite(method=False, widen=True, takes="ifc")
def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input)."""
    return input - input.tanh()


threshold_ = functions["threshold_"]


sigmoid = functional(
    unary_ufunc(
        elementwise.sigmoid,
        "1 / (1 + exp(-input)).",
        gradient=lambda g, out: g * conjugate(out * (1 - out)),
        ufunc=elementwise.sigmoid,
    )
)
