"""Functional assignment: copies with a slice, an index, a diagonal or a window overwritten."""

from __future__ import annotations

from operator import index as as_int
from typing import Any

import numpy as np

from ...autograd.views import walk
from ...dispatch.op import composite
from ...tensor.tensor import Tensor
from ..dims import wrap_dim
from ..samples import between, sample, strided_matrix
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


def _select_samples() -> Any:
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 4), 0, 1)
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 3), -1, -2)
    yield sample(strided_matrix(), between(-3, 3, 2), 0, 0)
    yield sample(between(-2, 2, 3), between(-3, 3), 0, 2)
    yield sample(between(-2, 2, 0, 3), between(-3, 3, 0), 1, 0)


def _select_reference(input: np.ndarray, src: np.ndarray, dim: int, index: int) -> np.ndarray:
    out = input.copy()
    np.moveaxis(out, dim, 0)[index] = src
    return out


@composite(reference=_select_reference, samples=_select_samples)
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy with `src` at one `index` of dimension `dim`.

    Raises IndexError out of range, RuntimeError for other shapes.
    """
    ndim = input._array.ndim
    part = (*slice_index(ndim, wrap_dim(dim, ndim), as_int(index)), ...)
    return _overwritten("select_scatter", input, src, getitem, index=part)


def _slice_samples() -> Any:
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 2, 4), 0, 1)
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 3, 2), 1, 0, 4, 2)
    yield sample(strided_matrix(), strided_matrix(), dim=-1)
    yield sample(between(-2, 2, 3), between(-3, 3, 0), 0, 1, 1)


def _slice_reference(
    input: np.ndarray, src: np.ndarray, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> np.ndarray:
    out = input.copy()
    np.moveaxis(out, dim, 0)[start:end:step] = np.moveaxis(src, dim, 0)
    return out


@composite(reference=_slice_reference, samples=_slice_samples)
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


def _diagonal_samples() -> Any:
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 3))
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 2), -1)
    yield sample(between(-2, 2, 2, 3, 2), between(-3, 3, 3, 1), 1, 0, 2)
    yield sample(strided_matrix(), between(-3, 3, 2))
    yield sample(between(-2, 2, 0, 3), between(-3, 3, 0))


def _diagonal_reference(
    input: np.ndarray, src: np.ndarray, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> np.ndarray:
    out = input.copy()
    places = np.arange(out.size).reshape(out.shape).diagonal(offset, dim1, dim2)
    out.reshape(-1)[places] = src
    return out


@composite(reference=_diagonal_reference, samples=_diagonal_samples)
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy with `src` on the `offset`-th diagonal of two dimensions.

    Raises RuntimeError for a source of another shape.
    """
    return _overwritten("diagonal_scatter", input, src, diagonal, offset=offset, dim1=dim1, dim2=dim2)


def _window_samples() -> Any:
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 2, 3), (2, 3), (1, 4), 0)
    yield sample(between(-2, 2, 3, 4), between(-3, 3, 2, 2), (2, 2), (5, 2), 1)
    yield sample(between(-2, 2), between(-3, 3, 1), (1,), (3,))
    yield sample(between(-2, 2, 0, 3), between(-3, 3, 0), (0,), (1,))


def _window_reference(
    input: np.ndarray, src: np.ndarray, size: Any, stride: Any, storage_offset: int = 0
) -> np.ndarray:
    out = input.copy()
    for place in np.ndindex(*size):
        out.reshape(-1)[storage_offset + sum(np.array(place, int) * np.array(stride, int))] = src[place]
    return out


@composite(reference=_window_reference, samples=_window_samples)
def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A copy with `src` written to the window of `as_strided`.

    Raises RuntimeError for another shape of `src`, for overlapping windows, and for windows outside the elements of
    `input`.
    """
    window = window_of("as_strided_scatter", input, size, stride, storage_offset, input, whole=True)
    refuse_overlaps("as_strided_scatter", walk(input._array, ((strided_window.op, window, None),)))
    return _overwritten("as_strided_scatter", input, src.to(input.dtype), strided_window, **window)
