"""Scaled dot product attention: softmax(scale * q @ k.T + mask) @ v, and its gradients, by three algorithms.

Call form: `attention(q, k, v[, mask], *, scale, causal=False, precision="ieee", rounding="rna", off=(), halves=False)`
returns an `Attended`: the result, and the statistics of each row of scores for recomputing its weights.
`attention_gradient(q, k, v, out, statistics, g[, mask], ...)`, with the same keywords, returns the gradients with
respect to q, k and v.

q is (batch, heads, L, E), k is (batch, groups, S, E) and v is (batch, groups, S, Ev), where groups divides heads: each
head of k and v serves heads // groups neighbouring heads of q. The mask is added to the scores and broadcasts to
(batch, heads, L, S). With `causal`, row i of the scores uses columns 0 to i. A completely masked row gives zeros.
`math` takes any leading dimensions.

Keywords are omitted if they have their defaults. `precision` and `rounding` apply to float32 products; half types are
multiplied exactly and summed in float32. `off` names implementations that may not run. With `halves`, `math` sums
products of half types in half types, rounding between its steps.

`bound` is the product error of each precision (`precisions.products`). The error of a result is at most that times 1 +
2 max|scale * q @ k.T|, times the largest |v| of its columns, plus the rounding of float32, or of float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..precisions.products import PRODUCT_BOUND
from ..registry import Kernel
from ..runtime.invariance import BOTH
from . import chunked, efficient, flash, gradient, plain, refusals
from .plain import Attended

__all__ = ["Attended", "attention", "attention_gradient", "exact_attention"]


def exact_attention(*arrays: np.ndarray, **keywords: Any) -> Attended:
    """By the plain algorithm in float64."""
    kept = {name: keywords[name] for name in ("scale", "causal") if name in keywords}
    return plain.attention(*[each.astype(np.float64) for each in arrays], **kept)


def _exact_gradient(*arrays: np.ndarray, **keywords: Any) -> tuple:
    kept = {name: keywords[name] for name in ("scale", "causal") if name in keywords}
    return chunked.attention_gradient(*[each.astype(np.float64) for each in arrays], **kept)


attention = Kernel("attention", reference=exact_attention, bound=PRODUCT_BOUND)
attention_gradient = Kernel("attention_gradient", reference=_exact_gradient, bound=PRODUCT_BOUND)


attention.impl("flash", refuses=refusals.flash, specialise=flash.specialise)(flash.attention)
attention.impl("efficient", refuses=refusals.efficient, specialise=efficient.specialise)(efficient.attention)
attention.impl("math", refuses=refusals.plain, by_unit=True, scales=True, keeps=BOTH)(plain.attention)
attention_gradient.impl("flash", refuses=refusals.flash_gradient)(gradient.attention_gradient)
attention_gradient.impl("efficient")(efficient.attention_gradient)
