"""Plans: which microkernel in which blocks for an instruction set and a precision, and how one product is divided.

A plan and the division of a product depend on shapes and strides only, not on addresses, and are remembered.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np

from ..precisions.products import acting_rounding
from ..registry import Refused
from ..runtime import cpu
from . import loops, pairs, tiles, vectors
from .conversions import CONVERSIONS
from .microkernels import Affine, Less, Plain
from .packing import OfA, OfB, TilePanel, VectorPanel
from .sources import ELEMENTS, Across, AlongK, Contiguous, Source, Strided
from .tuning import blocking, memoise, tuning


class Scheme(NamedTuple):
    """A microkernel, the depth of a step along K, and the block of the result that one thread takes at a time."""

    kernel: Any
    kc: int
    mc: int
    nc: int


_TILES = {
    "bf16": (tiles.Tiles1(), 256), "bf16x3": (tiles.Tiles3(), 128), "tf32": (tiles.Tiles4(), 128),
    "fp16": (tiles.Tiles4(), 128), "bf16x6": (tiles.Tiles6(), 96), "tf32x3": (tiles.Tiles6(), 96),
    "bf16x9": (tiles.Tiles8(), 96),
}  # fmt: skip
_PAIRS = {"bf16": (pairs.Pairs1(), 256), "bf16x3": (pairs.Pairs3(), 128)}

_KERNELS_OF_PARTS = {"amx": _TILES, "avx512_bf16": _PAIRS}
"""By instruction set and precision, for those whose operands are packed as bf16 parts: microkernels, and the depth of a
step along K (a panel of B then fills a third of the L1 cache)."""

_KERNELS = {
    ("avx512", 4): vectors.Avx512Float32(), ("avx512", 8): vectors.Avx512Float64(), ("avx2", 4): vectors.Avx2Float32(),
    ("avx2", 8): vectors.Avx2Float64(), ("portable", 4): vectors.PortableFloat32(),
    ("portable", 8): vectors.PortableFloat64(), ("avx512_unfused", 4): vectors.Avx512Float32Unfused(),
    ("avx512_unfused", 8): vectors.Avx512Float64Unfused(), ("avx2_unfused", 4): vectors.Avx2Float32Unfused(),
    ("avx2_unfused", 8): vectors.Avx2Float64Unfused(), ("odd", 4): vectors.OddFloat32(),
}  # fmt: skip
"""By instruction set and size of an element."""

_KERNELS_IN_TWO = {
    "avx512": vectors.Avx512InTwo(),
    "avx2": vectors.Avx2InTwo(),
    "portable": vectors.PortableInTwo(),
    "odd": vectors.OddInTwo(),
}
"""Of float32 operands in two parts."""

_LOW_KERNELS = {
    vectors.Avx2Float32: vectors.Avx2Float32Low(),
    vectors.Avx2Float64: vectors.Avx2Float64Low(),
    vectors.Avx2InTwo: vectors.Avx2InTwoLow(),
}
"""For few rows, by the microkernel in whose place they come and whose packed right operands they take."""

_INTEGER_KERNELS = {
    ("avx512", 4): vectors.Avx512Int32(),
    ("avx512", 8): vectors.Avx512Int64(),
    ("avx2", 4): vectors.Avx2Int32(),
    ("avx2", 8): vectors.Avx2Int64(),
    ("portable", 4): vectors.PortableInt32(),
    ("portable", 8): vectors.PortableInt64(),
}
"""Of integers, which packing and storing take for floating-point numbers of their size."""

_STEP = 256
"""Depth of a step along K on vectors, which fixes the order of sums and so their bits; half of it for two parts."""

_ODD_BLOCKS = {4: (32, 15, 24), 8: (16, 15, 24)}
"""Of the kernels that only tests use, by the bytes of a value: kc, mc and nc."""


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """All that does not depend on the operands.

    Plans are told apart by identity, because tags without fields are equal to one another, as tuples are.
    """

    isa: str
    precision: str
    scheme: Scheme
    a_panel: Any
    b_panel: Any
    products_per_microsecond: float
    """Scalar products that one thread does, a low estimate."""

    @property
    def finds_magnitudes(self) -> bool:
        """Whether packing flushes subnormals; the loops do not accept all such values (`ranges.py`)."""
        return self.in_parts or self.a_panel.conversion.vector_parts == 2

    @property
    def in_parts(self) -> bool:
        """Whether operands are packed as bf16 parts, whose subnormal values and sums are flushed."""
        return self.isa in _KERNELS_OF_PARTS


def kernel_of_parts(isa: str, precision: str) -> Any:
    """The microkernel of an instruction set that multiplies bf16 parts."""
    return _KERNELS_OF_PARTS[isa][precision][0]


@memoise
def plan_for(isa: str, precision: str, rounding: str, size: int) -> Plan:
    """The plan of an instruction set and a precision; `size` is 8 for float64 and 4 for all others."""
    integers = precision == "integer"
    conversion = CONVERSIONS["ieee" if integers else precision, acting_rounding(precision, rounding)]
    speed = tuning(isa).products_per_microsecond
    if isa in _KERNELS_OF_PARTS:
        kernel, kc = _KERNELS_OF_PARTS[isa][precision]
        panels = [TilePanel(operand, conversion) for operand in (OfA(), OfB())]
        scheme = Scheme(kernel, kc, *blocking(isa, kernel, kc, kernel.a_bytes // kernel.mr))
        return Plan(isa, precision, scheme, *panels, speed / len(kernel.walk))
    parts = conversion.vector_parts
    kernel = _KERNELS_IN_TWO[isa] if parts == 2 else (_INTEGER_KERNELS if integers else _KERNELS)[isa, size]
    kc, item = _STEP // parts, size * parts
    scheme = Scheme(kernel, *(_ODD_BLOCKS[item] if isa == "odd" else (kc, *blocking(isa, kernel, kc, item))))
    panels = [VectorPanel(operand, conversion, kernel) for operand in (OfA(), OfB())]
    return Plan(isa, precision, scheme, *panels, speed / parts * kernel.lanes)


def for_rows(plan: Plan, m: int) -> Plan:
    """The plan for m rows: where they leave blocks of the usual height empty, that of lower ones. Right operands are
    packed alike for both."""
    row = tuning(plan.isa)
    low = _LOW_KERNELS.get(type(plan.scheme.kernel)) if m <= row.low_rows_most else None
    if low is None or up(m, low.mr) > row.low_filled * up(m, plan.scheme.kernel.mr):
        return plan
    return _lower(plan)


@functools.cache
def _lower(plan: Plan) -> Plan:
    _, kc, mc, nc = plan.scheme
    kernel = _LOW_KERNELS[type(plan.scheme.kernel)]
    scheme = Scheme(kernel, kc, mc // kernel.mr * kernel.mr, nc)
    panel = VectorPanel(OfA(), plan.a_panel.conversion, kernel)
    return dataclasses.replace(plan, scheme=scheme, a_panel=panel)


@functools.cache
def _pack_leaf(plan: Plan, is_a: bool, dtype: np.dtype, along_k: bool, unit: bool) -> int:
    """The address of the code that packs an operand."""
    if (dtype == np.float16 or plan.precision == "fp16") and not cpu.converts_half():
        raise Refused(f"float16 is converted by instructions that the capability {cpu.LEVELS[0]} lacks (F16C)")
    source = Source(AlongK() if along_k else Across(), Contiguous() if unit else Strided(), ELEMENTS[dtype.name])
    return loops.leaf_address(loops.PackRange(source, plan.a_panel if is_a else plan.b_panel))


@functools.cache
def block_leaf(plan: Plan, dtype: np.dtype, plain: bool, unit: bool) -> int:
    """The address of the code that computes a block of the result; `unit`: the addend's columns are neighbours."""
    finish = Plain() if plain else Affine(Contiguous() if unit else Strided())
    return loops.leaf_address(loops.MultiplyBlock(plan.scheme.kernel, ELEMENTS[dtype.name], finish))


@functools.cache
def less_leaf(plan: Plan, dtype: np.dtype) -> int:
    """The address of the code that subtracts a product from the block where the result is stored."""
    return loops.leaf_address(loops.MultiplyBlock(plan.scheme.kernel, ELEMENTS[dtype.name], Less()))


def up(value: int, multiple: int) -> int:
    """The least multiple that is not below the value."""
    return -(-value // multiple) * multiple


class Side(NamedTuple):
    """One operand, but for its address."""

    leaf: int
    """The address of the code that packs it."""
    along_k: bool
    lines: int
    depth: int
    line_stride: int
    k_stride: int
    panel_lines: int
    step: int
    k_bytes: int
    kc: int
    """The depth of a step along K."""

    def bytes(self, lines: int) -> int:
        """Size of so many lines when packed, in whole cache lines."""
        return up(-(-lines // self.panel_lines) * up(self.depth, self.step) * self.k_bytes, 64)


@functools.lru_cache(4096)
def side(plan: Plan, is_a: bool, dtype: np.dtype, lines: int, depth: int, line_stride: int, k_stride: int) -> Side:
    """One operand of a product: `lines` rows of A or columns of B, `depth` along K; strides in bytes."""
    kernel = plan.scheme.kernel
    if lines == 1:  # strides of such dimensions mean nothing, and would ask for code of their own
        line_stride = k_stride * depth
    elif depth == 1:
        k_stride = line_stride * lines
    along_k = abs(k_stride) <= abs(line_stride)
    leaf = _pack_leaf(plan, is_a, dtype, along_k, (k_stride if along_k else line_stride) == dtype.itemsize)
    panel = (kernel.mr, kernel.step, kernel.a_bytes) if is_a else (kernel.nr, kernel.step, kernel.b_bytes)
    whole = depth <= tuning(plan.isa).one_step_most
    kc = up(max(depth, 1), kernel.step) if whole else plan.scheme.kc
    return Side(leaf, along_k, lines, depth, line_stride, k_stride, *panel, kc)


chunks = functools.lru_cache(4096)(loops.chunks.py_func)


@functools.lru_cache(4096)
def blocks(plan: Plan, m: int, n: int, threads: int) -> tuple[int, int]:
    """Sizes of the blocks of the result."""
    scheme, kernel = plan.scheme, plan.scheme.kernel
    return loops.block_sizes.py_func(m, n, scheme.mc, scheme.nc, kernel.mr, kernel.nr, threads)


def even(count: int, most: int, multiple: int) -> int:
    """The size of about equal parts of at most so many (multiples)."""
    return up(-(-count // -(-count // most)), multiple)


@memoise
def strip(plan: Plan, m: int, n: int, k: int, threads: int) -> int:
    """How many rows a thread packs and multiplies at a time (`tasks.py`); 0 where all are packed before."""
    scheme, kernel, row = plan.scheme, plan.scheme.kernel, tuning(plan.isa)
    shared = n * k * kernel.b_bytes // kernel.nr
    beyond, most = (2 * scheme.mc, scheme.mc) if plan.isa == "amx" else (m + 1, scheme.mc // 2)
    least = row.strip_rows if shared <= row.strip_caches * row.cache_bytes else beyond
    if m < least * threads:
        return 0
    return up(-(-m // up(-(-m // most), threads)), kernel.mr)


@memoise
def columns(plan: Plan, m: int, n: int, k: int, threads: int) -> int:
    """How many columns a thread packs and multiplies at a time (`tasks.py`), where rows are few and, for bf16 parts,
    the right operand is larger than caches; 0 where it is packed before. Their sums fill half of the L2 cache."""
    kernel, row = plan.scheme.kernel, tuning(plan.isa)
    shared = row.column_caches * row.cache_bytes
    if m > row.column_rows_most or n * k * kernel.b_bytes // kernel.nr <= shared:
        return 0
    sums = row.cache_bytes // 2
    most = min(plan.scheme.nc, sums // (up(m, kernel.mr) * kernel.size) // kernel.nr * kernel.nr)
    return up(-(-n // up(-(-n // most), threads)), kernel.nr)
