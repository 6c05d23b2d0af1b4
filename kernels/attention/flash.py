"""Flash attention: tiles of scores that never leave the cache, on the packing and the microkernels of the product.

T. Dao et al., "FlashAttention" (2022), with the loop order of its second version: each block of queries goes over all
keys. Scores, statistics and sums are of float32; both products have the precision of the call, so that the weights are
rounded to it before they meet the values, while their sum is of the unrounded ones. Weights below 2**-126 are zero.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import cpu
from ..gemm.compiled import EXACT, ISAS, computed
from ..registry import Refused

if TYPE_CHECKING:
    from ..gemm.plans import Plan
    from .loops import Operand, Shape

__all__ = ["attention", "attention_gradient", "unit_for"]

_ROWS, _COLUMNS = 128, 512
"""Scores that are there at once, rounded down to what fits the microkernel: 256 KiB."""

_FLOAT32 = np.dtype(np.float32)
_SIXTEEN_BITS = {"bfloat16": "bf16", "float16": "fp16"}
_ONE = struct.unpack("<q", struct.pack("<d", 1.0))[0]
_WEIGHTS = 0x3F800000 << 32 | 0x3F800000
"""The magnitudes of weights as `gemm.ranges` takes them: up to 1. Smaller ones may be flushed, at an error that their
sum bounds."""


def unit_for(dtype: np.dtype, precision: str) -> tuple[str, str] | None:
    """The instruction set, and what its loops compute, for operands of a dtype; None where there are no such loops.

    Exact products are left to vector units: tiles would need nine terms, and three parts of each weight.
    """
    wanted = _SIXTEEN_BITS.get(dtype.name, precision)
    if wanted == "fp16" and not cpu.converts_half():
        return None
    for isa in (*(ISAS[1:] if wanted in EXACT else ISAS), "portable"):
        inner = computed(isa, _FLOAT32, wanted)
        if inner is not None and cpu.refusal(isa) is None:
            return isa, inner
    return None


def _plan(dtype: np.dtype, precision: str, rounding: str) -> Plan:
    from ..gemm import plans

    unit = unit_for(dtype, precision)
    if unit is None:
        raise Refused(f"no loops here multiply {dtype.name} at {precision}")
    return plans.plan_for(*unit, rounding, 4)


def _operand(plan: Plan, is_a: bool, array: np.ndarray, line_axis: int) -> Operand:
    """An array of (batch, heads, ., .) as an operand with lines along one of its last axes, K along the other."""
    from ..gemm import plans
    from ..gemm.workspace import address_of
    from .loops import Operand

    k_axis = 5 - line_axis
    lines, strides = (array.shape[line_axis], array.shape[k_axis]), (array.strides[line_axis], array.strides[k_axis])
    side = plans.side(plan, is_a, array.dtype, *lines, *strides)
    panel = side.panel_lines, side.k_bytes, side.step
    batch, head = array.strides[:2]
    return Operand(side.leaf, address_of(array), batch, head, side.line_stride, side.k_stride, *panel)


def _bytes(operand: Operand, lines: int, depth: int) -> int:
    """As `loops._bytes`."""
    from ..gemm.plans import up

    return up(-(-lines // operand.panel) * operand.k_bytes * up(depth, operand.step), 64)


class _Blocks(NamedTuple):
    """A call, divided: its shape and the leaves that multiply."""

    shape: Shape
    score_leaf: int
    sum_leaf: int
    scratch: int


def _divided(plan: Plan, q: np.ndarray, k: np.ndarray, causal: bool, threads: int) -> _Blocks:
    from ..gemm import plans
    from .loops import Shape

    kernel = plan.scheme.kernel
    kc = max(kernel.step, min(plan.scheme.kc, 128) // kernel.step * kernel.step)
    whole = math.lcm(kc, kernel.nr)
    rows, columns = max(1, _ROWS // kernel.mr) * kernel.mr, max(1, _COLUMNS // whole) * whole
    batch, heads, length, depth = q.shape
    groups, seen = k.shape[1:3]
    units = batch * groups
    parts = 1 if units >= 2 * threads else min(-(-4 * threads // units), -(-length // rows))
    shape = Shape(groups, heads // groups, length, seen, depth, depth, rows, columns, kc, parts, int(causal))
    panels = max(
        rows // kernel.mr * -(-max(depth, columns) // kernel.nr), -(-columns // kernel.mr) * -(-depth // kernel.nr)
    )
    return _Blocks(
        shape,
        plans.block_leaf(plan, _FLOAT32, True, True),
        plans.block_leaf(plan, _FLOAT32, False, True),
        panels * kernel.mr * kernel.nr * 4,
    )


def _scores_like(shape: Shape) -> np.ndarray:
    """No memory, only the strides of a block of scores."""
    strides = (0, 0, 4 * shape.columns, 4)
    return np.ndarray(
        (1, 1, shape.rows, shape.columns), _FLOAT32, np.empty(shape.rows * shape.columns, _FLOAT32).data, 0, strides
    )


def _no_limits(threads: int) -> np.ndarray:
    from .loops import LIMITS

    limits = np.zeros((threads, LIMITS // 128, 2, 16), np.uint32)
    limits[:, :, 0] = 0xFFFFFFFF
    return limits


def _found(limits: np.ndarray, operand: int) -> int:
    """The magnitudes of an operand as `gemm.ranges` takes them."""
    least, greatest = int(limits[:, operand, 0].min()), int(limits[:, operand, 1].max())
    return greatest << 32 | ((least + 1) & 0xFFFFFFFF)


def _check(plan: Plan, *products: tuple[int, int, int]) -> None:
    """Refuse operands whose magnitudes tiles do not take; a product is its depth and what was found in its factors."""
    from ..gemm import ranges

    if plan.isa == "amx":
        for product in products:
            sentence = ranges.refusal(plan.precision, *product)
            if sentence is not None:
                raise Refused(sentence)


def attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    scale: float,
    causal: bool = False,
    precision: str = "ieee",
    rounding: str = "rna",
    **_: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """The result and the log-sum-exps. Raises `Refused` for values that tiles do not take."""
    from .. import threading
    from ..gemm.plans import up
    from ..gemm.workspace import address_of, return_workspace, take_workspace
    from . import loops

    plan, (pool, threads) = _plan(q.dtype, precision, rounding), threading.pool()
    shape, score_leaf, sum_leaf, scratch = _divided(plan, q, k, causal, threads)
    of_q, of_k, of_v = _operand(plan, True, q, 2), _operand(plan, False, k, 2), _operand(plan, False, v, 3)
    of_p = _operand(plan, True, _scores_like(shape), 2)
    needed = (
        _bytes(of_k, shape.seen, shape.depth) + _bytes(of_v, shape.width, shape.seen)
        + _bytes(of_q, shape.rows, shape.depth) + _bytes(of_p, shape.rows, shape.columns)
        + 4 * shape.rows * shape.columns + up(scratch, 64)
    )  # fmt: skip
    width = up(v.shape[3], 16)
    sums, limits = np.zeros((*q.shape[:3], width), np.float32), _no_limits(threads)
    largest, total = np.full(q.shape[:3], -np.inf, np.float32), np.zeros(q.shape[:3], np.float32)
    memory = take_workspace(threads * needed)
    try:
        loops.attend(
            pool, threads, q.shape[0] * shape.groups * shape.parts, shape, of_q, of_k, of_v, of_p, score_leaf, sum_leaf,
            np.float32(scale * math.log2(math.e)), np.float32(math.copysign(math.inf, -scale)), _ONE,
            address_of(sums), 4 * width, address_of(largest), address_of(total),
            address_of(memory), needed, address_of(limits),
        )  # fmt: skip
    finally:
        return_workspace(memory)
    _check(plan, (shape.depth, _found(limits, 2), _found(limits, 0)), (shape.seen, _WEIGHTS, _found(limits, 1)))
    with np.errstate(divide="ignore"):
        lse = np.where(total == 0, np.float32(np.inf), largest * np.float32(math.log(2)) + np.log(total))
    out = sums if width == v.shape[3] else np.ascontiguousarray(sums[..., : v.shape[3]])
    return out.astype(q.dtype, copy=False), lse


def attention_gradient(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    out: np.ndarray,
    lse: np.ndarray,
    g: np.ndarray,
    *,
    scale: float,
    causal: bool = False,
    precision: str = "ieee",
    rounding: str = "rna",
    **_: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients with respect to q, k and v. Raises `Refused` for values that tiles do not take."""
    from .. import threading
    from ..gemm.plans import up
    from ..gemm.workspace import address_of, return_workspace, take_workspace
    from . import loops

    plan, (pool, threads) = _plan(q.dtype, precision, rounding), threading.pool()
    shape, score_leaf, sum_leaf, scratch = _divided(plan, q, k, causal, threads)
    scores = _scores_like(shape)
    rights = [_operand(plan, False, *each) for each in ((k, 2), (v, 2), (k, 3), (q, 3), (g, 3))]
    lefts = [_operand(plan, True, *each) for each in ((q, 2), (g, 2), (scores, 2), (scores, 3))]
    of_k, of_v, k_across, q_across, g_across = rights
    of_q, of_g, of_p, p_across = lefts
    block, depth = (shape.rows, shape.columns), shape.depth
    needed = (
        _bytes(of_k, shape.seen, depth) + _bytes(of_v, shape.seen, depth) + _bytes(k_across, depth, shape.seen)
        + _bytes(of_q, shape.rows, depth) + _bytes(of_g, shape.rows, depth)
        + _bytes(q_across, depth, shape.rows) + _bytes(g_across, depth, shape.rows)
        + _bytes(of_p, *block) + _bytes(p_across, *block[::-1]) + 8 * shape.rows * shape.columns + up(scratch, 64)
    )  # fmt: skip
    grads, limits = [np.zeros(each.shape, np.float32) for each in (q, k, v)], _no_limits(threads)
    means = (
        np.einsum("...i,...i->...", out, g, dtype=np.float32)
        if q.dtype == _FLOAT32
        else (out.astype(np.float32) * g.astype(np.float32)).sum(-1)
    )
    logarithms = np.ascontiguousarray(lse * np.float32(math.log2(math.e)))
    memory = take_workspace(threads * needed)
    try:
        loops.differentiate(
            pool, threads, q.shape[0] * shape.groups, shape, of_q, of_k, of_v, of_g, q_across, k_across, g_across,
            of_p, p_across, score_leaf, sum_leaf, np.float32(scale * math.log2(math.e)), np.float32(scale),
            np.float32(math.copysign(math.inf, -scale)), _ONE, *map(address_of, grads), 4 * depth,
            address_of(logarithms), address_of(np.ascontiguousarray(means)), address_of(memory), needed,
            address_of(limits),
        )  # fmt: skip
    finally:
        return_workspace(memory)
    k_found, v_found, q_found, g_found, inner_found = (_found(limits, index) for index in range(5))
    _check(
        plan,
        (depth, q_found, k_found),
        (depth, g_found, v_found),
        (shape.rows, _WEIGHTS, g_found),
        (shape.rows, inner_found, q_found),
        (shape.columns, inner_found, k_found),
    )
    dq, dk, dv = (each.astype(q.dtype, copy=False) for each in grads)
    return dq, dk, dv
