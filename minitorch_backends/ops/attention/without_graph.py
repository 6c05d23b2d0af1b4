"""Attention without a graph: a forward that also returns the statistics of its rows, and the backward from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...autograd.api import grad
from ...autograd.modes import enable_grad, no_grad
from ...backends import precision_policy
from ...backends.operands import act_on
from ...kernels.runtime.context import restore_on_failure
from ...tensor.tensor import Tensor, adopt
from .composed import apply_roles
from .scaled_dot_product import (
    additive_mask,
    attend,
    prepare,
    run_backward,
    scale_of,
    scaled_dot_product_attention,
    specs,
)


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
    mask = None if attn_mask is None else additive_mask(attn_mask, query._array.dtype)
    return AttentionResult(*attend(query, key, value, mask, is_causal, scale, enable_gqa))


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
    mask = None if attn_mask is None else additive_mask(attn_mask, query._array.dtype)
    inputs = [each._array for each in (query, key, value, mask) if each is not None]
    name = prepare(*specs(inputs), is_causal, scale, enable_gqa).kernel
    if name == "math":
        leaves = [each.detach().requires_grad_() for each in (query, key, value)]
        with enable_grad():
            out = scaled_dot_product_attention(*leaves, attn_mask, 0.0, is_causal, scale, enable_gqa)
        return grad(out, leaves, grad_output)
    if statistics.ndim == query.ndim - 1:
        statistics = adopt(np.stack([statistics._array, np.ones_like(statistics._array)]))
    saved = output._array, statistics._array, grad_output._array
    found = run_backward(name, inputs, saved, scale_of(query.shape, scale), is_causal, None)
    return adopt(found[0]), adopt(found[1]), adopt(found[2])
