"""Attention without a graph: a forward that also returns the statistics of its rows, and the backward from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...autograd.api import grad
from ...autograd.modes import enable_grad, no_grad
from ...backends import precision_policy
from ...backends.attention import SDPAParams, select_kernel
from ...backends.operands import act_on
from ...kernels.runtime.context import restore_on_failure
from ...tensor.tensor import Tensor, adopt
from . import scaled_dot_product as attention
from .composed import apply_roles


class AttentionResult(NamedTuple):
    """The result of `scaled_dot_product_attention_forward`.

    Attributes:
        output: (..., L, Ev).
        statistics: (2, ..., L): for each row the largest score and the sum of exp(score - largest). Stored separately
            they reproduce the same weights in the backward pass; their log-sum-exp alone would round them.
    """

    output: Tensor
    statistics: Tensor

    @property
    def logsumexp(self) -> Tensor:
        """The logarithm of the sum of exp(score) of each row, (..., L); inf for a row that sees no key."""
        return self.statistics[0] + self.statistics[1].log()


class _Call(NamedTuple):
    """Arguments as the kernels take them: which kernel, the arrays of query, key, value and mask, and the scale."""

    kernel: str
    arrays: tuple[np.ndarray, ...]
    scale: float


def _call_without_graph(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float | None, gqa: bool
) -> _Call:
    if mask is not None and mask._array.dtype == np.float32:
        mask = mask.to(query.dtype)
    attention._check(query, key, value, mask, 0.0, causal, gqa)
    mask = attention.additive_mask(mask, query._array.dtype)
    factor = attention._scale(query, scale)
    name = select_kernel(SDPAParams(query, key, value, mask, 0.0, causal, gqa, factor))
    return _Call(name, tuple(each._array for each in (query, key, value, mask) if each is not None), factor)


def refuse_roles(name: str, query: Tensor) -> None:
    """Raise RuntimeError where queries or probabilities have formats, which only attention with a graph applies."""
    if act_on(("query", "probability")):
        raise RuntimeError(
            f"{name}(): formats of queries and probabilities need attention composed of products, got query of shape "
            f"{list(query.shape)} without a graph; call scaled_dot_product_attention"
        )


@no_grad()
def scaled_dot_product_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> AttentionResult:
    """`scaled_dot_product_attention` without dropout, with the statistics of its rows, recorded by no graph.

    Arguments and errors are those of `scaled_dot_product_attention`.
    """
    if precision_policy.by_role:
        refuse_roles("scaled_dot_product_attention_forward", query)
        key, value, _ = apply_roles(query, key, value)
    call = _call_without_graph(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    out, statistics = attention._run(call.kernel, call.arrays, call.scale, is_causal, None)
    return AttentionResult(adopt(out), adopt(statistics))


@no_grad()
@restore_on_failure
def scaled_dot_product_attention_backward(
    grad_output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    statistics: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and value, from what `scaled_dot_product_attention_forward` returned.

    `statistics` are (2, ..., L), or a log-sum-exp, (..., L), of another source. Query, key and value have 4 dimensions.
    The plain kernel, where flags let no other run, computes the forward again.
    """
    if precision_policy.by_role:
        refuse_roles("scaled_dot_product_attention_backward", query)
        key, value, _ = apply_roles(query, key, value)
    call = _call_without_graph(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    if call.kernel == "math":
        leaves = [each.detach().requires_grad_() for each in (query, key, value)]
        with enable_grad():
            out = attention.scaled_dot_product_attention(*leaves, attn_mask, 0.0, is_causal, scale, enable_gqa)
        return grad(out, leaves, grad_output)
    if statistics.ndim == query.ndim - 1:
        statistics = adopt(np.stack([statistics._array, np.ones_like(statistics._array)]))
    saved = output._array, statistics._array, grad_output._array
    return tuple(map(adopt, attention._run(call.kernel, call.arrays, call.scale, is_causal, None, *saved)))  # type: ignore[return-value]
