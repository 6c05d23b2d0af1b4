"""The standard's functions that are functions of ours under other names of arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ...ops.names import full
from ...tensor.dtypes import promote_types, result_dtype, scalar_dtype
from ...tensor.tensor import Tensor

_OURS = {"axis": "dim", "axes": "dim", "keepdims": "keepdim", "k": "diagonal"}
"""Our names of the standard's arguments."""


def rename(function: Callable[..., Any], parameters: str, name: str) -> Callable[..., Any]:
    """`function` as the standard's function `name` of these parameters, written as in a `def`.

    Positional arguments must come in the order of `function`.
    """
    signature = inspect.signature(eval(f"lambda {parameters}: None"))
    ours = {key: _OURS[key] for key in signature.parameters if key in _OURS}

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        return function(*args, **{ours.get(key, key): value for key, value in named.items()})

    call.__name__ = call.__qualname__ = name
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def promoting(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`function` of two arrays as the standard's function `name`, which promotes independently of dimensions."""

    @functools.wraps(function)
    def call(x1: Any, x2: Any, /) -> Any:
        if not isinstance(x1, Tensor) and isinstance(x2, Tensor):
            x1 = _number_beside(x1, x2)
        elif not isinstance(x2, Tensor) and isinstance(x1, Tensor):
            x2 = _number_beside(x2, x1)
        return function(*alike(x1, x2))

    call.__name__ = call.__qualname__ = name
    call.__signature__ = inspect.signature(call, follow_wrapped=False)  # type: ignore[attr-defined]
    return call


def _number_beside(value: Any, x: Tensor) -> Tensor:
    """A Python number as an array of the dtype to which it promotes with `x`."""
    return full((), value, dtype=result_dtype((x.dtype,), (), (scalar_dtype(value),)))


def alike(*values: Any) -> tuple[Any, ...]:
    """The values, arrays among them converted to their common type.

    (In torch, and by operators here, arrays without dimensions yield to others.)
    """
    dtypes = {value.dtype for value in values if isinstance(value, Tensor)}
    if len(dtypes) < 2:
        return values
    common = functools.reduce(promote_types, dtypes)
    return tuple(value.to(common) if isinstance(value, Tensor) else value for value in values)
