"""Functional assignment: copies with a slice, an index, a diagonal or a window overwritten."""

from __future__ import annotations

from operator import index as as_int
from typing import Any

from ...autograd.views import walk
from ...dispatch.op import composite
from ...tensor.tensor import Tensor
from ..dims import wrap_dim
from ..views.slices import diagonal, getitem, slice_index
from ..views.strided import refuse_overlaps, strided_window, window_of
from ..views.view_replay import view_scatter

__all__ = ["as_strided_scatter", "diagonal_scatter", "select_scatter", "slice_scatter"]


def _overwritten(name: str, input: Tensor, src: Tensor, view: Any, **metadata: Any) -> Tensor:
    """A copy of `input` with `src` where the op `view` would look.

    Raises RuntimeError for a source of another shape.
    """
    step = (view.op, metadata, None)
    wanted = walk(input._array, (step,)).shape
    if src._array.shape != wanted:
        raise RuntimeError(
            f"{name} expected src of shape {list(wanted)}, that of the part to overwrite, got {list(src.shape)}"
        )
    return view_scatter(input, src, (step,))


@composite()
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy with `src` at one `index` of dimension `dim`.

    Raises IndexError out of range, RuntimeError for other shapes.
    """
    ndim = input._array.ndim
    part = (*slice_index(ndim, wrap_dim(dim, ndim), as_int(index)), ...)
    return _overwritten("select_scatter", input, src, getitem, index=part)


@composite()
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy with `src` at `start:end:step` of dimension `dim`.

    Raises RuntimeError for shapes and steps that do not fit.
    """
    if step < 1:
        raise RuntimeError(f"slice step must be positive, got {step}; use flip to reverse the order")
    ndim = input._array.ndim
    part = slice_index(ndim, wrap_dim(dim, ndim), slice(start, end, step))
    return _overwritten("slice_scatter", input, src, getitem, index=part)


@composite()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy with `src` on the `offset`-th diagonal of two dimensions.

    Raises RuntimeError for a source of another shape.
    """
    return _overwritten("diagonal_scatter", input, src, diagonal, offset=offset, dim1=dim1, dim2=dim2)


@composite()
def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A copy with `src` written to the window of `as_strided`.

    Raises RuntimeError for another shape of `src`, for overlapping windows, and for windows outside the elements of
    `input`.
    """
    window = window_of("as_strided_scatter", input, size, stride, storage_offset, input, whole=True)
    refuse_overlaps("as_strided_scatter", walk(input._array, ((strided_window.op, window, None),)))
    return _overwritten("as_strided_scatter", input, src.to(input.dtype), strided_window, **window)
