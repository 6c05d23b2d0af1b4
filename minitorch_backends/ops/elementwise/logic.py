"""Logical and bitwise functions, element by element."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...dispatch.op import Array, Forms, op

__all__ = [
    "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "logical_and", "logical_not", "logical_or", "logical_xor",
]  # fmt: skip


@op(traits="silent inplace", ufunc=np.logical_and)
def logical_and(input: Array, other: Array) -> Array:
    """Where both are non-zero."""
    return np.logical_and(input, other)


@op(traits="silent inplace", ufunc=np.logical_or)
def logical_or(input: Array, other: Array) -> Array:
    """Where at least one is non-zero."""
    return np.logical_or(input, other)


@op(traits="silent inplace", ufunc=np.logical_xor)
def logical_xor(input: Array, other: Array) -> Array:
    """Where exactly one is non-zero."""
    return np.logical_xor(input, other)


@op(traits="silent inplace")
def logical_not(input: Array) -> Array:
    """Where the element is zero."""
    return np.logical_not(input)


_bitwise: Any = functools.partial(op, promote=True, takes="bi", traits="inplace")
_shift: Any = functools.partial(op, promote=True, takes="i", traits="inplace")


@_bitwise(forms=Forms(operators=("__and__", "__rand__", "__iand__")))
def bitwise_and(input: Array, other: Array) -> Array:
    """The bits that both have set."""
    return np.bitwise_and(input, other)


@_bitwise(forms=Forms(operators=("__or__", "__ror__", "__ior__")))
def bitwise_or(input: Array, other: Array) -> Array:
    """The bits that at least one has set."""
    return np.bitwise_or(input, other)


@_bitwise(forms=Forms(operators=("__xor__", "__rxor__", "__ixor__")))
def bitwise_xor(input: Array, other: Array) -> Array:
    """The bits that exactly one has set."""
    return np.bitwise_xor(input, other)


@op(takes="bi", traits="inplace", forms=Forms(operators=("__invert__",)))
def bitwise_not(input: Array) -> Array:
    """The bits inverted; of booleans the negation."""
    return np.invert(input)


@_shift(forms=Forms(operators=("__lshift__", "__rlshift__", "__ilshift__")))
def bitwise_left_shift(input: Array, other: Array) -> Array:
    """The bits moved up by `other` places."""
    return np.left_shift(input, other)


@_shift(forms=Forms(operators=("__rshift__", "__rrshift__", "__irshift__")))
def bitwise_right_shift(input: Array, other: Array) -> Array:
    """The bits moved down by `other` places, with copies of the sign."""
    return np.right_shift(input, other)
