"""Which of torch's tensors our kernels take as operands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

_ACTED_ON = frozenset({torch.float32, torch.complex64, torch.bfloat16, torch.float16})
"""Types whose products have a precision, or an accumulation, that flags choose."""

_NARROW = frozenset(
    {
        torch.float8_e4m3fn,
        torch.float8_e4m3fnuz,
        torch.float8_e5m2,
        torch.float8_e5m2fnuz,
        torch.float8_e8m0fnu,
        torch.float4_e2m1fn_x2,
    }
)
"""Types of 8 and 4 bits, whose products the unit of a profile sums."""

PLAIN_TYPES = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer})
"""Types whose functions are torch's; subclasses may have their own."""

NO_DISPATCH = torch._C._disabled_torch_dispatch_impl
"""The operators that stand in for those of subclasses without their own."""

NO_FLAG = "no flag acts on products of "
SPARSE = "only products of strided tensors run here, got "
TRACED = "torch traces this call, and records only what it computes itself"

_TRACING = tuple(torch._C._TorchDispatchModeKey.__members__.values())


def is_traced(kind: type | None = None) -> bool:
    """Whether this thread traces operators into a graph, with or without values; or whether tensors of a type have no
    values because of it."""
    if kind is not None:
        return kind.__name__ in ("FakeTensor", "FunctionalTensor") and kind.__module__.startswith("torch._subclasses")
    return any(torch._C._get_dispatch_mode(key) is not None for key in _TRACING)


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among arguments, those in lists included."""
    for each in values:
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, (list, tuple)):
            yield from tensors_in(each)


def why_not(tensors: Iterable[torch.Tensor], mixed: bool = False, narrow: bool = False) -> str | None:
    """Why our kernels do not take these tensors as operands of one product; None where they do. `mixed` ones may have
    several types, and `narrow` ones 8 bits."""
    dtypes = set()
    for each in tensors:
        if (
            type(each) not in PLAIN_TYPES
            and type(each).__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl
        ):
            return f"{type(each).__name__}, a subclass of Tensor, has an implementation of its own"
        if each.is_nested:
            return "nested tensors are computed part by part"
        if each.device.type != "cpu":
            return f"only products of CPU tensors run here, got device {each.device}"
        if each.layout is not torch.strided:
            return f"{SPARSE}{each.layout}"
        if (each.is_floating_point() or each.is_complex()) and not (mixed and each.ndim == 0):  # a scalar
            dtypes.add(each.dtype)
    if len(dtypes) > 1 and not mixed:
        return f"operands have several types, {', '.join(sorted(map(str, dtypes)))}"
    if not dtypes <= (_ACTED_ON | _NARROW if narrow else _ACTED_ON) or not dtypes:
        return f"{NO_FLAG}{', '.join(map(str, dtypes)) or 'integers'}"
    return None
