"""`torch.library`: operators are their Python functions; registrations have no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "CustomOp", "Library", "custom_op", "define", "get_ctx", "impl", "register_autograd", "register_fake",
    "register_kernel",
]  # fmt: skip


def _identity(function: Any) -> Any:
    return function


def register_fake(op: Any, func: Any = None, /, **options: Any) -> Any:
    """Without effect: nothing is traced. Return `func`, or the decorator."""
    return func if func is not None else _identity


impl = impl_abstract = register_kernel = register_fake


def register_autograd(op: Any, backward: Any, /, **options: Any) -> None:
    """Without effect: gradients come from the ops that a function calls."""


def define(qualname: Any, schema: Any = None, **options: Any) -> Any:
    """Without effect."""
    return _identity


def get_ctx() -> Any:
    """Raises RuntimeError: fake tensors do not exist here."""
    raise RuntimeError("library.get_ctx(): fake tensors do not exist here; call it inside register_fake in torch")


class CustomOp:
    """A function that was declared as an operator. Its registrations have no effect."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name, self._function = name, function

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._function(*args, **named)

    def register_fake(self, function: Any, /) -> Any:
        """Return `function`."""
        return function

    def register_kernel(self, device_types: Any, func: Any = None, /) -> Any:
        """Return `func`, or the decorator."""
        return func if func is not None else _identity

    def register_autograd(self, backward: Any, /, **options: Any) -> None:
        """Without effect: gradients come from the ops that the function calls."""


def custom_op(name: str, fn: Any = None, /, **options: Any) -> Any:
    """The operator of a function, or the decorator that makes it."""
    return CustomOp(name, fn) if fn is not None else lambda fn: CustomOp(name, fn)


class Library:
    """A namespace of operators; registrations have no effect."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind = ns, kind

    def define(self, schema: str, **options: Any) -> str:
        """Return the name in a schema."""
        return schema.partition("(")[0]

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        """Without effect."""
