"""Tensors in autoray, and so in quimb and cotengra: `do("tensordot", x, y, axes=1)` calls functions of this package.

autoray calls functions by NumPy's names. What `numpy_names` does not have is taken from the namespace of the array API
standard, and then from `minitorch_backends`. This module is imported with autoray.
"""

from __future__ import annotations

from typing import Any

from autoray import register_function
from autoray.autoray import astype, from_numpy, register_module_alias, size

from ..ops import names as ops
from ..tensor.tensor import Tensor
from . import array_api
from .numpy_names import FUNCTIONS

_BACKEND = __name__.partition(".")[0]

register_module_alias(f"{_BACKEND}[alt]", _BACKEND)  # before the next, which is a prefix of it
register_module_alias(_BACKEND, array_api.__name__)
for _name, _function in FUNCTIONS.items():
    register_function(_BACKEND, _name, _function)


@astype.register(_BACKEND)
def _astype(x: Tensor, dtype: Any) -> Tensor:
    return x.to(dtype=dtype)


@size.register(_BACKEND)
def _size(x: Tensor) -> int:
    return x.numel()


@from_numpy.register(_BACKEND)
def _from_numpy(x: Any, dtype: Any = None, device: Any = None) -> Tensor:
    return ops.as_tensor(x, dtype=dtype, device=device)
