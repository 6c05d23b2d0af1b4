"""Exact products of so few columns that A is read where it lies (`narrow_loops.py`): which, and how they run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .. import cpu
from ..precision import PRECISIONS, ROUNDINGS, is_exact
from ..registry import ArraySpec
from ..shapes import broadcast_shapes
from .compiled import computed_precision
from .tuning import memoise, tuning

if TYPE_CHECKING:
    from .plans import Plan

__all__ = ["ISAS", "implementation", "refuses"]

ISAS = ("avx512",)


def _tiles_gain(k: int, n: int, filled: float) -> bool:
    columns, least, one_step, full = tuning("amx").narrow_beside_tiles
    return n >= columns and k >= least and (k <= one_step or filled < full) and cpu.refusal("amx") is None


def refuses(isa: str) -> Callable[..., str | None]:
    """Why products of these are not made from A where it lies."""

    def refusal(a: ArraySpec, b: ArraySpec, precision: str = "ieee", rounding: str = "rna") -> str | None:
        if precision not in PRECISIONS or rounding not in ROUNDINGS:
            return f"does not know precision {precision!r} with rounding {rounding!r}"
        if a.dtype == np.float32:
            if computed_precision(isa, a.dtype, precision) != "ieee":
                return f"rounds no operands for {precision}"
            if not is_exact(precision) and cpu.refusal("amx") is None:
                return f"leaves {precision} to tiles"
        elif a.dtype != np.float64:
            return f"has no loops for {a.dtype.name}"
        (m, k), n, count = a.shape[-2:], b.shape[-1], math.prod(broadcast_shapes(a.shape[:-2], b.shape[:-2]))
        row, width = tuning(isa), 256 // a.dtype.itemsize
        panels, (of_one, of_two) = -(-n // width), row.narrow_filled
        few, many = int(of_one * width) + 1, math.ceil(of_two * 2 * width)
        if m < row.narrow_rows or not (few <= n <= width or many <= n <= 2 * width):
            return (
                f"takes {row.narrow_rows} rows or more and {few} to {width} or {many} to {2 * width} columns, "
                f"not {m} and {n}"
            )
        if count * m * k * n < row.narrow_products:
            return f"leaves {count * m * k * n:,} products to others; it is faster from {row.narrow_products:,}"
        if a.dtype == np.float32 and _tiles_gain(k, n, n / (width * panels)):
            return f"leaves a depth of {k} with {n} columns to tiles"
        return None

    return refusal


@memoise
def _kernel(isa: str, dtype: np.dtype) -> tuple[Plan, int]:
    """The plan, and the address of the code that computes rows."""
    from . import loops, narrow_loops, plans
    from .packing import AsIs, OfB, VectorPanel

    kernel = narrow_loops.KERNELS[isa, dtype.itemsize]
    speed = tuning(isa).products_per_microsecond * kernel.lanes
    panel = VectorPanel(OfB(), AsIs(), kernel)
    plan = plans.Plan(isa, "ieee", plans.Scheme(kernel, 256, 0, 0), panel, panel, speed)
    return plan, loops.leaf_address(narrow_loops.NarrowRows(kernel))


def implementation(isa: str) -> Callable[..., np.ndarray]:
    """The product by the rows of A, in the call form of `matmul`."""

    def multiply(a: np.ndarray, b: np.ndarray, *, precision: str = "ieee", rounding: str = "rna") -> np.ndarray:
        return _product(a, b, isa)

    multiply.__name__ = multiply.__qualname__ = f"matmul_narrow_{isa}"
    return multiply


def _product(a: np.ndarray, b: np.ndarray, isa: str) -> np.ndarray:
    """Any strides; the leading dimensions broadcast. Each task packs a panel of B for its rows, a long one in place of
    many short ones: packing takes n / rows of the time of multiplying."""
    from .. import threading
    from . import loops, plans
    from .narrow_loops import Narrow, multiply_narrow
    from .product import addresses
    from .workspace import address_of, result, return_workspace, take_workspace

    (m, k), n = a.shape[-2:], b.shape[-1]
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    c = result((*batch, m, n), a.dtype)
    if not (c.size and k):
        c[...] = 0
        return c
    plan, leaf = _kernel(isa, a.dtype)
    side = plans.side(plan, False, b.dtype, n, k, *b.strides[:-3:-1])
    places = np.stack([addresses(x, batch) for x in (a, b, c)])
    pool, threads = threading.pool()
    count, mr = places.shape[1], plan.scheme.kernel.mr
    rows = plans.up(-(-m * count // (4 * threads)), mr) if count < 4 * threads else m
    b_bytes = side.bytes(n)
    memory = take_workspace(threads * (b_bytes + loops.LIMITS_BYTES))
    try:
        scratch = address_of(memory)
        job = Narrow(
            side.leaf, leaf, m, n, k, side.kc, rows, -(-m // rows), *a.strides[-2:],
            side.line_stride, side.k_stride, c.strides[-2], places, scratch, b_bytes, scratch + threads * b_bytes,
        )  # fmt: skip
        multiply_narrow(pool, threads, job)
    finally:
        return_workspace(memory)
    return c
