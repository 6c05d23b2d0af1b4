"""The namespace of the array API standard (data-apis.org/array-api), which `x.__array_namespace__()` returns.

    import minitorch_backends as mt

    xp = mt.interop.array_api
    xp.sum(xp.asarray([[1, 2], [3, 4]], dtype=xp.uint8), axis=0)

Its arrays are tensors, so that flags and gradients act in code that is written for the standard. Most functions are
those of `minitorch_backends` under the standard's names; `functions`, `statistics` and `linalg` have the others.
"""

# ruff: noqa: A004, F401, F403  (the names are the public ones)

from __future__ import annotations

from math import e, inf, nan, pi

from ...ops import names as _ops
from ...ops.names import asarray, empty_like, from_dlpack, full_like, ones_like, zeros_like
from ...tensor.dtypes import bool_ as bool
from ...tensor.dtypes import (
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from . import fft, linalg
from .creation import *
from .functions import *
from .functions import floor_quotient as _floor_quotient
from .info import Info as __array_namespace_info__
from .renaming import promoting as _promoting
from .renaming import rename as _renamed
from .statistics import *

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
"""Supported versions of the standard; the last one contains the others."""

__array_api_version__ = VERSIONS[-1]

newaxis = None

_OURS = {
    "bitwise_invert": "bitwise_not",
    "broadcast_arrays": "broadcast_tensors",
    "equal": "eq",
    "not_equal": "ne",
    "permute_dims": "permute",
    "unstack": "unbind",
}
"""Our names of functions, where they differ."""

_OF_ONE = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp floor imag isfinite isinf
isnan log log10 log1p log2 logical_not negative positive real reciprocal signbit sin sinh sqrt square tan
tanh trunc"""

_OF_TWO = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal
greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor matmul maximum
minimum multiply nextafter not_equal pow remainder subtract"""

_PARAMETERS = {
    **dict.fromkeys(_OF_ONE.split(), "x, /"),
    **dict.fromkeys(("argmax", "argmin"), "x, /, *, axis=None, keepdims=False"),
    **dict.fromkeys(("tril", "triu"), "x, /, *, k=0"),
    "argsort": "x, /, *, axis=-1, descending=False, stable=True",
    "broadcast_arrays": "*arrays",
    "diff": "x, /, *, axis=-1, n=1, prepend=None, append=None",
    "moveaxis": "x, source, destination, /",
    "permute_dims": "x, /, axes",
    "unstack": "x, /, *, axis=0",
}
"""The standard's parameters of functions that are ours but for names."""

floor_divide = _promoting(_floor_quotient, "floor_divide")
for _name in _OF_TWO.split():
    globals()[_name] = _promoting(getattr(_ops, _OURS.get(_name, _name)), _name)
for _name, _parameters in _PARAMETERS.items():
    globals()[_name] = _renamed(getattr(_ops, _OURS.get(_name, _name)), _parameters, _name)
