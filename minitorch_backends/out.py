"""The `out=` argument of ops: tensors that results are written into."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .autograd.inference import refuse_inference
from .autograd.modes import grad_mode, no_grad
from .dtypes import dtype_of
from .inplace import about_to_write, bump
from .tensor import Tensor

__all__ = ["written_out"]


def written_out(name: str, compute: Callable[[], Any], out: Any, arguments: tuple) -> Any:
    """Compute the results of the op `name` for these arguments, and put them into the tensors given as `out`; a tuple
    of them for several results. None asks for new tensors.

    Raises TypeError for what is no tensor, RuntimeError where gradients would be needed or a result's dtype does not
    fit. A tensor of another shape is given the result's, with a warning unless it was empty, as in torch.
    """
    if out is None:
        return compute()
    targets = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    for target in targets:
        if not isinstance(target, Tensor):
            raise TypeError(f"{name}(): argument 'out' must be a Tensor, not {type(target).__name__}")
        refuse_inference(target, "Inplace update to inference tensor")
    if grad_mode.get().records and any(each.requires_grad for each in _tensors((*targets, *arguments))):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad; leave out= away, or call it under no_grad()"
        )
    with no_grad():
        results = compute()
    listed = results if isinstance(results, (tuple, list)) else (results,)
    if len(listed) != len(targets):
        raise TypeError(f"{name}(): argument 'out' has {len(targets)} tensors; expected {len(listed)}")
    for result, target in zip(listed, targets, strict=True):
        source, wanted = dtype_of(result._array), dtype_of(target._array)
        if source.category > wanted.category:
            raise RuntimeError(
                f"{name}(): result type {source!r} can't be cast to the desired output type {wanted!r}; pass an out of "
                f"{source!r}"
            )
    for result, target in zip(listed, targets, strict=True):
        _write(name, result._array, target)
    return type(results)(*targets) if hasattr(results, "_fields") else out


def _tensors(values: tuple) -> list[Tensor]:
    return [
        tensor
        for value in values
        for tensor in (value if isinstance(value, (tuple, list)) else (value,))
        if isinstance(tensor, Tensor)
    ]


def _write(name: str, result: np.ndarray, target: Tensor) -> None:
    about_to_write(target)
    if result.shape != target._array.shape:
        if target._array.size:
            warnings.warn(
                f"{name}(): an output with one or more elements was resized since it had shape {list(target.shape)}, "
                f"which does not match the required output shape {list(result.shape)}; resize it to zero elements "
                "first",
                stacklevel=4,
            )
        target._array = result.astype(target._array.dtype)
    else:
        target._array[...] = result
    bump(target)
