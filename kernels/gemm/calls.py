"""A contraction of two small operands as one builtin function: look-up, product and result in 0.2 us.

What a call from Python costs is attributes, tuples and a dict (0.6 us of the 1.1 that an 8 x 8 product took). Here a
table of calls that were made before is compared with the objects as they lie in memory: their types, sizes, strides
and dtypes. A hit runs a job of `jobs.py`, or multiplies element by element, into a new array, which becomes the slot of
a new object of the operands' class. The class and the places of its slots are told by who asks for the function.

The interpreter lock is held all the while, as in `builtin.py`.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..jit import cfunc, intrinsic, ir, subroutine, types
from ..launch import call_at
from ..locks import lock
from ..words import get, put
from .builtin import AVAILABLE, WORKSPACE_BYTES, new_builtin, workspace_address
from .emit import I64
from .jobs import Job
from .segments import SegmentArguments, extraordinary, reset
from .workspace import HEADER, address_of

__all__ = ["DIMS", "Multiply", "Table", "available"]

DIMS = 4
"""The most dimensions of an operand or of a result."""

ENTRIES = 512
"""Calls that are remembered, a power of two; of those that share a place the last one."""

_MOST_MICROSECONDS = 30.0
"""Of a job: what takes longer is done by several threads, and without the interpreter lock."""

_TYPE, _DATA, _NDIM, _DIMENSIONS, _STRIDES, _DTYPE = (
    HEADER - 8,
    HEADER,
    HEADER + 8,
    HEADER + 16,
    HEADER + 24,
    HEADER + 40,
)
_CLASS, _NONE, _ARRAY, _NODE, _FIRST_REST, _SECOND_REST, _NDARRAY, _NEW_ARRAY, _WORKSPACE, _HEAD = range(10)
"""Fields in front of the entries: the class, None, offsets of slots (of the array, of what has to be None, and of two
more that are None in results), the type of arrays, what makes one, and memory for a job."""

_EQUATION, _STATE, _DTYPE_OF, _NDIM_A, _NDIM_B, _SWAPPED, _WHAT, _WORK, _NDIM_C, _SIZES_C = range(10)
_SIZES_A, _SIZES_B, _ENTRY = _SIZES_C + DIMS, _SIZES_C + 3 * DIMS, _SIZES_C + 5 * DIMS
"""Fields of an entry: identities, the dtype, numbers of dimensions, whether the operands change places, what is done
(0: a job, or the bytes of the numbers that are multiplied), where that is described, the shape of the result, and the
sizes and then the strides of both operands."""

_increment = types.ExternalFunction("Py_IncRef", types.void(types.int64))
_decrement = types.ExternalFunction("Py_DecRef", types.void(types.int64))
_new_object = types.ExternalFunction("PyType_GenericAlloc", types.int64(types.int64, types.int64))


@intrinsic
def _new_array(typingctx, function, kind, dtype, ndim, shape):
    """`PyArray_NewFromDescr`, at its address; takes a reference to the dtype over."""

    def codegen(context, builder, signature, arguments):
        i32, (function, kind, dtype, ndim, shape) = ir.IntType(32), arguments
        takes = [I64, I64, i32, I64, I64, I64, i32, I64]
        called = builder.inttoptr(function, ir.FunctionType(I64, takes).as_pointer())
        none = I64(0)
        return builder.call(called, [kind, dtype, builder.trunc(ndim, i32), shape, none, none, i32(0), none])

    return types.int64(*[types.int64] * 5), codegen


@intrinsic
def _multiply_at(typingctx, a, b, c, size):
    """The number at c is the product of those at a and b, of 4 or 8 bytes."""

    def codegen(context, builder, signature, arguments):
        *places, size = arguments
        with builder.if_else(builder.icmp_signed("==", size, I64(4))) as (single, double):
            for branch, kind in ((single, ir.FloatType()), (double, ir.DoubleType())):
                with branch:
                    a, b, c = (builder.inttoptr(each, kind.as_pointer()) for each in places)
                    builder.store(builder.fmul(builder.load(a), builder.load(b)), c)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), codegen


@subroutine
def _multiply(work, size, a, b, c):
    """Products of elements; at `work` are four sizes, and four strides of a and of b."""
    for i in range(get(work, 0)):
        for j in range(get(work, 1)):
            for k in range(get(work, 2)):
                x = a + i * get(work, 4) + j * get(work, 5) + k * get(work, 6)
                y = b + i * get(work, 8) + j * get(work, 9) + k * get(work, 10)
                for _ in range(get(work, 3)):
                    _multiply_at(x, y, c, size)
                    x += get(work, 7)
                    y += get(work, 11)
                    c += size


@subroutine
def _place(state, equation, a, ndim_a, b, ndim_b):
    """Where in the table a call of two arrays stands."""
    key = (state >> 4) * 31 + (equation >> 4)
    dims, strides = get(a + _DIMENSIONS, 0), get(a + _STRIDES, 0)
    for dim in range(ndim_a):
        key = (key * 31 + get(dims, dim)) * 31 + get(strides, dim)
    dims, strides = get(b + _DIMENSIONS, 0), get(b + _STRIDES, 0)
    for dim in range(ndim_b):
        key = (key * 31 + get(dims, dim)) * 31 + get(strides, dim)
    return (key ^ key >> 9) & (ENTRIES - 1)


@subroutine
def _alike(array, ndim, sizes):
    """Whether the array has these sizes and strides."""
    dims, strides = get(array + _DIMENSIONS, 0), get(array + _STRIDES, 0)
    for dim in range(ndim):
        if get(dims, dim) != get(sizes, dim) or get(strides, dim) != get(sizes, DIMS + dim):
            return False
    return True


@cfunc(types.int64(types.int64, types.int64, types.int64))
def _call(behind, arguments, _):
    """`behind` is the table; `arguments` are the addresses of four objects: what the entries depend on beside the
    operands, the equation, and both operands. Returns None for a call that it does not know."""
    table = get(behind + _DATA, 0)
    state, equation, x, y = get(arguments, 0), get(arguments, 1), get(arguments, 2), get(arguments, 3)
    kind, none, node = get(table, _CLASS), get(table, _NONE), get(table, _NODE)
    while get(x + _TYPE, 0) == kind and get(y + _TYPE, 0) == kind:
        if get(x + node, 0) != none or get(y + node, 0) != none:
            break
        a, b, dtype = get(x + get(table, _ARRAY), 0), get(y + get(table, _ARRAY), 0), get(table, _NDARRAY)
        if get(a + _TYPE, 0) != dtype or get(b + _TYPE, 0) != dtype:
            break
        ndim_a, ndim_b = get(a + _NDIM, 0) & 0xFFFFFFFF, get(b + _NDIM, 0) & 0xFFFFFFFF
        place = _place(state, equation, a, ndim_a, b, ndim_b)
        entry, dtype = table + 8 * (_HEAD + place * _ENTRY), get(a + _DTYPE, 0)
        if get(entry, _EQUATION) != equation or get(entry, _STATE) != state or get(entry, _DTYPE_OF) != dtype:
            break
        if get(entry, _NDIM_A) != ndim_a or get(entry, _NDIM_B) != ndim_b or get(b + _DTYPE, 0) != dtype:
            break
        if not _alike(a, ndim_a, entry + 8 * _SIZES_A) or not _alike(b, ndim_b, entry + 8 * _SIZES_B):
            break
        _increment(dtype)
        shape = entry + 8 * _SIZES_C
        c = _new_array(get(table, _NEW_ARRAY), get(table, _NDARRAY), dtype, get(entry, _NDIM_C), shape)
        if c == 0:
            return 0
        work, what, fine = get(entry, _WORK), get(entry, _WHAT), True
        at_a, at_b, at_c = get(a + _DATA, 0), get(b + _DATA, 0), get(c + _DATA, 0)
        if get(entry, _SWAPPED):
            at_a, at_b = at_b, at_a
        if what == 0:
            workspace, checked = get(table, _WORKSPACE), get(work, 1) != 0
            if checked:
                reset(workspace)
            call_at(get(work, 0), SegmentArguments(work, at_a, at_b, at_c, get(work, 2), workspace))
            fine = not checked or extraordinary(workspace) == 0
        else:
            _multiply(work, what, at_a, at_b, at_c)
        result = _new_object(kind, 0) if fine else 0
        if result == 0:
            _decrement(c)
            if fine:
                return 0
            break
        put(result + get(table, _ARRAY), 0, c)
        for slot in (get(table, _NODE), get(table, _FIRST_REST), get(table, _SECOND_REST)):
            _increment(none)
            put(result + slot, 0, none)
        return result
    _increment(none)
    return none


class Multiply(NamedTuple):
    """Products of elements: four sizes, and strides of both operands, 0 where one is broadcast."""

    sizes: tuple[int, ...]
    strides_a: tuple[int, ...]
    strides_b: tuple[int, ...]


@functools.cache
def _numpys_new_array() -> int:
    """The address of `PyArray_NewFromDescr`, number 94 of NumPy's C interface."""
    capsule = np._core._multiarray_umath._ARRAY_API
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(get(capsule, None), ctypes.POINTER(ctypes.c_int64))[94]


def _offset(kind: type, slot: str) -> int:
    """Where in an object of the class a slot lies; 0 where it is not found."""
    probe, mark = object.__new__(kind), object()
    setattr(probe, slot, mark)
    words = range(HEADER, kind.__basicsize__, 8)
    return next((at for at in words if ctypes.c_int64.from_address(id(probe) + at).value == id(mark)), 0)


def available(kind: type, slots: tuple[str, ...]) -> bool:
    """Whether tables can be made here for a class with these slots."""
    return AVAILABLE and hasattr(np, "_core") and hasattr(np._core, "_multiarray_umath") and all(
        _offset(kind, slot) for slot in slots
    )  # fmt: skip


class Table:
    """Calls of two operands of a class that has the slots `array`, `node` (None where a call is taken) and two more.

    `call(state, equation, x, y)` returns an object of the class, or None where it does not know the call.
    """

    def __init__(self, kind: type, array: str, node: str, rest: Sequence[str]) -> None:
        self._kind = kind
        places = [_offset(kind, slot) for slot in (array, node, *rest)]
        head = (id(kind), id(None), *places, id(np.ndarray), _numpys_new_array(), workspace_address())
        self._memory = np.zeros(_HEAD + ENTRIES * _ENTRY, np.int64)
        self._memory[:_HEAD] = head
        self._held: dict[int, Any] = {}
        self._lock = lock()
        self.call: Callable[..., Any] = new_builtin(_call.address, self._memory)

    def add(
        self,
        state: Any,
        equation: object,
        operands: tuple[np.ndarray, np.ndarray],
        shape: tuple[int, ...],
        work: Job | Multiply,
        swapped: bool,
    ) -> bool:
        """Remember a call of operands like these two, whose result is contiguous and has this shape. `swapped`: the
        work is of the second operand and the first. Returns whether that can be done."""
        a, b = operands
        if max(a.ndim, b.ndim, len(shape)) > DIMS or a.dtype is not b.dtype:
            return False
        if isinstance(work, Job):
            what, address, kept = 0, work.address, work
            if work.workspace_bytes > WORKSPACE_BYTES or work.microseconds >= _MOST_MICROSECONDS:
                return False
        else:
            kept = np.array(work, np.int64)
            what, address = a.itemsize, address_of(kept)
        fields = (id(state), id(a.dtype), a.ndim, b.ndim, swapped, what, address, len(shape))
        place = _at(state, equation, a, b)
        entry = self._memory[_HEAD + place * _ENTRY :][:_ENTRY]
        if not self._lock.acquire(blocking=False):  # another thread adds one
            return False
        try:
            entry[_EQUATION] = 0  # no call is taken while the rest changes
            entry[_STATE:_SIZES_C] = fields
            sizes = (shape, a.shape, a.strides, b.shape, b.strides)
            for line, values in zip(entry[_SIZES_C:].reshape(5, DIMS), sizes, strict=True):
                line[: len(values)] = values
            self._held[place] = state, equation, a.dtype, kept
            entry[_EQUATION] = id(equation)
        finally:
            self._lock.release()
        return True


def _at(state: object, equation: object, *arrays: np.ndarray) -> int:
    """`_place`, in Python."""
    key = (id(state) >> 4) * 31 + (id(equation) >> 4)
    for pair in (pair for array in arrays for pair in zip(array.shape, array.strides, strict=True)):
        for value in pair:
            key = (key * 31 + value) & 0xFFFFFFFFFFFFFFFF
    key -= (key >> 63) << 64
    return (key ^ key >> 9) & (ENTRIES - 1)
