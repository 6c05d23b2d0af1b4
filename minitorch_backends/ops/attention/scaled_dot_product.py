"""Scaled dot product attention: which kernel runs it, and its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...autograd.api import grad
from ...autograd.modes import derives, enable_grad, grad_mode, is_grad_enabled, no_grad
from ...backends import precision_policy
from ...backends.attention import SWITCHES, SDPAParams, select_kernel
from ...backends.operands import act_on
from ...backends.precision_policy import resolve
from ...dispatch.op import Array, composite, op
from ...dispatch.promotion import refusal_of_dtype
from ...flags import State, current, per_state
from ...kernels import registry
from ...kernels.attention import Attended
from ...kernels.attention import attention as kernel
from ...kernels.attention import attention_gradient as gradient_kernel
from ...kernels.registry import ArraySpec, Refused
from ...kernels.runtime.context import because, restore_on_failure
from ...kernels.runtime.shapes import broadcast_shapes
from ...tensor.dtypes import to_dtype
from ...tensor.tensor import Tensor, adopt, kind_of
from ..functional import functional
from ..gradients import counts
from .composed import BY_ROLE, apply_roles, attention_of_ops, cache_decisions, gradients

_mode = grad_mode.get
_FLOAT32 = np.dtype(np.float32)


@functional
@composite(method=False, takes="f", stateful=True, product="matmul", autocast="lower", batch="attend")
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
    given: tuple[Any, ...] = (query, key, value)
    if not all(isinstance(each, Tensor) for each in given):
        found = ", ".join(map(kind_of, given))
        raise TypeError(f"query, key and value must be Tensors, but they are {found}; convert arrays by from_numpy()")
    scale, composed = None if scale is None else float(scale), False
    if precision_policy.by_role:
        key, value, composed = apply_roles(query, key, value)
    if attn_mask is not None:
        attn_mask = additive_mask(attn_mask, query._array.dtype)
    if not query._array.shape == key._array.shape == value._array.shape:
        query = _in_common_batch(query, key, value, 3 if enable_gqa else 2)
    inputs = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
    chosen = None
    if dropout_p != 0 or composed:
        check([each._array for each in inputs], dropout_p, is_causal, enable_gqa)
        if not composed:
            select_kernel(SDPAParams(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa, scale))
        factor, precision = scale_of(query.shape, scale), BY_ROLE if composed else None
        return attention_of_ops(query, key, value, attn_mask, factor, is_causal, dropout_p, precision)
    if is_grad_enabled() and any(each.requires_grad for each in inputs):  # backward may run under other flags
        of_mask = attn_mask is not None and attn_mask.requires_grad
        chosen = prepare(*specs([each._array for each in inputs]), is_causal, scale, enable_gqa, None, of_mask).kernel
    return attend(query, key, value, attn_mask, is_causal, scale, enable_gqa, chosen).out


def _in_common_batch(query: Tensor, key: Tensor, value: Tensor, own: int) -> Tensor:
    """Expand the query, except its `own` last dimensions, to the batch of the result. Shapes that do not broadcast are
    left for `check` to reject."""
    leading = [each._array.shape[:-own] for each in (query, key, value)]
    if leading[0] == leading[1] == leading[2]:
        return query
    try:
        batch = broadcast_shapes(*leading)
    except ValueError:
        return query
    return query.expand(*batch, *query.shape[-own:]) if query.ndim >= own else query


def additive_mask(mask: Tensor, dtype: np.dtype) -> Tensor:
    """A mask as an addend to scores of a dtype: minus infinity for what a boolean mask excludes."""
    own = mask._array.dtype
    if own == dtype:
        return mask
    if own.kind == "b":
        return adopt(np.where(mask._array, dtype.type(0), dtype.type(-np.inf)))
    if own != _FLOAT32:
        raise RuntimeError(
            f"expected attn_mask of dtype bool, float32 or that of query, {to_dtype(dtype)!r}, but got {mask.dtype!r}"
        )
    return mask.to(to_dtype(dtype))


def scale_of(query: tuple[int, ...], scale: float | None) -> float:
    """The factor of the scores, where that of a call is None by the shape of the query."""
    return 1 / math.sqrt(query[-1] if query and query[-1] else 1) if scale is None else scale


def check(inputs: Sequence[Any], dropout_p: float, is_causal: bool, enable_gqa: bool) -> None:
    """Reject calls that no kernel and no composition of ops can compute."""
    query, key, value, mask = inputs if len(inputs) == 4 else (*inputs, None)
    shapes = ", ".join(str(list(each.shape)) for each in (query, key, value))
    if mask is not None and is_causal:
        raise RuntimeError("Explicit attn_mask should not be set when is_causal=True; pass one of the two")
    least = 3 if enable_gqa else 2
    if min(query.ndim, key.ndim, value.ndim) < least:
        raise RuntimeError(f"query, key and value must be at least {least}-D, and their shapes are {shapes}")
    dtypes = [to_dtype(each.dtype) for each in (query, key, value)]
    if dtypes[0].letter != "f":
        raise refusal_of_dtype("scaled_dot_product_attention", dtypes[0], "f")
    if not query.dtype == key.dtype == value.dtype:
        found = ", ".join(map(repr, dtypes))
        raise RuntimeError(f"expected query, key and value to have one floating dtype, but got {found}")
    if not 0 <= dropout_p <= 1:
        raise ValueError(f"dropout_p has to be between 0 and 1, but got {dropout_p}")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise RuntimeError(
            f"query, key and value of shapes {shapes} do not meet; expected (..., L, E), (..., S, E) and (..., S, Ev)"
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
            target = (*batch, *heads_of_query, query.shape[-2], key.shape[-2])
            if broadcast_shapes(mask.shape, target) != target:
                raise ValueError("more dimensions or larger ones")
    except ValueError:
        of_mask = "" if mask is None else f", with attn_mask {list(mask.shape)}"
        raise RuntimeError(f"query, key and value of shapes {shapes}{of_mask} do not broadcast") from None


class Call(NamedTuple):
    """A call under the flags of a state: the kernel that it prefers, and the function of the arrays that runs it."""

    kernel: str
    run: Callable[..., Attended]


@per_state(most=4096)
def prepare(
    state: State,
    shapes: tuple[tuple[int, ...], ...],
    dtypes: tuple[np.dtype, ...],
    causal: bool,
    scale: float | None,
    gqa: bool,
    kernel_name: str | None = None,
    of_mask: bool = False,
    in_backward: bool = False,
) -> Call:
    """The call for arrays of these shapes, checked: both take longer than the kernel for small ones."""
    arrays = list(map(ArraySpec, shapes, dtypes))
    check(arrays, 0.0, causal, gqa)
    q, k, v, mask = arrays if len(arrays) == 4 else (*arrays, None)
    name = kernel_name or select_kernel(SDPAParams(q, k, v, mask, 0.0, causal, gqa, scale), of_mask)
    keywords, decided_by = options(dtypes[0], scale_of(shapes[0], scale), causal, None)
    first = kernel.first(*arrays, prefer=name, **keywords)

    def run(*arrays: np.ndarray) -> Attended:
        if not registry.observing and first is not None:
            try:
                return first(*arrays)
            except Refused:  # the general way repeats the check and goes on
                pass
        return kernel(*arrays, prefer=name, decided_by=decided_by, **keywords)

    return Call(name, run)


def options(dtype: np.dtype, scale: float, causal: bool, precision: str | None) -> tuple[dict[str, Any], str]:
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


# The op


def run_backward(
    name: str, inputs: Sequence[np.ndarray], saved: tuple[np.ndarray, np.ndarray, np.ndarray], scale: float,
    causal: bool, precision: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The gradients by the fused kernel, from the result, the statistics and the gradient of the result."""
    keywords, decided_by = options(inputs[0].dtype, scale, causal, precision)
    return gradient_kernel(*inputs[:3], *saved, *inputs[3:], prefer=name, decided_by=decided_by, **keywords)


def _gradients(
    g: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, out: Any, is_causal: bool,
    scale: float | None, enable_gqa: bool, kernel_name: str | None, precision: Any, edges: tuple,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """By the fused kernel; by ops where they are differentiated again, of a mask, and of a kernel that has none."""
    inputs = [each for each in (query, key, value, mask) if each is not None]
    arrays, factor = [each._array for each in inputs], scale_of(query.shape, scale)
    name = kernel_name or prepare(*specs(arrays), is_causal, scale, enable_gqa).kernel
    for_out, for_statistics = g
    if derives():
        with because(f"gradients of {name} attention that are differentiated again are math's"):
            return gradients(for_out, for_statistics, inputs, factor, is_causal, precision)
    if name == "math" or edges[3] is not None or counts(for_statistics):
        return gradients(for_out, for_statistics, inputs, factor, is_causal, precision)
    saved = out[0]._array, out[1]._array, for_out._array
    return (*map(adopt, run_backward(name, arrays, saved, factor, is_causal, precision)), None)


def specs(arrays: Sequence[np.ndarray]) -> tuple[tuple, tuple]:
    return tuple([each.shape for each in arrays]), tuple([each.dtype for each in arrays])


@op(
    name=("attend", "scaled_dot_product_attention"),
    takes="f",
    traits="function unwidened",
    product="matmul",
    gradients=_gradients,
    batch="loop: a fixed number of dimensions",
)
def attend(
    query: Array, key: Array, value: Array, mask: Array | None = None, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False, kernel_name: str | None = None, *,
    precision: str | None = None,
) -> Attended:  # fmt: skip
    """Attention by a kernel, with the statistics of its rows; the mask has the dtype of the query.

    `kernel_name` is the kernel that is tried first, also for gradients; None leaves the choice to the flags. The
    `precision` is that of gradients, which nodes record.
    """
    arrays = (query, key, value) if mask is None else (query, key, value, mask)
    shapes, dtypes = specs(arrays)
    return prepare(shapes, dtypes, is_causal, scale, enable_gqa, kernel_name, False, _mode().backward).run(*arrays)


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
