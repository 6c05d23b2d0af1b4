"""Element types and torch's promotion rules, which differ from NumPy's."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..kernels.precisions.float8 import PACKED
from ..kernels.runtime.first_use import load

BOOL, INTEGER, FLOATING, COMPLEX = range(4)


class DType:
    """The dtype of a tensor, for example `mt.float32`. NumPy accepts it as a dtype.

    Attributes:
        name: as in torch, without the module.
        category: 0 boolean, 1 integer, 2 floating, 3 complex; promotion goes up this ladder.
        itemsize: bytes per element.
        letter: "b", "i", "f" or "c" by category; "n" for 8-bit floats and "p" for pairs of 4-bit floats, which are not
            promoted. Ops declare the letters that they accept.
    """

    __slots__ = ("_numpy", "category", "itemsize", "letter", "name")

    name: str
    category: int
    itemsize: int
    letter: str
    _numpy: np.dtype | None

    def __new__(cls, *_: Any, **__: Any) -> DType:
        raise TypeError(
            f"dtype(): new element types cannot be made; use one of {', '.join(dtypes)}, for example mt.float32"
        )

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype. Extension dtypes come from ml_dtypes, imported on first use."""
        if self._numpy is None:
            if self is float4_e2m1fn_x2:
                self._numpy = PACKED
            elif self is bfloat16 or self.letter == "n":
                self._numpy = np.dtype(getattr(load("ml_dtypes"), self.name))
            else:
                self._numpy = np.dtype(self.name)
            _by_numpy[self._numpy] = self
        return self._numpy

    @property
    def is_floating_point(self) -> bool:
        return self.category == FLOATING

    @property
    def is_complex(self) -> bool:
        return self.category == COMPLEX

    @property
    def is_signed(self) -> bool:
        return self.category != BOOL and not self.name.startswith("u") and self is not float8_e8m0fnu

    def to_real(self) -> DType:
        """The dtype of the real part."""
        return {complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> DType:
        """The complex dtype whose parts hold this dtype's values: complex128 for float64, complex64 for smaller floats.

        Raises RuntimeError for 8-bit and 4-bit floats.
        """
        if self.letter in "np":
            raise RuntimeError(f"no complex dtype has parts of {self!r}; use .to(mt.float32) first")
        return complex128 if self in (float64, complex128) else complex64

    def __repr__(self) -> str:
        return f"mt.{self.name}"

    def __reduce__(self) -> tuple:
        return to_dtype, (self.name,)


dtypes: dict[str, DType] = {}
_by_numpy: dict[np.dtype, DType] = {}


def _type(name: str, category: int, itemsize: int, letter: str = "") -> DType:
    made = dtypes[name] = object.__new__(DType)
    made.name, made.category, made.itemsize, made._numpy = name, category, itemsize, None
    made.letter = letter or "bifc"[category]
    return made


bool_ = _type("bool", BOOL, 1)
uint8, int8, int16 = _type("uint8", INTEGER, 1), _type("int8", INTEGER, 1), _type("int16", INTEGER, 2)
int32, int64 = _type("int32", INTEGER, 4), _type("int64", INTEGER, 8)
uint16, uint32, uint64 = _type("uint16", INTEGER, 2), _type("uint32", INTEGER, 4), _type("uint64", INTEGER, 8)
float16, bfloat16 = _type("float16", FLOATING, 2), _type("bfloat16", FLOATING, 2)
float32, float64 = _type("float32", FLOATING, 4), _type("float64", FLOATING, 8)
complex64, complex128 = _type("complex64", COMPLEX, 8), _type("complex128", COMPLEX, 16)
float8_e4m3fn, float8_e4m3fnuz = _type("float8_e4m3fn", FLOATING, 1, "n"), _type("float8_e4m3fnuz", FLOATING, 1, "n")
float8_e5m2, float8_e5m2fnuz = _type("float8_e5m2", FLOATING, 1, "n"), _type("float8_e5m2fnuz", FLOATING, 1, "n")
float8_e8m0fnu = _type("float8_e8m0fnu", FLOATING, 1, "n")
float4_e2m1fn_x2 = _by_numpy[PACKED] = _type("float4_e2m1fn_x2", FLOATING, 1, "p")

_default = float32


def get_default_dtype() -> DType:
    """The dtype of Python floats and of integer division: float32 unless `set_default_dtype` changed it."""
    return _default


def dtype_or_default(dtype: Any) -> DType:
    """`dtype` if given, otherwise the default dtype."""
    return get_default_dtype() if dtype is None else to_dtype(dtype)


def set_default_dtype(d: Any) -> None:
    """Make the floating dtype `d` the dtype of Python floats in the whole process. Raises TypeError for other
    dtypes."""
    global _default
    dtype = to_dtype(d)
    if dtype.letter != "f":
        raise TypeError(
            f"set_default_dtype(): dtype must be a floating type, got {dtype!r}; use mt.float32, for example"
        )
    _default = dtype
    result_dtype.cache_clear()


def dtype_of(array: np.ndarray) -> DType:
    """The DType of an array. Raises TypeError for dtypes that tensors cannot hold."""
    found = _by_numpy.get(array.dtype)
    return to_dtype(array.dtype) if found is None else found


def canonical(array: np.ndarray) -> np.ndarray:
    """Return `array` with the dtype object that all tensors of its dtype share.

    Fast paths compare dtypes by identity, and unpickled arrays carry equal dtypes of their own. Raises TypeError for
    dtypes that tensors cannot hold.
    """
    dtype = dtype_of(array).dtype
    return array if array.dtype is dtype else array.view(dtype)


def to_dtype(dtype: Any) -> DType:
    """Convert to a DType. Accepts DTypes, NumPy dtypes, the Python types bool, int, float and complex, and names.

    Raises TypeError for anything else, and for dtypes that tensors cannot hold.
    """
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, np.dtype) and dtype in _by_numpy:
        return _by_numpy[dtype]
    if isinstance(dtype, type) and dtype in (bool, int, float, complex):
        return {bool: bool_, int: int64, float: float64, complex: complex128}[dtype]
    try:
        if isinstance(dtype, np.generic):  # NumPy would take a number's dtype
            raise TypeError
        name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    except (TypeError, ValueError):
        name, same = f"{type(dtype).__name__} {dtype!r}", repr(dtype).rpartition(".")[2]
        if same in dtypes:  # torch.float32, for example
            raise TypeError(f"dtype must be a minitorch_backends dtype, got {dtype!r}; use mt.{same}") from None
    if name not in dtypes:
        raise TypeError(f"tensors cannot hold elements of type {name}; expected one of {', '.join(dtypes)}")
    found = dtypes[name]
    return _by_numpy.setdefault(found.dtype, found)


def promote_types(type1: DType, type2: DType) -> DType:
    """The smallest dtype to which torch promotes both.

    Where torch rejects wide unsigned integers, the array API standard's dtype is returned. Raises RuntimeError for
    uint64 with a signed integer, since no integer dtype holds both, and for an 8-bit float with any other dtype.
    """
    first, second = to_dtype(type1), to_dtype(type2)
    if first is second:
        return first
    if {first.letter, second.letter} & {"n", "p"}:
        raise _no_common_type(first, second)
    if first.category != second.category:
        low, high = sorted((first, second), key=lambda dtype: dtype.category)
        return complex128 if high is complex64 and low is float64 else high
    if first.category == FLOATING and {first, second} <= {float16, bfloat16}:
        return float32
    if bfloat16 in (first, second):
        return first if second is bfloat16 else second
    if uint64 in (first, second) and first.is_signed != second.is_signed:
        raise _no_common_type(first, second)
    return to_dtype(np.promote_types(first.dtype, second.dtype))


def _no_common_type(first: DType, second: DType) -> RuntimeError:
    return RuntimeError(
        f"promote_types(): types must have a common type, got {first!r} and {second!r}; cast one with to(dtype)"
    )


@functools.cache
def result_dtype(*groups: tuple[DType, ...]) -> DType:
    """The result dtype of an op (torch's `result_type`) from three groups of operands: with dimensions, 0-dim, and
    Python scalars.

    Scalars and 0-dim tensors yield to operands with dimensions unless their category is higher. A Python scalar never
    widens its category.
    """
    promoted = [functools.reduce(promote_types, group) if group else None for group in groups]
    return functools.reduce(_combine, reversed(promoted))  # type: ignore[return-value]


def _combine(lower: DType | None, higher: DType | None) -> DType | None:
    """The dtype of a higher-priority group after combining it with a lower-priority one."""
    if lower is None or higher is None or lower.category <= higher.category:
        return lower if higher is None else higher
    if lower.category == COMPLEX and higher.category == FLOATING:
        return higher.to_complex()
    return promote_types(lower, higher)


def default_floating(dtype: DType) -> DType:
    """`dtype` if it is floating or complex, otherwise the default dtype: how torch promotes integers for `sin` or
    `/`."""
    return dtype if dtype.category >= FLOATING else _default


def scalar_dtype(value: Any) -> DType:
    """The dtype of a Python or NumPy scalar."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    return _default if isinstance(value, (float, np.floating)) else _default.to_complex()
