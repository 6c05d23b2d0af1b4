"""Logical and bitwise functions, element by element."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...dispatch.op import Array, op
from ..samples import Sample, arrays_like, between, sample, unary_samples

__all__ = [
    "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "gcd",
    "lcm", "logical_and", "logical_not", "logical_or", "logical_xor",
]  # fmt: skip


def _tensors() -> Iterator[Sample]:
    """Pairs with zeros in them; torch's logical functions take no numbers."""
    some = np.where(between(-1, 1, 3, 4) > 0, between(-2, 2, 3, 4), 0.0)
    yield sample(some, some[::-1])
    yield sample(some[:, :1], np.array([0.0, 1.5]))
    for array in arrays_like(-2, 2):
        yield sample(array, array)


def _whole() -> Iterator[Sample]:
    """Pairs for ops of integers, in every layout."""
    for array in arrays_like(-9, 9):
        yield sample(array, array[..., ::-1] if array.ndim else array)
    yield sample(between(-9, 9, 3, 1), between(-9, 9, 4))


def _shifts() -> Iterator[Sample]:
    for array in arrays_like(1, 9):
        yield sample(array, np.asarray(array / 4))
    yield sample(between(1, 9, 3, 1), between(1, 3, 4))


@op(warns=False, ufunc=np.logical_and, inplace=True, reference=np.logical_and, samples=_tensors)
def logical_and(input: Array, other: Array):
    """Where both are non-zero."""
    return np.logical_and(input, other)


@op(warns=False, ufunc=np.logical_or, inplace=True, reference=np.logical_or, samples=_tensors)
def logical_or(input: Array, other: Array):
    """Where at least one is non-zero."""
    return np.logical_or(input, other)


@op(warns=False, ufunc=np.logical_xor, inplace=True, reference=np.logical_xor, samples=_tensors)
def logical_xor(input: Array, other: Array):
    """Where exactly one is non-zero."""
    return np.logical_xor(input, other)


@op(warns=False, inplace=True, reference=lambda input: input == 0, samples=unary_samples())
def logical_not(input: Array):
    """Where the element is zero."""
    return np.logical_not(input)


_bitwise: Any = functools.partial(op, promote=True, takes="bi", inplace=True, samples=_whole)
_shift: Any = functools.partial(op, promote=True, takes="i", inplace=True, samples=_shifts)


@_bitwise(operators=("__and__", "__rand__", "__iand__"), reference=np.bitwise_and)
def bitwise_and(input: Array, other: Array):
    """The bits that both have set."""
    return np.bitwise_and(input, other)


@_bitwise(operators=("__or__", "__ror__", "__ior__"), reference=np.bitwise_or)
def bitwise_or(input: Array, other: Array):
    """The bits that at least one has set."""
    return np.bitwise_or(input, other)


@_bitwise(operators=("__xor__", "__rxor__", "__ixor__"), reference=np.bitwise_xor)
def bitwise_xor(input: Array, other: Array):
    """The bits that exactly one has set."""
    return np.bitwise_xor(input, other)


@op(takes="bi", inplace=True, operators=("__invert__",), reference=np.invert, samples=unary_samples(-9, 9))
def bitwise_not(input: Array):
    """The bits inverted; of booleans the negation."""
    return np.invert(input)


@_shift(operators=("__lshift__", "__rlshift__", "__ilshift__"), reference=np.left_shift)
def bitwise_left_shift(input: Array, other: Array):
    """The bits moved up by `other` places."""
    return np.left_shift(input, other)


@_shift(operators=("__rshift__", "__rrshift__", "__irshift__"), reference=np.right_shift)
def bitwise_right_shift(input: Array, other: Array):
    """The bits moved down by `other` places, with copies of the sign."""
    return np.right_shift(input, other)


@op(promote=True, only_tensors=("input", "other"), takes="i", inplace=True, reference=np.gcd, samples=_whole)
def gcd(input: Array, other: Array):
    """The greatest common divisor."""
    return np.gcd(input, other)


@op(promote=True, only_tensors=("input", "other"), takes="i", inplace=True, reference=np.lcm, samples=_whole)
def lcm(input: Array, other: Array):
    """The least common multiple."""
    return np.lcm(input, other)
