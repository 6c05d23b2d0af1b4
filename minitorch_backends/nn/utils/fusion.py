"""Layers and the batch normalisation behind them as one layer, in evaluation."""

from __future__ import annotations

import copy
import operator
from typing import Any

import numpy as np

from ...autograd.modes import derives
from ...autograd.versions import writes
from ...ops.conv.packed import PackedConvolution
from ...tensor.call_errors import argument_errors, refuse_other_than_tensor
from ...tensor.tensor import Parameter, Tensor, adopt
from .. import functional as F
from ..container import Sequential
from ..convolution import Conv1d, Conv2d, Conv3d
from ..functional_modules import ReLU
from ..module import Module
from ..normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

_NORMS: dict[type, type] = {Conv1d: BatchNorm1d, Conv2d: BatchNorm2d, Conv3d: BatchNorm3d}


class FusedConvolution(Module):
    """A convolution with the batch normalisation and the ReLU that follow it; either may be missing.

    Under no_grad, and with the normalisation in evaluation mode, it runs as one convolution with folded weights, and
    the ReLU is fused into the store. The folded weights are cached until a parameter or a statistic changes. Otherwise
    the three run one after another.
    """

    def __init__(self, conv: Any, norm: Any, relu: Any) -> None:
        self.conv, self.norm, self.relu = conv, norm, relu
        self._packed = PackedConvolution()
        self._key: tuple[Any, ...] = ([], None, None)
        self._folded: tuple[Tensor, Tensor | None] | None = None

    def _sources(self) -> list[Tensor | None]:
        conv, norm = self.conv, self.norm
        own = [conv.weight, conv.bias]
        return own if norm is None else [*own, norm.weight, norm.bias, norm.running_mean, norm.running_var]

    def _fold(self) -> tuple[Tensor, Tensor | None]:
        """The weight and bias of the equivalent convolution; rounded once."""
        arrays: list[Any] = [None if each is None else each._array for each in self._sources()]
        if self.norm is None:
            return self.conv.weight, self.conv.bias
        weight, bias, *others = arrays
        wide: list[Any] = [None if each is None else each.astype(np.float64) for each in others]
        gamma, beta, mean, variance = wide
        scale = (1.0 if gamma is None else gamma) / np.sqrt(variance + self.norm.eps)
        shift = (0.0 if bias is None else bias.astype(np.float64)) - mean
        folded = weight.astype(np.float64) * scale.reshape(-1, *(1,) * (weight.ndim - 1))
        shifted = shift * scale + (0.0 if beta is None else beta)
        return adopt(folded.astype(weight.dtype)), adopt(shifted.astype(weight.dtype))

    def _current(self) -> tuple[Tensor, Tensor | None]:
        """The result of `_fold`, cached while its inputs are unchanged."""
        sources = self._sources()
        arrays = [None if each is None else each._array for each in sources]  # held, or another could take its place
        counts = [0 if each is None else writes(each) for each in sources]
        eps = None if self.norm is None else self.norm.eps
        folded, (held, *others) = self._folded, self._key
        same = others == [counts, eps] and None not in counts and all(map(operator.is_, held, arrays))
        if folded is None or not same:
            folded = self._folded = self._fold()
            self._key = arrays, counts, eps
        return folded

    def forward(self, input: Tensor) -> Tensor:
        conv, norm = self.conv, self.norm
        hooked = any(each is not None and each._hooks is not None for each in (conv, norm, self.relu))
        if hooked or derives() or (norm is not None and (norm.training or norm.running_mean is None)):
            result = conv(input)
            result = result if norm is None else norm(result)
            return result if self.relu is None else self.relu(result)
        weight, bias = self._current()
        padding = conv.padding
        if conv.padding_mode != "zeros":
            input, padding = F.pad(input, conv._around(), conv.padding_mode), 0
        options = conv.stride, padding, conv.dilation, conv.groups
        return self._packed.conv(input, weight, bias, options, relu=self.relu is not None)


@argument_errors
def fuse(module: Module) -> Module:
    """A copy of a model that shares its parameters, with convolutions fused.

    Each Conv1d to Conv3d of a `Sequential`, with the batch normalisation and the ReLU that follow it, becomes one
    `FusedConvolution`. The results agree with the model's up to rounding, and are faster under no_grad in evaluation
    mode. The model itself is not changed. Hooks of fused modules do not run on the fused path.
    """
    fused: Any = copy.copy(module)
    for name, child in list(vars(module).items()):
        if isinstance(child, Module):
            setattr(fused, name, fuse(child))
    if type(module) is Sequential:
        fused._fill(_join(list(fused)))
    return fused


def _join(modules: list[Module]) -> list[Module]:
    joined: list[Module] = []
    while modules:
        first = modules.pop(0)
        norm_type = _NORMS.get(type(first))
        if norm_type is None:
            joined.append(first)
            continue
        norm = modules.pop(0) if modules and type(modules[0]) is norm_type else None
        relu = modules.pop(0) if modules and type(modules[0]) is ReLU else None
        joined.append(first if norm is None and relu is None else FusedConvolution(first, norm, relu))
    return joined


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
