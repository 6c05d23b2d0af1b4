"""The reasons for which each attention kernel rejects a call, as sentences.

They follow PyTorch's filters (`sdp_utils.cpp`, for CUDA) where their reasons apply to this engine: strides, alignment
and whether a gradient is needed do not matter here.
"""

from __future__ import annotations

from typing import Any

from ..registry import ArraySpec
from .flash import unit_for

LARGEST_HEAD = 256
"""The head dimension that flash takes at most: one step of the products along it."""

_DTYPES = ("float32", "bfloat16", "float16", "float64")


_LEAST_SCALE, _LARGEST_SCALE = 1e-37, 1e38
"""With a factor of log2(e) still normal numbers of float32."""


def _switched_off(name: str, off: tuple[str, ...]) -> str | None:
    return f"{name} attention is switched off" if name in off else None


def _shapes(q: ArraySpec, k: ArraySpec, v: ArraySpec, gqa: bool) -> str | None:
    """What neither fused kernel takes."""
    if not q.ndim == k.ndim == v.ndim == 4:
        return (
            "all fused kernels require query, key and value to be 4 dimensional, and they have "
            f"{q.ndim}, {k.ndim} and {v.ndim} dimensions"
        )
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        sizes = ", ".join(str(each.shape[0]) for each in (q, k, v))
        return f"both fused kernels require query, key and value to have the same batch_size, and theirs are {sizes}"
    heads, groups = q.shape[1], k.shape[1]
    if groups != v.shape[1] or (heads != groups and (not gqa or not groups or heads % groups)):
        sizes = ", ".join(str(each.shape[1]) for each in (q, k, v))
        cure = "enable_gqa=True needs heads of query that are a multiple of theirs" if gqa else "see enable_gqa"
        return (
            "both fused kernels require query, key and value to have the same num_heads, and theirs are "
            f"{sizes}; {cure}"
        )
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        return f"query, key and value of shapes {list(q.shape)}, {list(k.shape)} and {list(v.shape)} do not meet"
    if 0 in q.shape or 0 in k.shape or 0 in v.shape:
        return "both fused kernels do not support zero seq_len_q or seq_len_kv, nor other sizes of 0"
    return None


def _common(q: ArraySpec, k: ArraySpec, v: ArraySpec, gqa: bool, dropout: float) -> str | None:
    if q.dtype.name not in _DTYPES or not q.dtype == k.dtype == v.dtype:
        found = ", ".join(each.dtype.name for each in (q, k, v))
        return f"expected query, key and value to all be of one dtype of {{{', '.join(_DTYPES)}}}, got {found}"
    if dropout:
        return f"both fused kernels do not support non-zero dropout, and dropout_p is {dropout}"
    return _shapes(q, k, v, gqa)


def flash(
    q: ArraySpec, k: ArraySpec, v: ArraySpec, mask: ArraySpec | None = None, *, causal: bool = False, gqa: bool = True,
    dropout: float = 0.0, scale: float = 1.0, precision: str = "ieee", off: tuple[str, ...] = (), **_: Any,
) -> str | None:  # fmt: skip
    """Why the flash kernel does not take a call."""
    refused = _switched_off("flash", off) or _common(q, k, v, gqa, dropout)
    if refused is not None:
        return refused
    if mask is not None:
        return "flash attention does not support a non-null attn_mask; the memory-efficient kernel does"
    return loops(q, k, v, causal=causal, scale=scale, precision=precision)


def loops(
    q: ArraySpec, k: ArraySpec, v: ArraySpec, *, causal: bool = False, scale: float = 1.0, precision: str = "ieee",
    **_: Any,
) -> str | None:  # fmt: skip
    """Why the loops of flash attention, which the memory-efficient kernel uses as well, do not take a call."""
    if q.shape[-1] != v.shape[-1] or q.shape[-1] > LARGEST_HEAD:
        return (
            "flash attention requires q, k, v to have the same last dimension and it to be less than or equal to "
            f"{LARGEST_HEAD}, and theirs are {q.shape[-1]}, {k.shape[-1]} and {v.shape[-1]}"
        )
    if unit_for(q.dtype, precision) is None:
        return f"flash attention has no loops for {q.dtype.name} at {precision} on this CPU"
    if not _LEAST_SCALE <= abs(scale) <= _LARGEST_SCALE:
        return f"flash attention compares scores before they are scaled, which scale={scale} does not allow"
    if causal and q.shape[-2] != k.shape[-2]:
        return (
            "flash attention does not support the is_causal flag when seqlen_q != seqlen_k, and they are "
            f"{q.shape[-2]} and {k.shape[-2]}"
        )
    return None


def flash_gradient(
    q: ArraySpec, k: ArraySpec, v: ArraySpec, out: ArraySpec, statistics: ArraySpec, g: ArraySpec,
    mask: ArraySpec | None = None, **keywords: Any,
) -> str | None:  # fmt: skip
    """Why the flash kernel does not take the gradients of a call."""
    return flash(q, k, v, mask, **keywords)


def efficient(
    q: ArraySpec, k: ArraySpec, v: ArraySpec, mask: ArraySpec | None = None, *, gqa: bool = True, dropout: float = 0.0,
    mask_needs_gradient: bool = False, off: tuple[str, ...] = (), **_: Any,
) -> str | None:  # fmt: skip
    """Why the memory-efficient kernel does not take a call."""
    refused = _switched_off("efficient", off) or _common(q, k, v, gqa, dropout)
    if refused is None and mask_needs_gradient:
        return "the memory-efficient kernel has no gradient with respect to attn_mask, which requires one"
    return refused


def plain(*_: ArraySpec, off: tuple[str, ...] = (), **__: Any) -> str | None:
    """Why the plain kernel does not take a call: only where it may not."""
    return _switched_off("math", off)
