"""Calls that torch would decompose above its dispatcher, and that our kernels take whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...ops import einsum
from .attention import take_attention
from .operands import tensors_in, why_not
from .recorded import differentiable
from .recurrent import CELLS, LAYERS


def _einsum(func: Any, *args: Any) -> Any:
    """Three and more operands, whose order of contraction `backends.opt_einsum` chooses. Torch's own products of the
    pairs would run here for two."""
    operands = list(tensors_in(args))
    if len(operands) < 3 or why_not(operands) is not None:
        return NotImplemented
    return differentiable(lambda *ours: einsum(*_with(args, iter(ours))), *operands)


def _with(values: Any, ours: Any) -> list[Any]:
    """The arguments with our tensors, in order, in place of torch's."""
    return [
        next(ours) if isinstance(each, torch.Tensor) else _with(each, ours) if isinstance(each, (list, tuple)) else each
        for each in values
    ]


WHOLE_CALLS: dict[Any, Callable[..., Any]] = {
    torch.einsum: _einsum,
    torch.nn.functional.scaled_dot_product_attention: take_attention,
    **LAYERS,
    **CELLS,
}
"""By torch's function what takes its calls: it is given the function and the arguments, and returns NotImplemented for
calls that stay with torch."""
