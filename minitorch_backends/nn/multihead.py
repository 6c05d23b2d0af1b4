"""Attention of several heads as a module."""

from __future__ import annotations

from typing import Any

from ..ops.creation.factories import empty, zeros
from ..tensor.tensor import Parameter, Tensor
from . import functional as F
from . import init
from .layers import Linear
from .module import Module

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of `num_heads` heads between learned projections (A. Vaswani et al., 2017).

    Called with query (L, N, E), key (S, N, kdim) and value (S, N, vdim), or with N first if `batch_first`, or without
    it; the result is (attention like query, weights (N, L, S) or None). `add_bias_kv` learns one more key and value,
    `add_zero_attn` adds one of zeros. Weights start Xavier-uniform, biases at zero, as in torch.
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads}"
            )
        if embed_dim % num_heads:
            raise AssertionError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.head_dim, self.batch_first, self.add_zero_attn = embed_dim // num_heads, batch_first, add_zero_attn
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim

        def parameter(*shape: int) -> Parameter:
            return Parameter(empty(*shape, device=device, dtype=dtype))

        together = self.kdim == self.vdim == embed_dim
        self.register_parameter("in_proj_weight", parameter(3 * embed_dim, embed_dim) if together else None)
        self.register_parameter("q_proj_weight", None if together else parameter(embed_dim, embed_dim))
        self.register_parameter("k_proj_weight", None if together else parameter(embed_dim, self.kdim))
        self.register_parameter("v_proj_weight", None if together else parameter(embed_dim, self.vdim))
        shift = Parameter(zeros(3 * embed_dim, device=device, dtype=dtype)) if bias else None
        self.register_parameter("in_proj_bias", shift)
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        self.register_parameter("bias_k", parameter(1, 1, embed_dim) if add_bias_kv else None)
        self.register_parameter("bias_v", parameter(1, 1, embed_dim) if add_bias_kv else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialise the weights of the projections."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for place in (self.bias_k, self.bias_v):
            if place is not None:
                init.xavier_normal_(place)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        turned = self.batch_first and query.ndim == 3
        if turned:
            same = query is key and key is value
            query = query.transpose(0, 1)
            key, value = (query, query) if same else (key.transpose(0, 1), value.transpose(0, 1))
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=self.in_proj_weight is None,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (out.transpose(0, 1) if turned else out), weights
