"""Attention of several heads between learned projections, as one function."""

from __future__ import annotations

import math

import numpy as np

from ...autograd.half_types import product_precision, widen
from ...backends import precision_policy
from ...dispatch.op import composite
from ...flags import current
from ...tensor.tensor import Tensor, adopt
from ..elementwise.dropout import dropout
from ..functional import functional
from ..matmul.linear import linear
from ..matmul.matmul import times
from ..views.join import cat
from .composed import apply_roles, masked_softmax, product_roles
from .scaled_dot_product import scaled_dot_product_attention


@functional
@composite(method=False, takes="f", product="matmul")
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Multi-head attention (A. Vaswani et al., 2017) as in `nn.MultiheadAttention`; the weights may be None.

    query: (L, N, E), or (L, E) unbatched; key: (S, N, kdim); value: (S, N, vdim). attn_mask: (L, S) or
    (N * num_heads, L, S); key_padding_mask: (N, S) or (S). A boolean mask is true at keys to ignore; other masks are
    added to the scores. The result is (L, N, E); the weights are (N, L, S), or (N, num_heads, L, S) if not averaged.

    Without `need_weights` the heads run by `scaled_dot_product_attention`, unless
    `backends.mha.set_fastpath_enabled(False)` forbids it. Raises RuntimeError or AssertionError where torch does.
    """
    batched = query.ndim == 3
    _check_inputs(query, key, value, embed_dim_to_check, num_heads)
    if is_causal and attn_mask is None:
        raise RuntimeError("need attn_mask if specifying the is_causal hint; pass the causal mask that it stands for")
    if not batched:
        query, key, value = (each.unsqueeze(1) for each in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    _check_additions(query.shape[1] * num_heads, static_k, static_v, bias_k, bias_v)
    length = key.shape[0] if static_k is None else static_k.shape[1]
    _check_masks(attn_mask, key_padding_mask, (query.shape[1], num_heads, query.shape[0], length))
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _project(query, key, value, in_proj_weight, in_proj_bias, separate)
    q, k, v = _heads(q, k, v, num_heads, bias_k, bias_v, static_k, static_v, add_zero_attn)
    padded = key_padding_mask is not None
    causal = is_causal and not padded and not need_weights and k.shape[-2] == q.shape[-2]
    mask = None if causal else _mask(q, k, attn_mask, key_padding_mask)
    dropped = dropout_p if training else 0.0
    if not need_weights and current().read("mha.fastpath"):
        weights, out = None, scaled_dot_product_attention(q, k, v, mask, dropped, causal)
    else:
        weights, out = _attend(q, k, v, _mask(q, k, attn_mask, key_padding_mask), dropped)
    out = linear(out.permute(2, 0, 1, 3).flatten(2), out_proj_weight, out_proj_bias)
    if weights is None or not need_weights:
        return (out if batched else out.squeeze(1)), None
    weights = weights.mean(1) if average_attn_weights else weights
    return (out, weights) if batched else (out.squeeze(1), weights.squeeze(0))


def _check_inputs(query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_heads: int) -> None:
    """Reject inputs whose dimensions do not match each other or the heads."""
    if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(
            "query, key and value should be 3-D (batched) or 2-D (unbatched) together, and they are "
            f"{query.ndim}-D, {key.ndim}-D and {value.ndim}-D"
        )
    embed = query.shape[-1]
    if embed != embed_dim:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim}, but got {embed}")
    if num_heads <= 0 or embed % num_heads:
        raise AssertionError(f"embed_dim {embed} is not divisible by num_heads {num_heads}")


def _check_additions(
    heads: int, static_k: Tensor | None, static_v: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None
) -> None:
    """Reject keys and values that replace or extend those of the input, and do not fit the heads of the batch."""
    for name, static in (("static_k", static_k), ("static_v", static_v)):
        if static is not None and (static.ndim != 3 or static.shape[0] != heads):
            raise AssertionError(f"expecting {name} of shape [{heads}, S, E / num_heads], got {list(static.shape)}")
    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v must be given together, or left out together")


def _check_masks(mask: Tensor | None, padding: Tensor | None, sizes: tuple[int, int, int, int]) -> None:
    """Reject masks whose shapes do not match the queries and keys."""
    batch, heads, queries, keys = sizes
    if mask is not None and mask.shape not in ((queries, keys), (batch * heads, queries, keys)):
        raise RuntimeError(
            f"The shape of the {mask.ndim}D attn_mask is {list(mask.shape)}, but should be {[queries, keys]} or "
            f"{[batch * heads, queries, keys]}"
        )
    if padding is not None and padding.shape != (batch, keys):
        raise AssertionError(f"expecting key_padding_mask shape of {[batch, keys]}, but got {list(padding.shape)}")


def _project(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor | None, bias: Tensor | None, separate: tuple | None
) -> list[Tensor]:
    """The queries, keys and values of all heads; one product where they are the same tensor."""
    embed = query.shape[-1]
    for name, packed in (("in_proj_bias", bias), ("in_proj_weight", None if separate else weight)):
        if packed is not None and (not packed.ndim or packed.shape[0] != 3 * embed):
            raise RuntimeError(
                f"multi_head_attention_forward(): {name} must have 3 * {embed} rows, got {list(packed.shape)}"
            )
    shifts = (None, None, None) if bias is None else bias.split(embed)
    if separate is not None:
        weights = separate
    elif query is key and key is value:
        assert weight is not None
        return list(linear(query, weight, bias).split(embed, -1))
    else:
        assert weight is not None
        weights = tuple(weight.split(embed))
    return [linear(x, w, shift) for x, w, shift in zip((query, key, value), weights, shifts, strict=True)]


def _heads(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    heads: int,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    static_k: Tensor | None,
    static_v: Tensor | None,
    add_zero: bool,
) -> list[Tensor]:
    """As (N, heads, length, size), with the learned and the zero places behind the keys and values."""
    batch = q.shape[1]
    if bias_k is not None and bias_v is not None:
        k = cat([k, bias_k.expand(1, batch, k.shape[-1])])
        v = cat([v, bias_v.expand(1, batch, v.shape[-1])])
    split = [each.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3) for each in (q, k, v)]
    for index, static in ((1, static_k), (2, static_v)):
        if static is not None:
            split[index] = static.unflatten(0, (batch, heads))
    if add_zero:
        split[1:] = [cat([each, each.new_zeros(batch, heads, 1, each.shape[-1])], 2) for each in split[1:]]
    return split


def _mask(q: Tensor, k: Tensor, mask: Tensor | None, padding: Tensor | None) -> Tensor | None:
    """Both masks as one that is added to scores (N, heads, L, S)."""
    parts = []
    for each, shape in ((mask, (q.shape[0], q.shape[1])), (padding, None)):
        if each is None:
            continue
        if each._array.dtype == bool:
            each = adopt(np.where(each._array, -np.inf, 0).astype(q._array.dtype))
        missing = k.shape[-2] - each.shape[-1]
        if missing > 0:  # the learned and the zero places are seen by all
            each = cat([each, each.new_zeros(*each.shape[:-1], missing)], -1)
        if shape is None:
            each = each.unsqueeze(1).unsqueeze(1)
        elif each.ndim == 3:
            each = each.unflatten(0, shape)
        parts.append(each)
    return parts[0] + parts[1] if len(parts) == 2 else parts[0] if parts else None


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropped: float) -> tuple[Tensor, Tensor]:
    """The weights after dropout, and the result, by products; half types are rounded at the end."""
    dtype, precision, composed = q.dtype, product_precision(q), False
    if precision_policy.by_role:
        k, v, composed = apply_roles(q, k, v)
    q, k, v, mask = widen([q, k, v, mask])
    of_scores, of_values = (product_roles(0), product_roles(1)) if composed else (precision, precision)
    factor = 1 / math.sqrt(q.shape[-1])  # queries have their format before it
    scores = times(q, k.mT, of_scores) * factor if composed else times(q * factor, k.mT, of_scores)
    weights = dropout(scores.softmax(-1) if mask is None else masked_softmax(scores + mask), dropped)
    return weights.to(dtype), times(weights, v, of_values).to(dtype)
