"""Products of arrays by the loops: which microkernel, in which blocks, packed or not, alone or in a batch."""

from __future__ import annotations

import dataclasses
import functools
import math
import struct
from typing import Any, NamedTuple

import numpy as np

from .. import threading
from ..registry import Refused
from . import loops, ranges, tiles, vectors
from .microkernels import Affine, Plain
from .packing import CONVERSIONS, OfA, OfB, TilePanel, VectorPanel
from .sources import ELEMENTS, Across, AlongK, Contiguous, Source, Strided
from .workspace import address_of, aligned_bytes, empty, workspace

__all__ = ["Packed", "Scheme", "plan_for", "product"]


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
    "bf16x9": Scheme(tiles.Tiles9(), 96, 256, 512),
}
"""By precision. A panel of B fills a third of the L1 cache, an operand's block an eighth of the L2 cache."""

_VECTOR_SCHEMES = {
    ("avx512", 4): Scheme(vectors.Avx512Float32(), 256, 252, 512),
    ("avx512", 8): Scheme(vectors.Avx512Float64(), 256, 126, 256),
    ("avx2", 4): Scheme(vectors.Avx2Float32(), 256, 252, 512),
    ("avx2", 8): Scheme(vectors.Avx2Float64(), 256, 126, 256),
    ("portable", 4): Scheme(vectors.PortableFloat32(), 256, 128, 256),
    ("portable", 8): Scheme(vectors.PortableFloat64(), 256, 64, 256),
    ("odd", 4): Scheme(vectors.OddFloat32(), 32, 15, 24),
}
"""By instruction set and size of an element."""

_PACKED_LIMIT = 1 << 27
"""Bytes of one packed operand; a larger product is done in parts, each packed in turn."""


_SPREAD_MICROSECONDS = 20.0
"""Work below this stays on the caller's thread: waking another one takes longer."""

_BATCHED_BYTES = 1 << 20
"""Products whose packed operands and sums take less are done by one thread each, within its L2 cache."""


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """All that does not depend on sizes and addresses.

    Plans are told apart by identity, because tags without fields are equal to one another, as tuples are.
    """

    isa: str
    precision: str
    scheme: Scheme
    a_panel: Any
    b_panel: Any
    products_per_microsecond: float
    """Scalar products that one thread does, a low estimate."""


@functools.cache
def plan_for(isa: str, precision: str, rounding: str, size: int) -> Plan:
    """The plan of an instruction set and a precision; `size` is 8 for float64 and 4 for all others."""
    conversion = CONVERSIONS[precision, rounding if precision == "tf32" else None]
    if isa == "amx":
        scheme = _TILE_SCHEMES[precision]
        panels = [TilePanel(operand, conversion) for operand in (OfA(), OfB())]
        return Plan(isa, precision, scheme, *panels, 6e5 / len(scheme.kernel.walk))
    scheme = _VECTOR_SCHEMES[isa, size]
    panels = [VectorPanel(operand, conversion, scheme.kernel) for operand in (OfA(), OfB())]
    return Plan(isa, precision, scheme, *panels, 2e3 * scheme.kernel.lanes)


@functools.cache
def _pack_leaf(plan: Plan, is_a: bool, dtype: np.dtype, along_k: bool, unit: bool) -> int:
    """The address of the code that packs an operand."""
    source = Source(AlongK() if along_k else Across(), Contiguous() if unit else Strided(), ELEMENTS[dtype.name])
    return loops.leaf_address(loops.PackRange(source, plan.a_panel if is_a else plan.b_panel))


@functools.cache
def _block_leaf(plan: Plan, dtype: np.dtype, plain: bool, unit: bool) -> int:
    """The address of the code that computes a block of the result."""
    finish = Plain() if plain else Affine(Contiguous() if unit else Strided())
    return loops.leaf_address(loops.MultiplyBlock(plan.scheme.kernel, ELEMENTS[dtype.name], finish))


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


class _Side(NamedTuple):
    """One operand: where it is, and how its panels are."""

    leaf: int
    """The address of the code that packs it."""
    along_k: bool
    at: int
    lines: int
    depth: int
    line_stride: int
    k_stride: int
    panel_lines: int
    step: int
    k_bytes: int

    def bytes(self, lines: int) -> int:
        """Size of so many lines when packed, in whole cache lines."""
        return _up(-(-lines // self.panel_lines) * _up(self.depth, self.step) * self.k_bytes, 64)

    def part(self, first: int, count: int) -> _Side:
        """The lines from `first` on."""
        return self._replace(at=self.at + first * self.line_stride, lines=min(count, self.lines - first))


def _side(plan: Plan, x: np.ndarray, is_a: bool) -> _Side:
    kernel = plan.scheme.kernel
    if is_a:
        (lines, depth), (line_stride, k_stride) = x.shape[-2:], x.strides[-2:]
        panel_lines, k_bytes = kernel.mr, kernel.a_bytes
    else:
        (depth, lines), (k_stride, line_stride) = x.shape[-2:], x.strides[-2:]
        panel_lines, k_bytes = kernel.nr, kernel.b_bytes
    if lines == 1:  # strides of such dimensions mean nothing, and would ask for code of their own
        line_stride = k_stride * depth
    elif depth == 1:
        k_stride = line_stride * lines
    along_k = abs(k_stride) <= abs(line_stride)
    leaf = _pack_leaf(plan, is_a, x.dtype, along_k, (k_stride if along_k else line_stride) == x.itemsize)
    return _Side(leaf, along_k, address_of(x), lines, depth, line_stride, k_stride, panel_lines, kernel.step, k_bytes)


def _pack(side: _Side, kc: int, target: int, limits: int, pool: int, threads: int) -> int:
    """Pack an operand, in about four tasks for each thread; the magnitudes found."""
    panels, tasks = -(-side.lines // side.panel_lines), 4 * threads
    if side.along_k:
        panel_chunk = max(1, panels // tasks)
        groups = -(-panels // panel_chunk)
        k_chunk = _up(side.depth * groups // tasks + 1, kc) if groups < tasks else _up(side.depth, kc)
    else:
        panel_chunk = min(panels, 128)
        groups = -(-panels // panel_chunk)
        k_chunk = _up(side.depth * groups // tasks + 1, 32)
    return loops.pack(
        pool, threads, side.leaf, side.line_stride, side.k_stride, side.lines, side.depth, kc,
        side.at, target, limits, side.panel_lines, panel_chunk, k_chunk,
    )  # fmt: skip


def _blocks(scheme: Scheme, m: int, n: int, threads: int) -> tuple[int, int]:
    """Sizes of the blocks of the result: about equal ones, and two or more for each thread where that is possible."""
    kernel, wanted = scheme.kernel, 2 * threads if threads > 1 else 1
    rows, columns = -(-m // scheme.mc), -(-n // scheme.nc)
    while rows * columns < wanted:
        height, width = m // rows // kernel.mr, n // columns // kernel.nr
        if max(height, width) < 2:
            break
        if width >= height:
            columns += 1
        else:
            rows += 1
    return _up(-(-m // rows), kernel.mr), _up(-(-n // columns), kernel.nr)


def _check(plan: Plan, depth: int, found_a: int, found_b: int) -> None:
    if plan.isa == "amx":
        sentence = ranges.refusal(plan.precision, depth, found_a, found_b)
        if sentence is not None:
            raise Refused(sentence)


class _Target(NamedTuple):
    """Where the result goes, how, and what is added to it; `addend` and its strides are 0 where nothing is."""

    leaf: int
    at: int
    row_stride: int
    item_bytes: int
    alpha_bits: int
    beta_bits: int
    addend: int
    addend_row: int
    addend_column: int

    def part(self, row: int, column: int) -> _Target:
        return self._replace(
            at=self.at + row * self.row_stride + column * self.item_bytes,
            addend=self.addend + row * self.addend_row + column * self.addend_column,
        )


_ZERO = np.zeros(1)
"""What is added where nothing is, in every dtype."""


def _bits(value: float) -> int:
    return struct.unpack("<q", struct.pack("<d", value))[0]


def _target(plan: Plan, c: np.ndarray, alpha: float, beta: float, addend: np.ndarray | None) -> _Target:
    if addend is None and alpha == 1.0:
        leaf = _block_leaf(plan, c.dtype, True, True)
        return _Target(leaf, address_of(c), c.strides[-2], c.itemsize, 0, 0, 0, 0, 0)
    at, row, column = address_of(_ZERO), 0, 0
    if addend is not None:
        at, (row, column) = address_of(addend), addend.strides[-2:]
    leaf = _block_leaf(plan, c.dtype, False, column == c.itemsize)
    return _Target(leaf, address_of(c), c.strides[-2], c.itemsize, _bits(alpha), _bits(beta), at, row, column)


def _lines_at_once(side: _Side, block: int) -> int:
    """How many lines are packed at a time: whole blocks within _PACKED_LIMIT."""
    line_bytes = max(1, side.depth * side.k_bytes // side.panel_lines)
    return max(1, _PACKED_LIMIT // line_bytes // block) * block


def _one(plan: Plan, a: _Side, b: _Side | Packed, target: _Target) -> None:
    """One product, spread over the threads."""
    scheme, depth = plan.scheme, a.depth
    pool, threads = threading.pool()
    ready = isinstance(b, Packed)
    rows, columns = _lines_at_once(a, scheme.mc), b.lines if ready else _lines_at_once(b, scheme.nc)
    a_bytes = a.bytes(min(rows, a.lines))
    b_bytes = 0 if ready else b.bytes(min(columns, b.lines))
    sums = scheme.mc * scheme.nc * scheme.kernel.size
    with workspace(a_bytes + b_bytes + threads * (sums + loops.LIMITS_BYTES)) as memory:
        packed_b, scratch = memory + a_bytes, memory + a_bytes + b_bytes
        limits = scratch + threads * sums
        for column in range(0, b.lines, columns):
            if ready:
                n, packed_b, found_b = b.lines, b.address, b.found
            else:
                b_part = b.part(column, columns)
                n, found_b = b_part.lines, _pack(b_part, scheme.kc, packed_b, limits, pool, threads)
            for row in range(0, a.lines, rows):
                a_part, here = a.part(row, rows), target.part(row, column)
                _check(plan, depth, _pack(a_part, scheme.kc, memory, limits, pool, threads), found_b)
                mc, nc = _blocks(scheme, a_part.lines, n, threads)
                loops.multiply(
                    pool, threads, here.leaf, a_part.lines, n, depth, scheme.kc, mc, nc, memory, packed_b,
                    here.at, here.row_stride, here.alpha_bits, here.beta_bits,
                    here.addend, here.addend_row, here.addend_column, scratch, sums,
                )  # fmt: skip


def _batch(plan: Plan, a: _Side, b: _Side, target: _Target, addresses: np.ndarray) -> None:
    """Many products of one shape, each by one thread. `addresses` are as `loops.multiply_batch` says."""
    kernel, kc, count = plan.scheme.kernel, plan.scheme.kc, addresses.shape[1]
    work = count * (a.lines * b.lines * a.depth / plan.products_per_microsecond + 0.5)
    pool, threads = threading.pool() if count > 1 and work > _SPREAD_MICROSECONDS else (0, 1)
    chunk = max(1, count // (8 * threads))
    mc, nc = _up(a.lines, kernel.mr), _up(b.lines, kernel.nr)
    a_bytes, b_bytes = a.bytes(a.lines), b.bytes(b.lines)
    scratch_bytes = _up(a_bytes + b_bytes + mc * nc * kernel.size, 64)
    with workspace(threads * (scratch_bytes + 2 * loops.LIMITS_BYTES)) as memory:
        limits = memory + threads * scratch_bytes
        found = loops.multiply_batch(
            pool, threads, a.leaf, b.leaf, target.leaf, a.line_stride, a.k_stride, b.line_stride, b.k_stride,
            a.lines, b.lines, a.depth, kc, mc, nc, target.row_stride, target.alpha_bits, target.beta_bits,
            target.addend_row, target.addend_column, addresses, chunk, memory, scratch_bytes, a_bytes, b_bytes, limits,
        )  # fmt: skip
    _check(plan, a.depth, *found)


class Packed:
    """The right operand of products, packed once: what `pack` returns and `product` takes in the place of b.

    It holds its own copy of the values at the precision it was packed for, and nothing of the array.
    """

    __slots__ = ("_memory", "address", "dtype", "found", "isa", "lines", "ndim", "precision", "rounding", "shape")

    def __init__(self, b: np.ndarray, isa: str, precision: str, rounding: str) -> None:
        plan = plan_for(isa, precision, rounding, 8 if b.dtype.itemsize == 8 else 4)
        side, (pool, threads) = _side(plan, b, is_a=False), threading.pool()
        self.isa, self.precision, self.rounding = isa, precision, rounding
        self.shape, self.dtype, self.ndim, self.lines = b.shape, b.dtype, 2, side.lines
        self._memory = aligned_bytes(side.bytes(side.lines))
        self.address = address_of(self._memory)
        with workspace(threads * loops.LIMITS_BYTES) as limits:
            self.found = _pack(side, plan.scheme.kc, self.address, limits, pool, threads)

    def __repr__(self) -> str:
        return f"<packed {self.dtype}{list(self.shape)} for {self.precision} products by {self.isa}>"


def _addresses(x: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    """The address of each matrix of x, whose leading dimensions broadcast to `batch`."""
    found = np.full(1, address_of(x), np.int64)
    missing = len(batch) + 2 - x.ndim
    strides, lengths = (0,) * missing + x.strides[:-2], (1,) * missing + x.shape[:-2]
    for length, own, stride in zip(batch, lengths, strides, strict=True):
        steps = np.arange(length, dtype=np.int64) * (stride if own > 1 else 0)
        found = (found[:, None] + steps).reshape(-1)
    return found


def product(
    a: np.ndarray,
    b: np.ndarray | Packed,
    *,
    isa: str,
    precision: str = "ieee",
    rounding: str = "rna",
    alpha: float = 1.0,
    beta: float = 1.0,
    addend: np.ndarray | None = None,
) -> np.ndarray:
    """alpha * (a @ b) + beta * addend by the microkernels of `isa`.

    Arguments:
        a: (..., m, k), of dtype float32, float64, float16 or bfloat16 and of any strides.
        b: (..., k, n) of the same dtype, whose leading dimensions broadcast with those of a, or a `Packed` (k, n).
        precision, rounding: of float32 products (`kernels.precision`); for 16-bit dtypes, one that holds their values.
        addend: an array of the same dtype that broadcasts to the result, or None. With beta = 0 it is not looked at.

    Raises `Refused` where the values do not admit the precision on this instruction set.
    """
    (m, k), n = a.shape[-2:], b.shape[-1]
    if a.ndim > 2 and b.ndim == 2 and (addend is None or addend.ndim < 2):
        flat = product(
            a.reshape(math.prod(a.shape[:-1]), k),
            b,
            isa=isa,
            precision=precision,
            rounding=rounding,
            alpha=alpha,
            beta=beta,
            addend=addend,
        )
        return flat.reshape(*a.shape[:-1], n)
    plan = plan_for(isa, precision, rounding, 8 if a.dtype.itemsize == 8 else 4)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) if a.ndim > 2 or b.ndim > 2 else ()
    c = empty((*batch, m, n), a.dtype)
    if addend is not None:
        addend = np.broadcast_to(addend, c.shape) if beta else None
    if c.size and k:
        _run(plan, a, b, c, _target(plan, c, alpha, beta, addend), addend, batch)
    elif c.size:
        c[...] = 0 if addend is None else beta * addend
    return c


def _run(
    plan: Plan, a: np.ndarray, b: np.ndarray | Packed, c: np.ndarray, target: _Target, addend: Any, batch: tuple
) -> None:
    """Do the products of all matrices, together or one after the other, into c."""
    kernel, side_a = plan.scheme.kernel, _side(plan, a, is_a=True)
    if isinstance(b, Packed):
        _one(plan, side_a, b, target)
        return
    side_b = _side(plan, b, is_a=False)
    sums = _up(side_a.lines, kernel.mr) * _up(side_b.lines, kernel.nr) * kernel.size
    within_cache = side_a.bytes(side_a.lines) + side_b.bytes(side_b.lines) + sums <= _BATCHED_BYTES
    brief = side_a.lines * side_b.lines * side_a.depth < _SPREAD_MICROSECONDS * plan.products_per_microsecond
    if not batch:
        if within_cache and brief:
            addresses = np.array([[side_a.at], [side_b.at], [target.at], [target.addend]], np.int64)
            _batch(plan, side_a, side_b, target, addresses)
        else:
            _one(plan, side_a, side_b, target)
        return
    addresses = np.stack([_addresses(x, batch) for x in (a, b, c, np.broadcast_to(_ZERO, c.shape) if addend is None else addend)])
    if within_cache and (brief or addresses.shape[1] >= 4):
        _batch(plan, side_a, side_b, target, addresses)
        return
    for at_a, at_b, at_c, at_addend in addresses.T.tolist():
        _one(plan, side_a._replace(at=at_a), side_b._replace(at=at_b), target._replace(at=at_c, addend=at_addend))
