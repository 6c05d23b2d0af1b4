"""Experiments of the laboratory on torch's models and functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from ...explain.product_counts import ProductCounts
from ...lab.torch_capture import is_product
from .mode import emulate
from .operands import tensors_in


class _Uses(TorchFunctionMode):
    """Notes whether torch computes anything."""

    used = False

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        self.used = True
        return func(*args, **(kwargs or {}))


@contextmanager
def observe_products(counts: ProductCounts, grad: bool) -> Iterator[_Uses]:
    """Run the block inside `emulate` under the current flags, and count the products that torch computes itself.

    Yields an object whose attribute `used` says whether the block called torch.
    """
    with torch.set_grad_enabled(grad), emulate() as mode, _Uses() as uses:
        yield uses
    counts.others.update({f"{each.op} of torch ({each.why})": each.count for each in mode.left})


_WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}

_HALVES = {torch.bfloat16: "bfloat16", torch.float16: "float16"}

_OF_LEAVES = frozenset({"requires_grad_", "retain_grad", "register_hook", "backward", "grad", "__get__", "__set__"})
"""Functions of a tensor itself rather than of its values."""


class InFloat64(TorchFunctionMode):
    """Computes in float64 and complex128 where torch would in float32 and complex64, from the same numbers.

    Tensors are converted as they are made, and those made outside of the block as they are used. Random numbers are
    those of float32. Products of half types stay as they are, and are added to the counts. Raises RuntimeError for a
    write into a float32 tensor made outside.
    """

    def __init__(self, counts: ProductCounts) -> None:
        super().__init__()
        self._counts = counts

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if any(True for _ in tensors_in((*args, *kwargs.values()))) and name not in _OF_LEAVES:
            first, out = (args[0] if args else None), kwargs.get("out")
            in_place = (name.endswith("_") and not name.startswith("__")) or name in ("__setitem__", "__iadd__")
            if getattr(first if in_place else out, "dtype", None) in _WIDE:
                raise RuntimeError(f"{name} writes into a float32 tensor that was made outside of the function")
            args, kwargs = tree_map(_wide, (args, kwargs))
            func = torch.Tensor.double if func is torch.Tensor.float else func
        found = tree_map(_wide, func(*args, **kwargs))
        if getattr(found, "dtype", None) in _HALVES and (is_product(name) or name == "einsum"):
            self._counts.others[f"{name} of {_HALVES[found.dtype]}"] += 1
        return found


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        wide = _WIDE.get(value.dtype)
        return value if wide is None else value.to(wide)
    return _WIDE.get(value, value) if isinstance(value, torch.dtype) else value
