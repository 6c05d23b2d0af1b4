"""Calls made from the samples that are declared for the ops, in a dtype of choice, for ops and for references."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import minitorch_backends as mt
from minitorch_backends.dispatch.op import Composite
from minitorch_backends.dispatch.promotion import EVERY_CATEGORY
from minitorch_backends.tensor.dtypes import BOOL, COMPLEX, FLOATING, INTEGER, DType, dtype_of, dtypes
from minitorch_backends.tensor.registry import registry
from minitorch_backends.tensor.tensor import adopt

from ..declared.samples import Sample
from ..declared.table import load

TABLE = load()
OPS = tuple(registry)
HALVES = (mt.float16, mt.bfloat16)
NO_HALVES = frozenset({"istft", "stft"}.union(each for each in mt.fft.__all__ if not each.endswith(("shift", "freq"))))
"""Functions of floating tensors that refuse half types, as torch's do on CPUs."""


NO_GAPS = {"as_strided", "as_strided_scatter", "strided_window", "view_as_complex"}
"""Functions of the memory of elements, which see the gaps between them, or refuse them."""


UNDERIVABLE = {
    "distinct", "geqrf", "heaviside", "index_multiply", "histogram", "histogram_of_points", "histogramdd", "igamma",
    "igammac", "linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_ldl_solve", "scaled_product", "unique",
    "unique_consecutive", "zeta",
}  # fmt: skip
"""Whose results require gradients, which backward refuses to find, for some inputs or all, as in torch."""


def is_composite(name: str) -> bool:
    return isinstance(registry[name], Composite)


def samples_of(name: str) -> list[Sample]:
    """The declared samples; where all are contiguous in memory, also the first one with a gap after every element."""
    calls = list(TABLE[name].samples())
    gapless = name not in NO_GAPS and all(array.flags.c_contiguous for call in calls for array in arrays_in(call))
    if calls and gapless and any(array.ndim for array in arrays_in(calls[0])):
        calls.append(
            Sample(
                map_arrays(calls[0].args, spread),
                {key: map_arrays(each, spread) for key, each in calls[0].kwargs.items()},
            )
        )
    return calls


def spread(array: np.ndarray) -> np.ndarray:
    """The same values with a gap after every element."""
    return np.repeat(array[..., None], 2, -1)[..., 0]


def takes(name: str, dtype: DType) -> bool:
    """Whether an op takes inputs of this dtype, directly or because it promotes integers to a floating type."""
    declared = registry[name]
    if dtype in HALVES and name in NO_HALVES:
        return False
    if dtype.letter in declared.takes:
        return True
    return dtype.category <= INTEGER and getattr(declared, "promote", False) == "float" and "f" in declared.takes


ARITHMETIC = [dtype for dtype in dtypes.values() if dtype.letter in EVERY_CATEGORY]
"""The types that ops compute with; `test_float8` has the others."""


def dtypes_of(name: str) -> list[DType]:
    return [dtype for dtype in ARITHMETIC if takes(name, dtype)]


def map_arrays(value: Any, function: Callable[[np.ndarray], Any]) -> Any:
    """`value` with every array in it, also in lists and tuples, replaced by `function` of it."""
    if isinstance(value, (np.ndarray, np.float64)):
        return function(np.asarray(value))
    if isinstance(value, list):
        return [map_arrays(each, function) for each in value]
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map_arrays(each, function) for each in value)
    return value


def arrays_in(call: Sample) -> list[np.ndarray]:
    """The arrays of a call that stand for inputs of any dtype, in order."""
    found: list[np.ndarray] = []

    def note(array: np.ndarray) -> np.ndarray:
        if array.dtype == np.float64:
            found.append(array)
        return array

    map_arrays([*call.args, *call.kwargs.values()], note)
    return found


def as_dtype(array: np.ndarray, dtype: DType) -> np.ndarray:
    """A sample's array in another dtype, as densely laid out in memory as it is.

    Fractions are rounded away from zero to integers, so that a divisor stays one; complex numbers get imaginary parts.
    """
    if array.dtype != np.float64:
        return array
    values: Any = array
    if dtype.category == BOOL:
        values = array > 0
    elif dtype.category == INTEGER:
        finite = np.nan_to_num(array, posinf=1.0, neginf=-1.0)
        values = np.copysign(np.ceil(np.abs(finite)), finite if dtype.is_signed else 1.0)
    elif dtype.category == COMPLEX:
        values = np.empty(array.shape, np.complex128)
        values.real, values.imag = array, 0.5 * np.roll(array, 1)
    values = np.asarray(values).astype(dtype.dtype)
    return values.copy() if array.flags.c_contiguous else spread(values)


def exactly(array: np.ndarray, in_floats: bool) -> np.ndarray:
    """The same values in the dtype of references: for integers and booleans float64, if the op takes it."""
    category = dtype_of(array).category
    if category == COMPLEX:
        return array.astype(np.complex128)
    if category == FLOATING or in_floats:
        return array.astype(np.float64)
    return array.astype(bool if category == BOOL else np.int64)


def tensors(call: Sample, dtype: DType, requires_grad: bool = False) -> Sample:
    """The call on tensors; those that stand for inputs of any dtype are leaves that require gradients, if so wished."""

    def tensor(array: np.ndarray) -> mt.Tensor:
        made = adopt(as_dtype(array, dtype))
        return made.requires_grad_() if requires_grad and array.dtype == np.float64 else made

    args, kwargs = map_arrays(call.args, tensor), {key: map_arrays(value, tensor) for key, value in call.kwargs.items()}
    return Sample(args, kwargs)


def reference_result(name: str, call: Sample, dtype: DType) -> Any:
    """The reference's result for the call's values, which are first rounded to `dtype`."""
    wide = "f" in registry[name].takes

    def exact(array: np.ndarray) -> np.ndarray:
        return exactly(as_dtype(array, dtype), wide) if array.dtype == np.float64 else array

    args, kwargs = map_arrays(call.args, exact), {key: map_arrays(value, exact) for key, value in call.kwargs.items()}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        return compared_function(name, TABLE[name].reference)(*args, **kwargs)


def compared_function(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function to compare: the op itself, unless its declaration says otherwise."""
    tested_as = TABLE[name].tested_as
    return function if tested_as is None else tested_as(function)


def run(name: str, call: Sample) -> Any:
    return compared_function(name, registry[name].public)(*call.args, **call.kwargs)


def leaves_of(value: Any) -> list[mt.Tensor]:
    """The tensors of a call that require gradients, in order."""
    if isinstance(value, mt.Tensor):
        return [value] if value.requires_grad else []
    if isinstance(value, dict):
        value = tuple(value.values())
    return [leaf for each in value for leaf in leaves_of(each)] if isinstance(value, (list, tuple)) else []


def results(out: Any) -> list[mt.Tensor]:
    """The tensors in what an op returned."""
    if isinstance(out, mt.Tensor):
        return [out]
    return [tensor for each in out for tensor in results(each)] if isinstance(out, (tuple, list)) else []


def replace_tensors(value: Any, others: dict[int, mt.Tensor]) -> Any:
    """The call, or a part of it, with tensors replaced by `others`, a dict by id."""
    if isinstance(value, Sample):
        return Sample(*map(replace_tensors, value, (others, others)))
    if isinstance(value, dict):
        return {key: replace_tensors(each, others) for key, each in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(replace_tensors(each, others) for each in value)
    return others.get(id(value), value)
