"""The same call in torch: functions found by name, arguments and results translated."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import minitorch_backends as mt
from minitorch_backends.dispatch.op import Op
from minitorch_backends.nn import functional
from minitorch_backends.tensor.dtypes import DType
from minitorch_backends.tensor.registry import registry
from minitorch_backends.tensor.tensor import Tensor

from ..declared.samples import Sample
from ..support.calls import as_dtype, compared_function, map_arrays

OWN_KEYWORDS = {"precision"}
"""Keywords that products take here and not in torch."""

KINDS = (RuntimeError, TypeError, ValueError, IndexError)
"""What a call may raise when it is refused."""

torch.set_num_threads(1)


def is_public(name: str) -> bool:
    """Whether users reach the op under this name; the others are parts of public ops and of gradients."""
    homes = (mt, functional, *(getattr(mt, home) for home in ("linalg", "special", "fft") if hasattr(mt, home)))
    name = name.removeprefix("linalg_")
    return name in vars(Tensor) or any(hasattr(home, name) for home in homes)


def torch_functions(name: str) -> list[Callable[..., Any]]:
    """Torch's functions of this name, the likeliest first: function and method, or a function of a module."""
    modules = [torch.nn.functional, torch.special, torch.fft, torch, torch.linalg, torch.Tensor]
    if name.startswith("linalg_"):
        return [getattr(torch.linalg, name.removeprefix("linalg_"))]
    if name in vars(Tensor):
        modules = [torch, torch.Tensor, *modules]
    found = [getattr(module, name, None) for module in modules]
    return [each if callable(each) else lambda tensor: getattr(tensor, name) for each in found if each is not None]


def is_missing(error: Exception) -> bool:
    """Whether torch merely has no kernel for a dtype, or no promotion, as of uint16, uint32 and uint64."""
    text = str(error)
    return isinstance(error, NotImplementedError) or "not implemented for" in text or "Promotion for uint16" in text


def torch_outcome(name: str, call: Sample) -> Any:
    """The result of torch, or its exception; after a TypeError the next function is tried."""
    outcome: Any = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function in torch_functions(name):
            try:
                return compared_function(name, function)(*call.args, **call.kwargs)
            except KINDS as error:
                outcome = outcome or error
                if not isinstance(error, TypeError):
                    break
    return outcome


def torch_dtype(dtype: DType) -> torch.dtype:
    return getattr(torch, dtype.name)


def torch_tensor(array: np.ndarray) -> torch.Tensor:
    """A tensor of the values of an array, with a gap after every element if the array is not contiguous."""
    if array.dtype.name == "bfloat16":
        made = torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    else:
        made = torch.from_numpy(np.array(array, order="C"))
    if array.flags.c_contiguous:
        return made
    gaps = torch.empty((*array.shape, 2), dtype=made.dtype)[..., 0]
    return gaps.copy_(made)


def torch_call(call: Sample, dtype: DType, requires_grad: bool = False) -> Sample:
    """The call's arguments for torch, with the values that they have here in `dtype`."""

    def tensor(array: np.ndarray) -> torch.Tensor:
        made = torch_tensor(as_dtype(array, dtype))
        return made.requires_grad_() if requires_grad and array.dtype == np.float64 else made

    def translate(value: Any) -> Any:
        if isinstance(value, DType):
            return torch_dtype(value)
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(map(translate, value))
        return map_arrays(value, tensor)

    kwargs = {name: translate(value) for name, value in call.kwargs.items() if name not in OWN_KEYWORDS}
    return Sample(tuple(map(translate, call.args)), kwargs)


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """The values, those of types that NumPy lacks in the next wider one."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    wider = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
    return tensor.to(wider.get(tensor.dtype, tensor.dtype)).numpy(force=True)


def widen(tensor: Tensor) -> np.ndarray:
    array = tensor._array
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def name_of(dtype: torch.dtype) -> str:
    """The name of our dtype; complex64 stands for torch's half-size complex type."""
    return str(dtype).removeprefix("torch.").replace("complex32", "complex64")


def torch_tensors(out: Any) -> list[torch.Tensor]:
    if isinstance(out, torch.Tensor):
        return [out]
    return [tensor for each in out for tensor in torch_tensors(each)] if isinstance(out, (tuple, list)) else []


def promoting() -> list[str]:
    """The public ops that bring two inputs to a common type."""
    ops = [
        (name, op) for name, op in registry.items() if isinstance(op, Op) and not op.listed and sum(op.promoted) == 2
    ]
    return [name for name, _ in ops if is_public(name)]
