"""Pooling to given sizes, under torch's names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd.half_types import widen
from ...dispatch.op import composite
from ...tensor.size import addressable
from ...tensor.tensor import Tensor, adopt
from ..conv.im2col import gather_flat
from ..dims import integer
from ..functional import functional

Sizes = tuple[int, ...]


def _output_size(name: str, dims: int, output_size: Any, size: Sizes) -> Sizes:
    """The requested sizes; None keeps the input's."""
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * dims
    if len(given) != dims:
        raise RuntimeError(f"{name}: output_size must be {dims} numbers, got {output_size!r}")
    wanted = tuple(
        own if each is None else integer(name, "output_size", each) for each, own in zip(given, size, strict=True)
    )
    addressable(wanted)
    if min(wanted) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {list(wanted)}"
        )
    return wanted


def _bounds(size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each of `count` windows over `size` values begins and ends: floor(i size / count), ceil((i + 1) size /
    count)."""
    index = np.arange(count)
    return index * size // max(count, 1), -(-(index + 1) * size // max(count, 1))


def _places(size: int, count: int) -> np.ndarray:
    """The indices that each window sees, (count, longest); short windows have their last one again."""
    start, stop = _bounds(size, count)
    longest = int((stop - start).max(initial=1))
    return np.minimum(start[:, None] + np.arange(longest), stop[:, None] - 1)


def _mean_along(x: Tensor, dim: int, count: int) -> Tensor:
    """The means of windows along one dimension."""
    size = x.shape[dim]
    if count == size:
        return x
    if count and size % count == 0:
        return x.unflatten(dim, (count, size // count)).mean(dim + 1)
    start, stop = _bounds(size, count)
    places = _places(size, count)
    fresh = start[:, None] + np.arange(places.shape[1]) < stop[:, None]
    counts = np.maximum(stop - start, 1).astype(x._array.dtype)
    seen, behind = x.index_select(dim, adopt(places.ravel())).unflatten(dim, places.shape), (1,) * (x.ndim - dim - 1)
    # A multiplication by 0 would give NaN for infinite values.
    seen = seen.masked_fill(adopt(~fresh.reshape(*fresh.shape, *behind)), 0.0)
    return seen.sum(dim + 1) / adopt(counts.reshape(-1, *behind))


def _check(name: str, checked: int, dims: int, input: Tensor, output_size: Any) -> None:
    """Raise RuntimeError for another number of dimensions, and where one of the last `checked` is empty."""
    shape = list(input.shape)
    if len(shape) not in (dims + 1, dims + 2):
        raise (ValueError if not isinstance(output_size, int) and 1 < dims >= len(shape) else RuntimeError)(
            f"{name}(): input must have {dims + 1} or {dims + 2} dimensions, got shape {shape}"
        )
    for dim in range(len(shape) - checked, len(shape)):
        if shape[dim] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {shape} "
                f"with dimension {dim} being empty"
            )


def _average(name: str, dims: int, input: Tensor, output_size: Any) -> Tensor:
    _check(name, dims, dims, input, output_size)
    wanted = _output_size(name, dims, output_size, input._array.shape[-dims:])
    x = widen(input)
    if wanted == (1,) * dims:
        x = x.mean(tuple(range(x.ndim - dims, x.ndim)), keepdim=True)
    else:
        for dim, count in enumerate(wanted, input.ndim - dims):
            x = _mean_along(x, dim, count)
    return x.to(input.dtype) if x._array.dtype != input._array.dtype else x


def _largest(name: str, dims: int, input: Tensor, output_size: Any, return_indices: bool) -> Any:
    _check(name, dims + 1, dims, input, output_size)
    wanted = _output_size(name, dims, output_size, input._array.shape[-dims:])
    x = input if input.ndim == dims + 2 else input.unsqueeze(0)
    array, size = x._array, x._array.shape[2:]
    flat: Any = np.zeros((), np.int64)
    seen, longest = array, []
    for axis, count in enumerate(wanted):
        places = _places(size[axis], count)
        seen = np.take(seen, places, axis=2 + 2 * axis)  # (..., count, longest, ...)
        longest.append(places.shape[1])
        flat = flat[..., None, None] * size[axis] + places
    order = [0, 1, *(2 + 2 * axis for axis in range(dims)), *(3 + 2 * axis for axis in range(dims))]
    seen = seen.transpose(order).reshape(*array.shape[:2], *wanted, math.prod(longest))
    flat = flat.transpose([each - 2 for each in order[2:]]).reshape(*wanted, seen.shape[-1])
    best = (np.where(np.isnan(seen), np.inf, seen) if np.isnan(seen).any() else seen).argmax(-1)
    flat = np.broadcast_to(flat, seen.shape)
    indices = adopt(np.take_along_axis(flat, best[..., None], -1)[..., 0])
    values = gather_flat(x, indices)
    if input.ndim == dims + 1:
        values, indices = values.squeeze(0), indices.squeeze(0)
    return (values, indices) if return_indices else values


def _declare(dims: int) -> tuple[Callable[..., Tensor], Callable[..., Any]]:
    avg_name, max_name = f"adaptive_avg_pool{dims}d", f"adaptive_max_pool{dims}d"
    autocast = "float32" if dims == 3 else None

    def average(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
        """Means over the last dimensions of (N, C, ...), or (C, ...), to `output_size`; None keeps a size.

        Window i of `count` over `size` values is floor(i size / count) to ceil((i + 1) size / count). Raises
        RuntimeError for negative sizes, a wrong number of sizes, and empty images.
        """
        return _average(avg_name, dims, input, output_size)

    def largest(
        input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
    ) -> Any:  # fmt: skip
        """The largest values in the windows of the adaptive mean; with `return_indices` also where they are, as indices
        in an image as one dimension.

        Raises RuntimeError for negative sizes, for another count of them, and for images without values.
        """
        return _largest(max_name, dims, input, output_size, return_indices)

    average.__name__, largest.__name__ = avg_name, max_name
    return (
        functional(composite(method=False, takes="fc", autocast=autocast)(average)),
        functional(composite(method=False, takes="f", autocast=autocast)(largest), with_indices=True),
    )


adaptive_avg_pool1d, adaptive_max_pool1d = _declare(1)
adaptive_avg_pool2d, adaptive_max_pool2d = _declare(2)
adaptive_avg_pool3d, adaptive_max_pool3d = _declare(3)
