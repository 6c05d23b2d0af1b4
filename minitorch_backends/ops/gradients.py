"""What gradient rules share: conjugates, zeros, and the way back from a reduction's shape to its input's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tensor import instrumentation
from ..tensor.tensor import Tensor, adopt
from .dims import wrap_dims
from .views.shape import expand_view


def conjugate(value: Any) -> Any:
    """The conjugate of a tensor or number; itself when it is real."""
    if isinstance(value, complex):
        return value.conjugate()
    return value.conj() if type(value) is Tensor and value._array.dtype.kind == "c" else value


def counts(g: Tensor) -> bool:
    """Whether a gradient is more than the zeros of an unused result; passes over whole arrays are spared otherwise."""
    return g._node is not None or bool(g._array.any())


def zero(g: Tensor) -> Tensor:
    """The rule of a function that is constant almost everywhere."""
    return adopt(np.zeros_like(g._array))


def no_derivative(name: str) -> Callable[[Tensor], Tensor]:
    """The rule of a function without derivative: requesting its gradient raises an error."""

    def rule(g: Tensor) -> Tensor:
        raise NotImplementedError(
            f"the derivative of {name} is not implemented; detach() what it is given, or what it returned"
        )

    return rule


def axes_of(dim: Any, ndim: int) -> tuple[int, ...] | None:
    """The dims of a reduction as NumPy's axes; None, for all of them, when `dim` is None or empty."""
    if dim is None:
        return None
    if type(dim) is int and -ndim <= dim < ndim:
        return (dim % ndim,)
    axes = wrap_dims(dim, ndim)
    return (axes if ndim else ()) or None


def kept_shape(shape: tuple[int, ...], dim: Any) -> tuple[int, ...]:
    """The shape of a reduction over `dim` that keeps the reduced dimensions with size 1."""
    axes = axes_of(dim, len(shape))
    return tuple(1 if axes is None or axis in axes else size for axis, size in enumerate(shape))


def restore_dims(value: Tensor, shape: tuple[int, ...], dim: Any) -> Tensor:
    """The result of a reduction of `shape` over `dim`, or its gradient, with the reduced dimensions put back."""
    kept = kept_shape(shape, dim)
    return value if value._array.shape == kept else value.reshape(kept)


def spread(g: Tensor, input_shape: tuple[int, ...], dim: Any) -> Tensor:
    """The gradient of a sum over `dim`: that of the result, expanded to each term.

    Without recording, the array is computed directly, which is faster than by ops.
    """
    array = g._array
    plain = g._node is None and not instrumentation.is_observed()
    if plain and array.ndim == 0 and array.itemsize > 2:
        return adopt(np.ndarray(input_shape, array.dtype, array, 0, (0,) * len(input_shape)))
    if plain:
        return adopt(expand_view(array.reshape(kept_shape(input_shape, dim)), input_shape))
    return restore_dims(g, input_shape, dim).expand(input_shape)


def shared_among_ties(g: Tensor, input: Tensor, out: Tensor, dim: Any) -> Tensor:
    """The gradient of a selection by value along `dim`, shared equally among ties."""
    array = input._array
    chosen = out._array.reshape(kept_shape(array.shape, dim))
    ties = (array == chosen) | ((array != array) & (chosen != chosen))
    count = np.add.reduce(ties, axis=axes_of(dim, array.ndim), keepdims=True)
    shares = np.divide(ties, count, dtype=np.float64 if array.dtype == np.float64 else np.float32)
    return restore_dims(g, array.shape, dim) * adopt(shares)
