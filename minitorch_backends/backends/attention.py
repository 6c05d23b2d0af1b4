"""Flags of the attention kernels, and the choice of the kernel that runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..flags import assign, current
from ..flags.writes import Flags, expand_paths
from ..kernels.attention import attention as attention_kernel
from ..kernels.registry import ArraySpec
from ..kernels.runtime.context import warn_caller
from .libraries import ATTENTION_KERNELS, SDPBackend
from .precision_policy import resolve

SWITCHES = {
    "flash": "cuda.flash_sdp",
    "efficient": "cuda.mem_efficient_sdp",
    "math": "cuda.math_sdp",
    "cudnn": "cuda.cudnn_sdp",
}
"""For each attention kernel, the flag that allows it."""

_BACKENDS = {
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "efficient",
    SDPBackend.MATH: "math",
    SDPBackend.CUDNN_ATTENTION: "cudnn",
}


def switch(kernel: str, enabled: bool) -> None:
    """Allow or forbid an attention kernel. Raises RuntimeError for values other than True and False."""
    assign({SWITCHES[kernel]: enabled}, "cuda")


class SDPAParams(NamedTuple):
    """The arguments of a scaled dot product attention call, for the `can_use_*` functions.

    `scale` is an addition of this engine; torch's class does not have it.
    """

    query: Any
    key: Any
    value: Any
    attn_mask: Any
    dropout: float
    is_causal: bool
    enable_gqa: bool
    scale: float | None = None


def has_kernel(kernel: str) -> bool:
    """Whether this engine has the attention kernel."""
    return kernel in attention_kernel.implementations


def can_use(kernel: str, params: SDPAParams, debug: bool) -> bool:
    """Whether a kernel is allowed and supports the call; with `debug`, a UserWarning gives the reason against it."""
    if not isinstance(params, SDPAParams):
        raise TypeError(f"can_use_{kernel}_attention(): params must be SDPAParams, got {type(params).__name__}")
    sentence = refusal(kernel, params)
    if sentence is not None and debug:
        warn_caller(f"{kernel} attention is not used: {sentence}")
    return sentence is None


def refusal(kernel: str, params: SDPAParams, of_mask: bool = False) -> str | None:
    """The reason why a kernel does not take a call under the current flags, or None if it does."""
    if not current().read(SWITCHES[kernel]):
        return f"{SWITCHES[kernel]} = False"
    if not has_kernel(kernel):
        return "this engine does not have the kernel, which is a library for NVIDIA GPUs"
    given = [params.query, params.key, params.value, *([] if params.attn_mask is None else [params.attn_mask])]
    specs = tuple(ArraySpec(tuple(each.shape), getattr(each, "_array", each).dtype) for each in given)
    keywords: dict[str, Any] = {
        "causal": params.is_causal,
        "gqa": params.enable_gqa,
        "dropout": params.dropout,
        "mask_needs_gradient": of_mask or getattr(params.attn_mask, "requires_grad", False),
    }
    if params.scale is not None:
        keywords["scale"] = params.scale
    keywords |= resolve("attention", specs[0].dtype).keywords
    return attention_kernel.implementations[kernel].refusal(specs, keywords)


def select_kernel(params: SDPAParams, of_mask: bool = False) -> str:
    """The first kernel in the order of `cuda.sdp_priority` that takes the call.

    Raises RuntimeError with the reasons of all kernels if none does.
    """
    refusals, read = [], current().read
    if not any(map(read, SWITCHES.values())):
        raise RuntimeError(
            f"No viable backend for scaled_dot_product_attention was found: {', '.join(SWITCHES.values())} are all "
            "False; set one of them to True, or leave the scope that allows none"
        )
    for kernel in current().read("cuda.sdp_priority").split(","):
        sentence = refusal(kernel, params, of_mask)
        if sentence is None:
            return kernel
        refusals.append(f"{kernel}: {sentence}")
    raise RuntimeError(f"No available kernel. Aborting execution. {'; '.join(refusals)}")


def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Flags:
    """Allow some attention kernels and forbid the others while a block runs. Deprecated in torch: use `sdpa_kernel`."""
    warn_caller("backends.cuda.sdp_kernel() is deprecated, as in torch; use nn.attention.sdpa_kernel()", FutureWarning)
    return _only(
        name
        for name, enabled in zip(
            ATTENTION_KERNELS, (enable_flash, enable_mem_efficient, enable_math, enable_cudnn), strict=True
        )
        if enabled
    )


def sdpa_kernel(backends: SDPBackend | list[SDPBackend], set_priority: bool = False) -> Flags:
    """Restrict attention to these kernels, as a context manager or a decorator.

    With `set_priority` they are also tried in this order, before the others. As in torch, raises AssertionError for
    values other than an SDPBackend or a list.
    """
    if not isinstance(backends, (SDPBackend, list)):
        raise AssertionError(f"sdpa_kernel(): backends must be an SDPBackend or a list of them, got {backends!r}")
    listed = backends if isinstance(backends, list) else [backends]
    chosen = list(dict.fromkeys(_BACKENDS[each] for each in listed if each in _BACKENDS))
    order = current().read("cuda.sdp_priority").split(",")
    priority = [*chosen, *(name for name in order if name not in chosen)] if set_priority else order
    return _only(chosen, {"cuda.sdp_priority": ",".join(priority)} if set_priority else {})


class _Kernels(Flags):
    """A scope of attention kernels whose context value is an empty dictionary, as in torch."""

    __slots__ = ()

    def __enter__(self) -> dict[str, Any]:
        super().__enter__()
        return {}


def _only(allowed: Iterable[str], others: dict[str, Any] | None = None) -> Flags:
    allowed = set(allowed)
    return _Kernels(expand_paths({path: name in allowed for name, path in SWITCHES.items()} | (others or {})))
