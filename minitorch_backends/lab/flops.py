"""Operations of kernel calls, by the usual counts: two for each multiplication whose product is added up.

Those of factorisations are the leading terms of LAPACK Working Note 41, for matrices with at least as many rows as
columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..kernels.registry import Call


def flops_of(call: Call) -> int:
    """Count the operations of a call; 0 for kernels other than products, recurrences and solvers."""
    count = _COUNTS.get(call.kernel)
    return count(call) if count is not None else 0


def _result(call: Call) -> tuple[int, ...]:
    return getattr(call.result, "shape", ())


def _matmul(call: Call) -> int:
    return 2 * math.prod(_result(call)) * (call.shapes[0][-1] if call.shapes[0] else 1)


def _attention(call: Call) -> int:
    """Of two products; the gradient makes five."""
    (*batch, queries, width), keys, of_values = call.shapes[0], call.shapes[1][-2], call.shapes[2][-1]
    scores, values = width, of_values
    if call.kernel == "attention_gradient":
        scores, values = 3 * width, 2 * of_values
    return 2 * math.prod(batch) * queries * keys * (scores + values)


def _recurrence(call: Call) -> int:
    """Of the product of the state with its weight in each step; the others are calls of matmul."""
    steps, batch = call.shapes[0][:2]
    return 2 * steps * batch * math.prod(call.shapes[1])


def _solver(count: Callable[[int, int, int], float]) -> Callable[[Call], int]:
    """A count by rows, columns and right sides, for a batch of matrices."""

    def flops(call: Call) -> int:
        *batch, rows, columns = call.shapes[0]
        sides = call.shapes[1][-1] if len(call.shapes) > 1 and len(call.shapes[1]) > 1 else 1
        return round(math.prod(batch) * count(rows, columns, sides))

    return flops


_COUNTS: dict[str, Callable[[Call], int]] = {
    **dict.fromkeys(("matmul", "addmm", "linear", "half_matmul", "scaled_matmul"), _matmul),
    "conv": lambda call: 2 * math.prod(_result(call)) * math.prod(call.shapes[1][1:]),
    "conv_input_gradient": lambda call: 2 * math.prod(call.shapes[0]) * math.prod(call.shapes[1][1:]),
    "conv_weight_gradient": lambda call: 2 * math.prod(call.shapes[1]) * math.prod(_result(call)[1:]),
    **dict.fromkeys(("attention", "attention_gradient"), _attention),
    **dict.fromkeys(("recurrence", "recurrence_gradient"), _recurrence),
    "cholesky": _solver(lambda m, n, k: n**3 / 3),
    "lu_factor": _solver(lambda m, n, k: m * n**2 - n**3 / 3),
    "solve": _solver(lambda m, n, k: 2 * n**3 / 3 + 2 * n**2 * k),
    "inv": _solver(lambda m, n, k: 2 * n**3),
    "qr": _solver(lambda m, n, k: 4 * m * n**2 - 4 * n**3 / 3),
    "lstsq": _solver(lambda m, n, k: 2 * m * n**2 - 2 * n**3 / 3 + 4 * m * n * k - n**2 * k),
    "triangular_solve": _solver(lambda m, n, k: n**2 * k),
    "cholesky_solve": _solver(lambda m, n, k: 2 * n**2 * k),
}
