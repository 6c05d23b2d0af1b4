"""Plans: which microkernel in which blocks for an instruction set and a precision, and how one product is divided.

A plan and the division of a product depend on shapes and strides only, not on addresses, and are remembered.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np

from .. import cpu
from ..precision import acting_rounding
from ..registry import Refused
from . import loops, pairs, tiles, vectors
from .microkernels import Affine, Less, Plain
from .packing import CONVERSIONS, OfA, OfB, TilePanel, VectorPanel
from .sources import ELEMENTS, Across, AlongK, Contiguous, Source, Strided

__all__ = [
    "Plan",
    "Scheme",
    "Side",
    "blocks",
    "chunks",
    "columns",
    "even",
    "for_rows",
    "kernel_of_parts",
    "plan_for",
    "side",
    "strip",
    "up",
]


class Scheme(NamedTuple):
    """A microkernel, the depth of a step along K, and the block of the result that one thread takes at a time."""

    kernel: Any
    kc: int
    mc: int
    nc: int


_TILE_SCHEMES = {
    "bf16": Scheme(tiles.Tiles1(), 256, 256, 512),
    "bf16x3": Scheme(tiles.Tiles3(), 128, 256, 512),
    "tf32": Scheme(tiles.Tiles4(), 128, 256, 512),
    "fp16": Scheme(tiles.Tiles4(), 128, 256, 512),
    "bf16x6": Scheme(tiles.Tiles6(), 96, 256, 512),
    "tf32x3": Scheme(tiles.Tiles6(), 96, 256, 512),
    "bf16x9": Scheme(tiles.Tiles8(), 96, 256, 512),
}
"""By precision. A panel of B fills a third of the L1 cache, a step of A's block an eighth of the L2 cache and the sums
a quarter. (bf16, GFLOP/s without packing: kc of 192, 256, 320, 512, 1024 gave 2830, 3120, 2830, 2800, 2710.)"""

_PAIR_SCHEMES = {
    "bf16": Scheme(pairs.Pairs1(), 256, 256, 512),
    "bf16x3": Scheme(pairs.Pairs3(), 128, 256, 512),
}
"""By precision."""

_SCHEMES_OF_PARTS = {"amx": _TILE_SCHEMES, "avx512_bf16": _PAIR_SCHEMES}
"""By instruction set: those whose operands are packed as bf16 parts for tiles."""

_VECTOR_SCHEMES = {
    ("avx512", 4): Scheme(vectors.Avx512Float32(), 256, 252, 512),
    ("avx512", 8): Scheme(vectors.Avx512Float64(), 256, 126, 256),
    ("avx2", 4): Scheme(vectors.Avx2Float32(), 256, 252, 512),
    ("avx2", 8): Scheme(vectors.Avx2Float64(), 256, 126, 256),
    ("portable", 4): Scheme(vectors.PortableFloat32(), 256, 128, 256),
    ("portable", 8): Scheme(vectors.PortableFloat64(), 256, 64, 256),
    ("avx512_unfused", 4): Scheme(vectors.Avx512Float32Unfused(), 256, 252, 512),
    ("avx512_unfused", 8): Scheme(vectors.Avx512Float64Unfused(), 256, 126, 256),
    ("avx2_unfused", 4): Scheme(vectors.Avx2Float32Unfused(), 256, 252, 512),
    ("avx2_unfused", 8): Scheme(vectors.Avx2Float64Unfused(), 256, 126, 256),
    ("odd", 4): Scheme(vectors.OddFloat32(), 32, 15, 24),
}
"""By instruction set and size of an element."""

_SCHEMES_IN_TWO = {
    "avx512": Scheme(vectors.Avx512InTwo(), 128, 252, 512),
    "avx2": Scheme(vectors.Avx2InTwo(), 128, 252, 512),
    "portable": Scheme(vectors.PortableInTwo(), 128, 128, 256),
    "odd": Scheme(vectors.OddInTwo(), 16, 15, 24),
}
"""Of float32 operands in two parts."""

_LOW_SCHEMES = {
    vectors.Avx2Float32: Scheme(vectors.Avx2Float32Low(), 256, 252, 512),
    vectors.Avx2Float64: Scheme(vectors.Avx2Float64Low(), 256, 124, 256),
    vectors.Avx2InTwo: Scheme(vectors.Avx2InTwoLow(), 128, 252, 512),
}
"""For few rows, by the microkernel in whose place they come and whose packed right operands they take."""

_INTEGER_SCHEMES = {
    ("avx512", 4): Scheme(vectors.Avx512Int32(), 256, 252, 512),
    ("avx512", 8): Scheme(vectors.Avx512Int64(), 256, 126, 256),
    ("avx2", 4): Scheme(vectors.Avx2Int32(), 256, 252, 512),
    ("avx2", 8): Scheme(vectors.Avx2Int64(), 256, 126, 256),
    ("portable", 4): Scheme(vectors.PortableInt32(), 256, 128, 256),
    ("portable", 8): Scheme(vectors.PortableInt64(), 256, 64, 256),
}
"""Of integers, which packing and storing take for floating-point numbers of their size."""


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
        """Whether packing does, of which the loops do not take all (`ranges.py`)."""
        return self.in_parts or self.a_panel.conversion.vector_parts == 2

    @property
    def in_parts(self) -> bool:
        """Whether operands are packed as bf16 parts, whose subnormal values and sums are flushed."""
        return self.isa in _SCHEMES_OF_PARTS


def kernel_of_parts(isa: str, precision: str) -> Any:
    """The microkernel of an instruction set that multiplies bf16 parts."""
    return _SCHEMES_OF_PARTS[isa][precision].kernel


@functools.cache
def plan_for(isa: str, precision: str, rounding: str, size: int) -> Plan:
    """The plan of an instruction set and a precision; `size` is 8 for float64 and 4 for all others."""
    integers = precision == "integer"
    conversion = CONVERSIONS["ieee" if integers else precision, acting_rounding(precision, rounding)]
    if isa in _SCHEMES_OF_PARTS:
        scheme = _SCHEMES_OF_PARTS[isa][precision]
        panels = [TilePanel(operand, conversion) for operand in (OfA(), OfB())]
        return Plan(isa, precision, scheme, *panels, (6e5 if isa == "amx" else 6e4) / len(scheme.kernel.walk))
    parts = conversion.vector_parts
    scheme = _SCHEMES_IN_TWO[isa] if parts == 2 else (_INTEGER_SCHEMES if integers else _VECTOR_SCHEMES)[isa, size]
    panels = [VectorPanel(operand, conversion, scheme.kernel) for operand in (OfA(), OfB())]
    return Plan(isa, precision, scheme, *panels, 2e3 / parts * scheme.kernel.lanes)


_MOST_LOW, _FULLER = 32, 0.9
"""Rows up to which lower blocks are looked at, and the part of the usual ones' rows that they are to have. A Zen 3 does
8 rows with 512 x 512 to 4096 x 4096 in 0.76 to 0.93 of the time by fours, with packed matrices in 0.65 to 0.93, and 16,
20 and 32 in 0.72 to 1.02 (bench/NOTES.md)."""


def for_rows(plan: Plan, m: int) -> Plan:
    """The plan for m rows: where they leave blocks of the usual height empty, that of lower ones. Right operands are
    packed alike for both."""
    low = _LOW_SCHEMES.get(type(plan.scheme.kernel)) if m <= _MOST_LOW else None
    if low is None or up(m, low.kernel.mr) > _FULLER * up(m, plan.scheme.kernel.mr):
        return plan
    return _lowered(plan)


@functools.cache
def _lowered(plan: Plan) -> Plan:
    scheme = _LOW_SCHEMES[type(plan.scheme.kernel)]
    panel = VectorPanel(OfA(), plan.a_panel.conversion, scheme.kernel)
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


_MOST_IN_A_STEP = 512
"""Depth up to which tiles take all of it in one step: sums need no memory, and are the same to the bit. Microseconds at
512 cubed in steps of the scheme and in one: bf16x9 671, 584 (torch 706), bf16x6 585, 534, tf32 390, 375, bf16x3 359,
348, bf16 172, 171. Steps of 512 or 1024 lose up to 16 % at 1024 and 2048 cubed."""


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
    whole = plan.isa == "amx" and depth <= _MOST_IN_A_STEP
    kc = up(max(depth, 1), kernel.step) if whole else plan.scheme.kc
    return Side(leaf, along_k, lines, depth, line_stride, k_stride, *panel, kc)


@functools.lru_cache(4096)
def chunks(lines: int, depth: int, panel_lines: int, along_k: bool, kc: int, threads: int) -> tuple[int, int]:
    """How packing is divided, in about four tasks for each thread: so many panels, and so much along K."""
    panels, tasks = -(-lines // panel_lines), 4 * threads
    if along_k:
        panel_chunk = max(1, panels // tasks)
        groups = -(-panels // panel_chunk)
        return panel_chunk, up(depth * groups // tasks + 1, kc) if groups < tasks else up(depth, kc)
    panel_chunk = min(panels, 128)
    return panel_chunk, up(depth * -(-panels // panel_chunk) // tasks + 1, 32)


@functools.lru_cache(4096)
def blocks(plan: Plan, m: int, n: int, threads: int) -> tuple[int, int]:
    """Sizes of the blocks of the result: about equal ones, and two or more for each thread where that is possible."""
    scheme, kernel, wanted = plan.scheme, plan.scheme.kernel, 2 * threads if threads > 1 else 1
    rows, columns = -(-m // scheme.mc), -(-n // scheme.nc)
    while rows * columns < wanted:
        height, width = m // rows // kernel.mr, n // columns // kernel.nr
        if max(height, width) < 2:
            break
        if width >= height:
            columns += 1
        else:
            rows += 1
    return up(-(-m // rows), kernel.mr), up(-(-n // columns), kernel.nr)


def even(count: int, most: int, multiple: int) -> int:
    """The size of about equal parts of at most so many (multiples)."""
    return up(-(-count // -(-count // most)), multiple)


_LEAST_STRIP, _MOST_SHARED = 64, 1 << 22
"""Rows of a strip, and bytes of a packed right operand up to which a strip is worth it that is no whole block. Speed of
strips relative to packing all of A before (bf16, two threads): 256, 512, 768, 1024, 2048, 4096 cubed 1.14, 1.12, 1.20,
1.05, 1.03, 1.04; [256, 4096] @ [4096, 4096], whose right operand two strips read twice, 0.75."""

_MOST_SHARED_BY_VECTORS = 1 << 20
"""The same for vectors, which take strips of half a block: 256, 384, 512, 768, 1024, 2048 cubed 1.24, 1.10, 1.11, 1.00,
0.98, 0.96 in AVX-512."""


@functools.lru_cache(4096)
def strip(plan: Plan, m: int, n: int, k: int, threads: int) -> int:
    """How many rows a thread packs and multiplies at a time (`strips.py`); 0 where all are packed before."""
    scheme, kernel = plan.scheme, plan.scheme.kernel
    shared = n * k * kernel.b_bytes // kernel.nr
    if plan.isa == "amx":
        least, most = _LEAST_STRIP if shared <= _MOST_SHARED else 2 * scheme.mc, scheme.mc
    else:
        least, most = _LEAST_STRIP if shared <= _MOST_SHARED_BY_VECTORS else m + 1, scheme.mc // 2
    if m < least * threads:
        return 0
    return up(-(-m // up(-(-m // most), threads)), kernel.mr)


_MOST_BY_COLUMNS, _SUMS_BYTES = 320, 1 << 19
"""Rows up to which a thread packs the columns that it multiplies, and bytes of their sums, which its L2 cache holds
beside a step of both operands. Vectors take every such product in this way that no strips divide: 8 to 64 rows with
[64, 256], [256, 256], [128, 1024], [512, 512] took 0.86, 0.85, 0.90 and 0.91 of the time of packing before, on a
Zen 3. Milliseconds of 32, 64, 128, 256, 384 rows with a matrix of 4096 x 4096 on a Zen 4,
packed before and in this way: ieee 13.5, 10.5, 18.6, 15.4, 29.3, 26.5, 47.8, 44.9, 69.5, 71.2, bf16 10.5, 7.3, 12.8,
10.9, 16.8, 16.0, 25.8, 24.1, 38.0, 38.6; of a transposed matrix bf16 14.8, 9.1, 12.3, 10.1, 18.4, 16.0, 28.4, 27.3."""


@functools.lru_cache(4096)
def columns(plan: Plan, m: int, n: int, k: int, threads: int) -> int:
    """How many columns a thread packs and multiplies at a time (`strips.py`), where rows are few and, for tiles, the
    right operand is larger than caches; 0 where it is packed before."""
    kernel = plan.scheme.kernel
    shared = _MOST_SHARED if plan.in_parts else 0
    if m > _MOST_BY_COLUMNS or n * k * kernel.b_bytes // kernel.nr <= shared:
        return 0
    most = min(plan.scheme.nc, _SUMS_BYTES // (up(m, kernel.mr) * kernel.size) // kernel.nr * kernel.nr)
    return up(-(-n // up(-(-n // most), threads)), kernel.nr)
