"""Copies of views, under torch's names `name_copy`; and `detach` as a function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...tensor.call_errors import argument_errors
from ...tensor.tensor import Tensor
from ..elementwise.complex_numbers import view_as_complex, view_as_real

_OF_VIEWS = """
    as_strided diagonal expand permute select split_with_sizes squeeze t transpose unbind unfold unsqueeze view
"""
"""Methods that give views, and functions `name_copy` that give copies of these."""


def _copying(name: str, view: Callable[..., Any]) -> Callable[..., Any]:
    """The function that copies the views that another one gives: one tensor or a tuple of them."""

    def copying(input: Tensor, *args: Any, **named: Any) -> Any:
        views = view(input, *args, **named)
        return tuple(each.clone() for each in views) if isinstance(views, (tuple, list)) else views.clone()

    functools.update_wrapper(copying, view, assigned=())
    copying.__name__ = copying.__qualname__ = f"{name}_copy"
    copying.__doc__ = f"A copy of `{name}`."
    return argument_errors(copying)


@argument_errors
def detach(input: Tensor) -> Tensor:
    """A view of the tensor outside the graph."""
    return input.detach()


_views = {_name: getattr(Tensor, _name) for _name in _OF_VIEWS.split()}
_views |= {"view_as_complex": view_as_complex, "view_as_real": view_as_real}
_aliases = {"detach": detach, **{f"{_name}_copy": _copying(_name, _view) for _name, _view in _views.items()}}
globals().update(_aliases)
__all__ = list(_aliases)
