"""The classes and functions that `load(weights_only=True)` may use beside tensors and containers, as the user lists
them. The table is one for the process."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from ..tensor import dtypes
from ..tensor.dtypes import DType
from ..tensor.size import Size
from ..tensor.tensor import Parameter, Tensor, adopt, sharing

Global = Callable[..., Any] | tuple[Callable[..., Any], str]
"""A class or function, or one with the full name that files have for it."""

_listed: dict[str, Global] = {}
_own: dict[str, type] = {}


def add_safe_globals(safe_globals: Iterable[Global]) -> None:
    """Let `load(weights_only=True)` call these classes and functions, and set the state of their instances.

    A file that names one calls it with any arguments: list only what is harmless whatever it is called with. Raises
    TypeError unless `safe_globals` is an iterable of such.
    """
    if not isinstance(safe_globals, Iterable):
        raise TypeError(
            f"add_safe_globals(): safe_globals must be a list of classes and functions, got {safe_globals!r}"
        )
    _listed.update({_full_name(each): each for each in safe_globals})


def get_safe_globals() -> list[Global]:
    """What `add_safe_globals` has listed."""
    return list(_listed.values())


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` has listed."""
    _listed.clear()


class safe_globals:
    """A block that adds these to the listed ones."""

    def __init__(self, safe_globals: Iterable[Global]) -> None:
        self._added = list(safe_globals)

    def __enter__(self) -> Self:
        self._before = dict(_listed)
        add_safe_globals(self._added)
        return self

    def __exit__(self, *exception: object) -> None:
        _listed.clear()
        _listed.update(self._before)


def always_safe(kind: type) -> type:
    """Decorate a class of this package that modules hold, has no state and needs no listing."""
    _own[_full_name(kind)] = kind
    return kind


def _full_name(listed: Any) -> str:
    """Raises TypeError for objects other than classes and functions."""
    value, name = listed if isinstance(listed, tuple) and len(listed) == 2 else (listed, None)
    if not callable(value) or not isinstance(name, str | None):
        raise TypeError(
            f"add_safe_globals(): safe_globals must be classes, functions or pairs of one and a name, got {listed!r}"
        )
    return name or f"{value.__module__}.{value.__qualname__}"


def safe_global(name: str) -> Any:
    """What is listed under the full name; None where nothing is."""
    found = _listed.get(name, _own.get(name))
    return found[0] if isinstance(found, tuple) else found


def is_safe(value: Any) -> bool:
    """Whether the class or function is listed."""
    listed = (*_listed.values(), *_own.values())
    return any(value is (each[0] if isinstance(each, tuple) else each) for each in listed)


# The names in torch's pickles and their counterparts here: one table for saving and loading


_MOST_DIMENSIONS = 64


class StorageType(NamedTuple):
    """One of torch's classes of storages, such as torch.FloatStorage; an untyped one has bytes."""

    dtype: DType
    untyped: bool = False


UNTYPED = StorageType(dtypes.uint8, untyped=True)


class Storage:
    """The memory that tensors share: a 1-d uint8 tensor of its bytes, and the dtype of its elements."""

    def __init__(self, data: np.ndarray, kind: StorageType, key: str) -> None:
        self.bytes, self.kind, self.key = adopt(data), kind, key

    @property
    def dtype(self) -> DType:
        return self.kind.dtype

    @property
    def numel(self) -> int:
        return self.bytes._array.nbytes // self.dtype.itemsize


def _sizes(argument: str, values: Any) -> tuple[int, ...]:
    """Checked sizes or strides from a file. Raises RuntimeError."""
    if not isinstance(values, tuple) or not all(type(value) is int and 0 <= value < 2**62 for value in values):
        raise RuntimeError(
            f"load(): {argument} of a tensor must be a tuple of non-negative integers, got {reprlib.repr(values)}"
        )
    if len(values) > _MOST_DIMENSIONS:
        raise RuntimeError(f"load(): a tensor must have at most {_MOST_DIMENSIONS} dimensions, got {len(values)}")
    return values


def rebuild_tensor(
    storage: Any,
    storage_offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    backward_hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    """Make the tensor on a storage. Raises RuntimeError unless the storage holds all of its elements."""
    return rebuild_tensor_of_dtype(
        storage, storage_offset, size, stride, requires_grad, backward_hooks, getattr(storage, "dtype", None), metadata
    )


def rebuild_tensor_of_dtype(
    storage: Any,
    storage_offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    backward_hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    """`rebuild_tensor` for a `dtype` without a torch storage class."""
    if not isinstance(storage, Storage):
        raise RuntimeError(f"load(): a tensor must be made from a storage, got {type(storage).__name__}")
    if not isinstance(dtype, DType):
        raise RuntimeError(f"load(): dtype must be a dtype, got {type(dtype).__name__}")
    if backward_hooks:
        raise RuntimeError("load(): a tensor must have no backward hooks; save tensor.detach() instead")
    [offset], shape, strides = _sizes("offset", (storage_offset,)), _sizes("size", size), _sizes("stride", stride)
    if len(shape) != len(strides):
        raise RuntimeError(f"load(): a tensor must have one stride for each dimension, got {size} and {stride}")
    needed = 0 if 0 in shape else offset + 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    memory, each = storage.bytes, dtype.itemsize
    numel = memory._array.nbytes // each
    if needed > numel or offset > numel:
        raise RuntimeError(
            f"load(): size {list(shape)}, stride {list(strides)} and offset {offset} need {max(needed, offset)} "
            f"elements, but the storage has {numel}"
        )
    if 0 in shape:
        array = np.empty(shape, dtype.dtype)
    else:
        array = np.ndarray(shape, dtype.dtype, memory._array, offset * each, [step * each for step in strides])
    tensor = sharing(memory, _resolve_lazy(array, metadata, numel))
    return tensor.requires_grad_() if requires_grad is True else tensor


def _resolve_lazy(array: np.ndarray, metadata: Any, numel: int) -> np.ndarray:
    """The values of an array that torch saved as a lazy conjugate or negative."""
    bits = metadata if isinstance(metadata, Mapping) else {}
    if bits and array.size > numel:
        raise RuntimeError(
            f"load(): a conjugate of {array.size} elements must not repeat those of its storage, {numel}"
        )
    array = array.conj() if bits.get("conj") is True else array
    return np.negative(array) if bits.get("neg") is True else array


def rebuild_parameter(data: Any, requires_grad: Any, backward_hooks: Any) -> Parameter:
    """Make a parameter on the memory of a tensor."""
    if not isinstance(data, Tensor) or backward_hooks:
        raise RuntimeError("load(): a parameter must be made from a tensor without hooks")
    return Parameter(data, requires_grad is True)


_STORAGES = {
    "Bool": dtypes.bool_, "Byte": dtypes.uint8, "Char": dtypes.int8, "Short": dtypes.int16, "Int": dtypes.int32,
    "Long": dtypes.int64, "Half": dtypes.float16, "BFloat16": dtypes.bfloat16, "Float": dtypes.float32,
    "Double": dtypes.float64, "ComplexFloat": dtypes.complex64, "ComplexDouble": dtypes.complex128,
}  # fmt: skip

TORCH: dict[str, Any] = {
    "torch._utils._rebuild_tensor_v2": rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": rebuild_tensor_of_dtype,
    "torch._utils._rebuild_parameter": rebuild_parameter,
    "torch.Size": Size,
    **{f"torch.{name}": dtype for name, dtype in dtypes.dtypes.items()},
    **{f"torch.{name}Storage": StorageType(dtype) for name, dtype in _STORAGES.items()},
    "torch.storage.UntypedStorage": UNTYPED,
}
"""The counterpart of each written name."""

NAMES: dict[Any, str] = {value: name for name, value in TORCH.items()}
"""The name of each value of `TORCH`."""


def storage_type(dtype: DType) -> StorageType:
    """The torch storage class for this dtype."""
    typed = StorageType(dtype)
    return typed if typed in NAMES else UNTYPED


TORCH["torch._utils._rebuild_tensor"] = rebuild_tensor  # torch before 0.4, same argument order

UNSUPPORTED = {
    "torch._utils._rebuild_qtensor": "a quantized tensor",
    "torch._utils._rebuild_sparse_tensor": "a sparse tensor",
    "torch._utils._rebuild_nested_tensor": "a nested tensor",
    "torch._utils._rebuild_meta_tensor_no_storage": "a tensor on the meta device",
    "torch._tensor._rebuild_from_type_v2": "a tensor with attributes, or of a subclass",
}
"""Objects rebuilt by torch's other functions, without a counterpart here."""
