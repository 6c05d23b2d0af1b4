"""Samples and references of `ops/images/pool.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.conv.im2col import Windows
from minitorch_backends.ops.images.pool import _windows
from minitorch_backends.tensor.tensor import adopt
from tests.declared.conv.im2col import _pool_reference, _unfold_reference
from tests.declared.samples import Sample, between, sample
from tests.declared.table import declare


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


def _reference(dims: int, reduce: Any) -> Callable[..., Any]:
    def reference(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        given = (output_size,) * dims if isinstance(output_size, int) else output_size
        size = input.shape[-dims:]
        wanted = [own if each is None else each for each, own in zip(given, size, strict=True)]
        out, at = np.empty((*input.shape[:-dims], *wanted), input.dtype), np.empty((*input.shape[:-dims], *wanted), int)
        where = np.arange(math.prod(size)).reshape(size)
        for place in np.ndindex(*wanted):
            cut = tuple(slice(i * n // c, -(-(i + 1) * n // c)) for i, n, c in zip(place, size, wanted, strict=True))
            seen = input[(..., *cut)].reshape(*input.shape[:-dims], math.prod(s.stop - s.start for s in cut))
            out[(..., *place)] = reduce(seen, axis=-1)
            at[(..., *place)] = where[cut].ravel()[seen.argmax(-1)]
        return (out, at) if return_indices else out

    return reference


_SIZES_of_adaptive_pool = ((7,), (6, 5), (4, 3, 5))


def _samples(dims: int, indices: bool) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        x = between(-2, 2, 2, 3, *_SIZES_of_adaptive_pool[dims - 1])
        yield sample(x, 3)
        yield sample(x[0], (1,) * dims)
        yield sample(x, (None, 2, 7)[:dims] if dims > 1 else 4)
        yield sample(
            np.moveaxis(between(-2, 2, 1, *_SIZES_of_adaptive_pool[dims - 1], 3), -1, 1),
            2,
            *([True] if indices else []),
        )
        yield sample(x[:0], 2)

    return samples


for _dims in (1, 2, 3):
    declare(f"adaptive_avg_pool{_dims}d", _reference(_dims, np.mean), _samples(_dims, False))
    declare(f"adaptive_max_pool{_dims}d", _reference(_dims, np.amax), _samples(_dims, True))


def _reference_of_fractional_pool(dims: int) -> Callable[..., Any]:
    def reference(
        input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Any = None,
    ) -> Any:  # fmt: skip
        """Reduce one window after the other, at the places that the samples give."""
        x = input if input.ndim == dims + 2 else input[None]
        size, kernel = x.shape[2:], (kernel_size,) * dims if isinstance(kernel_size, int) else kernel_size
        if output_size is None:
            output_size = tuple(int(each * ratio) for each, ratio in zip(size, output_ratio, strict=True))
        output = (output_size,) * dims if isinstance(output_size, int) else output_size
        values, indices = np.zeros((*x.shape[:2], *output)), np.zeros((*x.shape[:2], *output), np.int64)
        for n, c, *place in np.ndindex(*values.shape):
            draws = _random_samples[n, c] if dims == 3 else _random_samples[n, c, ::-1]
            begin = [
                own - taps if i == count - 1 else int((i + u) * a) - int(u * a)
                for i, own, taps, count, u in zip(place, size, kernel, output, draws, strict=True)
                for a in [(own - taps) / max(count - 1, 1)]
            ]
            window = tuple(slice(b, b + taps) for b, taps in zip(begin, kernel, strict=True))
            inside = np.unravel_index(x[n, c][window].argmax(), kernel)
            found = tuple(b + i for b, i in zip(begin, inside, strict=True))
            values[n, c, *place], indices[n, c, *place] = x[n, c][found], np.ravel_multi_index(found, size)
        if input.ndim == dims + 1:
            values, indices = values[0], indices[0]
        return (values, indices) if return_indices else values

    return reference


_SIZES_of_fractional_pool = {2: (6, 5), 3: (5, 6, 7)}


def _samples_of_fractional_pool(dims: int) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        x, draws = between(-9, 9, 2, 2, *_SIZES_of_fractional_pool[dims]), between(0.25, 0.75, 2, 2, dims, seed=3)
        yield sample(x, 2, 3, return_indices=True, _random_samples=draws)
        yield sample(x, (2, 3, 2)[:dims], (3, 2, 4)[:dims], _random_samples=draws)
        yield sample(x[0], 2, output_ratio=(0.6,) * dims, return_indices=True, _random_samples=draws[:1])
        yield sample(
            np.moveaxis(between(-9, 9, 1, *_SIZES_of_fractional_pool[dims], 2), -1, 1), 2, 1, _random_samples=draws[:1]
        )
        yield sample(x[:0], 2, 3, _random_samples=draws[:0])

    return samples


for _dims in (2, 3):
    declare(f"fractional_max_pool{_dims}d", _reference_of_fractional_pool(_dims), _samples_of_fractional_pool(_dims))


def _pool_samples(dims: int) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        x = between(0.5, 2, 2, 3, *_SIZES[dims - 1])
        yield sample(x, 2.0, 2)
        yield sample(x[0], 3, [3] * dims if dims > 1 else 3, [2] * dims)
        yield sample(x, 1.5, 2, 1)
        yield sample(x[:0], 2.0, 2)
        yield sample(np.moveaxis(between(0.5, 2, 1, *_SIZES[dims - 1], 3), -1, 1), 2.0, 2, ceil_mode=True)

    return samples


def _pool_reference_of_lp_pool(dims: int) -> Any:
    def reference(
        input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> np.ndarray:
        taps = (kernel_size,) * dims if isinstance(kernel_size, int) else kernel_size
        mean = avg_reference(dims)(input**norm_type, kernel_size, stride, 0, ceil_mode)
        return (mean * np.prod(taps)) ** (1 / norm_type)

    return reference


for _dims in (1, 2, 3):
    declare(f"lp_pool{_dims}d", _pool_reference_of_lp_pool(_dims), _pool_samples(_dims))
