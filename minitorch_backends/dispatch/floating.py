"""How composites of floating tensors are declared."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..tensor.dtypes import dtype_of
from ..tensor.tensor import Tensor, not_a_tensor
from .op import composite
from .promotion import refusal_of_dtype

__all__ = ["floating_composite"]


def floating_composite(
    *,
    reference: Callable[..., Any],
    samples: Callable[..., Any],
    takes: str = "f",
    also: str = "",
    stateful: bool = False,
    widen: bool | tuple[str, ...] = False,
    product: str | None = None,
    tested_as: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A composite, no method, that refuses a first argument of a type that it does not take, as ops do.

    The function raises RuntimeError for other dtypes and TypeError for values other than Tensors. It checks itself
    whether the categories `also` go with its other arguments.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        name, first = function.__name__, next(iter(inspect.signature(function).parameters))

        @functools.wraps(function)
        def checked(*args: Any, **named: Any) -> Any:
            input = args[0] if args else named.get(first)
            if not isinstance(input, Tensor):
                raise not_a_tensor(name, first, input)
            if (dtype := dtype_of(input._array)).letter not in takes + also:
                raise refusal_of_dtype(name, dtype, takes)
            return function(*args, **named)

        options: dict[str, Any] = {"takes": takes, "widen": widen, "product": product, "tested_as": tested_as}
        return composite(**options, stateful=stateful, method=False, reference=reference, samples=samples)(checked)

    return declare
