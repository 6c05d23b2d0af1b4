"""Accumulation of gradients: reduction to the shape and dtype of the input, and addition to `.grad`."""

from __future__ import annotations

import math
import sys

import numpy as np

from ..kernels.arrays.sums import sum as sum_over
from ..kernels.precisions.float8 import is_float8
from ..kernels.runtime.locks import reentrant_lock
from ..kernels.runtime.workspace import is_sole
from ..tensor import instrumentation
from ..tensor.dtypes import COMPLEX, dtype_of
from ..tensor.tensor import Tensor, adopt
from .modes import grad_mode
from .mutation import refuse_unwritable_memory
from .nodes import Leaf

_QUICK = (np.dtype(np.float32), np.dtype(np.float64))

_locks = tuple(reentrant_lock() for _ in range(16))
"""Locks for accumulation, chosen by the tensor's address. They are re-entrant, since a finaliser may run another pass
in the same thread."""

_ONE_OWNER = 2
"""The value of `sys.getrefcount` for an array held by one tensor: that reference, and the call's own."""


def fit_gradient(value: Tensor, shape: tuple[int, ...], dtype: np.dtype, create_graph: bool) -> Tensor:
    """Reduce a gradient to the shape and dtype of the input: sum over the dimensions that the forward broadcast."""
    array = value._array
    quick = not create_graph and not instrumentation.is_observed() and array.dtype is dtype and dtype in _QUICK
    new = array.ndim - len(shape)
    if quick and new > 0 and array.shape[new:] == shape:
        if array.size == math.prod(shape):
            return adopt(array.reshape(shape))
        return adopt(np.asarray(sum_over(array, tuple(range(new)) if shape else None)))
    if array.shape != shape:
        value = value.sum_to_size(shape)
    if value._array.dtype != dtype:
        if dtype_of(value._array).category == COMPLEX and np.dtype(dtype).kind != "c":
            value = value.real
        value = value.to(dtype)
    return value


def accumulate(tensor: Tensor, g: Tensor, create_graph: bool, fresh: bool = False) -> None:
    """Add `g` to the `.grad` of `tensor`: in place, unless the graph of the gradient is recorded.

    The first gradient is stored without a copy if it is `fresh`, its array has no other owner, and it has the memory
    layout of the tensor. Passes in other threads that reach the same tensor wait.
    """
    with _locks[id(tensor) // 64 % len(_locks)]:
        state = tensor._state or tensor.state
        if state.grad is None:
            array = g._array
            if create_graph and g.requires_grad:
                state.grad = g.clone()
            elif array.strides != tensor._array.strides and grad_mode.get().layout:
                out = np.empty_like(tensor._array, array.dtype)
                out[...] = array
                state.grad = adopt(out)
            elif fresh and sys.getrefcount(g._array) <= _ONE_OWNER + 1 and is_sole(array):
                state.grad = adopt(array)
            else:
                state.grad = adopt(array.copy("K"))
        elif state.grad._array.shape != g._array.shape:
            raise RuntimeError(
                f"a gradient of shape {list(g.shape)} cannot be added to .grad of shape "
                f"{list(state.grad.shape)}; set .grad to None after giving .data another shape"
            )
        elif create_graph:
            state.grad = state.grad + g
        else:
            _add(state.grad, g._array)


def _add(grad: Tensor, more: np.ndarray) -> None:
    """Add to a `.grad` in place. Raises RuntimeError if its memory is read-only or expanded."""
    sums, cell = grad._array, grad._cell
    if sums.dtype not in _QUICK and is_float8(sums.dtype):
        raise NotImplementedError(
            f"backward(): gradients of {grad.dtype!r} cannot be summed; set .grad to None before, and use the "
            "tensor once"
        )
    if not sums.flags.writeable or 0 in sums.strides:
        refuse_unwritable_memory("accumulating into .grad", sums)
    np.add(sums, more, out=sums)
    if cell is None:
        grad._cell = [1]
    elif type(cell) is list:
        cell[0] += 1


def accumulate_leaf(leaf: Leaf, g: Tensor, create_graph: bool) -> None:
    """Add `g` to the `.grad` of a leaf's tensor, and call the hooks of its node before and after."""
    variable, hooks = leaf._variable(), leaf.hooks
    if variable is None:
        return
    if hooks is None:
        accumulate(variable, g, create_graph)
        return
    (arrived,) = hooks.before((g,))
    if arrived is not None:
        accumulate(variable, arrived, create_graph)
    hooks.when_accumulated(variable)
    hooks.after((), (arrived,))
