"""Steps of recurrences in vectors, beside NumPy's in float64."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitorch_backends.kernels import recurrence, threading

SHAPES = [(3, 2, 5), (1, 1, 1), (2, 0, 3), (2, 70, 40), (3, 1, 16), (0, 2, 4)]
"""Length, rows, and numbers of a state: less than a vector, one vector, more than one thread takes."""


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def elman(nonlinearity: str) -> Callable[..., tuple]:
    def step(x: np.ndarray, product: np.ndarray, hidden: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.tanh(x + product) if nonlinearity == "tanh" else np.maximum(x + product, 0),)

    return step


def long_short_term(x: np.ndarray, product: np.ndarray, hidden: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, ...]:
    i, f, g, o = np.split(x + product, 4, -1)
    i, f, g, o = logistic(i), logistic(f), np.tanh(g), logistic(o)
    cell = f * cell + i * g
    return o * np.tanh(cell), cell, np.concatenate([i, f, g, o], -1)


def gated(x: np.ndarray, product: np.ndarray, hidden: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, ...]:
    (xr, xz, xn), (hr, hz, hn) = np.split(x, 3, -1), np.split(product + bias, 3, -1)
    r, z = logistic(xr + hr), logistic(xz + hz)
    n = np.tanh(xn + r * hn)
    return n + z * (hidden - n), np.concatenate([r, z, n, hn], -1)


KINDS: dict[str, tuple[int, Callable[..., tuple]]] = {
    "tanh": (1, elman("tanh")),
    "relu": (1, elman("relu")),
    "long_short_term": (4, long_short_term),
    "gated": (3, gated),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def problem(kind: str, shape: tuple[int, int, int], dtype: Any) -> tuple[np.ndarray, ...]:
    """A sequence, a matrix, the first state, and the first cell or the bias."""
    (length, rows, size), parts, rng = shape, KINDS[kind][0], np.random.default_rng(0)
    last = (3 * size,) if kind == "gated" else (rows, size)
    sizes = (length, rows, parts * size), (parts * size, size), (rows, size), last
    x, weight, *others = (rng.standard_normal(each).astype(dtype) for each in sizes)
    return x, weight / dtype(math.sqrt(size)), *others


def called(kind: str, x: np.ndarray, weight: np.ndarray, hidden: np.ndarray, other: np.ndarray) -> tuple:
    def multiply(state: np.ndarray) -> np.ndarray:
        return state @ weight.T

    if kind == "gated":
        return recurrence.gated(x, multiply, other, hidden)
    if kind == "long_short_term":
        return recurrence.long_short_term(x, multiply, hidden, other)
    return (recurrence.elman(x, multiply, hidden, kind),)


def defined(kind: str, x: np.ndarray, weight: np.ndarray, hidden: np.ndarray, other: np.ndarray) -> list[np.ndarray]:
    step = KINDS[kind][1]
    made: list[tuple] = []
    for row in x:
        product = hidden @ weight.T
        if kind == "long_short_term":
            made.append(step(row, product, hidden, made[-1][1] if made else other))
        else:
            made.append(step(row, product, hidden, *[other][: kind == "gated"]))
        hidden = made[-1][0]
    return [np.array(each) for each in zip(*made, strict=True)]


@every_kind
@every_dtype
@pytest.mark.parametrize("shape", SHAPES)
def test_forwards_are_their_definition(kind: str, dtype: Any, shape: tuple[int, int, int]) -> None:
    arrays = problem(kind, shape, dtype)
    got, wanted = called(kind, *arrays), defined(kind, *[each.astype(np.float64) for each in arrays])
    assert all(each.dtype == dtype and len(each) == shape[0] for each in got)
    for one, other in zip(got, wanted, strict=shape[0] > 0):
        assert one.shape == other.shape
        assert np.allclose(one, other, rtol=40 * np.finfo(dtype).eps, atol=40 * np.finfo(dtype).eps)


@every_kind
def test_arrays_may_lie_anywhere(kind: str) -> None:
    x, weight, hidden, other = problem(kind, (3, 4, 5), np.float32)
    turned = np.ascontiguousarray(x.T).T, weight, np.repeat(hidden, 2, 1)[:, ::2], other[..., ::-1].copy()[..., ::-1]
    apart = np.ascontiguousarray(x[::-1])[::-1], weight, np.repeat(hidden, 2, 0)[::2], other
    for arrays in (turned, apart):
        for one, wanted in zip(called(kind, *arrays), called(kind, x, weight, hidden, other), strict=True):
            assert np.array_equal(one, wanted)


@every_kind
def test_threads_give_the_same_bits(kind: str) -> None:
    arrays = problem(kind, (2, 130, 33), np.float32)
    many = called(kind, *arrays)
    before = threading.get_num_threads()
    threading.set_num_threads(1)
    try:
        alone = called(kind, *arrays)
    finally:
        threading.set_num_threads(before)
    assert all(np.array_equal(*each) for each in zip(alone, many, strict=True))


@every_kind
def test_infinities_and_nan_come_through(kind: str) -> None:
    hostile = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-40, -0.0, 200, -200], np.float32)
    x = np.tile(hostile, KINDS[kind][0])[np.newaxis, np.newaxis]
    _, weight, hidden, other = problem(kind, (1, 1, hostile.size), np.float32)
    arrays = x, weight * 0, hidden, other
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = defined(kind, *[each.astype(np.float64) for each in arrays])
    for one, each in zip(called(kind, *arrays), wanted, strict=True):
        assert np.allclose(one, each.astype(np.float32), rtol=1e-5, atol=1e-30, equal_nan=True)
