"""The `out=` argument of ops: tensors that receive the results."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ..autograd import nodes
from ..autograd.inference import refuse_inference
from ..autograd.modes import grad_mode, no_grad
from ..autograd.mutation import about_to_write, bump, refuse_unwritable_memory
from ..kernels.runtime.context import restore_on_failure, warn_caller
from ..kernels.runtime.workspace import offer
from ..tensor.casting import cast_unchecked
from ..tensor.dtypes import DType, dtype_of
from ..tensor.tensor import Tensor, not_a_tensor

LEAST_OFFERED = 1 << 16
"""Minimum size in bytes of a target whose memory is offered to the kernel. Copying a smaller result takes about 1
us."""


@restore_on_failure
def written_out(name: str, compute: Callable[[], Any], out: Any, arguments: tuple, dtype: DType | None = None) -> Any:
    """Compute the results of op `name` and write them into the tensors in `out`: a tuple for several results.

    None in the tuple requests a new tensor. `dtype` is that of the only result if it is known in advance; an unsuitable
    `out` is then rejected before anything is computed.

    Raises TypeError for values that are not tensors, and RuntimeError if gradients would be needed or the dtype does
    not fit. As in torch, a tensor of another shape is resized, with a warning unless it was empty.
    """
    if out is None:
        return compute()
    targets = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    if not targets:
        raise TypeError(f"{name}(): argument 'out' must be a Tensor or a tuple of Tensors, got {out!r}")
    for target in targets:
        if not isinstance(target, Tensor):
            raise not_a_tensor(name, "out", target)
        refuse_inference(target, "Inplace update to inference tensor")
        refuse_unwritable_memory(name, target._array)
        if dtype is not None:
            _refuse_count(name, targets, 1)
            _refuse_category(name, dtype, dtype_of(target._array))
    if grad_mode.get().records and any(each.requires_grad for each in _tensors((*targets, *arguments))):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad; omit out=, or call it under no_grad()"
        )
    with no_grad(), _offer(targets, arguments):
        results = compute()
    listed = results if isinstance(results, (tuple, list)) else (results,)
    _refuse_count(name, targets, len(listed))
    for result, target in zip(listed, targets, strict=True):
        _refuse_category(name, dtype_of(result._array), dtype_of(target._array))
    for result, target in zip(listed, targets, strict=True):
        _write(name, result._array, target)
    return type(results)(*targets) if hasattr(results, "_fields") else out


def _refuse_count(name: str, targets: tuple, expected: int) -> None:
    if len(targets) != expected:
        raise TypeError(f"{name}(): argument 'out' has {len(targets)} tensors; expected {expected}")


def _refuse_category(name: str, source: DType, wanted: DType) -> None:
    """Raise RuntimeError if results of one dtype cannot be written into a tensor of another."""
    if source.category > wanted.category:
        raise RuntimeError(
            f"{name}(): result type {source!r} can't be cast to the desired output type {wanted!r}; pass an out of "
            f"{source!r}"
        )


def _offer(targets: tuple, arguments: tuple) -> AbstractContextManager[None]:
    """Offer the memory of the only target to the kernel of a product or a transform, which then needs no copy.

    The memory is not offered if an argument may overlap it, or if `allow_mutation_on_saved_tensors` must keep its
    values.
    """
    target = targets[0]._array
    if len(targets) > 1 or target.nbytes < LEAST_OFFERED or not target.flags.c_contiguous:
        return nullcontext()
    arrays = [each._array if isinstance(each, Tensor) else each for each in _flat(arguments)]
    if nodes.keep_originals is not None or any(np.may_share_memory(each, target) for each in arrays):
        return nullcontext()
    return offer(target)


def _flat(values: tuple) -> list[Any]:
    """Flatten tensors and arrays out of values, lists and tuples."""
    flat = [each for value in values for each in (value if isinstance(value, (tuple, list)) else (value,))]
    return [each for each in flat if isinstance(each, (Tensor, np.ndarray))]


def _tensors(values: tuple) -> list[Tensor]:
    return [each for each in _flat(values) if isinstance(each, Tensor)]


def _write(name: str, result: np.ndarray, target: Tensor) -> None:
    about_to_write(target)
    if result.shape != target._array.shape:
        if target._array.size:
            warn_caller(
                f"{name}(): an output with one or more elements was resized since it had shape {list(target.shape)}, "
                f"which does not match the required output shape {list(result.shape)}; resize it to zero elements "
                "first"
            )
        target._array = cast_unchecked(result, target._array.dtype)
    elif not _is_in_place(result, target._array):
        target._array[...] = (
            result if result.dtype == target._array.dtype else cast_unchecked(result, target._array.dtype)
        )
    bump(target)


def _is_in_place(result: np.ndarray, target: np.ndarray) -> bool:
    """Whether a result was computed directly in the memory of a target of its shape."""
    same = result.dtype == target.dtype and result.strides == target.strides
    return same and result.ctypes.data == target.ctypes.data
