"""Scaled dot product attention: which kernel runs it, and its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...autograd.extras.function import Function
from ...autograd.modes import derives, is_grad_enabled, no_grad
from ...backends import precision_policy
from ...backends.attention import SWITCHES, SDPAParams, select_kernel
from ...backends.precision_policy import node_metadata, resolve
from ...dispatch.op import composite
from ...dispatch.promotion import refusal_of_dtype
from ...flags import State, current, per_state
from ...kernels import registry
from ...kernels.attention import attention as kernel
from ...kernels.attention import attention_gradient as gradient_kernel
from ...kernels.registry import ArraySpec, Refused
from ...kernels.runtime.context import because, restore_on_failure
from ...kernels.runtime.shapes import broadcast_shapes
from ...tensor import instrumentation
from ...tensor.call_errors import refuse_other_than_bool
from ...tensor.dtypes import dtype_of
from ...tensor.tensor import Tensor, adopt, kind_of
from ..functional import functional
from .composed import BY_ROLE, apply_roles, attention_of_ops, cache_decisions, gradients

_FLOAT32 = np.dtype(np.float32)


@functional
@composite(method=False, takes="f", stateful=True, product="matmul", autocast="lower")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Scaled dot product attention: softmax(scale * query @ key.mT + attn_mask) @ value.

    Arguments:
        query: (..., L, E).
        key: (..., S, E).
        value: (..., S, Ev).
        attn_mask: broadcasts to (..., L, S). A floating mask (query's dtype, or float32 cast to it) is added to the
            scores. In a boolean mask False excludes an entry; a row with all entries excluded gives zeros.
        dropout_p: probability of dropping a weight; applied always, so pass 0 outside training.
        is_causal: row i uses only columns 0 to i.
        scale: 1 / sqrt(E) by default.
        enable_gqa: heads of query (dimension -3) may be a multiple of those of key and value.

    Returns (..., L, Ev). `backends.cuda.enable_flash_sdp` and its companions, and `nn.attention.sdpa_kernel`, select
    the allowed kernels. `explain.why("scaled_dot_product_attention", ...)` reports which kernel runs, and why the
    others do not. Gradients of the fused kernels are differentiated again by the composed implementation.

    Raises RuntimeError for mismatched sizes and dtypes, for a mask together with `is_causal`, and if no kernel may run.
    Raises TypeError for arguments that are not Tensors.
    """
    scale = None if scale is None else float(scale)
    if precision_policy.by_role and all(isinstance(each, Tensor) for each in (query, key, value)):
        key, value, composed = apply_roles(query, key, value)
        if composed:
            _check(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
            mask = additive_mask(attn_mask, query._array.dtype)
            factor = _scale(query, scale)
            return attention_of_ops(query, key, value, mask, factor, is_causal, dropout_p, BY_ROLE)
    if dropout_p == 0:
        out = _straight(query, key, value, attn_mask, is_causal, scale, enable_gqa)
        if out is not None:
            return out
    given: tuple[Any, ...] = (query, key, value)
    if not all(isinstance(each, Tensor) for each in given):
        found = ", ".join(kind_of(each) for each in given)
        raise TypeError(f"query, key and value must be Tensors, but they are {found}; convert arrays by from_numpy()")
    own = 3 if enable_gqa else 2
    if not query.shape[:-own] == key.shape[:-own] == value.shape[:-own]:
        query = _in_common_batch(query, key, value, own)
    if attn_mask is not None and attn_mask._array.dtype == _FLOAT32:
        attn_mask = attn_mask.to(query.dtype)
    known = None
    if dropout_p == 0 and instrumentation.duals is None and not precision_policy.in_backward():
        known = _checked_call(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    else:
        _check(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    attn_mask = additive_mask(attn_mask, query._array.dtype)
    inputs = (query, key, value, *([] if attn_mask is None else [attn_mask]))
    needs_gradient = is_grad_enabled() and any(each.requires_grad for each in inputs)
    if known and not needs_gradient:
        options = {"prefer": known.name, "decided_by": known.decided_by, **known.keywords}
        return adopt(kernel(*[each._array for each in inputs], **options)[0])
    scale = _scale(query, scale)
    params = SDPAParams(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa, scale)
    name = known.name if known else select_kernel(params)
    if instrumentation.duals is not None or (name == "math" and (dropout_p > 0 or needs_gradient)):
        return attention_of_ops(query, key, value, attn_mask, scale, is_causal, dropout_p, None)
    if not needs_gradient:
        arrays = tuple(each._array for each in inputs)
        return adopt(_run(name, arrays, scale, is_causal, None)[0])
    kept = node_metadata({"precision": None}, "matmul")["precision"]
    return _Fused.apply(query, key, value, attn_mask, name, scale, is_causal, kept)


def _in_common_batch(query: Tensor, key: Tensor, value: Tensor, own: int) -> Tensor:
    """Expand the query, except its `own` last dimensions, to the batch of the result. Shapes that do not broadcast are
    left for `_check` to reject."""
    try:
        batch = broadcast_shapes(*(each.shape[:-own] for each in (query, key, value)))
    except ValueError:
        return query
    return query.expand(*batch, *query.shape[-own:]) if query.ndim >= own else query


def additive_mask(mask: Tensor | None, dtype: np.dtype) -> Tensor | None:
    """A mask as an addend to scores of a dtype."""
    if mask is None or mask._array.dtype == dtype:
        return mask
    return (
        adopt(_additive_mask(mask._array, dtype))
        if mask._array.dtype == bool
        else mask.to(dtype_of(np.empty(0, dtype)))
    )


def _additive_mask(mask: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The addend for a boolean mask: minus infinity for excluded entries."""
    return np.where(mask, dtype.type(0), dtype.type(-np.inf))


class _Known(NamedTuple):
    """The resolved call for given flags and shapes, without dropout: the kernel, its keywords, the origin of the
    precision, and the function that the kernel runs while no observer is active."""

    name: str
    keywords: dict[str, Any]
    decided_by: str
    run: Callable[..., Any] | None


def _straight(
    query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float | None, gqa: bool
) -> Tensor | None:
    """The result of an unrecorded call without dropout whose signature is cached; None if the general path is
    needed."""
    if registry.observing or instrumentation.duals is not None or precision_policy.in_backward():
        return None
    if not type(query) is type(key) is type(value) is Tensor:
        return None
    if query._node is not None or key._node is not None or value._node is not None:
        return None
    if mask is not None and (type(mask) is not Tensor or mask._node is not None):
        return None
    found = _checked_call.recall(query, key, value, mask, causal, scale, gqa)
    if found is None or found.run is None:
        return None
    arrays = [query._array, key._array, value._array]
    if mask is not None:
        arrays.append(mask._array if mask._array.dtype != bool else _additive_mask(mask._array, arrays[0].dtype))
    try:
        return adopt(found.run(*arrays)[0])
    except Refused:  # the general path repeats the check and goes on
        return None


def _signature(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float | None, gqa: bool
) -> tuple:
    q, k, v = query._array, key._array, value._array
    added = None if mask is None else (mask._array.shape, mask._array.dtype, mask.requires_grad)
    return q.shape, k.shape, v.shape, q.dtype, k.dtype, v.dtype, added, causal, scale, gqa


@per_state(key=_signature, most=4096)
def _checked_call(
    _: State, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float | None,
    gqa: bool,
) -> _Known:  # fmt: skip
    """That of a call, checked: finding it takes 30 us."""
    _check(query, key, value, mask, 0.0, causal, gqa)
    name = select_kernel(SDPAParams(query, key, value, mask, 0.0, causal, gqa, scale))
    dtype = query._array.dtype
    keywords, decided_by = _options(dtype, _scale(query, scale), causal, None)
    specs = [ArraySpec(each._array.shape, dtype) for each in (query, key, value, mask) if each is not None]
    return _Known(name, keywords, decided_by, kernel.first(*specs, prefer=name, **keywords))


def _scale(query: Tensor, scale: float | None) -> float:
    shape = query.shape
    return 1 / math.sqrt(shape[-1] if shape and shape[-1] else 1) if scale is None else float(scale)


def _check(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool, enable_gqa: bool
) -> None:
    for name, switch in (("is_causal", is_causal), ("enable_gqa", enable_gqa)):
        refuse_other_than_bool("scaled_dot_product_attention", name, switch)
    shapes = ", ".join(str(list(each.shape)) for each in (query, key, value))
    if mask is not None and is_causal:
        raise RuntimeError("Explicit attn_mask should not be set when is_causal=True; pass one of the two")
    least = 3 if enable_gqa else 2
    if min(query.ndim, key.ndim, value.ndim) < least:
        raise RuntimeError(f"query, key and value must be at least {least}-D, and their shapes are {shapes}")
    if query.dtype.letter != "f":
        raise refusal_of_dtype("scaled_dot_product_attention", query.dtype, "f")
    if not query.dtype == key.dtype == value.dtype:
        found = ", ".join(repr(each.dtype) for each in (query, key, value))
        raise RuntimeError(f"expected query, key and value to have one floating dtype, but got {found}")
    if not 0 <= dropout_p <= 1:
        raise ValueError(f"dropout_p has to be between 0 and 1, but got {dropout_p}")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise RuntimeError(
            f"query, key and value of shapes {shapes} do not meet; expected (..., L, E), (..., S, E) and (..., S, Ev)"
        )
    if mask is not None and mask._array.dtype not in (np.dtype(bool), query._array.dtype):
        raise RuntimeError(
            f"expected attn_mask of dtype bool, float32 or that of query, {query.dtype!r}, but got "
            f"{dtype_of(mask._array)!r}"
        )
    leading = [each.shape[:-2] for each in (query, key, value)]
    if enable_gqa:
        heads = [each.shape[-3] for each in (query, key, value)]
        if heads[1] != heads[2] or not heads[1] or heads[0] % heads[1]:
            raise RuntimeError(
                "with enable_gqa, heads of query must be a multiple of those of key and value, and they are "
                f"{heads[0]}, {heads[1]} and {heads[2]}"
            )
        leading = [each[:-1] for each in leading]
    try:
        batch = broadcast_shapes(*leading)
        if mask is not None:
            heads_of_query = query.shape[-3:-2] if enable_gqa else ()
            np.broadcast_to(mask._array, (*batch, *heads_of_query, query.shape[-2], key.shape[-2]))
    except ValueError:
        of_mask = "" if mask is None else f", with attn_mask {list(mask.shape)}"
        raise RuntimeError(f"query, key and value of shapes {shapes}{of_mask} do not broadcast") from None


def _options(dtype: np.dtype, scale: float, causal: bool, precision: str | None) -> tuple[dict[str, Any], str]:
    """The kernel's keywords under the current flags, and the origin of the precision."""
    state, call = current(), resolve("attention", dtype, precision)
    decided_by = "; ".join([*cache_decisions(dtype), call.decided_by])
    keywords: dict[str, Any] = {"scale": scale, **call.keywords}
    if dtype.itemsize == 2 and state.read("cuda.fp16_bf16_reduction_math_sdp"):
        keywords["halves"] = True
    if causal:
        keywords["causal"] = True
    off = tuple(kernel for kernel, switch in SWITCHES.items() if not state.read(switch))
    if off:
        keywords["off"] = off
    return keywords, decided_by


def _run(name: str, arrays: tuple, scale: float, causal: bool, precision: str | None, *saved: Any) -> Any:
    """Call the kernel under the current flags, or its backward kernel if `saved` is (out, statistics, g)."""
    keywords, decided_by = _options(arrays[0].dtype, scale, causal, precision)
    if saved:
        return gradient_kernel(*arrays[:3], *saved, *arrays[3:], prefer=name, decided_by=decided_by, **keywords)
    return kernel(*arrays, prefer=name, decided_by=decided_by, **keywords)


class _Fused(Function):
    """A fused kernel, with a fused backward unless the gradients are recorded for further differentiation."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        name: str,
        scale: float,
        causal: bool,
        precision: str | None,
    ) -> Tensor:
        arrays = tuple(each._array for each in (query, key, value, mask) if each is not None)
        out, statistics = _run(name, arrays, scale, causal, None)
        result = adopt(out)
        ctx.save_for_backward(query, key, value, mask, result)
        ctx.call = name, scale, causal, precision, statistics
        return result

    @staticmethod
    @restore_on_failure
    def backward(ctx: Any, g: Tensor) -> tuple:
        query, key, value, mask, out = ctx.saved_tensors
        name, scale, causal, precision, statistics = ctx.call
        if derives():
            with because(f"gradients of {name} attention that are differentiated again are math's"):
                grads = gradients(g, query, key, value, mask, scale, causal, precision)
        else:
            with no_grad():
                arrays = tuple(each._array for each in (query, key, value, mask) if each is not None)
                saved = out._array, statistics, g._array
                dq, dk, dv = _run(name, arrays, scale, causal, precision, *saved)
                grads = adopt(dq), adopt(dk), adopt(dv)
        return (*grads, None, None, None, None, None)
