"""Weights of torch's layers, rounded and packed once per version while nothing is differentiated.

A form of a parameter holds for one storage and one version. Writes through `Tensor.data` change no version, so every
operator that writes is checked, in all threads that emulate. Other libraries write without an operator: memory that
NumPy or another process can reach has no forms. Forms refer to memory that they do not own, and are found by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ...backends.precision_policy import Call
from ...kernels.gemm import gains_by_keeping
from ...kernels.precisions.float8 import is_float8
from ...kernels.registry import ArraySpec
from ...ops.conv.packed import PackedConvolution
from ...ops.matmul.dispatch import plain_call
from ...ops.matmul.linear import from_packed
from ...ops.packed import Forms
from ...tensor.tensor import Tensor, adopt
from .memory import to_array, to_ours, unowned_array
from .operands import tensors_in
from .patches import shared_block


class _Memory:
    """The forms of the parameters in one storage, while it has its address."""

    __slots__ = ("address", "forms", "storage")

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.storage, self.address = StorageWeakRef(storage), storage.data_ptr()
        self.forms: dict[tuple, Forms] = {}


_memories: dict[int, _Memory] = {}


@shared_block
def keep_weights() -> Iterator[None]:
    """Keep forms until the last block ends, after which writes are not seen."""
    yield
    _memories.clear()


def forget_written(args: tuple, kwargs: dict) -> None:
    """Forget the forms in the storages of an operator that writes to some of its arguments."""
    if _memories:
        for each in tensors_in((*args, *kwargs.values())):
            if each.layout is torch.strided and each.device.type == "cpu":
                _memories.pop(each.untyped_storage()._cdata, None)


def _forms_of(matrix: torch.Tensor, is_transposed: bool = False) -> Forms | None:
    """The forms of a parameter, or of a view of one, or of its transpose; None where its version is unknown."""
    if not isinstance(matrix._base if matrix._base is not None else matrix, torch.nn.Parameter):
        return None
    storage = matrix.untyped_storage()
    if matrix.is_inference() or not storage.resizable() or storage.is_shared():
        return None
    memory = _memories.get(storage._cdata)
    if memory is None or memory.address != storage.data_ptr():
        for identity in [identity for identity, each in list(_memories.items()) if each.storage.expired()]:
            _memories.pop(identity, None)
        memory = _memories[storage._cdata] = _Memory(storage)
    key = matrix.storage_offset(), matrix.shape, matrix.stride(), matrix.dtype, is_transposed
    forms = memory.forms.get(key)
    if forms is None or forms.version != matrix._version:
        forms = memory.forms[key] = Forms(unowned_array(matrix), matrix._version)
    return forms


FromKept = Callable[[tuple], np.ndarray | None]
"""Computes an operator from a kept form of its weight; None where its weight has no forms, or may need a gradient."""


def computed_from_kept(func: Any, args: tuple, kwargs: dict) -> FromKept | None:
    """How operators like this one are computed from kept weights, if they gain by it."""
    if kwargs:
        return None
    return _convolution_like(args) if func is _CONVOLUTION else _product_like(func, args)


_LINEAR = torch.ops.aten.linear.default
"""The layer as it arrives in inference mode, where views of parameters do not say what they are views of."""

_PRODUCTS = frozenset({torch.ops.aten.mm.default, torch.ops.aten.addmm.default, _LINEAR})


def _product_like(func: Any, args: tuple) -> FromKept | None:
    if func not in _PRODUCTS:
        return None
    a, b, addend = args = _factors(func, args)
    if a.ndim < 2 or b.ndim != 2 or (addend is not None and addend.ndim != 1):
        return None
    call = plain_call(to_array(a).dtype) if a.dtype == b.dtype and a.numel() and b.numel() else None
    if call is None or "prefer" in call.keywords or is_float8(to_array(a).dtype):
        return None
    specs = ArraySpec(a.shape, to_array(a).dtype), ArraySpec(b.shape, to_array(b).dtype)
    return partial(_product, func, call) if gains_by_keeping(*specs, **call.keywords) else None


def _factors(func: Any, args: tuple) -> tuple[Any, Any, Any]:
    """The factors as a matrix product has them, and what is added or None."""
    if func is _LINEAR:
        return args[0], args[1].mT if args[1].ndim == 2 else args[1], args[2] if len(args) == 3 else None
    return *args[-2:], args[0] if len(args) == 3 else None


def _product(func: Any, call: Call, args: tuple) -> np.ndarray | None:
    """The product, or the product and the sum, whose right operand is a parameter."""
    is_linear = func is _LINEAR
    forms = None if torch.is_grad_enabled() else _forms_of(args[1] if is_linear else args[-1], is_linear)
    if forms is None:
        return None
    a, _, addend = _factors(func, args)
    weight = forms.array if is_linear else forms.array.T
    return from_packed(to_array(a), weight, None if addend is None else to_array(addend), call, forms)


_CONVOLUTION = torch.ops.aten.convolution.default


class _PackedConvolution(PackedConvolution):
    """The forms of a weight whose version is already checked."""

    __slots__ = ()

    def forms_of(self, weight: Tensor) -> Forms | None:
        return self._forms


def _convolution_like(args: tuple) -> FromKept | None:
    """Convolutions of float32, which kernels pack weights of; their steps are one number a dimension."""
    x, weight, _, *steps = args
    spatial = all(len(each) == weight.ndim - 2 for each in (*steps[:3], *(steps[4:5] if steps[3] else ())))
    return _convolution if spatial and x.dtype is weight.dtype is torch.float32 else None


def _convolution(args: tuple) -> np.ndarray | None:
    input, weight, bias, *steps, transposed, output_padding, groups = args
    forms = None if torch.is_grad_enabled() else _forms_of(weight)
    if forms is None:
        return None
    packed = _PackedConvolution()
    packed._forms = forms
    stride, padding, dilation = map(tuple, steps)
    tensors = to_ours(input), adopt(forms.array), None if bias is None else to_ours(bias)
    if transposed:
        return packed.conv_transposed(*tensors, (stride, padding, tuple(output_padding), groups, dilation))._array
    return packed.conv(*tensors, (stride, padding, dilation, groups))._array
