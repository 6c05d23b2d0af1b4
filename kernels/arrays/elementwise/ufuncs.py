"""NumPy's own loops over elements, for threads that NumPy does not start: where their code lies, and how arrays lie
for them."""

from __future__ import annotations

import ctypes
import functools
import math
from typing import NamedTuple

import numpy as np

LENGTH = 1 << 13
"""Numbers that a thread takes at a time, by these loops or by those of `maps`."""

_LEAST_LINE = 32
"""Minimum numbers per line; each line costs a call of 10 ns."""


class _Ufunc(ctypes.Structure):
    """The beginning of `PyUFuncObject`, which NumPy's C interface keeps (numpy/ufuncobject.h)."""

    _fields_ = (
        ("header", ctypes.c_char * object.__basicsize__), ("operands", ctypes.c_int * 3), ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)), ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("types", ctypes.c_int), ("reserved", ctypes.c_int), ("name", ctypes.c_char_p),
    )  # fmt: skip


class Loop(NamedTuple):
    """Addresses of a function of the type `PyUFuncGenericFunction` and of the data that it is called with, and the
    dtype of its results."""

    function: int
    data: int
    result: np.dtype


@functools.cache
def loop_of(ufunc: np.ufunc, dtype: np.dtype) -> Loop | None:
    """The loop over operands of a dtype with one result; None if it does not exist or is not found.

    A loop does not use the interpreter and keeps no state: NumPy calls it without the interpreter's lock.
    """
    if ufunc.nout != 1 or dtype.char not in "fd":
        return None
    of = _Ufunc.from_address(id(ufunc))
    if (tuple(of.operands), of.types) != ((ufunc.nin, 1, ufunc.nargs), ufunc.ntypes):
        return None
    if (of.name or b"").decode() != ufunc.__name__:
        return None
    for index, (operands, result) in enumerate(each.split("->") for each in ufunc.types):
        if operands == dtype.char * ufunc.nin and of.functions[index]:
            return Loop(of.functions[index], of.data[index] or 0, np.dtype(result))
    return None


class Lines(NamedTuple):
    """Two arrays as lines of equal lengths, the last one perhaps shorter.

    The second array begins anew after `period` lines, and `step` numbers further on for each before that; it has a
    number for each of the first's (`varies`), or one for a line.
    """

    varies: bool
    length: int
    period: int
    step: int


@functools.lru_cache(1024)
def lines_of(shape: tuple[int, ...], other: tuple[int, ...]) -> Lines | None:
    """Lines of contiguous arrays of these shapes, if the second broadcasts to the first by one run of dimensions; None
    for others, and where lines would be short."""
    if shape == other:
        return Lines(True, LENGTH, 1 << 62, LENGTH)
    if len(other) > len(shape):
        return None
    padded = (1,) * (len(shape) - len(other)) + other
    present = [each for each, size in enumerate(padded) if size != 1]
    if not present:
        return Lines(False, LENGTH, 1, 0)
    start, stop = present[0], present[-1] + 1
    if padded[start:stop] != shape[start:stop]:
        return None
    inner, period = math.prod(shape[stop:]), math.prod(shape[start:stop])
    lines = Lines(True, period, 1, 0) if stop == len(shape) else Lines(False, inner, period, 1)
    return lines if lines.length >= _LEAST_LINE else None
