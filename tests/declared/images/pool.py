"""Samples and references of `ops/images/pool.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.conv.im2col import Windows
from minitorch_backends.ops.images.pool import _windows
from minitorch_backends.tensor.tensor import adopt

from ..conv.im2col import _pool_reference, _unfold_reference
from ..samples import Sample, between, sample
from ..table import declare


def at_of(
    input: Any, dims: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Windows:
    shape = input.shape if input.ndim == dims + 2 else (1, *input.shape)
    stand_in = adopt(np.empty(shape, np.bool_))
    return _windows("reference", stand_in, dims, kernel_size, stride, padding, dilation, ceil_mode)


def max_reference(dims: int) -> Callable[..., Any]:
    def reference(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:  # fmt: skip
        at = at_of(input, dims, kernel_size, stride, padding, dilation, ceil_mode)
        found: Any = _pool_reference(input if input.ndim == dims + 2 else input[None], at)
        found = found if input.ndim == dims + 2 else tuple(each[0] for each in found)
        return tuple(found) if return_indices else found[0]

    return reference


_SIZES = ((7,), (5, 6), (4, 3, 5))


def _max_samples(dims: int) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        x = between(-2, 2, 2, 3, *_SIZES[dims - 1])
        yield sample(x, 2)
        yield sample(x, 3, 2, 1, 1, False, True)
        yield sample(x[0], [2] * dims, [1] * dims, ceil_mode=True, dilation=2)
        yield sample(
            np.moveaxis(between(-2, 2, 1, *_SIZES[dims - 1], 3), -1, 1), 2, ceil_mode=True, return_indices=True
        )
        yield sample(x[:0], 2)

    return samples


def avg_reference(dims: int) -> Callable[..., np.ndarray]:
    def reference(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> np.ndarray:  # fmt: skip
        at = at_of(input, dims, kernel_size, stride, padding, 1, ceil_mode)
        x = input if input.ndim == dims + 2 else input[None]
        axes, ones = tuple(range(2, 2 + dims)), np.ones((1, 1, *at.size))
        if count_include_pad:  # places of the padding count, and those beyond it do not
            size = tuple(s + 2 * p for s, p in zip(at.size, at.padding, strict=True))
            wide = at._replace(padding=(0,) * dims, size=size)
            shares = _unfold_reference(np.ones((1, 1, *wide.size)), wide).sum(axes)
        else:
            shares = _unfold_reference(ones, at).sum(axes)
        result = _unfold_reference(x, at).sum(axes) / (shares if divisor_override is None else divisor_override)
        return result if input.ndim == dims + 2 else result[0]

    return reference


def _avg_samples(dims: int) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        x = between(-2, 2, 2, 3, *_SIZES[dims - 1])
        yield sample(x, 2)
        yield sample(x, 3, 2, 1, False, False)
        yield sample(x[0], [3] * dims, [2] * dims, [1] * dims, True)
        yield sample(np.moveaxis(between(-2, 2, 1, *_SIZES[dims - 1], 3), -1, 1), 2, ceil_mode=True)
        if dims > 1:
            yield sample(x, 2, 1, divisor_override=3)
        yield sample(x[:0], 2)

    return samples


for _dims in (1, 2, 3):
    declare(f"max_pool{_dims}d", max_reference(_dims), _max_samples(_dims))
    declare(f"avg_pool{_dims}d", avg_reference(_dims), _avg_samples(_dims))
