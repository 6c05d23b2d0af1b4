"""opt_einsum with `backend="minitorch_backends"` on arrays of NumPy: it converts them, and results back.

Tensors need nothing of this: `opt_einsum.contract` finds `tensordot`, `transpose` and `einsum` in their package. This
module is imported with opt_einsum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..kernels.runtime.first_use import load
from ..ops import names as ops

_BACKEND = __name__.partition(".")[0]


def _build_expression(_: Any, expression: Any) -> Callable[..., Any]:
    """The expression as a function from arrays to an array."""

    def contract(*arrays: Any) -> Any:
        return expression._contract([ops.as_tensor(each) for each in arrays], backend=_BACKEND).numpy()

    return contract


def _evaluate_constants(arrays: Any, expression: Any) -> Any:
    """The expression evaluated on its constants, each an array or None."""
    constants = [None if each is None else ops.as_tensor(each) for each in arrays]
    return expression(*constants, backend=_BACKEND, evaluate_constants=True)


_dispatch = load("opt_einsum.backends.dispatch")
_dispatch.CONVERT_BACKENDS[_BACKEND] = _build_expression
_dispatch.EVAL_CONSTS_BACKENDS[_BACKEND] = _evaluate_constants
