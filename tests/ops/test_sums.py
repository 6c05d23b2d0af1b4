"""Every function that sums is as accurate over every memory layout as over the contiguous one, halves rounded once."""

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import Tensor

from ..support.layouts import arrays, axes_of

F = mt.nn.functional
ROUNDINGS = {np.dtype(np.float32): 0.0, np.dtype(np.float16): 2.0**-11, np.dtype(ml_dtypes.bfloat16): 2.0**-8}
"""What rounding a float32 result to the type costs."""

UNIT = 2.0**-23


def gradient(function: Callable[..., Tensor], g: Tensor, *shapes: tuple[int, ...]) -> Tensor:
    """The gradient of the first input, a tensor of this shape of zeros, where that of the result is `g`."""
    inputs = [mt.zeros(shape, dtype=g.dtype, requires_grad=place == 0) for place, shape in enumerate(shapes)]
    return mt.autograd.grad(function(*inputs), inputs[0], g)[0]


def keepdim_shape(x: Tensor, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))


def places(count: int) -> Tensor:
    """Indices of three rows; most name the same one."""
    return mt.tensor([0 if place % 7 else place % 3 for place in range(count)])


LINEAR: dict[str, Callable[[Tensor, tuple[int, ...]], Tensor]] = {
    "sum": lambda x, axes: x.sum(axes),
    "sum of all": lambda x, axes: x.sum(),
    "mean": lambda x, axes: x.mean(axes),
    "nansum": lambda x, axes: x.nansum(axes),
    "nanmean": lambda x, axes: x.nanmean(axes),
    "where": lambda x, axes: mt.where(x == x, x, mt.zeros((), dtype=x.dtype)).sum(axes),
    "einsum": lambda x, axes: mt.einsum(x, [0, 1, 2, 3], [axis for axis in range(4) if axis not in axes]),
    "trace": lambda x, axes: mt.trace(x[:, 0, :, 0]),
    "cumsum": lambda x, axes: x.cumsum(axes[0]),
    "trapezoid": lambda x, axes: mt.trapezoid(x, dim=axes[0]),
    "adaptive_avg_pool2d": lambda x, axes: F.adaptive_avg_pool2d(x, 1),
    "adaptive_avg_pool1d": lambda x, axes: F.adaptive_avg_pool1d(x.flatten(2), 3),
    "avg_pool2d": lambda x, axes: F.avg_pool2d(x, x.shape[2:]),
    "l1_loss": lambda x, axes: F.l1_loss(x.abs(), mt.zeros_like(x)),
    "nll_loss": lambda x, axes: F.nll_loss(-x, mt.zeros((x.shape[0], *x.shape[2:]), dtype=mt.int64)),
    "index_add": lambda x, axes: mt.zeros(3, *x.shape[1:], dtype=x.dtype).index_add(0, places(x.shape[0]), x),
    "index_add of columns": lambda x, axes: mt.zeros(*x.shape[:3], 3, dtype=x.dtype).index_add(
        3, places(x.shape[3]), x
    ),
    "scatter_add": lambda x, axes: mt.zeros(3, dtype=x.dtype).scatter_add(0, places(x.numel()), x.reshape(-1)),
    "index_put": lambda x, axes: mt.zeros(3, dtype=x.dtype).index_put(
        (places(x.numel()),), x.reshape(-1), accumulate=True
    ),
    "bincount": lambda x, axes: mt.bincount(
        places(x.numel()), x.reshape(-1).float() if x.itemsize == 2 else x.reshape(-1)
    ),
    "fold": lambda x, axes: F.fold(x[:1, 0], (1, x.shape[2] + x.shape[3] - 1), (1, x.shape[2])),
    "gradient of an addition": lambda x, axes: gradient(lambda a, b: a + b, x, keepdim_shape(x, axes), x.shape),
    "gradient of a product": lambda x, axes: gradient(lambda a: a * mt.ones_like(x), x, keepdim_shape(x, axes)),
    "gradient of expand": lambda x, axes: gradient(lambda a: a.expand(x.shape), x, keepdim_shape(x, axes)),
    "gradient of a vector": lambda x, axes: gradient(lambda a, b: a + b, x, (x.shape[3],), x.shape),
    "gradient of a linear bias": lambda x, axes: gradient(
        lambda bias, input, weight: F.linear(input, weight, bias), x, (x.shape[3],), (*x.shape[:3], 2), (x.shape[3], 2)
    ),
    "gradient of a convolution's bias": lambda x, axes: gradient(
        lambda bias, input, weight: F.conv2d(input, weight, bias),
        x,
        (x.shape[1],),
        (x.shape[0], 1, *x.shape[2:]),
        (x.shape[1], 1, 1, 1),
    ),
    "gradient of layer_norm's bias": lambda x, axes: gradient(
        lambda bias, input: F.layer_norm(input, x.shape[2:], None, bias), x, x.shape[2:], x.shape
    ),
    "gradient of group_norm's bias": lambda x, axes: gradient(
        lambda bias, input: F.group_norm(input, 1, None, bias), x, (x.shape[1],), x.shape
    ),
    "gradient of embedding": lambda x, axes: gradient(
        lambda weight: F.embedding(places(x[..., 0].numel()), weight), x.reshape(-1, x.shape[3]), (3, x.shape[3])
    ),
    "gradient of a look-up": lambda x, axes: gradient(lambda a: a[places(x.shape[0])], x, (3, *x.shape[1:])),
    "gradient of interpolate": lambda x, axes: gradient(
        lambda a: F.interpolate(a, x.shape[2:], mode="bilinear"), x, (*x.shape[:2], 1, 1)
    ),
    "gradient of unfold": lambda x, axes: gradient(
        lambda a: a.unfold(0, x.shape[3], 1), x[0, 0], (x.shape[2] + x.shape[3] - 1,)
    ),
}
"""Functions that are linear in what they sum, with no negative factors: on absolute values they give the sums of
magnitudes that errors are measured by."""


def of_distance(function: Callable[..., np.ndarray]) -> Callable[..., Any]:
    return lambda x, axes: (function(x, axis=axes), function(x, axis=axes) + 1e-20)


def of_norm(order: float) -> Callable[..., Any]:
    return lambda x, axes: ((np.abs(x) ** order).sum(axes) ** (1 / order),) * 2


def of_exponentials(x: np.ndarray, axes: tuple[int, ...]) -> Any:
    found = np.log(np.exp(x).sum(axes))
    return found, 1 + np.abs(found) + np.abs(x).max()


def softmax(x: np.ndarray, axis: int) -> Any:
    exponentials = np.exp(x - x.max(axis, keepdims=True))
    found = exponentials / exponentials.sum(axis, keepdims=True)
    return found, found * (2 + np.abs(x - x.max(axis, keepdims=True)))


def log_softmax(x: np.ndarray, axis: int) -> Any:
    found = np.log(softmax(x, axis)[0])
    return found, 1 + np.abs(found) + np.abs(x).max()


def standardize(x: np.ndarray, axes: tuple[int, ...]) -> Any:
    mean, deviation = x.mean(axes, keepdims=True), np.sqrt(x.var(axes, keepdims=True) + 1e-2)
    return (x - mean) / deviation, 2 * (np.abs(x) + np.abs(mean)) / deviation


OTHERS: dict[str, tuple[Callable[..., Tensor], Callable[..., Any]]] = {
    "var": (lambda x, axes: x.var(axes, correction=0), of_distance(np.var)),
    "std": (lambda x, axes: x.std(axes, correction=0), of_distance(np.std)),
    "var_mean": (lambda x, axes: mt.var_mean(x, axes, correction=0)[0], of_distance(np.var)),
    "vector_norm": (lambda x, axes: mt.linalg.vector_norm(x, dim=axes), of_norm(2)),
    "norm of order 1": (lambda x, axes: x.norm(1, axes), of_norm(1)),
    "norm of order 3": (lambda x, axes: x.norm(3, axes), of_norm(3)),
    "logsumexp": (lambda x, axes: x.logsumexp(axes), of_exponentials),
    "softmax": (lambda x, axes: x.softmax(axes[0]), lambda x, axes: softmax(x, axes[0])),
    "log_softmax": (lambda x, axes: x.log_softmax(axes[0]), lambda x, axes: log_softmax(x, axes[0])),
    "logcumsumexp": (
        lambda x, axes: x.logcumsumexp(axes[0]),
        lambda x, axes: (np.logaddexp.accumulate(x, axes[0]), 1 + 2 * np.abs(x).max() + np.log(x.size)),
    ),
    "layer_norm": (lambda x, axes: F.layer_norm(x, x.shape[2:], eps=1e-2), lambda x, axes: standardize(x, (2, 3))),
    "group_norm": (lambda x, axes: F.group_norm(x, 1, eps=1e-2), lambda x, axes: standardize(x, (1, 2, 3))),
    "mse_loss": (lambda x, axes: F.mse_loss(x, mt.zeros_like(x)), lambda x, axes: (np.square(x).mean(),) * 2),
}
"""Others, with their value and what the error is measured by, from float64 numbers."""


def check(name: str, found: Tensor, exact: np.ndarray, scale: np.ndarray, rounding: float) -> None:
    found = found.double().numpy()
    assert found.shape == exact.shape, name
    with np.errstate(invalid="ignore"):
        excess = np.abs(found - exact) - (
            4 * UNIT * scale + 1.01 * rounding * np.abs(exact) + 2.0**-25 * (rounding > 0)
        )
    assert not np.any(excess > 0), f"{name}: {np.max(excess)} more than allowed"


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_every_function_over_every_layout(data: st.DataObject) -> None:
    array = data.draw(arrays(list(ROUNDINGS), ndims=(4, 4)).filter(lambda array: array.size > 1))  # as group_norm does
    axes, rounding = data.draw(axes_of(array)), ROUNDINGS[array.dtype]
    x, wide = mt.from_numpy(array) if array.flags.writeable else mt.tensor(array), mt.tensor(array).double()
    for name, function in LINEAR.items():
        exact, scale = (function(each, axes).numpy() for each in (wide, wide.abs()))
        check(name, function(x, axes), exact, scale, rounding)
    for name, (function, reference) in OTHERS.items():
        check(name, function(x, axes), *reference(wide.numpy(), axes), rounding)


def running_statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    mean, var = mt.zeros(x.shape[1]), mt.ones(x.shape[1])
    F.batch_norm(x, mean, var, training=True, momentum=1.0)
    return mean, var


def test_variances_do_not_cancel() -> None:
    """Numbers around 10,000 with a spread of 1, in channels that come last in memory.

    `cov` is a product of 8,400 terms an entry, here by BLAS, which sums them in the order of the CPU's kernels:
    OpenBLAS loses 3 units in the last place with its kernels for AVX2, and 57 with those for AVX-512.
    """
    array = (1e4 + np.random.default_rng(0).standard_normal((2, 60, 70, 3))).astype(np.float32)
    x, exact = mt.from_numpy(array).permute(0, 3, 1, 2), array.astype(np.float64).reshape(-1, 3).var(0)
    free = exact * (8400 / 8399)
    for found, wanted, units in (
        (x.var((0, 2, 3)), free, 8),
        (x.std((0, 2, 3)) ** 2, free, 8),
        (mt.var_mean(x, (0, 2, 3), correction=0)[0], exact, 8),
        (mt.cov(x.transpose(0, 1).flatten(1)).diagonal(), free, math.sqrt(8400)),
        (running_statistics(x)[1], free, 8),
    ):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=units * UNIT)


def test_statistics_of_large_images() -> None:
    """Channels last, where adding row after row loses 4e-4, as much as TF32 does."""
    x = mt.full((1, 224, 224, 3), 1.1).permute(0, 3, 1, 2)
    found = [x.mean((2, 3)), F.adaptive_avg_pool2d(x, 1), F.avg_pool2d(x, 224), running_statistics(x)[0]]
    found.append(gradient(lambda bias, input: input + bias, x, (3, 1, 1), x.shape) / 224**2)
    for each in found:
        np.testing.assert_allclose(each.numpy().reshape(-1), np.float32(1.1), rtol=2 * UNIT)
