"""Inspection of the namespace."""

from __future__ import annotations

from typing import Any

from ...tensor.dtypes import DType, complex64, complex128, dtypes, float32, float64, get_default_dtype, int64
from ...tensor.memory import device
from .creation import KINDS, isdtype

_STANDARD = [each for each in dtypes.values() if isdtype(each, ("bool", "integral")) or each in (float32, float64)]
_STANDARD += [complex64, complex128]


class Info:
    """What `__array_namespace_info__` returns."""

    def capabilities(self) -> dict[str, Any]:
        """The optional features of the standard."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> device:
        """The device of new arrays."""
        return device("cpu")

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The types that functions choose by themselves."""
        real = get_default_dtype()
        return {"real floating": real, "complex floating": real.to_complex(), "integral": int64, "indexing": int64}

    def devices(self) -> tuple[device, ...]:
        """Every device."""
        return (device("cpu"),)

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The standard's dtypes by name, those of a kind or a tuple of kinds if one is given."""
        return {each.name: each for each in _STANDARD if isdtype(each, tuple(KINDS) if kind is None else kind)}
