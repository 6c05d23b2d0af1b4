"""Promotion: the inputs of an op as arrays of its compute dtype."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Collection
from typing import Any

import numpy as np

from ..kernels.runtime.context import warn_caller
from ..tensor.casting import cast_unchecked
from ..tensor.dtypes import (
    INTEGER,
    DType,
    bfloat16,
    default_floating,
    dtype_of,
    dtypes,
    float16,
    result_dtype,
    scalar_dtype,
    uint64,
)
from ..tensor.tensor import Tensor, as_array, not_a_tensor, refuse_wide_integer

_ndarray = np.ndarray
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

EVERY_CATEGORY = "bifc"
"""The letters of the dtype categories, in promotion order: boolean, integer, floating, complex."""

EVERY_DTYPE = EVERY_CATEGORY + "np"
"""Those, and the letters of 8-bit and packed floats, for ops that only move elements."""

CATEGORIES = {"b": "boolean", "i": "integer", "f": "floating", "c": "complex", "n": "8-bit floating", "p": "packed"}

_NUMBERS = (bool, int, float, complex, np.generic)

_HALVES = {float16, bfloat16, *(dtype for dtype in dtypes.values() if dtype.name.startswith("float8"))}
"""The dtypes that ops with `widen` compute in float32."""


def arrays_of(op: Any, values: list[Any]) -> tuple[list[Any], DType | None]:
    """The inputs as arrays of the promoted dtype, half types widened to float32, and the half type to round to (or
    None)."""
    if (plain := _plain(op, values)) is not None:
        return plain, None
    if op.promote and not op.listed and op.only_tensors is not None and not any(map(_is_array, values)):
        raise _no_tensor(op, 0, values[0])
    if not op.booleans and any(map(_is_boolean, values)):
        raise NotImplementedError(f"{op.called}() is not implemented for booleans; use ^, logical_not or logical_xor")
    flags = op.promoted * len(values) if op.listed else op.promoted
    dtype = common(op, [value for value, flag in zip(values, flags, strict=True) if flag]) if True in flags else None
    arrays = [array_of(op, index, value, dtype if flags[index] else None) for index, value in enumerate(values)]
    if op.takes != EVERY_DTYPE:
        _refuse_dtypes(op, arrays, values)
    if not op.widen:
        return arrays, None
    halves = {dtype_of(array) for array in arrays if array is not None and array.dtype.itemsize <= 2} & _HALVES
    if halves:
        arrays = [_widen(array) for array in arrays]
    return arrays, halves.pop() if len(halves) == 1 else None


def _plain(op: Any, values: list[Any]) -> list[np.ndarray] | None:
    """The arrays if all inputs are tensors of one dtype that needs no promotion; None if the general path is needed."""
    arrays, dtype = [], None
    for value in values:
        if not isinstance(value, Tensor):
            return None
        array = value._array
        if dtype is None:
            dtype = array.dtype
        if array.dtype is not dtype:
            return None
        arrays.append(array)
    return arrays if dtype in (_FLOAT32, _FLOAT64) and "f" in op.takes else None


def _refuse_dtypes(op: Any, arrays: list[Any], values: list[Any]) -> None:
    """Reject dtypes that an op does not take. As in torch, 8-bit floats also reject products with numbers."""
    for array in arrays:
        if array is not None and dtype_of(array).letter not in op.takes:
            raise refusal_of_dtype(op.called, dtype_of(array), op.takes)
        if (
            array is not None
            and dtype_of(array).letter == "n"
            and op.numbers
            and not op.compares
            and any(map(_is_number, values))
        ):
            raise refusal_of_dtype(op.called, dtype_of(array), EVERY_CATEGORY)


def refusal_of_dtype(name: str, dtype: DType, takes: str) -> NotImplementedError:
    """The exception for a tensor whose dtype the function `name` does not take."""
    names = ", ".join(CATEGORIES[letter] for letter in takes)
    remedy = "use .to(mt.float32) first" if dtype.letter == "n" and "f" in takes else f"expected {names} tensors"
    return NotImplementedError(f"{name}() is not implemented for {dtype!r}; {remedy}")


def common(op: Any, values: list[Any]) -> DType | None:
    """The dtype to which torch promotes these operands, or None if none is a tensor or number."""
    groups: tuple[list[DType], ...] = ([], [], [])
    for value in values:
        if isinstance(value, (Tensor, _ndarray)):
            array = as_array(value)
            groups[array.ndim == 0].append(dtype_of(array))
        elif isinstance(value, _NUMBERS):
            groups[2].append(scalar_dtype(value))
    try:
        dtype = result_dtype(*map(tuple, groups))
    except RuntimeError as error:
        raise RuntimeError(str(error).replace("promote_types", op.called)) from None
    return default_floating(dtype) if op.promote == "float" and dtype is not None else dtype


def array_of(op: Any, index: int, value: Any, dtype: DType | None) -> np.ndarray | None:
    """One input as an array, of `dtype` if given; None for an optional input that is absent."""
    if isinstance(value, Tensor):
        array = value._array
    elif type(value) is _ndarray:
        array = value
    elif dtype is not None and isinstance(value, _NUMBERS) and not op.must_be_tensor(index):
        refuse_wide_integer(op.called, op.inputs[index], value)
        if op.scalar is not None and (dtype.category == INTEGER or op.promoted.count(True) == 1):
            return op.scalar(value, dtype, index)
        if dtype.category == INTEGER and dtype is not uint64 and not -(2**63) <= int(value) < 2**63:  # type: ignore[arg-type]
            if op.compares:
                return np.asarray(float(int(value)))  # type: ignore[arg-type]
            raise RuntimeError(f"{op.called}(): {op.inputs[index]} must be an integer that fits int64, got {value}")
        return cast_unchecked(np.asarray(value), _scalar_dtype(op, dtype))
    else:
        if value is None and op.inputs[0 if op.listed else index] in op.defaults:
            return None
        raise _no_tensor(op, index, value)
    if dtype is None or array.dtype is dtype.dtype:
        return array
    return cast_unchecked(array, dtype.dtype if array.ndim else _scalar_dtype(op, dtype))


def _no_tensor(op: Any, index: int, value: Any) -> TypeError:
    name, expected = op.inputs[0 if op.listed else index], "a Tensor or a number"
    if isinstance(value, _NUMBERS) or op.must_be_tensor(index):
        expected = "a Tensor"
    return not_a_tensor(op.called, name, value, expected)


def _scalar_dtype(op: Any, dtype: DType) -> np.dtype:
    """The dtype of numbers and 0-dim tensors that meet operands of `dtype`."""
    return _FLOAT32 if op.widen and dtype in _HALVES and not op.rounds else dtype.dtype


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS)


def _is_array(value: Any) -> bool:
    return isinstance(value, (Tensor, _ndarray))


def _is_boolean(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_)) or (isinstance(value, Tensor) and value._array.dtype.kind == "b")


def _widen(array: Any) -> Any:
    return cast_unchecked(array, _FLOAT32) if array is not None and dtype_of(array) in _HALVES else array


# Overloads: NumPy's and torch's other names of arguments, and positional orders that torch deprecates


NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}
"""NumPy's names of arguments, which torch accepts as well."""


class Overloads:
    """The accepted forms of one function's arguments.

    Attributes:
        variadic: the parameter that takes all remaining positional arguments, or None.
        known: the names of the other parameters.
        aliases: other names mapped to parameters; NumPy's are added if the function has torch's.
        most: the maximum number of positional arguments of the function itself.
    """

    def __init__(
        self, parameters: Collection[inspect.Parameter], aliases: dict[str, str] | None, deprecated: tuple[str, ...]
    ) -> None:
        self.variadic = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), None)
        self.known = frozenset(each.name for each in parameters) - {self.variadic}
        positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        self.most = len(positional) if self.variadic is None else sys.maxsize
        self.aliases = aliases or {}
        self._deprecated = {len(names): names for names in (text.split(", ") for text in deprecated)}
        meant = itertools.chain(self.aliases.values(), *self._deprecated.values())
        unknown = set(meant) - self.known - {self.variadic}
        if unknown:
            raise TypeError(
                f"overloads {sorted(unknown)} do not match a parameter; the parameters are {sorted(self.known)}"
            )

    def resolve(self, name: str, args: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Convert a call's arguments to the function's own form. Unknown names remain, and the function rejects
        them."""
        order = self._deprecated.get(len(args), []) if len(args) > self.most else []
        if order and named.keys().isdisjoint(order):
            if order[1] == "input" and isinstance(args[0], Tensor):  # of a method, whose first argument is the tensor
                args = (args[1], args[0], *args[2:])
            scalars = ", ".join(each for each in order if each in ("alpha", "beta", "value"))
            warn_caller(f"{name}({', '.join(order)}) is deprecated; pass {scalars} by keyword")
            args, named = (), dict(zip(order, args, strict=True)) | named
        renamed = {}
        for given, value in named.items():
            other = self.aliases.get(given) or NUMPY_NAMES.get(given, given)
            takes = other in self.known or other == self.variadic
            target = other if given not in self.known and takes and other not in named else given
            if target == self.variadic:
                args = (*args, value)
            else:
                renamed[target] = value
        return args, renamed
