"""Arrays from Python data: numbers, nested sequences, arrays of NumPy and of other libraries, and tensors."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from operator import index as as_int
from typing import Any

import numpy as np

from ...tensor import tensor as tensor_module
from ...tensor.casting import cast_checked, cast_unchecked
from ...tensor.dtypes import (
    COMPLEX,
    FLOATING,
    DType,
    bfloat16,
    dtype_of,
    get_default_dtype,
    result_dtype,
    scalar_dtype,
    to_dtype,
    uint64,
)
from ...tensor.memory import refuse_device
from ...tensor.size import Size, addressable
from ...tensor.tensor import Tensor, is_foreign
from .dlpack import from_capsule

_NUMBERS = frozenset({bool, int, float, complex})
_SEQUENCES = frozenset({list, tuple, range})


def is_sequence(data: Any) -> bool:
    """Whether `value` is a list, a tuple or another object with a length and numbered items. Text and mappings are
    not."""
    kind = type(data)
    if kind in _SEQUENCES:
        return True
    if isinstance(data, (str, bytes, Mapping, Tensor, np.ndarray, np.generic)) or is_foreign(data):
        return False
    return hasattr(kind, "__len__") and hasattr(kind, "__getitem__")


def foreign_array(data: Any) -> np.ndarray:
    """Read an array or a tensor of another library, without its history and sharing its memory if possible.

    bfloat16 comes over DLPack, since NumPy has no bfloat16. Raises TypeError for unreadable objects.
    """
    for plainer in ("detach", "resolve_conj", "resolve_neg"):  # torch tensors
        if hasattr(data, plainer):
            data = getattr(data, plainer)()
    failure: Exception | None = None
    if hasattr(data, "__array__"):
        try:
            return np.asarray(data)
        except TypeError as error:
            failure = error
    try:
        return from_capsule(data, None)
    except (AttributeError, RuntimeError, ValueError, BufferError, TypeError) as error:
        name = f"{type(data).__module__}.{type(data).__name__}"
        raise TypeError(f"cannot read the numbers in a {name}: {failure or error}") from None


def construct(tensor: Any, data: tuple[Any, ...], device: Any, dtype: DType | None = None) -> None:
    """Set the array of a new tensor by the rules of torch's legacy constructor, in `dtype` or the default dtype.

    Raises TypeError for arguments that are neither sizes nor a sequence, and for a tensor of another dtype than
    `dtype`. Raises RuntimeError for negative sizes and for a device other than the CPU.
    """
    if device is not None:
        refuse_device(device)
    default = (get_default_dtype() if dtype is None else dtype).dtype
    if len(data) == 1 and not isinstance(data[0], Size) and (isinstance(data[0], Tensor) or not _is_size(data[0])):
        [given] = data
        if isinstance(given, Tensor):
            if dtype is not None and given._array.dtype != dtype.dtype:
                raise TypeError(
                    f"Tensor(): data must be of {dtype!r}, got {dtype_of(given._array)!r}; cast it with to()"
                )
            if given._cell is None:
                given._cell = [0]
            tensor._array, tensor._cell = given._array, given._cell
        elif isinstance(given, np.ndarray) and given.dtype == default:
            tensor._array = given.view()
        elif isinstance(given, np.ndarray) or is_foreign(given) or is_sequence(given):
            tensor._array = array_from(given, default)
        else:
            name = type(given).__name__
            raise TypeError(f"Tensor(): data must be a sequence, got {name} {given!r}; use mt.tensor(data)")
        return
    sizes = data[0] if len(data) == 1 and isinstance(data[0], Size) else data
    if not all(map(_is_size, sizes)):
        raise TypeError(f"Tensor(): sizes must be integers, got {tuple(sizes)!r}; use mt.tensor(data)")
    shape = tuple(map(as_int, sizes)) if data else (0,)
    if min(shape, default=0) < 0:
        raise RuntimeError(f"Tensor(): sizes must be at least 0, got {list(shape)}")
    tensor._array = np.empty(addressable(shape), default)


def _is_size(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, (bool, np.ndarray)) and not is_foreign(value)


def array_from(data: Any, dtype: Any) -> np.ndarray:
    """Make a new array from numbers, nested sequences, arrays or tensors. torch's rules give the dtype.

    Raises ValueError for ragged sequences and for integers beyond 64 bits. Raises TypeError or RuntimeError for
    elements that are not numbers, and RuntimeError for numbers that `dtype` cannot hold.
    """
    wanted = None if dtype is None else to_dtype(dtype)
    if isinstance(data, (Tensor, np.ndarray, np.generic)):
        array = np.asarray(data._array if isinstance(data, Tensor) else data)
        return cast_unchecked(array, (dtype_of(array) if wanted is None else wanted).dtype)
    if is_foreign(data):
        return array_from(foreign_array(data), dtype)
    kinds: dict[Any, Any] = {}
    try:
        numbers = _plain(data, kinds)
    except RecursionError:
        raise ValueError("tensor(): nested sequence is deeper than 64 levels, or contains itself") from None
    try:
        array = np.array(numbers)
    except ValueError:
        raise ValueError(
            f"tensor(): sequences must have equal length at every depth, got {reprlib.repr(data)}"
        ) from None
    floats = wanted is not None and wanted.category >= FLOATING
    if wanted is uint64 and array.dtype.kind == "f" and kinds.keys() <= {int, bool}:  # too wide for int64
        array = (np.array(numbers, object) & (2**64 - 1)).astype(np.uint64)
    if array.dtype.kind not in "biufc":
        array = _large_integers(array, floats)
    signed = not floats and wanted is not uint64
    if array.dtype.kind == "u" and signed and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"integers must fit in 64 bits, got {array.max()}; use floats")
    if wanted is None:
        wanted = result_dtype(tuple(map(_kind, kinds.values()))) if kinds else scalar_dtype(0.0)
    elif array.dtype.kind == "c" and wanted.category < COMPLEX:
        raise TypeError(f"data must hold real numbers for {wanted!r}, got {array.flat[0]}; use a complex dtype")
    return cast_checked(array, wanted)


def _large_integers(array: np.ndarray, floats: bool) -> np.ndarray:
    """Cast integers of more than 64 bits to the nearest floats if `dtype` is floating; raise for anything else."""
    wrong = [each for each in array.ravel().tolist() if not isinstance(each, (int, float, complex))]
    if not wrong and floats:
        return array.astype(np.float64)
    if not wrong:
        raise ValueError(f"integers must fit in 64 bits, got {max(array.flat, key=abs)}; use floats")
    if isinstance(wrong[0], (str, bytes)):
        raise TypeError(f"data must be numbers, got {wrong[0]!r}")
    raise RuntimeError(f"could not infer a dtype: data must be numbers, got {wrong[0]!r}")


def _plain(data: Any, kinds: dict[Any, Any]) -> Any:
    """Convert nested sequences that contain tensors to nested lists of numbers. A tensor stands for its only element.

    `kinds` collects one of each kind: the dtypes of tensors and arrays, and one number of each class.
    """
    if type(data) in _NUMBERS:
        kinds.setdefault(type(data), data)
        return data
    if is_sequence(data):
        return [_plain(data[index], kinds) for index in range(len(data))]
    foreign = is_foreign(data)
    if not foreign and not isinstance(data, (Tensor, np.ndarray)):
        kinds.setdefault(type(data), data)
        return data
    array = data._array if isinstance(data, Tensor) else foreign_array(data) if foreign else data
    if not isinstance(data, np.ndarray):
        if array.size != 1:
            raise ValueError(
                f"only one element tensors can be converted to Python scalars, got shape {list(array.shape)} in "
                "a sequence; use mt.stack"
            )
        array = array.reshape(())
    dtype = dtype_of(array)
    kinds[dtype] = dtype
    return array.astype(np.float32) if dtype is bfloat16 or dtype.letter == "n" else array


def _kind(number: Any) -> DType:
    if isinstance(number, DType):
        return number
    return dtype_of(np.asarray(number)) if isinstance(number, np.generic) else scalar_dtype(number)


tensor_module.construct = construct
