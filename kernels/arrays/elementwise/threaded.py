"""NumPy's single-threaded passes on all threads, with reused memory and the same bits, except for `_IN_VECTORS`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime import cpu, invariance, threading
from ...runtime.errstate import restore, silence
from ...runtime.workspace import Workspace, address_of, empty
from .arrays import back, by_vectors, cast_leaf, is_half, leaf_of, map_arrays, memory_order
from .turned import in_order
from .ufuncs import LENGTH, Lines, Loop, lines_of, loop_of

LARGE = 1 << 16
"""Number of elements from which other threads are worth waking. Callers of `threaded_function` compare sizes
themselves, since one more call is noticeable for small arrays. Microseconds of a product of float32 by NumPy, and here
on two cores: 16,384 numbers 5, 7; 65,536 18, 12; 262,144 120, 60; 1,048,576 650, 290; 2,097,152 1300, 580."""

_LEAST_IN_VECTORS = 1 << 12
"""Minimum number of elements for vectors to pay off, for functions that NumPy computes number by number."""

_FLOATS = np.dtype(np.float32), np.dtype(np.float64)
_TAGS = {"relu": "Relu", "relu_gradient": "ReluGradient", "relu6": "Relu6", "relu6_gradient": "Relu6Gradient"}

_EITHER, _FLOAT32, _FLOAT64 = (4, 8), (4,), (8,)
_IN_VECTORS = {
    (ufunc, size): tag
    for ufunc, sizes, tag in (
        (np.sin, _FLOAT64, "Sine"), (np.cos, _FLOAT64, "Cosine"), (np.tan, _FLOAT32, "Tangent"),
        (np.arcsin, _EITHER, "Arcsine"), (np.arccos, _EITHER, "Arccosine"), (np.arctan, _EITHER, "Arctangent"),
        (np.arctan2, _EITHER, "Angle"), (np.hypot, _EITHER, "Distance"), (np.exp, _EITHER, "Exponential"),
        (np.exp2, _EITHER, "PowerOfTwo"), (np.expm1, _EITHER, "ExponentialLessOne"), (np.log, _EITHER, "Logarithm"),
        (np.log1p, _EITHER, "LogarithmOfOnePlus"), (np.log2, _EITHER, "LogarithmToTwo"),
        (np.log10, _EITHER, "LogarithmToTen"), (np.logaddexp, _EITHER, "AddedExponentials"),
        (np.power, _FLOAT32, "Power"), (np.sinh, _EITHER, "HyperbolicSine"), (np.cosh, _EITHER, "HyperbolicCosine"),
        (np.tanh, _EITHER, "HyperbolicTangent"), (np.arcsinh, _EITHER, "HyperbolicArcsine"),
        (np.arccosh, _EITHER, "HyperbolicArccosine"), (np.arctanh, _EITHER, "HyperbolicArctangent"),
        (np.fmod, _EITHER, "TruncatedRemainder"), (np.remainder, _EITHER, "Remainder"),
        (np.floor_divide, _EITHER, "FlooredQuotient"),
    )
    for size in sizes
}  # fmt: skip
"""What NumPy makes of numbers of so many bytes more slowly, most of it number by number: to three units in the last
place, where the CPU has fused operations."""

_ROUNDED = {ufunc.__name__ for ufunc, _ in _IN_VECTORS} - {"fmod", "remainder", "floor_divide"} | {
    "cbrt", "float_power", "logaddexp2", "tan",
}  # fmt: skip
"""Functions that implementations round differently. All others of NumPy are exact, or rounded correctly."""

_POWERS = {-1: np.reciprocal, 0.5: np.sqrt, 1: np.positive, 2: np.square}
"""What NumPy does for an array to the power of these numbers."""


def threaded_function(function: Any) -> Callable[..., np.ndarray | None] | None:
    """The multithreaded form of a function of large arrays, which returns None for unsupported arrays; None for an
    unsupported function. Supported are those in `_TAGS`, powers, and ufuncs with one result and

    * an array, or two of one dtype and layout;
    * an array and one that has a number for each of the last dimensions, or for one dimension, as weights of rows and
      of channels have;
    * an array and a Python number.

    `out` may be the first array, unless the second overlaps it. Half types are computed with in float32, and rounded
    once. `least_of` says what is large.
    """
    if isinstance(function, np.ufunc):
        return functools.partial(_apply, function) if function.nout == 1 and function.nin in (1, 2) else None
    if function is operator.pow:
        return _power
    return functools.partial(_map_arrays, _TAGS[function]) if function in _TAGS else None


@functools.cache
def least_of(function: Any) -> int:
    """Minimum number of elements for `threaded_function` to take a function. It is the same for all CPUs: ops are
    declared with it before the first kernel determines the instruction set."""
    ufunc = np.power if function is operator.pow else function
    return _LEAST_IN_VECTORS if any((ufunc, size) in _IN_VECTORS for size in _EITHER) else LARGE


def each(ufunc: np.ufunc, x: np.ndarray, *operands: Any, out: np.ndarray | None = None) -> np.ndarray:
    """ufunc(x, *operands, out=out), where `out` may be x, by all threads where that gains."""
    taken = x.size >= least_of(ufunc) or invariance.possible
    found = _apply(ufunc, x, *operands, out=out) if taken else None
    return ufunc(x, *operands, out=out) if found is None else found


def _map_arrays(tag: str, x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray | None:
    if not _is_known(x.dtype) or x.dtype != y.dtype or x.shape != y.shape:
        return None
    if not x.flags.c_contiguous:
        return _map_transposed(functools.partial(_map_arrays, tag), x, y, out)
    leaf = leaf_of(tag, x.dtype) if y.flags.c_contiguous else None
    return None if leaf is None else map_arrays(leaf, x, y, out)


def _is_known(dtype: np.dtype) -> bool:
    return dtype in _FLOATS or is_half(dtype)


def _map_transposed(function: Callable, x: np.ndarray, y: Any, out: np.ndarray | None) -> np.ndarray | None:
    """The function of arrays whose last dimension is not the innermost one, channels-last images for example."""
    if (order := memory_order(x)) is None:
        return None
    if isinstance(y, np.ndarray):
        if y.ndim > x.ndim:
            return None
        y = y.reshape((1,) * (x.ndim - y.ndim) + y.shape).transpose(order)
    found = function(x.transpose(order), y, None if out is None else out.transpose(order))
    return None if found is None else back(found, order)


# Ufuncs


def _apply(ufunc: np.ufunc, x: np.ndarray, y: Any = None, out: np.ndarray | None = None) -> np.ndarray | None:
    if any(demand := invariance.current_demand()) and ufunc.__name__ in _ROUNDED:
        return _invariant(ufunc, x, y, out, demand.isa)
    if x.size < least_of(ufunc):
        return None
    if not _is_known(x.dtype) or not (out is None or out.flags.writeable):
        return None
    if not x.flags.c_contiguous:
        return _map_transposed(functools.partial(_apply, ufunc), x, y, out)
    if isinstance(y, np.ndarray) and y.shape == x.shape and y.dtype is x.dtype and not y.flags.c_contiguous:
        y = in_order(y)
    if (tag := _IN_VECTORS.get((ufunc, x.itemsize))) is not None and cpu.capability() != "portable":
        second = x if y is None else y if isinstance(y, np.ndarray) else np.full(x.shape, _number(y, x.dtype))
        if second.shape == x.shape and second.dtype is x.dtype and (out is None or _apart(second, out)):
            return _map_arrays(tag, x, second, out)
    return _apply_loop(ufunc, x, y, out) if x.size >= LARGE else None


def _invariant(ufunc: np.ufunc, x: Any, y: Any, out: np.ndarray | None, isa: bool) -> np.ndarray | None:
    """A function whose rounding is an implementation's own, in one way for all sizes and layouts: in vectors where they
    have it, and else by NumPy (None). Raises RuntimeError where that would give the bits of this CPU."""
    x = np.asarray(x)
    operands = [x] if y is None else [x, y if isinstance(y, np.ndarray) else _number(y, x.dtype)]
    dtype = operands[0].dtype
    if dtype.kind in "biu":
        return None
    tag = _IN_VECTORS.get((ufunc, max(dtype.itemsize, 4))) if _is_known(dtype) else None
    wide = isa and dtype == _FLOATS[0] and ufunc in (np.sin, np.cos)
    if isa and ufunc is np.tan and dtype == _FLOATS[1]:
        found = by_vectors("Sine", x) / by_vectors("Cosine", x)
        if out is not None:
            out[...] = found
        return found if out is None else out
    if wide:
        operands, tag = [each.astype(_FLOATS[1]) for each in operands], _IN_VECTORS[ufunc, 8]
    if tag is None or (not isa and cpu.capability() == "portable"):
        if isa:
            raise RuntimeError(
                f"{ufunc.__name__}() of {dtype.name} must not have bits of this CPU, and only NumPy has it; take 'isa' "
                "out of backends.invariant"
            )
        return None
    if len({each.dtype for each in operands}) > 1:
        operands = [each.astype(np.result_type(*operands)) for each in operands]
    found = by_vectors(tag, *operands)
    found = found.astype(dtype) if wide else found
    if out is None:
        return found
    out[...] = found
    return out


def _apply_loop(ufunc: np.ufunc, x: np.ndarray, y: Any, out: np.ndarray | None) -> np.ndarray | None:
    """By NumPy's own loops."""
    half = is_half(x.dtype)
    working = _FLOATS[0] if half else x.dtype
    if (loop := loop_of(ufunc, working)) is None:
        return None
    result = x.dtype if half and loop.result == working else loop.result
    if not (out is None or out.dtype == result):
        return None
    if y is None:
        y, lines = x, lines_of(x.shape, x.shape)
    elif not isinstance(y, np.ndarray):
        y, lines = _number(y, working), lines_of(x.shape, ())
    else:
        fits = y.dtype == x.dtype and y.flags.c_contiguous and (out is None or _apart(y, out))
        lines = lines_of(x.shape, y.shape) if fits else None
    if lines is None:
        return None
    from . import ufunc_loops

    if out is None:
        out = empty(x.shape, result)
    if half:
        return _through_float32(ufunc, loop, x, y, lines, out)
    second = out if ufunc.nin == 1 else y
    places, size = (address_of(x), address_of(second), address_of(out)), second.itemsize
    sizes = x.itemsize, size if lines.varies else 0, out.itemsize
    job = ufunc_loops.Lines(
        loop.function, loop.data, *places, *sizes, x.size, lines.length, lines.period, lines.step * size,
        *_shares(x.size, lines.length),
    )  # fmt: skip
    ufunc_loops.run(*threading.pool(), job)
    return out


def _shares(total: int, length: int) -> tuple[int, int]:
    """How many lines there are, and how many of them are a task."""
    return -(-total // length), max(1, LENGTH // length)


def _through_float32(
    ufunc: np.ufunc, loop: Loop, x: np.ndarray, y: np.ndarray, lines: Lines, out: np.ndarray
) -> np.ndarray | None:
    """The same for a half type, converted in pieces that fit the cache."""
    from . import ufunc_loops

    widen, narrow = cast_leaf(x.dtype, _FLOATS[0]), cast_leaf(_FLOATS[0], x.dtype) if out.dtype == x.dtype else 0
    if widen is None or narrow is None:
        return None
    second_size = -1
    if ufunc.nin == 2 and y.shape == x.shape:
        second_size = 2
    elif ufunc.nin == 2:
        y = y.astype(_FLOATS[0], copy=False)
        second_size = 4 if lines.varies else 0
    pool, threads = threading.pool()
    bytes_of_each = 3 * 4 * max(LENGTH, lines.length)
    with Workspace(threads * bytes_of_each) as memory:
        job = ufunc_loops.Halves(
            loop.function, loop.data, widen, narrow, address_of(x), address_of(y), address_of(out), second_size,
            out.itemsize, x.size, lines.length, lines.period, 4 * lines.step, *_shares(x.size, lines.length),
            memory, bytes_of_each,
        )  # fmt: skip
        ufunc_loops.run(pool, threads, job)
    return out


def _power(x: np.ndarray, y: Any, out: np.ndarray | None = None) -> np.ndarray | None:
    if isinstance(y, np.ndarray):
        return _apply(np.power, x, y, out) if y.ndim else None
    return _apply(_POWERS[y], x, out=out) if y in _POWERS else _apply(np.power, x, y, out)


def power(x: np.ndarray, y: Any) -> Any:
    """x ** y, where y is an array or a Python number."""
    found = _power(x, y) if invariance.is_demanded() else None
    return x**y if found is None else found


def _apart(y: np.ndarray, out: np.ndarray) -> bool:
    """Whether no element of y is written before another result needs it."""
    return not np.may_share_memory(y, out) or (y.shape == out.shape and address_of(y) == address_of(out))


def _number(value: Any, dtype: np.dtype) -> np.ndarray:
    """A Python number as an array, infinite without a word where it is too large."""
    token = silence()
    try:
        return np.array(value, dtype)
    finally:
        restore(token)
