"""Products of half operands whose sums are rounded along the way, as a GPU may round them.

Call form: `half_matmul(a, b, *, sums)`, where a is (..., m, k), b is (..., k, n), both float16 or both bfloat16; batch
dimensions broadcast; the result has the operands' dtype. Products are exact. `sums` determines where the sums over k
are rounded to that dtype, to nearest even:

* "half": after each block of `BLOCK` products, as tensor cores with float16 accumulators do (M. Fasi, N. J. Higham, M.
  Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science 7:e330).
* "parts": after each part of `PART` products; the parts are then added in float32. This is cuBLAS's split-K with
  reductions in the output type. The number of parts in cuBLAS is not documented, and depends on its heuristics.

An error relative to the sum of the magnitudes of the products is at most the dtype's unit times the number of
roundings;
`bound` holds that for one.
"""

from __future__ import annotations

import numpy as np

from ..registry import Kernel, without_observers
from ..runtime.context import restore_on_failure
from ..runtime.errstate import restore, silence
from ..runtime.first_use import calls_blas
from ..runtime.invariance import BOTH, is_demanded

BLOCK = 16
"""Products between two roundings of a float16 accumulator: k of the instruction mma.m16n8k16."""

PART = 1024
"""Products of one part of a sum."""

_FLOAT32 = np.dtype(np.float32)


def _exact(a: np.ndarray, b: np.ndarray, *, sums: str = "half") -> np.ndarray:
    return np.matmul(a.astype(np.float64), b.astype(np.float64))


half_matmul = Kernel("half_matmul", reference=_exact, bound={"half": 2.0**-11, "parts": 2.0**-8})


@half_matmul.impl("blas", keeps=BOTH)
@calls_blas
def _by_blas(a: np.ndarray, b: np.ndarray, *, sums: str = "half") -> np.ndarray:
    """Each block or part as a float32 product by NumPy's BLAS, which is exact but for 2**-24 of its sum."""
    if sums not in ("half", "parts"):
        raise ValueError(f"half_matmul: sums={sums!r} is unknown; expected 'half' or 'parts'")
    step, k = BLOCK if sums == "half" else PART, a.shape[-1]
    multiply = _in_fixed_order if is_demanded() else np.matmul
    token = silence()
    try:
        wide_a, wide_b = a.astype(_FLOAT32), b.astype(_FLOAT32)
        total = multiply(wide_a[..., :step], wide_b[..., :step, :]).astype(a.dtype).astype(_FLOAT32)
        for start in range(step, k, step):
            block = multiply(wide_a[..., start : start + step], wide_b[..., start : start + step, :])
            if sums == "half":
                total = (total + block).astype(a.dtype).astype(_FLOAT32)
            else:
                total += block.astype(a.dtype)
        return total.astype(a.dtype)
    finally:
        restore(token)


@restore_on_failure
def _in_fixed_order(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    from . import matmul

    with without_observers():
        return matmul(a, b)
