"""The gradients of flash attention: scores are made again, with the same bits where vector units make them, and weights
from them and the statistics of the rows."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..gemm.compiled import working_dtype
from ..registry import ArraySpec
from ..runtime import threading
from ..runtime.workspace import address_of, return_workspace, take_workspace
from .flash import WEIGHTS, check, plan_for, spread, summed_at_once

if TYPE_CHECKING:
    from ..block.plans import Plan
    from .loops import Layout, Operand, Shape

_ROWS, _COLUMNS = 128, 512
"""Number of scores held at once, rounded down to the microkernel's tile: 256 KiB, or 512 KiB for float64."""

_ONE = struct.unpack("<q", struct.pack("<d", 1.0))[0]


def _operand(plan: Plan, is_a: bool, array: ArraySpec, strides: tuple[int, ...], line_axis: int) -> Operand:
    """An array of (batch, heads, ., .) as an operand with lines along one of its last axes, K along the other."""
    from ..block import plans
    from .loops import Operand

    k_axis, (batch, head) = 5 - line_axis, strides[:2]
    lines, steps = (array.shape[line_axis], array.shape[k_axis]), (strides[line_axis], strides[k_axis])
    side = plans.side(plan, is_a, array.dtype, *lines, *steps)
    return Operand(side.leaf, batch, head, side.line_stride, side.k_stride, side.panel_lines, side.k_bytes, side.step)


def _bytes(operand: Operand, lines: int, depth: int) -> int:
    """As `loops._bytes`."""
    from ..block.plans import up

    return up(-(-lines // operand.panel) * operand.k_bytes * up(depth, operand.step), 64)


def _shape(plan: Plan, shapes: tuple, causal: bool) -> Shape:
    """The sizes of a call, divided into blocks of scores."""
    from .loops import Shape

    kernel = plan.scheme.kernel
    kc = max(kernel.step, min(plan.scheme.kc, 128) // kernel.step * kernel.step)
    whole = math.lcm(kc, kernel.nr)
    rows, columns = max(1, _ROWS // kernel.mr) * kernel.mr, max(1, _COLUMNS // whole) * whole
    (_, heads, length, depth), (_, groups, seen, _) = shapes
    return Shape(
        groups, heads // groups, length, seen, depth, rows, columns, summed_at_once(plan, depth), kc, int(causal)
    )


def _scratch_bytes(plan: Plan, shape: Shape) -> int:
    """Memory for the sums of a product of blocks."""
    kernel = plan.scheme.kernel
    panels = max(
        shape.rows // kernel.mr * -(-max(shape.depth, shape.columns) // kernel.nr),
        -(-shape.columns // kernel.mr) * -(-shape.depth // kernel.nr),
    )
    return panels * kernel.mr * kernel.nr * kernel.size


class _Call(NamedTuple):
    """All that does not depend on addresses."""

    plan: Plan
    run: Callable[..., None]
    """The compiled loops, `loops.differentiate`."""
    layout: Layout
    tasks: int
    limits_bytes: int
    memory_bytes: int


@functools.lru_cache(1024)
def _prepare(
    dtype: np.dtype, precision: str, rounding: str, scale: float, causal: bool, threads: int, shapes: tuple,
    mask: tuple[np.dtype, tuple[int, ...]] | None, *strides: tuple[int, ...],
) -> _Call:  # fmt: skip
    """For q and k of these shapes, and strides of q, k, v and g, and of the mask where there is one."""
    from ..block import plans
    from ..block.plans import up
    from . import loops

    plan, working = plan_for(dtype, precision, rounding), working_dtype(dtype)
    shape, number, size = _shape(plan, shapes, causal), working.type, working.itemsize
    q, k, v, g = (
        functools.partial(_operand, plan, array=ArraySpec(each, dtype), strides=by)
        for each, by in zip((shapes[0], shapes[1], shapes[1], shapes[0]), strides, strict=True)
    )
    block = (1, 1, shape.rows, shape.columns)
    scores = functools.partial(
        _operand, plan, array=ArraySpec(block, working), strides=(0, 0, size * shape.columns, size)
    )
    of_q, of_g, p, p_across = (
        one(is_a=True, line_axis=axis) for one, axis in ((q, 2), (g, 2), (scores, 2), (scores, 3))
    )
    of_k, of_v, k_across, q_across, g_across = (
        one(is_a=False, line_axis=axis) for one, axis in ((k, 2), (v, 2), (k, 3), (q, 3), (g, 3))
    )
    rows, columns, depth, seen = shape.rows, shape.columns, shape.depth, shape.seen
    packed = (
        (of_k, seen, depth), (of_v, seen, depth), (k_across, depth, seen), (of_q, rows, depth), (of_g, rows, depth),
        (q_across, depth, rows), (g_across, depth, rows), (p, rows, columns), (p_across, columns, rows),
    )  # fmt: skip
    needed = sum(_bytes(*each) for each in packed) + 2 * rows * columns * size + up(_scratch_bytes(plan, shape), 64)
    (batch, head, line), factor = (0, 0, 0) if mask is None else mask[1][:3], number(scale if mask is None else 1.0)
    layout = loops.Layout(
        shape, of_q, of_k, of_v, of_g, q_across, k_across, g_across, p, p_across,
        loops.Mask(batch, head, line, number(scale)), plans.block_leaf(plan, working, True, True),
        plans.block_leaf(plan, working, False, True), factor, number(scale), number(math.copysign(math.inf, -factor)),
        _ONE, size * depth, size * math.prod(shapes[0][:3]), needed, size,
    )  # fmt: skip
    limits_bytes = threads * loops.LIMITS
    return _Call(
        plan, loops.differentiate, layout, shapes[0][0] * shape.groups, limits_bytes, limits_bytes + threads * needed
    )


def _dense(mask: np.ndarray, seen: int, dtype: np.dtype) -> np.ndarray:
    """A mask of this dtype whose rows have all of so many values, one after the other."""
    mask = np.broadcast_to(mask, (*mask.shape[:-1], seen)).astype(dtype, copy=False)
    return mask if mask.strides[-1] == mask.itemsize else np.ascontiguousarray(mask)


def _magnitude_limits(limits: np.ndarray, operand: int) -> int:
    """The magnitudes of an operand as `block.ranges` takes them."""
    least, greatest = int(limits[:, operand, 0].min()), int(limits[:, operand, 1].max())
    return greatest << 32 | ((least + 1) & 0xFFFFFFFF)


def attention_gradient(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, out: np.ndarray, statistics: np.ndarray, g: np.ndarray,
    mask: np.ndarray | None = None, *, scale: float, causal: bool = False, precision: str = "ieee",
    rounding: str = "rna", **_: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The gradients with respect to q, k and v. Raises `Refused` for values that tiles do not take."""
    from .loops import LIMITS, Places

    pool, threads = threading.pool()
    working, shapes = working_dtype(q.dtype), (q.shape, k.shape)
    mask = None if mask is None else _dense(mask, k.shape[2], working)
    strides = q.strides, k.strides, v.strides, g.strides
    call = _prepare(q.dtype, precision, rounding, scale, causal, threads, shapes, spread(mask, shapes), *strides)
    grads = [np.zeros(each.shape, working) for each in (q, k, v)]
    means, statistics = _means(out, g, working), np.ascontiguousarray(statistics)
    memory = take_workspace(call.memory_bytes)
    limits = memory[: call.limits_bytes].view(np.uint32).reshape(threads, LIMITS // 128, 2, 16)
    limits[:, :, 0], limits[:, :, 1] = 0xFFFFFFFF, 0
    try:
        at = address_of(memory)
        of_mask = 0 if mask is None else address_of(mask)
        places = Places._make(
            (*map(address_of, (q, k, v, g)), of_mask, *map(address_of, (*grads, statistics, means)),
             at, at + call.limits_bytes)
        )  # fmt: skip
        call.run(pool, threads, call.tasks, call.layout, places)
        if call.plan.finds_magnitudes:
            _refuse_uncertain(call, limits, (q, k, g), grads, abs(scale))
    finally:
        return_workspace(memory)
    dq, dk, dv = (each.astype(q.dtype, copy=False) for each in grads)
    return dq, dk, dv


def _means(out: np.ndarray, g: np.ndarray, working: np.dtype) -> np.ndarray:
    """The sums of out * g of each row, contiguous as loops read them."""
    if out.dtype == working:
        return np.ascontiguousarray(np.einsum("...i,...i->...", out, g, dtype=working))
    return np.ascontiguousarray((out.astype(working) * g.astype(working)).sum(-1))


def _refuse_uncertain(
    call: _Call, limits: np.ndarray, arrays: tuple[np.ndarray, ...], grads: list[np.ndarray], scale: float
) -> None:
    """Refuse values that overflow, or where flushing may lose too much.

    The limit for a score is the rounding error of its weight, for a gradient its own rounding error. A loss in a
    product of g and v changes slopes by that times their weights. The sum of the weights is 1 over the keys of a query,
    and at most the number of queries over those of a key. Zero rows of g have zero rows of dq.
    """
    from ..block import ranges

    certain_from = functools.partial(ranges.certain_from, call.plan.precision)
    (q, k, g), shape = arrays, call.layout.shape
    queries = shape.heads * shape.length
    of_k, of_v, of_q, of_g, of_slopes = (_magnitude_limits(limits, index) for index in range(5))
    if certain_from(shape.depth, of_q, of_k) * scale > 1:
        check(call.plan, (shape.depth, of_q, of_k))
    lost = certain_from(shape.depth, of_g, of_v) * scale
    of_keys, of_queries = (lost * float(np.abs(each).max()) if lost else 0.0 for each in (k, q))
    dq, dk, dv = grads
    ranges.refuse_uncertain(max(certain_from(shape.seen, of_slopes, of_k), of_keys), dq, g)
    ranges.refuse_uncertain(max(certain_from(queries, of_slopes, of_q), of_queries * queries), dk)
    ranges.refuse_uncertain(certain_from(queries, WEIGHTS, of_g), dv)
