"""Predicates of tensors and dtypes, under torch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from ..tensor.call_errors import argument_errors, install, refuse_other_than_tensor
from ..tensor.dtypes import DType, result_dtype, scalar_dtype, to_dtype
from ..tensor.tensor import Tensor, not_a_tensor

__all__ = [
    "can_cast", "is_complex", "is_conj", "is_floating_point", "is_neg", "is_nonzero", "is_same_size", "is_signed",
    "is_tensor", "numel", "result_type",
]  # fmt: skip


def declare_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is a method as well."""
    install(**{function.__name__: function})
    return argument_errors(function)


def _tensor(name: str, input: Any) -> Tensor:
    if not isinstance(input, Tensor):
        raise not_a_tensor(name, "input", input)
    return input


def is_tensor(obj: Any) -> TypeGuard[Tensor]:
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating point numbers."""
    return _tensor("is_floating_point", input).is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return _tensor("is_complex", input).is_complex()


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element differs from zero. Raises RuntimeError unless the tensor has exactly one element."""
    if _tensor("is_nonzero", input).numel() != 1:
        raise RuntimeError(f"is_nonzero(): expected a tensor of one element, got shape {list(input.shape)}")
    return bool(input)


def numel(input: Tensor) -> int:
    """The number of elements."""
    return _tensor("numel", input).numel()


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype that promotion gives to two tensors or numbers, as in their sum.

    Numbers and 0-dim tensors yield to tensors with dimensions unless their category is higher.
    """
    groups: tuple[list[DType], ...] = ([], [], [])
    for name, each in (("tensor1", tensor1), ("tensor2", tensor2)):
        if isinstance(each, Tensor):
            groups[0 if each.ndim else 1].append(each.dtype)
        elif isinstance(each, (bool, int, float, complex)):
            groups[2].append(scalar_dtype(each))
        else:
            raise not_a_tensor("result_type", name, each, "a Tensor or a number")
    return result_dtype(*map(tuple, groups))


def can_cast(from_: Any, to: Any) -> bool:
    """Whether a cast from `from_` to `to` is allowed for `out=` and in-place ops.

    A cast may not lower the category, in the order boolean, integer, floating, complex.
    """
    return to_dtype(to).category >= to_dtype(from_).category


@declare_method
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape."""
    refuse_other_than_tensor("is_same_size", "other", other)
    return input._array.shape == other._array.shape


@declare_method
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return input.dtype.is_signed


@declare_method
def is_conj(input: Tensor) -> bool:
    """False: conjugates are computed at once."""
    return False


@declare_method
def is_neg(input: Tensor) -> bool:
    """False: no view negates, here."""
    return False


def _is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both see the same memory by the same shape and strides."""
    ours, theirs = self._array, tensor._array
    alike = (ours.shape, ours.strides, ours.dtype) == (theirs.shape, theirs.strides, theirs.dtype)
    return alike and ours.ctypes.data == theirs.ctypes.data


def _is_nonzero(self: Tensor) -> bool:
    """Whether its only element is not zero. Raises RuntimeError for another number of elements."""
    return bool(self)


install(is_set_to=_is_set_to, is_nonzero=_is_nonzero)
