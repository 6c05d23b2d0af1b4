"""Element types and the rules of promotion, which are torch's and not NumPy's."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..kernels.first_use import load
from ..kernels.float8 import PACKED

__all__ = [
    "DType",
    "bfloat16",
    "bool_",
    "canonical",
    "complex64",
    "complex128",
    "default_floating",
    "dtype_of",
    "dtypes",
    "float4_e2m1fn_x2",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "int8",
    "int16",
    "int32",
    "int64",
    "promote_types",
    "result_dtype",
    "scalar_dtype",
    "set_default_dtype",
    "to_dtype",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

BOOL, INTEGER, FLOATING, COMPLEX = range(4)


class DType:
    """The type of a tensor's elements, `mt.float32` for example. NumPy accepts it wherever it takes a dtype.

    Attributes:
        name: as in torch, without the module.
        category: 0 boolean, 1 integer, 2 floating, 3 complex; promotion goes up this ladder.
        itemsize: bytes per element.
        letter: "b", "i", "f" or "c" by category, or "n" for 8-bit floats and "p" for pairs of 4-bit ones, which
            take no part in promotion; ops declare the letters that they take.
    """

    __slots__ = ("_numpy", "category", "itemsize", "letter", "name")

    name: str
    category: int
    itemsize: int
    letter: str
    _numpy: np.dtype | None

    def __new__(cls, *_: Any, **__: Any) -> DType:
        raise TypeError(f"there are no element types but {', '.join(dtypes)}; use mt.float32, for example")

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype. Those that NumPy lacks come from ml_dtypes, which is imported at the first need of one."""
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
        """The type of this one's real part."""
        return {complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> DType:
        """The complex type whose parts hold this one's values: complex128 for float64, complex64 for smaller ones.

        Raises RuntimeError for 8-bit floats.
        """
        if self.letter in "np":
            raise RuntimeError(f"no complex dtype has parts of {self!r}; use .to(mt.float32) first")
        return complex128 if self in (float64, complex128) else complex64

    def __repr__(self) -> str:
        return f"{namespace}.{self.name}"

    def __reduce__(self) -> tuple:
        return to_dtype, (self.name,)


namespace = "mt"
"""What stands before the names of dtypes in text; `compat.torch.install` sets it to torch."""

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
    """The floating type that Python floats and integer division give: float32 unless it has been set."""
    return _default


def dtype_or_default(dtype: Any) -> DType:
    """The dtype that was asked for, or the default one."""
    return get_default_dtype() if dtype is None else to_dtype(dtype)


def set_default_dtype(d: Any) -> None:
    """Make `d`, a floating type, the one that Python floats give from now on, in the whole process."""
    global _default
    dtype = to_dtype(d)
    if dtype.letter != "f":
        raise TypeError(
            f"only floating types can be the default dtype, got {dtype!r}; expected mt.float32, for example"
        )
    _default = dtype
    result_dtype.cache_clear()


def dtype_of(array: np.ndarray) -> DType:
    """The type of an array's elements. Raises TypeError for types that tensors do not hold."""
    found = _by_numpy.get(array.dtype)
    return to_dtype(array.dtype) if found is None else found


def canonical(array: np.ndarray) -> np.ndarray:
    """`array`, its dtype being the very object that all tensors of its type share, which fast paths compare by
    identity.

    Unpickled arrays have equal dtypes of their own. Raises TypeError for types that tensors do not hold.
    """
    dtype = dtype_of(array).dtype
    return array if array.dtype is dtype else array.view(dtype)


def to_dtype(dtype: Any) -> DType:
    """`dtype` as a DType: accepts DTypes, NumPy dtypes, the Python types bool, int, float and complex, and names."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, np.dtype) and dtype in _by_numpy:
        return _by_numpy[dtype]
    if isinstance(dtype, type) and dtype in (bool, int, float, complex):
        return {bool: bool_, int: int64, float: float64, complex: complex128}[dtype]
    try:
        if isinstance(dtype, np.generic):  # a number, of which NumPy takes the type
            raise TypeError
        name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    except (TypeError, ValueError):
        name, same = f"{type(dtype).__name__} {dtype!r}", repr(dtype).rpartition(".")[2]
        if same in dtypes:  # torch.float32, for example
            raise TypeError(f"dtype must be a minitorch_backends dtype, got {dtype!r}; use mt.{same}") from None
    if name not in dtypes:
        raise TypeError(f"tensors do not hold elements of type {name}; expected one of {', '.join(dtypes)}")
    found = dtypes[name]
    return _by_numpy.setdefault(found.dtype, found)


def promote_types(type1: DType, type2: DType) -> DType:
    """The smallest type to which torch promotes both.

    Where torch refuses wide unsigned integers, this is the type of the array API standard. Raises RuntimeError for
    uint64 beside signed integers, which no integer type holds, and for 8-bit floats beside any other type.
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
        f"promote_types(): types must have a common type, got {first!r} and {second!r}; convert one with to(dtype)"
    )


@functools.cache
def result_dtype(*groups: tuple[DType, ...]) -> DType:
    """The type of an op's result from its operands' types, in three groups: with dimensions, 0-dim, Python scalars.

    Scalars and 0-dim tensors yield to operands with dimensions unless they are of a higher category; a Python scalar
    never widens its category. (torch's `result_type`.)
    """
    promoted = [functools.reduce(promote_types, group) if group else None for group in groups]
    return functools.reduce(_combined, reversed(promoted))  # type: ignore[return-value]


def _combined(lower: DType | None, higher: DType | None) -> DType | None:
    """What remains of a lower-priority type beside one of higher priority."""
    if lower is None or higher is None or lower.category <= higher.category:
        return lower if higher is None else higher
    if lower.category == COMPLEX and higher.category == FLOATING:
        return higher.to_complex()
    return promote_types(lower, higher)


def default_floating(dtype: DType) -> DType:
    """`dtype` itself if it is floating or complex, else the default dtype, as torch promotes integers for `sin` or
    `/`.
    """
    return dtype if dtype.category >= FLOATING else _default


def scalar_dtype(value: Any) -> DType:
    """The type that a Python (or NumPy) scalar stands for."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    return _default if isinstance(value, (float, np.floating)) else _default.to_complex()
