"""torch's enumerations of library preferences and attention kernels, and the flag values that name their members."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar


class _Enumeration(Enum):
    """An enumeration like those of torch's bindings: any int makes a member, possibly unnamed; other types raise
    TypeError."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        if type(value) is not int:
            raise TypeError(f"{cls.__name__}(): value must be an int, got {value!r} of type {type(value).__name__}")
        member = object.__new__(cls)
        member._name_, member._value_ = "???", value
        return member

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __int__(self) -> int:
        return self.value


class SDPBackend(_Enumeration):
    """The attention kernels, under torch's names."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


class LinalgBackend(_Enumeration):
    """The two families of factorisations and solvers, and "default", which chooses between them by size."""

    Default = 0
    Cusolver = 1
    Magma = 2


class BlasBackend(_Enumeration):
    """The libraries of matrix products."""

    Default = 0
    Cublas = 1
    Cublaslt = 2
    Ck = 3


class ROCmFABackend(_Enumeration):
    """AMD's attention libraries."""

    Default = 0
    AOTriton = 1
    Ck = 2


BLAS_NAMES = {
    "default": "default",
    "cublas": "cublas",
    "hipblas": "cublas",
    "cublaslt": "cublaslt",
    "hipblaslt": "cublaslt",
    "ck": "ck",
}
LINALG_NAMES = tuple(member.name.lower() for member in LinalgBackend)
ROCM_FA_NAMES = tuple(member.name.lower() for member in ROCmFABackend)

ATTENTION_KERNELS = ("flash", "efficient", "math", "cudnn")
"""The attention kernels in torch's order of preference."""

_Member = TypeVar("_Member", bound=_Enumeration)


def member_of(enumeration: type[_Member], name: str) -> _Member:
    """The member that a flag's value names, ignoring case."""
    return next(member for member in enumeration if member.name.lower() == name)
