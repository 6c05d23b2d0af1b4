"""Tensors that modules hold: buffers, and parameters and buffers whose shape is not known yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self

from ..ops.creation.factories import empty
from ..tensor.dtypes import DType, dtype_of
from ..tensor.size import Size
from ..tensor.tensor import Parameter, Tensor

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class Buffer(Tensor):
    """A tensor that becomes a buffer of the module that it is assigned to, sharing the memory of `data`.

    Modules leave it out of their state dict unless `persistent`.
    """

    __slots__ = ("persistent",)

    persistent: bool

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        data = Tensor() if data is None else data
        if data._cell is None:
            data._cell = [0]
        self._array, self._cell, self._node, self._state = data._array, data._cell, None, None
        self.requires_grad_(data.requires_grad)
        self.persistent = persistent


def _refuse(tensor: Any) -> NoReturn:
    kind = type(tensor).__name__
    raise ValueError(f"{kind} has no elements before materialize(shape); call its lazy module with a first batch")


class _Uninitialized:
    """A dtype without a shape. `materialize` gives it one and makes it a `cls_to_become`; until then what reads its
    elements raises ValueError."""

    __slots__ = ()

    cls_to_become: type

    # The slot of Tensor holds an array without elements, which has the dtype. The property hides it from functions.
    _array = property(_refuse, Tensor._array.__set__)  # type: ignore[attr-defined]

    def __init__(self, requires_grad: bool, device: Any, dtype: Any) -> None:
        tensor: Any = self
        tensor._array, tensor._cell = empty(0, device=device, dtype=dtype)._array, [0]
        tensor._node = tensor._state = None
        tensor.requires_grad_(requires_grad)

    @property
    def dtype(self) -> DType:
        return dtype_of(Tensor._array.__get__(self))  # type: ignore[attr-defined]

    @property
    def shape(self) -> Size:
        raise RuntimeError(f"{type(self).__name__} has no shape before materialize(shape)")

    def convert(self, function: Callable[[Tensor], Tensor]) -> None:
        """Take the dtype of the function's result."""
        self._array = function(empty(0, dtype=self.dtype))._array

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a `cls_to_become` of this shape, with undefined elements."""
        self._array = empty(shape, device=device, dtype=dtype or self.dtype)._array
        self.__class__ = self.cls_to_become

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = memo[id(self)] = type(self)(*self._arguments())
        return made

    def __reduce__(self) -> tuple:
        return type(self), self._arguments()

    def _arguments(self) -> tuple[Any, ...]:
        return self.requires_grad, None, self.dtype  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter whose shape is not known yet; lazy modules materialize theirs at the first call."""

    __slots__ = ()
    cls_to_become = Parameter

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(requires_grad, device, dtype)


class UninitializedBuffer(_Uninitialized, Tensor):
    """A buffer whose shape is not known yet."""

    __slots__ = ()
    cls_to_become = Tensor

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None) -> None:
        super().__init__(requires_grad, device, dtype)


def is_lazy(param: Any) -> bool:
    """Whether it is a parameter or buffer that is not initialized."""
    return isinstance(param, _Uninitialized)
