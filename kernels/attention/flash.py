"""Flash attention: tiles of scores stay in the cache, on the packing and the microkernels of the product.

T. Dao et al., "FlashAttention" (2022), with the loop order of its second version: each block of queries iterates over
all
keys. Scores, statistics and sums are float32, or float64 for float64. Both products run at the precision of the call:
the weights are rounded to it before the second product, but their sum uses the unrounded ones. Weights below 2**-125
(2**-1021 in float64) are zero. `few.py` handles few queries.
"""

from __future__ import annotations

import contextlib
import functools
import math
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..gemm.compiled import ISAS, computed_by_panels, passed_over, working_dtype
from ..precisions.products import OF_HALF, is_exact
from ..registry import ArraySpec, Refused
from ..runtime import cpu, threading
from ..runtime.workspace import DATA_FOLLOWS_HEADER, HEADER, address_of, empty, return_workspace, take_workspace
from . import few
from .plain import Attended

if TYPE_CHECKING:
    from ..block.plans import Plan

_QUERIES, _KEYS = 256, 128
"""Queries of a block and keys of a stretch, rounded to what fits the microkernel."""

_SUMMED, _SUMMED_BESIDE_TILES = 64, 32
"""Products of a score that vector units sum before the sum is added to others. One sum of all 64 of a usual head has an
error 1.3 times as large, and more than 1.5 times that of scores by exact products on tiles, which `math` has where the
CPU has them. Sums of 32 cost 1 to 2 % of the time on AVX-512, 3 to 5 % on AVX2, whose blocks are smaller."""

_LAYOUTS_KEPT = 64
"""Maximum number of cached stride combinations per pair of shapes."""

_LOG2_E = math.log2(math.e)
_BITS = {4: (struct.Struct("<f"), struct.Struct("<I")), 8: (struct.Struct("<d"), struct.Struct("<q"))}
WEIGHTS = 0x3F800000 << 32 | 0x3F800000
"""The magnitudes of weights as `block.ranges` takes them: up to 1. Smaller ones may be flushed, at an error that their
sum bounds."""


def unit_for(dtype: np.dtype, precision: str) -> tuple[str, str] | None:
    """The instruction set and the element format of the loops for a dtype; None without such loops.

    Exact products use vector units: tiles would need eight terms, and three parts of each weight.
    """
    wanted = OF_HALF.get(dtype.name, precision)
    for isa in ISAS[1:] if is_exact(wanted) else ISAS:
        inner = computed_by_panels(isa, working_dtype(dtype), wanted)
        if inner is not None and passed_over(isa) is None:
            return isa, inner
    return None


def plan_for(dtype: np.dtype, precision: str, rounding: str) -> Plan:
    """The plan of a call. Raises `Refused` if no plan exists."""
    from ..block import plans

    unit = unit_for(dtype, precision)
    if unit is None:
        raise Refused(f"no loops here multiply {dtype.name} at {precision}")
    return plans.plan_for(*unit, rounding, working_dtype(dtype).itemsize)


def check(plan: Plan, *products: tuple[int, int, int]) -> None:
    """Raise `Refused` for operands whose magnitudes exceed the range of bf16 parts. A product is given by its depth and
    the magnitudes of its factors."""
    from ..block import ranges

    if plan.finds_magnitudes:
        for product in products:
            sentence = ranges.refusal(plan.precision, *product)
            if sentence is not None:
                raise Refused(sentence)


def summed_at_once(plan: Plan, depth: int) -> int:
    """How many products of a score are summed before the sum is added to others: also where scores are made again, so
    that they have the same bits."""
    from ..block.plans import up

    step = plan.scheme.kernel.step
    at_once = _SUMMED if cpu.refusal("amx") else _SUMMED_BESIDE_TILES
    return up(depth if plan.in_parts else min(depth, at_once), step)


class _Call(NamedTuple):
    """All that does not depend on addresses."""

    plan: Plan
    run: Callable[..., bool]
    """The compiled loops, `forward.attend`."""
    memory_bytes: int
    numbers: np.ndarray
    template: int
    """The address of the numbers."""
    scale: float
    """Of scores."""


class _Blocks(NamedTuple):
    """How queries and keys are divided, and the memory of a thread.

    Attributes:
        rows, columns: queries and keys of a block.
        inner: the depth, in whole steps of the kernel.
        parts: tasks of the queries of a group of heads.
        sizes: bytes of packed keys, values and queries, of a panel of scores, of weights, and of sums.
        memory_bytes: all that a thread needs.
    """

    rows: int
    columns: int
    inner: int
    parts: int
    sizes: tuple[int, ...]
    memory_bytes: int


def _divide(plan: Plan, units: int, length: int, seen: int, depth: int, threads: int) -> _Blocks:
    """Blocks of attention of `units` groups of heads, with so many queries and keys, for a number of threads."""
    from ..block.plans import up

    kernel = plan.scheme.kernel
    size, step = kernel.size, math.lcm(kernel.mr, kernel.step, 16)  # packing takes 16 keys at a time
    rows = up(min(_QUERIES, length), kernel.nr)
    columns = up(min(max(_KEYS // step, 1) * step, up(seen, step)), step)
    parts = 1 if units % threads == 0 or units >= 4 * threads else min(-(-4 * threads // units), -(-length // rows))
    inner = up(depth, kernel.step)
    sizes = (
        up(-(-seen // kernel.mr) * kernel.a_bytes * inner, 64),
        up(-(-depth // kernel.mr) * kernel.a_bytes * up(seen, kernel.step), 64),
        up(rows // kernel.nr * kernel.b_bytes * inner, 64),
        size * up(columns, kernel.mr) * kernel.nr,
        kernel.b_bytes * up(columns, kernel.step) if plan.finds_magnitudes else 0,  # else in the place of the scores
        size * up(up(depth, kernel.mr), 16) * kernel.nr,
    )
    each = sum(sizes[:5]) + rows // kernel.nr * (sizes[5] + 2 * size * kernel.nr)
    return _Blocks(rows, columns, inner, parts, sizes, up(each, 64))


def reads_masks(kernel: Any) -> bool:
    """Whether the loops take as many queries at a time as masks are read for."""
    return kernel.nr * kernel.size % 64 == 0


def _read_mask(mask: tuple[np.dtype, tuple[int, ...]] | None, kernel: Any) -> tuple[NamedTuple, dict[str, int]]:
    """The tag of the code that reads a mask, and its strides. Raises `Refused` where the loops take fewer queries."""
    from ..block.sources import ELEMENTS, AlongK, Contiguous, Source, Strided
    from . import masks

    if mask is None:
        return masks.NoMask(), {}
    dtype, strides = mask
    if not reads_masks(kernel):
        most, taken = 64 // kernel.size, kernel.nr
        raise Refused(f"masks are read for {most} queries at a time, and the loops here take {taken}")
    source = Source(AlongK(), Contiguous() if strides[3] == dtype.itemsize else Strided(), ELEMENTS[dtype.name])
    return source, dict(zip(("mask_batch", "mask_head", "mask_line", "mask_k"), strides, strict=True))


@functools.lru_cache(1024)
def _prepare(
    dtype: np.dtype, precision: str, rounding: str, scale: float, causal: bool, threads: int, shapes: tuple,
    mask: tuple[np.dtype, tuple[int, ...]] | None, *strides: tuple[int, ...],
) -> _Call:  # fmt: skip
    from ..block import plans, ranges
    from ..block.loops import LIMITS_BYTES, leaf_address
    from ..block.sources import ELEMENTS
    from . import forward, lanes

    plan = plan_for(dtype, precision, rounding)
    kernel = plan.scheme.kernel
    size, of_scores = kernel.size, scale
    (batch, heads, length, depth), (_, groups, seen, _) = shapes[:2]
    sides = [
        plans.side(plan, is_a, dtype, lines, along, *(one[2:] if is_q_or_k else one[:1:-1]))
        for is_a, lines, along, one, is_q_or_k in (
            (False, length, depth, strides[0], True), (True, seen, depth, strides[1], True),
            (True, depth, seen, strides[2], False),
        )
    ]  # fmt: skip
    of = _divide(plan, batch * groups, length, seen, depth, threads)
    limits_bytes = threads * LIMITS_BYTES
    values = {
        "limits_bytes": limits_bytes, "out_stride": depth * dtype.itemsize, "groups": groups,
        "heads": heads // groups, "length": length, "seen": seen, "depth": depth, "inner": of.inner, "rows": of.rows,
        "columns": of.columns, "summed": summed_at_once(plan, depth), "parts": of.parts, "causal": int(causal),
        "total_bytes": batch * heads * length * size, "memory_bytes": of.memory_bytes,
    }  # fmt: skip
    names = "k_bytes", "v_bytes", "q_bytes", "score_bytes", "weight_bytes", "sum_bytes"
    values |= dict(zip(names, of.sizes, strict=True))
    for name, side, stride in zip("qkv", sides, strides, strict=True):
        values |= {f"{name}_leaf": side.leaf, f"{name}_batch": stride[0], f"{name}_head": stride[1]}
        values |= {f"{name}_line": side.line_stride, f"{name}_k": side.k_stride}
    source, places = _read_mask(mask, kernel)
    values |= places
    if mask is not None:
        values["mask_scale"], scale = _bits(scale, size), 1.0
    values["unit"] = _bits(scale, size)
    values["leaf"] = leaf_address(
        forward.AttendTask(kernel, lanes.Weights(plan.b_panel, kernel), ELEMENTS[dtype.name], source)
    )
    values["tasks"], values["scale"] = batch * groups * of.parts, _bits(scale * _LOG2_E, size)
    values["least"], values["greatest"] = (
        ranges.admitted_magnitudes(plan.precision, max(depth, seen)) if plan.finds_magnitudes else (0, 0xFFFFFFFF)
    )
    numbers = np.array([values.get(name, 0) for name in forward.Numbers._fields])
    total = forward.NUMBERS_BYTES + threads * of.memory_bytes + forward.OPERANDS * limits_bytes
    return _Call(plan, forward.attend, total, numbers, address_of(numbers), of_scores)


def _bits(value: float, size: int) -> int:
    """Those of a number of so many bytes."""
    number, integer = _BITS[size]
    return integer.unpack(number.pack(value))[0]


def workspace_bytes(dtype: np.dtype, precision: str, causal: bool, threads: int, shapes: tuple, strides: tuple) -> int:
    """Memory that a call takes besides its results; shapes and strides are those of q, k and v."""
    return _prepare(dtype, precision, "rna", 1.0, causal, threads, shapes, None, *strides).memory_bytes


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, *, scale: float, causal: bool = False,
    precision: str = "ieee", rounding: str = "rna", **_: Any,
) -> Attended:  # fmt: skip
    """The result and the statistics, for the memory-efficient kernel with a mask. Raises `Refused` for values that
    tiles do not take."""
    if few.takes(q, k, causal=causal, precision=precision):
        with contextlib.suppress(Refused):
            return few.attention(q, k, v, mask, scale=scale, precision=precision, rounding=rounding)
    if scale < 0:
        q, scale = -q, -scale
    pool, threads = threading.pool()
    shapes, strides = (q.shape, k.shape, v.shape), (q.strides, k.strides, v.strides)
    mask = _readable(mask, q.dtype)
    call = _prepare(q.dtype, precision, rounding, scale, causal, threads, shapes, spread(mask, shapes), *strides)
    return _attend(call, pool, threads, q, k, v, mask)


def _readable(mask: np.ndarray | None, dtype: np.dtype) -> np.ndarray | None:
    """A mask of a dtype that loops over operands of `dtype` read."""
    return mask if mask is None or mask.dtype in (working_dtype(dtype), dtype) else mask.astype(working_dtype(dtype))


def spread(mask: np.ndarray | None, shapes: tuple) -> tuple[np.dtype, tuple[int, ...]] | None:
    """The dtype of a mask and its strides for all heads, queries and keys."""
    return mask if mask is None else (mask.dtype, np.broadcast_to(mask, (*shapes[0][:3], shapes[1][2])).strides)


def specialise(
    q: ArraySpec, k: ArraySpec, v: ArraySpec, mask: ArraySpec | None = None, *, scale: float, causal: bool = False,
    precision: str = "ieee", rounding: str = "rna", **_: Any,
) -> Callable[..., Attended] | None:  # fmt: skip
    """`attention` of arrays of these shapes and dtypes, which looks up no more than their strides."""
    if few.takes(q, k, causal=causal, precision=precision):
        return functools.partial(attention, scale=scale, precision=precision, rounding=rounding)
    if scale < 0 or (mask is not None and mask.dtype not in (working_dtype(q.dtype), q.dtype)):
        return None
    shapes = q.shape, k.shape, v.shape
    prepared = functools.partial(_prepare, q.dtype, precision, rounding, scale, causal)
    kept: dict[tuple, _Call] = {}

    def run(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None) -> Attended:
        pool, threads = threading.pool()
        key = q.strides, k.strides, v.strides, threads, None if mask is None else mask.strides
        call = kept.get(key)
        if call is None:
            if len(kept) >= _LAYOUTS_KEPT:
                kept.clear()
            call = kept[key] = prepared(threads, shapes, spread(mask, shapes), *key[:3])
        return _attend(call, pool, threads, q, k, v, mask)

    return run


def _attend(
    call: _Call, pool: int, threads: int, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None
) -> Attended:
    out, statistics = empty(q.shape, q.dtype), np.empty((2, *q.shape[:3]), working_dtype(q.dtype))
    memory = take_workspace(call.memory_bytes)
    try:
        arrays = q, k, v, out, statistics, q if mask is None else mask
        places = [id(array) + HEADER for array in arrays] if DATA_FOLLOWS_HEADER else [*map(address_of, arrays)]
        if not call.run(pool, threads, call.template, *places, DATA_FOLLOWS_HEADER, address_of(memory)):
            _refuse_uncertain(call, out, (q.shape[3], k.shape[2]), *memory[:24].view(np.int64).tolist())
    finally:
        return_workspace(memory)
    return Attended(out, statistics)


def _refuse_uncertain(call: _Call, out: np.ndarray, depths: tuple[int, int], of_q: int, of_k: int, of_v: int) -> None:
    """Refuse values that overflow, or where flushing may lose too much.

    The limit for a score is the rounding error of its weight, for a result its own rounding error (the sum of weights
    that divides it is at least 1).
    """
    from ..block import ranges

    plan = call.plan
    if not plan.finds_magnitudes:
        return
    if ranges.certain_from(plan.precision, depths[0], of_k, of_q) * call.scale > 1:
        check(plan, (depths[0], of_k, of_q))
    ranges.refuse_uncertain(ranges.certain_from(plan.precision, depths[1], WEIGHTS, of_v), out)
