"""Operations of kernel calls."""

from __future__ import annotations

import numpy as np

from ..kernels.registry import Call

__all__ = ["flops_of"]


def flops_of(call: Call) -> int:
    """Count two operations for each multiplication that a call adds up; 0 for kernels other than products."""
    shapes, of_result = call.shapes, getattr(call.result, "shape", ())
    if call.kernel in ("matmul", "addmm", "linear", "half_matmul", "scaled_matmul"):
        return 2 * int(np.prod(of_result, dtype=np.int64)) * (shapes[0][-1] if shapes[0] else 1)
    if call.kernel == "conv":
        return 2 * int(np.prod(of_result, dtype=np.int64) * np.prod(shapes[1][1:], dtype=np.int64))
    if call.kernel == "conv_input_gradient":
        return 2 * int(np.prod(shapes[0], dtype=np.int64) * np.prod(shapes[1][1:], dtype=np.int64))
    if call.kernel == "conv_weight_gradient":
        return 2 * int(np.prod(shapes[1], dtype=np.int64) * np.prod(of_result[1:], dtype=np.int64))
    if call.kernel == "attention":
        (*batch, queries, width), keys, of_values = shapes[0], shapes[1][-2], shapes[2][-1]
        return 2 * int(np.prod(batch, dtype=np.int64)) * queries * keys * (width + of_values)
    return 0
