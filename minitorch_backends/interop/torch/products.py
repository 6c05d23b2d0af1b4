"""Matrix products."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from ...autograd.half_types import product_precision, rounding_once
from ...nn import functional as F
from ...ops import addbmm, addmm, addmv, baddbmm, bmm, dot, einsum, matmul, mm, mv, vdot
from ...tensor.tensor import Tensor
from .table import runs

for _function in (mm, bmm, mv, dot, vdot, matmul, addmm, addmv, addbmm, baddbmm):
    runs(_function.__name__)(_function)
runs("linear")(F.linear)


@runs("_addmm_activation")
def _addmm_activation(
    input: Tensor, first: Tensor, second: Tensor, *, beta: Any = 1, alpha: Any = 1, use_gelu: bool = False
) -> Tensor:
    out = addmm(input, first, second, beta=beta, alpha=alpha)
    return F.gelu(out) if use_gelu else F.relu(out)


@runs("_trilinear")
def _trilinear(
    first: Tensor,
    second: Tensor,
    third: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    """The sum over the dimensions `sumdim` of the product of three tensors, after `unsqueeze` at `expand`."""
    dims = string.ascii_letters[: first.ndim + len(expand1)]
    operands = [
        "".join(label for place, label in enumerate(dims) if place not in expand)
        for expand in (expand1, expand2, expand3)
    ]
    kept = "".join(label for place, label in enumerate(dims) if place not in sumdim)
    return _sums(f"{','.join(operands)}->{kept}", first, second, third, product_precision(first))


@rounding_once
def _sums(equation: str, first: Tensor, second: Tensor, third: Tensor, precision: str | None) -> Tensor:
    return einsum(equation, first, second, third, precision=precision)
