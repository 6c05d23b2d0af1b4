"""Functions that make tensors: from data, from constants, and from ranges.

All take `dtype` (None for torch's choice) and the options of `options`. Shapes are given as `f(2, 3)`, `f((2, 3))` or
`f(size=(2, 3))`. All raise TypeError for sizes that are not integers, and RuntimeError for negative sizes, another
device, and `requires_grad` on integers.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.out_argument import written_out
from ...dispatch.promotion import Overloads
from ...tensor.call_errors import argument_errors, install
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
from ...tensor.memory import in_format, preserve_format, refuse_device, strided
from ...tensor.size import addressable, repeats
from ...tensor.tensor import Tensor, adopt, is_foreign, kind_of, not_a_tensor, refuse_wide_integer
from ..dims import clamp_diagonal, shape_of
from .dlpack import from_capsule
from .from_data import array_from, construct, foreign_array

__all__ = [
    "arange", "as_tensor", "asarray", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "from_dlpack",
    "from_numpy", "frombuffer", "full", "full_like", "linspace", "logspace", "ones", "ones_like", "scalar_tensor",
    "tensor", "tril_indices", "triu_indices", "zeros", "zeros_like",
]  # fmt: skip


# The options that all factories share: `out`, `layout`, `device`, `pin_memory` and `requires_grad`


def finish(array: np.ndarray, device: Any = None, requires_grad: Any = False) -> Tensor:
    """Wrap a new array in a tensor, with the `device` and `requires_grad` that a factory got."""
    if device is not None:
        refuse_device(device)
    result = adopt(array)
    if requires_grad:
        if requires_grad is not True:
            raise TypeError(f"requires_grad must be True, False or None, got {requires_grad!r}")
        result.requires_grad_()
    return result


class Draw(NamedTuple):
    """Random numbers that are drawn only after all arguments of the call have been checked."""

    dtype: np.dtype
    numbers: Callable[[], np.ndarray]


def _array_of(result: np.ndarray | Draw) -> np.ndarray:
    return np.asarray(result.numbers() if isinstance(result, Draw) else result)


def _option_parameters(takes_out: bool, takes_format: bool) -> list[inspect.Parameter]:
    """The parameters that every factory gets in addition to its own."""
    defaults: dict[str, Any] = {"out": None} if takes_out else {}
    defaults |= {"layout": None, "device": None, "pin_memory": False, "requires_grad": False}
    defaults |= {"memory_format": None} if takes_format else {}
    return [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=each) for name, each in defaults.items()]


def factory(
    *, takes_out: bool = True, takes_format: bool = False
) -> Callable[[Callable[..., np.ndarray | Draw]], Callable[..., Tensor]]:
    """Decorate a function that returns an array or a `Draw`, and takes `dtype` last, as a factory that returns a
    tensor.

    A factory also takes `out` (a tensor of the right dtype to write into), `layout` (only strided), `device`,
    `pin_memory` (only False) and `requires_grad`. With `takes_format`, or if the first argument is `input`, it takes
    `memory_format`.
    """

    def declare(make: Callable[..., np.ndarray | Draw]) -> Callable[..., Tensor]:
        own = inspect.signature(make)
        formats = takes_format or next(iter(own.parameters)) == "input"

        @functools.wraps(make)
        def public(
            *args: Any,
            layout: Any = None,
            device: Any = None,
            pin_memory: bool = False,
            requires_grad: bool = False,
            memory_format: Any = None,
            **named: Any,
        ) -> Tensor:
            if layout is not None or pin_memory:
                _refuse_memory(make.__name__, layout, pin_memory)
            if memory_format is not None and not formats:
                raise TypeError(f"{make.__name__}() got an unexpected keyword argument 'memory_format'")
            if takes_out and named.get("out") is not None:
                if requires_grad and isinstance(named["out"], Tensor):
                    finish(np.empty(0, named["out"]._array.dtype), device, requires_grad)
                written = _into(named.pop("out"), functools.partial(make, *args), named)
                return written.requires_grad_() if requires_grad else written
            if takes_out:
                named.pop("out", None)
            result = make(*args, **named)
            if isinstance(result, Draw):
                finish(np.empty(0, result.dtype), device, requires_grad)
            array = _array_of(result)
            if memory_format is not None and memory_format is not preserve_format:
                array = in_format(make.__name__, array, memory_format)
            return finish(array, device, requires_grad)

        parameters = [*own.parameters.values(), *_option_parameters(takes_out, formats)]
        public.__signature__ = own.replace(parameters=parameters, return_annotation=Tensor)  # type: ignore[attr-defined]
        return argument_errors(public)

    return declare


def _refuse_memory(name: str, layout: Any, pin_memory: Any) -> None:
    """Raise RuntimeError for memory of another kind than tensors have here."""
    if layout is not None and layout is not strided and layout != "strided":
        raise RuntimeError(f"{name}(): layout must be strided, got {layout!r}; leave it out")
    if pin_memory:
        raise RuntimeError(f"{name}(): pin_memory must be False, got {pin_memory!r}, since tensors live on the CPU")


def _into(out: Any, make: Any, named: dict[str, Any]) -> Tensor:
    """Write what `make` makes into `out`, whose dtype it gets. Raises RuntimeError for a `dtype` other than that."""
    name = make.func.__name__
    if isinstance(out, Tensor):
        wanted = named.setdefault("dtype", None)
        if wanted is not None and to_dtype(wanted) is not out.dtype:
            raise RuntimeError(
                f"{name}(): dtype must be that of out, {out.dtype!r}, got {to_dtype(wanted)!r}; leave dtype out"
            )
        named["dtype"] = out.dtype
    return written_out(name, lambda: adopt(_array_of(make(**named))), out, ())


def accept_aliases(**aliases: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add overloads to a function that is neither an op nor a composite."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        overloads = Overloads(inspect.signature(function).parameters.values(), aliases, ())

        @functools.wraps(function)
        def public(*args: Any, **named: Any) -> Any:
            if named and not named.keys() <= overloads.known:
                args, named = overloads.resolve(function.__name__, args, named)
            return function(*args, **named)

        public.overloads = overloads  # type: ignore[attr-defined]
        return public

    return declare


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


# Tensors by the layout of their memory: unwritten ones of any strides, and vectors on the memory of other objects


@argument_errors
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A vector on the memory of an object with Python's buffer protocol.

    It has `count` elements (-1: all remaining) starting at the byte `offset`. Raises ValueError for an empty buffer,
    and for a size that is not a multiple of the element size.
    """
    array = np.frombuffer(buffer, to_dtype(dtype).dtype, count, offset)
    return finish(from_numpy(array)._array, None, requires_grad)


@factory(takes_out=False)
def empty_strided(size: Any, stride: Any, *, dtype: Any = None) -> np.ndarray:
    """An uninitialised tensor with the given strides, in elements.

    Raises RuntimeError for negative sizes and strides, and if their numbers differ.
    """
    shape, steps = shape_given((), size), shape_given((), stride)
    if len(shape) != len(steps):
        raise RuntimeError(f"empty_strided(): size and stride must be of one length, got {shape} and {steps}")
    wanted = dtype_or_default(dtype).dtype
    last = -1 if 0 in shape else sum((count - 1) * step for count, step in zip(shape, steps, strict=True))
    memory = np.empty(addressable((last + 1,)), wanted)
    return np.ndarray(shape, wanted, memory, 0, tuple(step * wanted.itemsize for step in steps))


@factory(takes_out=False)
def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any = None) -> np.ndarray:
    """An uninitialised tensor whose dimensions lie in memory in the order `physical_layout`, outermost first.

    Raises RuntimeError unless the layout names each dimension once.
    """
    shape, order = shape_given((), size), shape_of((physical_layout,))
    if sorted(order) != list(range(len(shape))):
        raise RuntimeError(f"empty_permuted(): physical_layout must order {len(shape)} dimensions, got {order}")
    memory = np.empty([shape[dim] for dim in order], dtype_or_default(dtype).dtype)
    return memory.transpose(np.argsort(order))


Tensor.new_empty_strided = new(empty_strided)  # type: ignore[method-assign]


def _share_memory_(self: Tensor) -> Tensor:
    """Move the elements to memory shared with other processes. Aliases of the old memory keep it."""
    from ...serialization.shared_memory import share

    share(self)
    return self


def _is_shared(self: Tensor) -> bool:
    """Whether the memory is shared with other processes."""
    from ...serialization.shared_memory import is_shared

    return is_shared(self)


install(share_memory_=_share_memory_, is_shared=_is_shared)
