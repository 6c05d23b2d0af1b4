"""Functions that emit instructions: what they receive for each kind of argument, and what compiled code gets back."""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

import numpy as np

from minitorch_backends.kernels.block import emit as e
from minitorch_backends.kernels.block.tags import field_class
from minitorch_backends.kernels.runtime.emitter import (
    Class,
    Constant,
    Fields,
    Pointer,
    Type,
    Value,
    boolean,
    emitter,
    float64,
    int64,
)
from minitorch_backends.kernels.runtime.jit import njit


class Inner(NamedTuple):
    factor = 5


class Outer(NamedTuple):
    inner: Inner


Pair = namedtuple("Pair", "first second")


@emitter
def _scale(builder, inner: Class, outer: Type, count) -> int64:
    """count * 5 * 5"""
    return builder.mul(count, e.I64(inner.factor * field_class(outer, "inner").factor))


@emitter
def _difference(builder, pair: Fields, others: Fields) -> int64:
    """first - second - the last of the others"""
    return builder.sub(builder.sub(pair.first, pair.second), others[-1])


@emitter
def _write(builder, at: Pointer, value: Value, number: float64, choose: boolean, places: Constant) -> None:
    for place in range(places):
        e.store(builder, builder.select(choose, value, number), e.offset(builder, at, 8 * place), 8)


@njit(cache=False)
def call(outer, at, count, value):
    _write(at, value, 2, count > 3, 2)
    return _scale(outer.inner, outer, count), _difference(Pair(count, 1), (count, 3, 4))


def test_arguments_come_as_they_are_declared():
    found = np.zeros(3)
    assert call(Outer(Inner()), found.ctypes.data, 4, 7.5) == (100, -1)
    assert found.tolist() == [7.5, 7.5, 0]
    assert call(Outer(Inner()), found.ctypes.data, 3, 7.5) == (75, -2)
    assert found.tolist() == [2, 2, 0]
