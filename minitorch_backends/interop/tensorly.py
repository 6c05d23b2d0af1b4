"""TensorLy's backend: `tensorly.set_backend("minitorch_backends")` makes its decompositions compute with tensors.

This module is imported with TensorLy.
"""

from __future__ import annotations

from typing import Any

import tensorly.backend
from tensorly.backend.core import Backend as AbstractBackend
from tensorly.backend.core import backend_array, backend_basic_math, backend_types

from .. import linalg, special
from ..ops import names as ops
from ..tensor.tensor import Tensor
from . import array_api
from .numpy_names import find

_BACKEND = __name__.partition(".")[0]


class Backend(AbstractBackend, backend_name=_BACKEND):  # type: ignore[call-arg]
    """Functions by TensorLy's names, most of them as methods that are registered below."""

    @staticmethod
    def context(tensor: Tensor) -> dict[str, Any]:
        return {"dtype": tensor.dtype, "device": tensor.device, "requires_grad": tensor.requires_grad}

    @staticmethod
    def tensor(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool | None = None) -> Tensor:
        made = data.detach().clone() if isinstance(data, Tensor) else ops.tensor(data)
        made = made.to(dtype=dtype, device=device)
        return made if requires_grad is None else made.requires_grad_(requires_grad)

    @staticmethod
    def is_tensor(obj: Any) -> bool:
        return isinstance(obj, Tensor)

    @staticmethod
    def shape(tensor: Tensor) -> tuple[int, ...]:
        return tuple(tensor.shape)

    @staticmethod
    def ndim(tensor: Tensor) -> int:
        return tensor.ndim

    @staticmethod
    def clip(tensor: Tensor, a_min: Any = None, a_max: Any = None) -> Tensor:
        return array_api.clip(tensor, a_min, a_max)

    @staticmethod
    def sort(tensor: Tensor, axis: int | None) -> Tensor:
        return array_api.sort(tensor.flatten() if axis is None else tensor, axis=-1 if axis is None else axis)

    @staticmethod
    def lstsq(a: Tensor, b: Tensor, rcond: Any = None) -> tuple[Tensor, Tensor]:
        found = linalg.lstsq(a, b, rcond=rcond, driver="gelsd")
        return found.solution, found.residuals

    @staticmethod
    def logsumexp(tensor: Tensor, axis: int = 0) -> Tensor:
        return ops.logsumexp(tensor, axis)


_FUNCTIONS = """argmax argmin argsort concatenate conj copy diag dot finfo flip kron log2 max mean moveaxis nan
sign stack sum tensordot to_numpy trace transpose"""

for _name in {*backend_types, *backend_basic_math, *backend_array, *_FUNCTIONS.split()}:
    Backend.register_method(_name, find(_name))
for _name in ("arange", "eye", "ones", "zeros"):  # which take `requires_grad` of a context
    Backend.register_method(_name, getattr(ops, _name))
for _name in ("solve", "qr", "svd", "eigh"):
    Backend.register_method(_name, getattr(linalg, _name))
Backend.register_method("digamma", special.digamma)

tensorly.backend.BackendManager.available_backend_names.append(_BACKEND)
