"""The gradients of flash attention: scores are made again, with the same bits where vector units make them, and weights
from them and the statistics of the rows."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..gemm.compiled import working_dtype
from .flash import WEIGHTS, check, plan_for, summed_at_once

if TYPE_CHECKING:
    from ..gemm.plans import Plan
    from .loops import Operand, Shape

__all__ = ["attention_gradient"]

_ROWS, _COLUMNS = 128, 512
"""Scores that are there at once, rounded down to what fits the microkernel: 256 KiB, and 512 of float64."""

_ONE = struct.unpack("<q", struct.pack("<d", 1.0))[0]


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


def _divided(plan: Plan, q: np.ndarray, k: np.ndarray, causal: bool) -> _Blocks:
    from ..gemm import plans
    from .loops import Shape

    kernel, working = plan.scheme.kernel, working_dtype(q.dtype)
    kc = max(kernel.step, min(plan.scheme.kc, 128) // kernel.step * kernel.step)
    whole = math.lcm(kc, kernel.nr)
    rows, columns = max(1, _ROWS // kernel.mr) * kernel.mr, max(1, _COLUMNS // whole) * whole
    _, heads, length, depth = q.shape
    groups, seen = k.shape[1:3]
    summed = summed_at_once(plan, depth)
    shape = Shape(groups, heads // groups, length, seen, depth, rows, columns, summed, kc, int(causal))
    panels = max(
        rows // kernel.mr * -(-max(depth, columns) // kernel.nr), -(-columns // kernel.mr) * -(-depth // kernel.nr)
    )
    return _Blocks(
        shape,
        plans.block_leaf(plan, working, True, True),
        plans.block_leaf(plan, working, False, True),
        panels * kernel.mr * kernel.nr * kernel.size,
    )


def _scores_like(shape: Shape, dtype: np.dtype) -> np.ndarray:
    """No values, only the strides of a block of scores."""
    return np.empty((1, 1, shape.rows, shape.columns), dtype)


def _no_limits(threads: int) -> np.ndarray:
    from .loops import LIMITS

    limits = np.zeros((threads, LIMITS // 128, 2, 16), np.uint32)
    limits[:, :, 0] = 0xFFFFFFFF
    return limits


def _found(limits: np.ndarray, operand: int) -> int:
    """The magnitudes of an operand as `gemm.ranges` takes them."""
    least, greatest = int(limits[:, operand, 0].min()), int(limits[:, operand, 1].max())
    return greatest << 32 | ((least + 1) & 0xFFFFFFFF)


def _dense(mask: np.ndarray | None, seen: int, dtype: np.dtype) -> np.ndarray | None:
    """A mask of this dtype whose rows have all of so many values, one after the other."""
    if mask is None:
        return None
    mask = np.broadcast_to(mask, (*mask.shape[:-1], seen)).astype(dtype, copy=False)
    return mask if mask.strides[-1] == mask.itemsize else np.ascontiguousarray(mask)


def attention_gradient(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    out: np.ndarray,
    statistics: np.ndarray,
    g: np.ndarray,
    mask: np.ndarray | None = None,
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

    plan, (pool, threads) = plan_for(q.dtype, precision, rounding), threading.pool()
    shape, score_leaf, sum_leaf, scratch = _divided(plan, q, k, causal)
    working = working_dtype(q.dtype)
    number = working.type
    scores = _scores_like(shape, working)
    rights = [_operand(plan, False, *each) for each in ((k, 2), (v, 2), (k, 3), (q, 3), (g, 3))]
    lefts = [_operand(plan, True, *each) for each in ((q, 2), (g, 2), (scores, 2), (scores, 3))]
    of_k, of_v, k_across, q_across, g_across = rights
    of_q, of_g, of_p, p_across = lefts
    block, depth = (shape.rows, shape.columns), shape.depth
    needed = (
        _bytes(of_k, shape.seen, depth) + _bytes(of_v, shape.seen, depth) + _bytes(k_across, depth, shape.seen)
        + _bytes(of_q, shape.rows, depth) + _bytes(of_g, shape.rows, depth)
        + _bytes(q_across, depth, shape.rows) + _bytes(g_across, depth, shape.rows)
        + _bytes(of_p, *block) + _bytes(p_across, *block[::-1]) + 2 * scores.nbytes + up(scratch, 64)
    )  # fmt: skip
    grads, limits = [np.zeros(each.shape, working) for each in (q, k, v)], _no_limits(threads)
    means = (
        np.einsum("...i,...i->...", out, g, dtype=working)
        if q.dtype == working
        else (out.astype(working) * g.astype(working)).sum(-1)
    )
    means, statistics = np.ascontiguousarray(means), np.ascontiguousarray(statistics)
    dense, added, factor = _dense(mask, shape.seen, working), loops.Mask(0, 0, 0, 0, number(0)), scale
    if dense is not None:
        batch, head, line = np.broadcast_to(dense, (*q.shape[:3], shape.seen)).strides[:3]
        added, factor = loops.Mask(address_of(dense), batch, head, line, number(scale)), 1.0
    memory = take_workspace(threads * needed)
    try:
        loops.differentiate(
            pool, threads, q.shape[0] * shape.groups, shape, of_q, of_k, of_v, of_g, q_across, k_across, g_across,
            of_p, p_across, added, score_leaf, sum_leaf, number(factor), number(scale),
            number(math.copysign(math.inf, -factor)), _ONE, *map(address_of, grads), working.itemsize * depth,
            address_of(statistics), statistics.strides[0], address_of(means), address_of(memory), needed,
            address_of(limits), working.itemsize,
        )  # fmt: skip
    finally:
        return_workspace(memory)
    k_found, v_found, q_found, g_found, inner_found = (_found(limits, index) for index in range(5))
    check(
        plan,
        (depth, q_found, k_found),
        (depth, g_found, v_found),
        (shape.rows, WEIGHTS, g_found),
        (shape.rows, inner_found, q_found),
        (shape.columns, inner_found, k_found),
    )
    dq, dk, dv = (each.astype(q.dtype, copy=False) for each in grads)
    return dq, dk, dv
