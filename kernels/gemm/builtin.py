"""Builtin functions of Python whose code is compiled here: what calls a small product in a tenth of a microsecond.

Numba's dispatcher takes 0.4 us to look at seven integers and to pass them on. CPython hands the objects as they are to
a C function of the convention METH_FASTCALL, and what a product needs of an array stands in its object: the address of
its data and that of its strides (`PyArrayObject_fields` of NumPy's C interface). The interpreter lock is held
meanwhile, so that one workspace serves all threads.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

import numpy as np

from ..jit import cfunc, types
from ..launch import call_at
from ..words import get
from .jobs import Job
from .segments import SegmentArguments, extraordinary, reset
from .workspace import DATA_FOLLOWS_HEADER, HEADER, address_of, aligned_bytes

__all__ = ["AVAILABLE", "WORKSPACE_BYTES", "builtin", "new_builtin", "workspace_address"]

AVAILABLE = DATA_FOLLOWS_HEADER and getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether objects lie as this module expects, and one thread at a time runs Python."""

WORKSPACE_BYTES = 1 << 19
"""The most that a job may want."""

_TYPE, _DATA, _STRIDES = HEADER - 8, HEADER, HEADER + 24
_FIELDS = ("job", "workspace", "ndim")
"""What the array behind a function holds first; the strides of a and of b follow."""

_increment = types.ExternalFunction("Py_IncRef", types.void(types.int64))


@cfunc(types.int64(types.int64, types.int64, types.int64))
def _call(behind, arguments, _):
    """`behind` is an array (`_FIELDS`), `arguments` are the addresses of three objects; returned is one of them."""
    a, b, c = get(arguments, 0), get(arguments, 1), get(arguments, 2)
    fields, kind = get(behind + _DATA, 0), get(c + _TYPE, 0)
    job, workspace, ndim = get(fields, 0), get(fields, 1), get(fields, 2)
    takes = get(a + _TYPE, 0) == kind and get(b + _TYPE, 0) == kind
    if takes:
        of_a, of_b = get(a + _STRIDES, 0), get(b + _STRIDES, 0)
        for dim in range(ndim):
            takes &= get(of_a, dim) == get(fields, 3 + dim) and get(of_b, dim) == get(fields, 3 + ndim + dim)
    if takes:
        checked = get(job, 1) != 0
        if checked:
            reset(workspace)
        places = get(a + _DATA, 0), get(b + _DATA, 0), get(c + _DATA, 0)
        call_at(get(job, 0), SegmentArguments(job, places[0], places[1], places[2], get(job, 2), workspace))
        takes = not checked or extraordinary(workspace) == 0
    result = c if takes else a
    _increment(result)
    return result


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("convention", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_METH_FASTCALL = 0x80
_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.argtypes = [ctypes.POINTER(_Method), ctypes.py_object, ctypes.c_void_p]
_new_function.restype = ctypes.py_object
_workspace = aligned_bytes(WORKSPACE_BYTES)


def builtin(job: Job, strides_a: tuple[int, ...], strides_b: tuple[int, ...]) -> Callable:
    """A function (a, b, c) that runs the job on the caller's thread and returns c.

    It is to be called with three arrays of the shapes and dtypes of the job, the last one contiguous. It returns a,
    where a or b has other strides, or is of a subclass of ndarray, or where its magnitudes have to be looked at.

    The job must live as long, and want no more than `WORKSPACE_BYTES` of workspace.
    """
    fields = (job.address, workspace_address(), len(strides_a), *strides_a, *strides_b)
    return new_builtin(_call.address, np.array(fields, np.int64))


_methods: dict[int, _Method] = {}  # which functions point to


def new_builtin(code: int, behind: np.ndarray) -> Callable:
    """A function whose compiled code (behind, arguments, their number) is at an address."""
    method = _methods.setdefault(code, _Method(b"product", code, _METH_FASTCALL, None))
    return _new_function(method, behind, None)


def workspace_address() -> int:
    """Of `WORKSPACE_BYTES`, for who holds the interpreter lock."""
    return address_of(_workspace)
