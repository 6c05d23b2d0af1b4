"""Scaled dot product attention: as torch's CPU kernel has it, and whole where torch has no kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from ...backends import precision_policy
from ...backends.operands import ATTENTION_ROLES, act_on
from ...nn import functional as F
from ...nn import grad as nn_grad
from ...tensor.tensor import Tensor
from .memory import Layout, to_ours
from .operands import tensors_in, why_not
from .recorded import differentiable
from .table import runs

_TERMS = 2
"""The largest score of a row and the sum of exp(score - largest), which follow the log-sum-exps in their memory."""


@runs("_scaled_dot_product_flash_attention_for_cpu", mixed=True)
def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, torch.Tensor]:
    """The output and the log-sum-exps. Their two terms follow in the same memory: our backward kernels need them
    separately, and torch keeps one tensor for it."""
    grouped = query.shape[-3] != key.shape[-3]
    found = nn_grad.scaled_dot_product_attention_forward(query, key, value, attn_mask, is_causal, scale, grouped)
    largest, total = found.statistics._array
    terms = np.stack([largest + np.log(total), largest, total])
    return found.output, torch.from_numpy(terms)[0]


@runs("_scaled_dot_product_flash_attention_for_cpu_backward", converted=False, mixed=True)
def _attention_backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Any:
    statistics = _terms(logsumexp)
    mask = None if attn_mask is None else to_ours(attn_mask)
    tensors = map(to_ours, (grad_out, query, key, value, out, statistics))
    grouped = query.shape[-3] != key.shape[-3]
    return nn_grad.scaled_dot_product_attention_backward(*tensors, mask, is_causal, scale, grouped)


def _terms(logsumexp: torch.Tensor) -> torch.Tensor:
    """The terms behind log-sum-exps; the latter, where another program has made or copied them."""
    size, start = logsumexp.numel(), logsumexp.storage_offset()
    behind = logsumexp.untyped_storage().nbytes() == (1 + _TERMS) * size * logsumexp.itemsize
    if not (behind and start == 0 and logsumexp.is_contiguous()):
        return logsumexp
    return logsumexp.as_strided((_TERMS, *logsumexp.shape), (size, *logsumexp.stride()), size)


_MATH = 0
"""torch's number of the attention composed of other operators."""


def take_attention(
    func: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Calls that torch would make of other operators; with dropout they stay with it, for its random numbers."""
    tensors = list(tensors_in((query, key, value, attn_mask)))
    transformed = torch._C._functorch.peek_interpreter_stack() is not None  # which torch's choice has no rule for
    if dropout_p or transformed or why_not(tensors, mixed=True) is not None:
        return NotImplemented
    options: dict[str, Any] = {"scale": scale, "enable_gqa": enable_gqa}
    by_role = precision_policy.by_role and act_on(ATTENTION_ROLES)
    choice = torch._fused_sdp_choice(query, key, value, attn_mask, dropout_p, is_causal, **options)
    if choice != _MATH and not by_role:
        return NotImplemented

    def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, mask, 0.0, is_causal, **options)

    descriptions = [None if each is None else _description(each) for each in (query, key, value, attn_mask)]
    return differentiable(attention, *tensors, layouts=_layouts(choice == _MATH, is_causal, enable_gqa, *descriptions))


_Description = tuple[torch.Size, tuple[int, ...], torch.dtype, bool]


def _description(x: torch.Tensor) -> _Description:
    """Shape, strides, type and whether a gradient is needed."""
    return x.shape, x.stride(), x.dtype, torch.is_grad_enabled() and x.requires_grad


@lru_cache(maxsize=1024)
def _layouts(math: bool, is_causal: bool, enable_gqa: bool, *described: _Description | None) -> Sequence[Layout | None]:
    """The layouts of torch's output and of its gradients, from its own kernels for tensors without memory."""
    with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
        query, key, value, mask = inputs = [
            None
            if each is None
            else torch.empty_strided(*each[:2], dtype=each[2], device="meta", requires_grad=each[3])
            for each in described
        ]
        aten: Any = torch.ops.aten
        if math:
            attend = aten._scaled_dot_product_attention_math
            out = attend(query, key, value, mask, 0.0, is_causal, enable_gqa=enable_gqa)[0]
        else:
            attend = aten._scaled_dot_product_flash_attention_for_cpu
            out = attend(query, key, value, 0.0, is_causal, attn_mask=mask)[0]
        given = [each for each in inputs if each is not None]
        wanted = [each for each in given if each.requires_grad]
        found = iter(torch.autograd.grad(out, wanted, torch.empty_like(out), allow_unused=True) if wanted else ())
        gradients = [next(found) if each.requires_grad else None for each in given]
    return tuple(None if each is None else Layout.of(each) for each in (out, *gradients))
