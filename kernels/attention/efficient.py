"""Memory-efficient attention: as flash attention does it, with a mask, where its loops take a call, and else chunks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..registry import ArraySpec, Refused
from . import chunked, few, flash, gradient, refusals
from .plain import Attended


def attention(*arrays: np.ndarray, **keywords: Any) -> Attended:
    """The result and the statistics of q, k, v[, mask]; in chunks also where values are refused, as by tiles."""
    if few.takes(*arrays[:2], **keywords) or _has_loops(*arrays[:3], **keywords):
        with contextlib.suppress(Refused):
            return flash.attention(*arrays, **keywords)
    return chunked.attention(*arrays, **keywords)


def attention_gradient(*arrays: np.ndarray, **keywords: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients with respect to q, k and v of q, k, v, out, statistics, g[, mask]."""
    if _has_loops(*arrays[:3], **keywords):
        with contextlib.suppress(Refused):
            return gradient.attention_gradient(*arrays, **keywords)
    return chunked.attention_gradient(*arrays, **keywords)


def _has_loops(*arrays: np.ndarray, **keywords: Any) -> bool:
    return refusals.loops(*[ArraySpec(each.shape, each.dtype) for each in arrays], **keywords) is None


def specialise(*specs: ArraySpec, **keywords: Any) -> Callable[..., Attended] | None:
    """`attention` of arrays of these shapes and dtypes, by the short way of flash attention."""
    run = None
    if few.takes(*specs[:2], **keywords) or refusals.loops(*specs[:3], **keywords) is None:
        run = flash.specialise(*specs, **keywords)
    if run is None:
        return None

    def attend(*arrays: np.ndarray) -> Attended:
        with contextlib.suppress(Refused):
            return run(*arrays)
        return chunked.attention(*arrays, **keywords)

    return attend
