"""Memory for packed operands and large results, used again: fresh pages cost more than packing into them.

At n = 4096 a result in fresh pages takes 20 ms longer, beside 50 ms for the product itself in bf16.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading as python_threads
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np

KEPT_BYTES = 1 << 29
"""Memory that is kept idle for workspaces, and as much for results; what is more goes back to the system at once."""

_RESULTS_KEPT = 32
"""Results whose memory is remembered, those that live among them: the last ones."""

RECYCLED_BYTES = 1 << 22
"""Results of this size or more are made of memory that is used again. The C library keeps smaller ones."""

np.empty((1 << 25) - (1 << 13), np.uint8)
"""Freed at once, before its pages exist. glibc keeps memory of up to the largest size freed so far, at most 32 MiB
(`mallopt(3)`, M_MMAP_THRESHOLD). Otherwise each step of training would return its gradients to the system and fault
their pages in again."""

_ALIGNMENT = 64
_workspaces: list[np.ndarray] = []
_results: list[np.ndarray] = []


HEADER = object.__basicsize__
"""Bytes of the header of a Python object."""


class _Array(ctypes.Structure):
    """The beginning of an array object in NumPy's C interface."""

    _fields_ = (("header", ctypes.c_char * HEADER), ("data", ctypes.c_int64))


_array_at, _ndarray = _Array.from_address, np.ndarray


def _data_follows_header() -> bool:
    """Whether an array object has the address of its data behind the object's header, as in NumPy's C interface."""
    probe = np.zeros(1)
    return _array_at(id(probe)).data == probe.__array_interface__["data"][0]


COUNTS_REFERENCES = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether objects are counted as they are referred to, by one thread at a time."""

DATA_FOLLOWS_HEADER = sys.implementation.name == "cpython" and _data_follows_header()


def address_of(array: np.ndarray) -> int:
    """Where its data lies. Reading it in the object takes 0.1 us, `__array_interface__` 0.9. Raises TypeError for other
    objects, such as NumPy's scalars, which hold no address."""
    if not isinstance(array, _ndarray):
        raise TypeError(f"a kernel takes arrays, got {type(array).__name__}")
    if DATA_FOLLOWS_HEADER:
        return _array_at(id(array)).data
    return array.__array_interface__["data"][0]


def aligned_bytes(count: int) -> np.ndarray:
    """`count` bytes that begin on a cache line, uninitialised."""
    raw = np.empty(count + _ALIGNMENT, np.uint8)
    start = -address_of(raw) % _ALIGNMENT
    return raw[start : start + count]


def _of_a_former_result(count: int) -> np.ndarray:
    """`count` bytes and those to align them, of a former result where one was of about this size.

    Results are views of such memory, so memory is free once only the list refers to it. Another thread that looks at
    the same memory does refer to it, and then neither takes it.
    """
    for memory in reversed(_results):  # what was used last may still be in a cache
        if count <= memory.size - _ALIGNMENT <= count + count // 4 and sys.getrefcount(memory) == _IDLE:
            return memory
    memory = np.empty(count + _ALIGNMENT, np.uint8)
    if memory.size <= KEPT_BYTES and COUNTS_REFERENCES:
        while len(_results) >= _RESULTS_KEPT or memory.size + sum(x.size for x in tuple(_results)) > KEPT_BYTES:
            with suppress(IndexError):  # another thread was faster
                _results.pop(0)
        _results.append(memory)
    return memory


def _references(memories: list[np.ndarray]) -> int:
    """The reference count of unused memory, as `_of_a_former_result` reads it."""
    for memory in reversed(memories):
        return sys.getrefcount(memory)
    return 0


_IDLE = _references([np.empty(0, np.uint8)])


def is_sole(array: np.ndarray) -> bool:
    """Whether no other array sees the memory of this one, and little of that is not its own."""
    memory = array.base
    if memory is None:
        return True
    if type(memory) is not np.ndarray or memory.base is not None or memory.nbytes > 2 * (array.nbytes + _ALIGNMENT):
        return False
    remembered = id(memory) in map(id, tuple(_results))
    return COUNTS_REFERENCES and sys.getrefcount(memory) <= _SEEN_ONCE + remembered


def _references_of_one_view() -> int:
    """To memory that one array is a view of, seen as `is_sole` sees it."""
    array = np.empty(1)[:]
    memory = array.base
    return sys.getrefcount(memory)


_SEEN_ONCE = _references_of_one_view()


class _Offer(python_threads.local):
    """The array that this thread's next large result may be made in."""

    target: np.ndarray | None = None


_offer = _Offer()


@contextmanager
def offer(target: np.ndarray | None) -> Iterator[None]:
    """Let the first product or transform of the block that is as large as `target`, a contiguous array, be made in its
    memory, which saves a copy. None withdraws what was offered, where these are kept beyond the call.

    Whoever offers sees to it that no operand lies in this memory, and copies the result if it was made elsewhere: the
    offer may go to an intermediate product, or to one whose values are refused half way.
    """
    before, _offer.target = _offer.target, target
    try:
        yield
    finally:
        _offer.target = before


def result(
    shape: tuple[int, ...], dtype: np.dtype, recycled: int = RECYCLED_BYTES, aligned: bool = False
) -> np.ndarray:
    """`empty` for a result: in the memory that was offered, where it fits, and begins on a cache line if it has to be
    `aligned`; each offer is taken once."""
    target = _offer.target
    if target is None or target.dtype != dtype or target.size != math.prod(shape):
        return empty(shape, dtype, recycled)
    if aligned and address_of(target) % _ALIGNMENT:
        return empty(shape, dtype, recycled)
    _offer.target = None
    return target.reshape(shape)


def maker_of(count: int) -> Callable[[tuple[int, ...], np.dtype], np.ndarray]:
    """What makes a result of so many bytes: `result`, or `np.empty` where no alignment or offer is worth its 1 us."""
    return result if count >= 1 << 16 else np.empty


def empty(shape: tuple[int, ...], dtype: np.dtype, recycled: int = RECYCLED_BYTES) -> np.ndarray:
    """An uninitialised array that begins on a cache line, which NumPy's large arrays do not: tiles are stored a quarter
    faster into one (bf16, n = 1024 to 2048: 3140 to 3260 GFLOP/s where it was 2650 to 2910). From `recycled` bytes on
    it may be memory of a former one."""
    count = dtype.itemsize
    for length in shape:
        count *= length
    raw = _of_a_former_result(count) if count >= recycled else np.empty(count + _ALIGNMENT, np.uint8)
    return np.ndarray(shape, dtype, raw, -address_of(raw) % _ALIGNMENT)


def take_workspace(count: int) -> np.ndarray:
    """At least `count` bytes that begin on a cache line and that stay reserved until `return_workspace`."""
    try:
        memory = _workspaces.pop()
    except IndexError:
        return aligned_bytes(count)
    return memory if memory.size >= count else aligned_bytes(count)


def return_workspace(memory: np.ndarray) -> None:
    """Put a workspace back. A list's append and pop are atomic, so that threads need no lock."""
    if memory.size + sum(other.size for other in tuple(_workspaces)) <= KEPT_BYTES:
        _workspaces.append(memory)


class Workspace:
    """At least `count` bytes that begin on a cache line, reserved for a block; their address is what `with` gives."""

    __slots__ = ("_memory",)

    def __init__(self, count: int) -> None:
        self._memory = take_workspace(count)

    def __enter__(self) -> int:
        return address_of(self._memory)

    def __exit__(self, *_: object) -> None:
        return_workspace(self._memory)


def release() -> None:
    """Give the memory that products keep back to the system."""
    _workspaces.clear()
    _results.clear()
