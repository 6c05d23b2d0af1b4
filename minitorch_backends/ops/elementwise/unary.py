"""The declaration of ops that call one function of NumPy, SciPy or the kernels on each element."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ...dispatch.op import op
from ...kernels.arrays.elementwise import each
from ...tensor.tensor import Tensor


def unary_ufunc(
    function: Callable[[np.ndarray], np.ndarray],
    doc: str,
    *,
    gradient: Callable[..., Tensor],
    name: str | None = None,
    inplace: bool = True,
    traits: str = "",
    **options: Any,
) -> Callable[..., Tensor]:
    """Declare the op `name` of one input, which `function` computes: `sin = unary_ufunc(np.sin, "The sine.", ...)`.

    Integers and booleans become floating before. By default the op has the function's name, and an in-place method.

    Arguments:
        gradient: the rule of the input, written as those of `op` are.
        options: further arguments of `op`.
    """
    apply = functools.partial(each, function) if isinstance(function, np.ufunc) else function

    def forward(input: Any) -> Any:
        return apply(input)

    forward.__name__ = forward.__qualname__ = name or function.__name__
    forward.__doc__, forward.__module__ = doc, sys._getframe(1).f_globals["__name__"]
    forward.__annotations__ = {"input": "Array"}
    if isinstance(function, np.ufunc):
        options.setdefault("ufunc", function)
    traits += " inplace" if inplace else ""
    return op(forward, input=gradient, traits=traits, **{"promote": "float", **options})
