"""Weights of torch's layers, rounded and packed once per version while nothing is differentiated.

A form of a parameter holds for one storage and one version. Writes through `Tensor.data` change no version, so every
operator that writes is checked, in all threads that emulate. Other libraries write without an operator: memory that
NumPy or another process can reach has no forms. Forms refer to memory that they do not own, and are found by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ...backends.precision_policy import Call
from ...kernels.gemm import gains_by_keeping
from ...kernels.precisions.float8 import is_float8
from ...kernels.registry import ArraySpec
from ...ops.matmul.dispatch import plain_call
from ...ops.matmul.linear import from_packed
from ...ops.packed import Forms
from .memory import to_array, unowned_array
from .operands import tensors_in
from .shared_blocks import shared_block


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


def _forms_of(matrix: torch.Tensor) -> Forms | None:
    """The forms of a parameter, or of a view of one; None where its version is unknown."""
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
    key = matrix.storage_offset(), matrix.shape, matrix.stride(), matrix.dtype
    forms = memory.forms.get(key)
    if forms is None or forms.version != matrix._version:
        forms = memory.forms[key] = Forms(unowned_array(matrix), matrix._version)
    return forms


_PRODUCTS = frozenset({torch.ops.aten.mm.default, torch.ops.aten.addmm.default})


def call_that_keeps(func: Any, args: tuple, kwargs: dict) -> Call | None:
    """How the kernel is called for products like this one, if they gain by a right operand that is packed already."""
    if func not in _PRODUCTS or kwargs or (len(args) == 3 and args[0].ndim != 1):
        return None
    a, b = map(to_array, args[-2:])
    call = plain_call(a.dtype) if a.dtype == b.dtype and a.size and b.size and not is_float8(a.dtype) else None
    if call is None or "prefer" in call.keywords:
        return None
    specs = ArraySpec(a.shape, a.dtype), ArraySpec(b.shape, b.dtype)
    return call if gains_by_keeping(*specs, **call.keywords) else None


def product_from_kept(args: tuple, call: Call) -> np.ndarray | None:
    """The product, or the product and the sum, from a right operand that is a parameter; None for others, or
    where gradients may be needed, for which it changes."""
    *addend, a, b = args
    forms = None if torch.is_grad_enabled() else _forms_of(b)
    if forms is None:
        return None
    return from_packed(to_array(a), forms.array.T, to_array(addend[0]) if addend else None, call, forms)
