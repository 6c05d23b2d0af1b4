"""torch's old classes of tensors: `FloatTensor(2, 3)`, `LongTensor([1, 2])`, `isinstance(x, FloatTensor)`."""

from __future__ import annotations

from typing import Any

from ...ops.creation.from_data import construct
from ...ops.elementwise.cast import TYPES
from ...tensor.dtypes import DType, dtype_of, set_default_dtype
from ...tensor.tensor import Tensor

__all__ = ["TENSORS", "set_default_tensor_type"]


class _LegacyType(type):
    """The class of `FloatTensor` and its like: calling one makes a Tensor, and Tensors of its dtype are instances."""

    dtype: DType

    def __call__(cls, *sizes: Any, device: Any = None) -> Tensor:
        tensor = Tensor()
        construct(tensor, sizes, device, cls.dtype)
        return tensor

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and dtype_of(value._array) is cls.dtype


def _legacy(name: str, dtype: DType) -> _LegacyType:
    doc = f"Makes tensors of {dtype.name} by the rules of `Tensor`; those are its instances."
    return _LegacyType(name, (), {"dtype": dtype, "__doc__": doc})


TENSORS = {name.removeprefix("torch."): _legacy(name.removeprefix("torch."), dtype) for name, dtype in TYPES.items()}
"""The classes by name."""


def set_default_tensor_type(t: Any, /) -> None:
    """Make the dtype of `FloatTensor`, or of its name, the default one."""
    name = t if isinstance(t, str) else t.__name__
    if (found := TENSORS.get(name.removeprefix("torch."))) is None:
        raise TypeError(f"set_default_tensor_type(): t must be a class such as FloatTensor, got {t!r}")
    set_default_dtype(found.dtype)
