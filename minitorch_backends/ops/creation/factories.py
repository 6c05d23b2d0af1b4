"""Functions that make tensors: from data, from constants, and from ranges.

All take `dtype` (None for torch's choice) and the options of `options`. Shapes are given as `f(2, 3)`, `f((2, 3))` or
`f(size=(2, 3))`. All raise TypeError for sizes that are not integers, and RuntimeError for negative sizes, another
device, and `requires_grad` on integers.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from ...tensor.call_errors import argument_errors
from ...tensor.casting import cast_checked, fitted_number
from ...tensor.dtypes import (
    BOOL,
    COMPLEX,
    INTEGER,
    DType,
    canonical,
    default_floating,
    dtype_of,
    dtype_or_default,
    get_default_dtype,
    int32,
    int64,
    scalar_dtype,
    to_dtype,
)
from ...tensor.memory import refuse_device
from ...tensor.size import addressable, repeats
from ...tensor.tensor import Tensor, adopt, is_foreign, kind_of, not_a_tensor, refuse_wide_integer
from ..dims import clamp_diagonal, shape_of
from .dlpack import from_capsule
from .from_data import array_from, construct, foreign_array
from .options import factory, finish

__all__ = [
    "arange", "as_tensor", "asarray", "empty", "empty_like", "eye", "from_dlpack", "from_numpy", "full", "full_like",
    "linspace", "logspace", "ones", "ones_like", "scalar_tensor", "tensor", "tril_indices", "triu_indices",
    "zeros", "zeros_like",
]  # fmt: skip


def shape_given(sizes: tuple[Any, ...], size: Any) -> tuple[int, ...]:
    """The shape given as positional sizes, as one sequence, or by the keyword `size`."""
    if size is not None:
        if sizes:
            raise TypeError(f"sizes are given by position or as size=, got both: {sizes!r} and {size!r}")
        sizes = (size,)
    elif not sizes:
        raise TypeError("missing the required argument 'size'; pass () for a tensor without dimensions")
    shape = shape_of(sizes)
    if min(shape, default=0) < 0:
        raise RuntimeError(f"sizes are at least 0, got {list(shape)}")
    addressable(shape)
    return shape


# From data


@factory(takes_out=False)
def tensor(data: Any, *, dtype: Any = None) -> np.ndarray:
    """A tensor with a copy of `data`: a number, nested sequences of numbers, an array or a tensor.

    Python floats give the default dtype, ints int64; arrays and tensors keep theirs. Raises ValueError for ragged
    sequences and integers beyond 64 bits, TypeError and RuntimeError for values that are not numbers, RuntimeError
    for numbers that `dtype` cannot hold.
    """
    return array_from(data, dtype)


@argument_errors
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` itself if it is a tensor, a tensor that shares the memory of an array (of NumPy or another library), or
    else `tensor(data)`; converted if need be."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    if is_foreign(data):
        data = foreign_array(data)
    if (
        isinstance(data, np.ndarray)
        and data.dtype.isnative
        and (dtype is None or to_dtype(dtype) is dtype_of(data))
        and _in_elements(data)
    ):
        return finish(from_numpy(data)._array, device)
    return tensor(data, dtype=dtype, device=device)


@argument_errors
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:
    """Convert `obj` to a tensor like `as_tensor`, with control over history and copying.

    With `requires_grad=False` the result has no history. With True, an input that requires no gradient becomes a leaf
    that does. `copy=True` always copies; `copy=False` never does, and raises ValueError if a copy would be needed.
    """
    found = as_tensor(obj.detach() if isinstance(obj, Tensor) and requires_grad is False else obj, dtype, device)
    memory = obj._array if isinstance(obj, Tensor) else foreign_array(obj) if is_foreign(obj) else obj
    shared = isinstance(memory, np.ndarray) and _shares(found._array, memory)
    if copy is False and not shared:
        raise ValueError(
            f"asarray(): {type(obj).__name__} of this type cannot be a tensor without a copy; use copy=None"
        )
    if copy and shared:
        found = found.clone()
    return found.requires_grad_() if requires_grad and not found.requires_grad else found


def _shares(array: np.ndarray, memory: np.ndarray) -> bool:
    """Whether an array shares the memory of the array it was made from; True for empty arrays."""
    return np.may_share_memory(array, memory) if array.size else array.dtype == memory.dtype


def _in_elements(array: np.ndarray) -> bool:
    """Whether an array's strides are multiples of its elements' size, as a tensor's are: not those of a packed record's
    field."""
    return not any(stride % array.itemsize for stride, size in zip(array.strides, array.shape, strict=True) if size > 1)


@argument_errors
def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor that shares the memory of a NumPy array.

    Raises TypeError for values that are not arrays and for unsupported dtypes, ValueError for foreign byte order and
    for strides that are not multiples of the element's size.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray, got {type(ndarray).__name__}; use mt.tensor(data)")
    dtype_of(ndarray)
    if not ndarray.dtype.isnative:
        raise ValueError(
            f"the array's bytes, {ndarray.dtype.str}, are not in this machine's order; use mt.tensor(array), which "
            "copies"
        )
    if not _in_elements(ndarray):
        raise ValueError(
            f"from_numpy(): ndarray's strides must be multiples of its {ndarray.itemsize}-byte elements, got "
            f"{ndarray.strides}; use mt.tensor(array), which copies"
        )
    return adopt(
        canonical(np.asarray(ndarray)).view()
    )  # each tensor has its own array object, which caches use as a key


@argument_errors
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of another library's array, by the DLPack protocol (dmlc.github.io/dlpack).

    Raises TypeError for objects without the protocol, BufferError for memory outside the CPU or unsupported dtypes.
    """
    if device is not None:
        refuse_device(device)
    if not hasattr(ext_tensor, "__dlpack__"):
        raise TypeError(
            f"from_dlpack(): ext_tensor must have __dlpack__, got {type(ext_tensor).__name__}; use mt.tensor(data)"
        )
    try:
        array = from_capsule(ext_tensor, copy)
    except (RuntimeError, ValueError) as error:
        raise BufferError(
            f"NumPy cannot take this {type(ext_tensor).__name__} by DLPack: {error}; convert it to float32 on the CPU"
        ) from None
    return from_numpy(array)


# From constants


def _holding_numbers(name: str, dtype: DType) -> np.dtype:
    """The NumPy dtype of one whose elements are numbers. Raises NotImplementedError for pairs of 4-bit floats."""
    if dtype.letter == "p":
        raise NotImplementedError(f"{name}() is not implemented for {dtype!r}; use uint8_tensor.view({dtype!r})")
    return dtype.dtype


@factory()
def zeros(*sizes: Any, size: Any = None, dtype: Any = None) -> np.ndarray:
    """Zeros."""
    return np.zeros(shape_given(sizes, size), dtype_or_default(dtype).dtype)


@factory()
def ones(*sizes: Any, size: Any = None, dtype: Any = None) -> np.ndarray:
    """Ones."""
    return np.ones(shape_given(sizes, size), _holding_numbers("ones", dtype_or_default(dtype)))


@factory(takes_format=True)
def empty(*sizes: Any, size: Any = None, dtype: Any = None) -> np.ndarray:
    """An uninitialised tensor: write its elements before reading them."""
    return np.empty(shape_given(sizes, size), dtype_or_default(dtype).dtype)


def _value(fill_value: Any, dtype: Any) -> np.ndarray:
    """A number or a 0-dim tensor, in the requested dtype or its own."""
    if isinstance(fill_value, (tuple, list)):
        raise TypeError(f"fill_value must be a number, got {kind_of(fill_value)}")
    refuse_wide_integer("full", "fill_value", fill_value)
    array = fill_value._array if isinstance(fill_value, Tensor) else np.asarray(fill_value)
    if array.ndim or array.dtype.kind not in "biufc":
        raise TypeError(f"fill_value must be a number, got {kind_of(fill_value)}")
    kind = dtype_of(array) if isinstance(fill_value, Tensor) else scalar_dtype(fill_value)
    return fitted_number(array, kind if dtype is None else to_dtype(dtype))


@factory()
def full(size: Any, fill_value: Any, *, dtype: Any = None) -> np.ndarray:
    """A tensor filled with `fill_value`, in that value's dtype unless `dtype` is given.

    Raises RuntimeError if the value is out of range, TypeError for a size other than a tuple.
    """
    if not isinstance(size, (tuple, list)):
        raise TypeError(
            f"full(): argument 'size' must be a tuple of ints, not {type(size).__name__}; use full((n,), value)"
        )
    value = _value(fill_value, dtype)
    return np.full(shape_given((), tuple(size)), value, value.dtype)


@factory(takes_out=False)
def scalar_tensor(s: Any, *, dtype: Any = None) -> np.ndarray:
    """A 0-dim tensor of the default dtype."""
    return _value(s, dtype_or_default(dtype))


def _like(input: Any, dtype: Any, make: Any) -> np.ndarray:
    if not isinstance(input, Tensor):
        raise not_a_tensor(make.__name__, "input", input)
    wanted, order = None if dtype is None else to_dtype(dtype).dtype, "C" if repeats(input._array) else "K"
    return make(input._array, dtype=wanted, order=order)


@factory(takes_out=False)
def zeros_like(input: Tensor, *, dtype: Any = None) -> np.ndarray:
    """Zeros in the shape and layout of `input`, and in its dtype unless another is given."""
    return _like(input, dtype, np.zeros_like)


@factory(takes_out=False)
def ones_like(input: Tensor, *, dtype: Any = None) -> np.ndarray:
    """Ones in the shape and layout of `input`, and in its dtype unless another is given."""

    def ones_like(array: np.ndarray, dtype: Any, order: Any) -> np.ndarray:
        wanted = _holding_numbers("ones_like", to_dtype(array.dtype if dtype is None else dtype))
        return np.ones_like(array, wanted, order=order)

    return _like(input, dtype, ones_like)


@factory(takes_out=False)
def empty_like(input: Tensor, *, dtype: Any = None) -> np.ndarray:
    """Unwritten memory in the shape and layout of `input`, and in its dtype unless another is given."""
    return _like(input, dtype, np.empty_like)


@factory(takes_out=False)
def full_like(input: Tensor, fill_value: Any, *, dtype: Any = None) -> np.ndarray:
    """`fill_value` in the shape and layout of `input`, and in its dtype unless another is given."""

    def full_like(array: np.ndarray, dtype: Any, order: Any) -> np.ndarray:
        value = _value(fill_value, array.dtype if dtype is None else dtype)
        return np.full_like(array, value, value.dtype, order=order)

    return _like(input, dtype, full_like)


@factory()
def eye(n: int, m: int | None = None, *, dtype: Any = None) -> np.ndarray:
    """An n x m matrix (n x n without m) of ones on the diagonal and zeros elsewhere."""
    rows, columns = shape_given((n, n if m is None else m), None)
    return np.eye(rows, columns, dtype=_holding_numbers("eye", dtype_or_default(dtype)))


# From ranges


def _numbers(name: str, *values: Any) -> list[Any]:
    """Arguments as Python numbers; 0-dim tensors count as such. Raises TypeError for anything else."""
    numbers = [value.item() if isinstance(value, (Tensor, np.generic)) else value for value in values]
    for number in numbers:
        if not isinstance(number, (int, float, complex)):
            raise TypeError(f"{name}() takes numbers, got {number!r} of type {type(number).__name__}")
    return numbers


@factory()
def arange(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None) -> np.ndarray:
    """The numbers `start`, start + step, ... up to but without `end`; `arange(end)` starts at 0.

    int64 when all arguments are integers, else the default dtype; for an integer dtype the numbers are cut to integers
    first, as torch does it. Raises RuntimeError for a step of 0, or of the wrong sign, for bounds that are not finite,
    and for numbers that `dtype` cannot hold, ValueError for a step that an integer dtype cuts to 0, NotImplementedError
    for booleans and 8-bit floats.
    """
    if end is None:
        start, end = 0, start
    start, end, step = _numbers("arange", start, end, step)
    whole = all(isinstance(each, int) for each in (start, end, step))
    wanted = (int64 if whole else get_default_dtype()) if dtype is None else to_dtype(dtype)
    if wanted.category == BOOL or wanted.letter in "np":
        raise NotImplementedError(f"arange is not implemented for {wanted!r}; use arange(...).to({wanted!r})")
    if any(isinstance(each, complex) or not math.isfinite(each) for each in (start, end, step)):
        raise RuntimeError(f"unsupported range: {start} -> {end} in steps of {step}; expected finite real numbers")
    if step == 0:
        raise RuntimeError(f"step must be nonzero, got {step} from {start} to {end}")
    if (end - start) * step < 0:
        raise RuntimeError(
            f"upper bound and lower bound inconsistent with step sign: {start} to {end} in steps of {step}"
        )
    if wanted.category == INTEGER and not whole:
        count = math.ceil((end - start) / step)
        start, end, step = int(start), int(end), int(step)
        if wanted is int64:  # whose length torch finds after the cut
            if step == 0:
                raise ValueError(f"step must be nonzero, and is cut to 0 for {wanted!r}; use a floating dtype")
            count = max(0, -((start - end) // step))
        addressable((count,))
        return cast_checked(start + step * np.arange(count), wanted)
    count = -((start - end) // step) if whole else math.ceil((end - start) / step)
    addressable((count,))
    array = np.arange(start, end, step) if whole else start + step * np.arange(count, dtype=np.float64)
    return cast_checked(array, wanted)


def _space_evenly(name: str, start: Any, end: Any, steps: Any, dtype: Any) -> tuple[np.ndarray, DType]:
    """Evenly spaced numbers in double precision, from both ends towards the middle, and the dtype for them."""
    start, end = _numbers(name, start, end)
    count = shape_of((steps,))[0]
    if count < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {count}")
    is_complex = isinstance(start, complex) or isinstance(end, complex)
    wanted = default_floating(scalar_dtype(1j if is_complex else 1.0)) if dtype is None else to_dtype(dtype)
    if wanted.letter in "np":
        raise NotImplementedError(f"{name}() is not implemented for {wanted!r}; use {name}(...).to({wanted!r})")
    if is_complex and wanted.category < COMPLEX:
        raise RuntimeError(f"{name}(): {wanted!r} can't be safely cast to the complex type of {start} and {end}")
    if wanted.category <= INTEGER:
        start, end = int(start), int(end)
    addressable((count,))
    position = np.arange(count)
    step = (end - start) / (count - 1) if count > 1 else 0.0
    return np.where(position < count / 2, start + step * position, end - step * (count - 1 - position)), wanted


@factory()
def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None) -> np.ndarray:
    """`steps` evenly spaced numbers from `start` to `end`, both included; of one step, the start."""
    array, wanted = _space_evenly("linspace", start, end, steps, dtype)
    return cast_checked(array, wanted)


@factory()
def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None) -> np.ndarray:
    """`base` to the power of evenly spaced exponents from `start` to `end`, both included."""
    exponents, wanted = _space_evenly("logspace", start, end, steps, dtype)
    with np.errstate(all="ignore"):
        return cast_checked(np.power(base, exponents), wanted)


def _triangle(row: int, col: int, offset: int, below: bool, dtype: Any) -> np.ndarray:
    """The indices of one of the parts into which a diagonal divides a matrix; the diagonal is in the part below it."""
    wanted = int64 if dtype is None else to_dtype(dtype)
    if wanted not in (int32, int64):
        raise NotImplementedError(f"the indices of a triangle are not implemented for {wanted!r}; use mt.int64")
    rows, columns = addressable(shape_given((row, col), None))
    places = (np.tri(rows, columns, clamp_diagonal(offset, rows, columns), bool) == below).nonzero()
    return cast_checked(np.stack(places), wanted)


@factory(takes_out=False)
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None) -> np.ndarray:
    """The row and column numbers, in two rows, of the elements on and below the `offset`-th diagonal of a row x col
    matrix."""
    return _triangle(row, col, offset, True, dtype)


@factory(takes_out=False)
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None) -> np.ndarray:
    """The row and column numbers, in two rows, of the elements on and above the `offset`-th diagonal of a row x col
    matrix."""
    return _triangle(row, col, offset - 1, False, dtype)


# Methods: in the dtype of the tensor unless another is given


def new(make: Any) -> Any:
    """The method `new_` of a factory, which makes tensors of the dtype of the one that it is called on."""

    def method(self: Tensor, *args: Any, dtype: Any = None, **named: Any) -> Tensor:
        return make(*args, dtype=self.dtype if dtype is None else dtype, **named)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    shown = [own, *(each for each in inspect.signature(make).parameters.values() if each.name != "out")]
    method.__name__ = method.__qualname__ = f"new_{make.__name__}"
    method.__module__ = make.__module__
    method.__doc__ = f"`{make.__name__}`, in the dtype of this tensor unless another is given."
    method.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return method


for _make in (zeros, ones, empty, full, tensor):
    setattr(Tensor, f"new_{_make.__name__}", new(_make))


def _new(self: Tensor, /, *data: Any, device: Any = None) -> Tensor:
    """A tensor of this dtype by the rules of `Tensor`: of sizes, or of a sequence. torch's old way; the new one is
    `new_empty` and `new_tensor`."""
    made = Tensor()
    construct(made, data, device, self.dtype)
    return made


_new.__name__ = "new"
setattr(Tensor, _new.__name__, _new)
