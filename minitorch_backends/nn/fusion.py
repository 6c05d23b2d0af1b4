"""Convolution, batch normalisation and ReLU as one convolution, where nothing is recorded."""

from __future__ import annotations

import copy
import operator
from typing import Any

import numpy as np

from ..autograd.modes import derives
from ..autograd.versions import writes
from ..ops.conv.packed import PackedConvolution
from ..tensor.call_errors import argument_errors
from ..tensor.tensor import Tensor, adopt
from . import functional as F
from .container import Sequential
from .convolution import Conv1d, Conv2d, Conv3d
from .functional_modules import ReLU
from .module import Module
from .normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d

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
