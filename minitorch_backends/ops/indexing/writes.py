"""Shared parts of the functions that write by index tensors: each only maps values to places."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...dispatch.op import composite
from ...tensor.call_errors import install
from ...tensor.dtypes import DType, int32, int64
from ...tensor.tensor import Tensor, not_a_tensor
from ..views.shape import reshape
from .index import copy_written, index_assign, index_multiply
from .index_parts import refuse_index_dtype


def at_least_vector(input: Tensor) -> Any:
    """A view with one dimension for a 0-dim tensor, else the tensor itself."""
    return input if input._array.ndim else reshape(input, (1,))


def assigning(
    *, expanded: Callable[..., Tensor] | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function and its in-place form from one that returns (values, index arrays, accumulate).

    `accumulate` is False, True to add, or "multiply". `expanded` returns the tensor that the function (not the in-place
    form) copies and writes to; by default the first argument.
    """

    def declare(arguments: Callable[..., Any]) -> Callable[..., Any]:
        arguments.__annotations__["return"] = "Tensor"  # of the declared function, as users see it

        @functools.wraps(arguments)
        def function(input: Tensor, *args: Any, **named: Any) -> Tensor:
            if expanded is not None:
                input = expanded(input, *args, **named)
            values, arrays, accumulate = arguments(input, *args, **named)
            target, arrays = at_least_vector(input), copy_written(arrays, input, values)
            if accumulate == "multiply":
                result = index_multiply(target, values, arrays)
            else:
                result = index_assign(target, values, arrays, accumulate)
            return result if input._array.ndim else reshape(result, ())

        @functools.wraps(arguments)
        def in_place(self: Tensor, *args: Any, **named: Any) -> Tensor:
            values, arrays, accumulate = arguments(self, *args, **named)
            target, arrays = at_least_vector(self), copy_written(arrays, self, values)
            if accumulate == "multiply":
                target.index_multiply_(values, arrays)
            else:
                target.index_assign_(values, arrays, accumulate)
            return self

        in_place.__name__ = in_place.__qualname__ = arguments.__name__ + "_"
        in_place.__doc__ = f"`{arguments.__name__}`, written into this tensor."
        install(**{in_place.__name__: in_place})
        return composite(**options)(function)

    return declare


def checked_positions(
    name: str, given: Any, size: int, dim: int, error: type[Exception] = RuntimeError, from_end: bool = False,
    dtypes: tuple[DType, ...] = (int32, int64),
) -> np.ndarray:  # fmt: skip
    """An index tensor as an array; negative positions count from the end if allowed.

    Raises RuntimeError for dtypes outside `dtypes`, `error` for positions out of bounds.
    """
    if not isinstance(given, Tensor):
        raise not_a_tensor(name, "index", given)
    positions = given._array
    refuse_index_dtype(name, "index", positions, dtypes)
    if from_end:
        positions = np.where((positions < 0) & (positions >= -size), positions + size, positions)
    # Read as unsigned, negative positions are larger than any size.
    if positions.size and positions.view(f"u{positions.itemsize}").max() >= size:
        wrong = positions[(positions < 0) | (positions >= size)][0]
        raise error(f"{name}(): index {wrong} is out of bounds for dimension {dim} with size {size}")
    return positions
