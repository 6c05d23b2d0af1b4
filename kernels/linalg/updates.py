"""Products inside compiled factorisations: C -= A @ B on the project's own packing and microkernels (`kernels.gemm`).

A factorisation is one compiled function; the leaves of the product reach it as addresses, so that it is compiled once
for a type whatever the precision of its products. Operands are row-major or transposed, C is row-major, and may be
where A or B was read: both are packed before anything is written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..gemm import loops, plans, ranges
from ..gemm.workspace import address_of, return_workspace, take_workspace
from ..jit import njit
from ..registry import Refused
from ..threading import pool
from .groups import tag_of
from .lanes import VECTOR_BYTES

__all__ = ["BLOCK", "Products", "Session", "multiply", "subtract"]

BLOCK = 64
"""Rows and columns of the blocks that are factored without products: their work stays in the L1 cache."""

_PACKED_BYTES = 1 << 26
"""Bytes of a packed operand; larger ones are packed in parts."""

_SPREAD = 20.0
"""Microseconds of work below which the caller's thread does a product alone."""


class Products(NamedTuple):
    """What the compiled code must know of the products. Addresses of leaves, sizes of a scheme, and memory."""

    tag: Any
    pool: int
    threads: int
    a_along: int
    a_across: int
    b_along: int
    b_across: int
    affine: int
    plain: int
    mr: int
    nr: int
    mc: int
    nc: int
    kc: int
    step: int
    a_bytes: int
    b_bytes: int
    size: int
    per_microsecond: int
    packed_a: int
    packed_b: int
    sums: int
    limits: int
    scratch: int
    scratch_bytes: int
    found: Any
    """int64 (2): the greatest and the least magnitude but zero that packing met, as bits of float32."""


@njit(cache=False, no_cpython_wrapper=True)
def _up(value, multiple):
    return (value + multiple - 1) // multiple * multiple


@njit(cache=False, no_cpython_wrapper=True)
def _pack(p, threads, is_a, line_stride, k_stride, lines, depth, at):
    along = k_stride == p.size
    leaf, panel_lines, target = p.b_along if along else p.b_across, p.nr, p.packed_b
    if is_a:
        leaf, panel_lines, target = p.a_along if along else p.a_across, p.mr, p.packed_a
    panels, tasks = (lines + panel_lines - 1) // panel_lines, 4 * threads
    if along:
        panel_chunk = max(1, panels // tasks)
        groups = (panels + panel_chunk - 1) // panel_chunk
        k_chunk = _up(depth * groups // tasks + 1, p.kc) if groups < tasks else _up(depth, p.kc)
    else:
        panel_chunk = min(panels, 128)
        k_chunk = _up(depth * ((panels + panel_chunk - 1) // panel_chunk) // tasks + 1, 32)
    found = loops.pack(
        p.pool, threads, leaf, line_stride, k_stride, lines, depth, p.kc,
        at, target, p.limits, panel_lines, panel_chunk, k_chunk,
    )  # fmt: skip
    least = found & 0xFFFFFFFF
    p.found[0] = max(p.found[0], found >> 32)
    if least:
        p.found[1] = min(p.found[1], least)


@njit(cache=False, no_cpython_wrapper=True)
def _blocks(p, m, n, threads):
    """Sizes of the blocks of the result, as `kernels.gemm.plans.blocks`."""
    wanted = 2 * threads if threads > 1 else 1
    rows, columns = (m + p.mc - 1) // p.mc, (n + p.nc - 1) // p.nc
    while rows * columns < wanted:
        height, width = m // rows // p.mr, n // columns // p.nr
        if max(height, width) < 2:
            break
        if width >= height:
            columns += 1
        else:
            rows += 1
    return _up((m + rows - 1) // rows, p.mr), _up((n + columns - 1) // columns, p.nr)


@njit(cache=False, no_cpython_wrapper=True)
def _product(p, add, m, n, k, a, a_row, a_column, b, b_row, b_column, c, c_row):
    if m <= 0 or n <= 0 or k <= 0:
        return
    threads = p.threads if m * n * k > _SPREAD * p.per_microsecond else 1
    sums = p.mc * p.nc * p.size * (2 if p.size == 4 else 1)
    minus_one, one = -0x4010000000000000, 0x3FF0000000000000
    rows = max(p.mc, _PACKED_BYTES // (_up(k, p.step) * p.a_bytes) * p.mr)
    columns = max(p.nc, _PACKED_BYTES // (_up(k, p.step) * p.b_bytes) * p.nr)
    for j in range(0, n, columns):
        width = min(columns, n - j)
        _pack(p, threads, False, b_column, b_row, width, k, b + j * b_column)
        for i in range(0, m, rows):
            height, at = min(rows, m - i), c + i * c_row + j * p.size
            _pack(p, threads, True, a_row, a_column, height, k, a + i * a_row)
            mc, nc = _blocks(p, height, width, threads)
            loops.multiply(
                p.pool, threads, p.affine if add else p.plain, height, width, k, p.kc, mc, nc, p.packed_a, p.packed_b,
                at, c_row, minus_one, one, at, c_row, p.size, p.sums, sums,
            )  # fmt: skip


@njit(cache=False, no_cpython_wrapper=True)
def subtract(p, m, n, k, a, a_row, a_column, b, b_row, b_column, c, c_row):
    """C (m, n) -= A (m, k) @ B (k, n): addresses and strides in bytes; one stride of A and of B is that of a number."""
    _product(p, True, m, n, k, a, a_row, a_column, b, b_row, b_column, c, c_row)


@njit(cache=False, no_cpython_wrapper=True)
def multiply(p, m, n, k, a, a_row, a_column, b, b_row, b_column, c, c_row):
    """C (m, n) = A (m, k) @ B (k, n)"""
    _product(p, False, m, n, k, a, a_row, a_column, b, b_row, b_column, c, c_row)


def _isa(dtype: np.dtype, precision: str) -> tuple[str, str]:
    """The instruction set whose leaves are taken, and what they compute."""
    from .. import cpu
    from ..gemm.compiled import computed

    order = ("amx", "avx512", "avx2") if dtype == np.float32 and precision not in ("ieee", "bf16x9") else (
        "avx512", "avx2",
    )  # fmt: skip
    for isa in order:
        inner = computed(isa, dtype, precision)
        if cpu.refusal(isa) is None and inner is not None:
            return isa, inner
    if precision != "ieee":
        raise Refused(f"no instruction set here has products at {precision} for blocks of a factorisation")
    return "portable", "ieee"


class Session:
    """The products of one factorisation of matrices of at most m x n, with memory for them; a context manager.

    Raises `Refused` on leaving where the values did not admit the precision on tiles, unless the result is only to be
    refined: then what is flushed or overflows is found there.
    """

    def __init__(
        self,
        dtype: np.dtype,
        m: int,
        n: int,
        precision: str = "ieee",
        rounding: str = "rna",
        to_be_refined: bool = False,
    ) -> None:
        self._checked = not to_be_refined
        isa, inner = _isa(dtype, precision)
        self._plan = plan = plans.plan_for(isa, inner, rounding, dtype.itemsize)
        self._depth, scheme, kernel = max(m, n), plan.scheme, plan.scheme.kernel
        leaves = [plans._pack_leaf(plan, a, dtype, along, True) for a in (True, False) for along in (True, False)]
        state, threads = pool()
        deepest = plans.up(max(m, n, 1), kernel.step)
        packed = [
            min(plans.up(max(m, n, 1), lines) // lines * deepest * width, max(_PACKED_BYTES, block * deepest * width))
            for lines, width, block in ((kernel.mr, kernel.a_bytes, scheme.mc), (kernel.nr, kernel.b_bytes, scheme.nc))
        ]
        sums = scheme.mc * scheme.nc * kernel.size * 2
        self._panel = plans.up((max(m, n) + 64) * BLOCK * dtype.itemsize, 64) + BLOCK * BLOCK * 8 * 4
        parts = [plans.up(packed[0], 64), plans.up(packed[1], 64), threads * sums, threads * loops.LIMITS_BYTES,
                 max(self._panel, threads * 4 * BLOCK * VECTOR_BYTES) + BLOCK * BLOCK * 16]  # fmt: skip
        self._memory = take_workspace(sum(parts))
        starts = [address_of(self._memory) + sum(parts[:index]) for index in range(len(parts))]
        self.found = np.array([0, 0xFFFFFFFF], np.int64)
        self.products = Products(
            tag_of(dtype), state, threads, *leaves, plans.block_leaf(plan, dtype, False, True),
            plans.block_leaf(plan, dtype, True, True), kernel.mr, kernel.nr, scheme.mc, scheme.nc, scheme.kc,
            kernel.step, kernel.a_bytes, kernel.b_bytes, dtype.itemsize, int(plan.products_per_microsecond),
            *starts, parts[-1], self.found,
        )  # fmt: skip

    def __enter__(self) -> Products:
        return self.products

    def __exit__(self, kind: Any, *_: Any) -> None:
        return_workspace(self._memory)
        if kind is None and self._checked and self._plan.isa == "amx" and self.found[0]:
            found = int(self.found[0]) << 32 | int(self.found[1])
            sentence = ranges.refusal(self._plan.precision, self._depth, found, found)
            if sentence is not None:
                raise Refused(sentence)
