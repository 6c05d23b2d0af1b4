"""Layers and the batch normalisation behind them as one layer, in evaluation."""

from __future__ import annotations

import copy
from typing import Any

from ...tensor.call_errors import refuse_other_than_tensor
from ...tensor.tensor import Parameter
from ..module import Module

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any, transpose: bool = False
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a convolution, (C_out, C_in, ...), with a batch normalisation folded in.

    Arguments are the convolution's weight and bias, and the mean, variance, eps, weight and bias of the normalisation.
    Biases and the weight of the latter may be None. With `transpose` the output channels come second. Raises ValueError
    for a `conv_w` of fewer than two dimensions.
    """
    for argument, value in (("conv_w", conv_w), ("bn_rm", bn_rm), ("bn_rv", bn_rv)):
        refuse_other_than_tensor("fuse_conv_bn_weights", argument, value)
    for argument, value in (("conv_b", conv_b), ("bn_w", bn_w), ("bn_b", bn_b)):
        if value is not None:
            refuse_other_than_tensor("fuse_conv_bn_weights", argument, value)
    if conv_w.ndim < 2:
        raise ValueError(f"fuse_conv_bn_weights(): conv_w must have 2 dimensions or more, got {conv_w.ndim}")
    scale = (bn_rv + bn_eps).rsqrt() if bn_w is None else bn_w * (bn_rv + bn_eps).rsqrt()
    shape = [1, -1] if transpose else [-1, 1]
    weight = conv_w * scale.reshape(shape + [1] * (conv_w.ndim - 2))
    shift = -bn_rm * scale if conv_b is None else (conv_b - bn_rm) * scale
    bias = shift if bn_b is None else shift + bn_b
    return Parameter(weight.detach(), conv_w.requires_grad), Parameter(bias.detach(), conv_w.requires_grad)


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """`fuse_conv_bn_weights` of a linear layer."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of a convolution, or of a linear layer, with the normalisation behind it folded in.

    Raises AssertionError, as torch does, while one of them is in training mode, TypeError for anything but modules.
    """
    for argument, module in (("conv", conv), ("bn", bn)):
        if not isinstance(module, Module):
            raise TypeError(f"fuse_conv_bn_eval(): {argument} must be a Module, got {type(module).__name__}")
    if conv.training or bn.training:
        raise AssertionError("fuse_conv_bn_eval(): modules must be in evaluation; call eval() first")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """`fuse_conv_bn_eval` of a linear layer."""
    return fuse_conv_bn_eval(linear, bn)
