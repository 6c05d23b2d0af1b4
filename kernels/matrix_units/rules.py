"""How the matrix units of GPUs add up products, to the bit: a class for each rule, whose method is its definition.

A unit multiplies two rows of K numbers and adds the products to c in blocks. Products are exact; what differs is how
the terms of a block are aligned, cut and rounded. Values are float64 arrays here, which hold every product and every
aligned sum of these rules exactly, so that the order of additions inside a block does not matter.

Sources: F. A. Khattak, M. Mikaitis, arXiv 2512.07004; P. Xie et al., arXiv 2511.10909; M. Fasi, N. J. Higham,
M. Mikaitis, S. Pranesh, PeerJ Computer Science 7:e330; X. Li et al., arXiv 2403.00232.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from ..precisions.elements import ELEMENTS, Element

_LEAST_FP32 = -126


OPERANDS = {**{name: each for name, each in ELEMENTS.items() if name != "fp32"}, "fp32": ELEMENTS["fp32"]}
"""The formats that units multiply; fp32 by the vector units of CPUs, whose rules are measured as others are."""


def powers(x: np.ndarray, least: int) -> np.ndarray:
    """2**e for numbers of exponent e, at least 2**least; 0 for zeros."""
    exponents = np.maximum(np.frexp(x)[1] - 1, least)
    return np.where(x == 0, 0.0, np.ldexp(1.0, exponents))


def _truncate(x: np.ndarray, significand: int, least: int) -> np.ndarray:
    """Cut to so many bits, and in the subnormal range to the grid of a format."""
    step = powers(np.where(x == 0, 1.0, x), least) * 2.0 ** (1 - significand)
    return np.trunc(x / step) * step


def store(x: np.ndarray, kept: str) -> np.ndarray:
    """Round a sum for storage: "rz32" to fp32 by truncation, "rz22" the same with 13 fraction bits, "rne32" and "rne16"
    to fp32 and fp16 to nearest even. Values beyond the format become Inf."""
    with np.errstate(over="ignore"):
        if kept == "rne16":
            return x.astype(np.float16).astype(np.float64)
        if kept == "rne32":
            return x.astype(np.float32).astype(np.float64)
    cut = _truncate(x, 24 if kept == "rz32" else 14, _LEAST_FP32)
    return np.where(np.abs(x) < 2.0**128, cut, np.copysign(np.inf, x))


class Rule(Protocol):
    """How products are added: by blocks, or by `Lanes`."""

    @property
    def length(self) -> int:
        """Products in a block."""


class BlockRule(Rule, Protocol):
    """Adds one block of products to c."""

    def block(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, operand: Element, half: bool) -> np.ndarray:
        """c (n) plus the products of a and b (n, length), finite values of an operand's format. `half`: with a result
        in fp16, not fp32."""


class Aligned(NamedTuple):
    """NVIDIA's rule: c and all products are aligned to their largest exponent, truncated there, and summed.

    Attributes:
        fraction: bits kept below the largest exponent. The rest is dropped, without a sticky bit.
        length: products per block.
        least: the smallest alignment exponent, with results in fp32 and in fp16.
        kept: the storage format of a sum with a result in fp32 (`store`).
    """

    fraction: int
    length: int
    least: tuple[int, int]
    kept: str = "rz32"

    def block(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, operand: Element, half: bool) -> np.ndarray:
        greatest = powers(a, operand.least) * powers(b, operand.least)
        top = np.maximum(np.maximum(greatest.max(-1), powers(c, _LEAST_FP32)), 2.0 ** self.least[half])
        scale = 2.0**self.fraction / top
        total = np.trunc(a * b * scale[..., None]).sum(-1) + np.trunc(c * scale)
        return store(total / scale, "rne16" if half else self.kept)


class Halves(NamedTuple):
    """fp8 through a unit for fp16 (mma.sync on Hopper and Blackwell): of each four products the first two are summed,
    then the others onto them, by `by`; c is added to the end, to nearest even."""

    by: Aligned

    @property
    def length(self) -> int:
        return 2 * self.by.length

    def block(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, operand: Element, half: bool) -> np.ndarray:
        later, total = np.arange(a.shape[-1]) % 4 >= 2, np.zeros_like(c)
        for places in (~later, later):
            total = self.by.block(a[:, places], b[:, places], total, operand, half)
        return store(total + c, "rne16" if half else "rne32")


class Exact(NamedTuple):
    """CDNA1: the exact sum of a block and c, rounded once, to nearest even."""

    length: int

    def block(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, operand: Element, half: bool) -> np.ndarray:
        terms = np.concatenate([a * b, c[:, None]], 1).tolist()
        return store(np.array([_to_odd(each) for each in terms]), "rne16" if half else "rne32")


def _to_odd(terms: list[float]) -> float:
    """A float64 from which rounding to fewer bits is the rounding of the exact sum: of an inexact one's two
    neighbours, the one whose last bit is 1 (S. Boldo, G. Melquiond, IEEE Transactions on Computers 57:462)."""
    nearest = math.fsum(terms)
    error = math.fsum([*terms, -nearest])
    if error and not np.float64(nearest).view(np.int64) & 1:
        return float(np.nextafter(nearest, np.inf if error > 0 else -np.inf))
    return nearest


class Chain(NamedTuple):
    """Vector units of CPUs: one product after another is added, each to nearest even.

    Attributes:
        order: the places of a block in the order in which they are added.
        fused: whether products are added exactly (FMA) and not rounded to fp32 first.
        flushes: whether subnormal operands, c and results count as zero (AVX-512 BF16, AMX).
    """

    order: tuple[int, ...] = (0,)
    fused: bool = True
    flushes: bool = False

    @property
    def length(self) -> int:
        return len(self.order)

    def block(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, operand: Element, half: bool) -> np.ndarray:
        kept = "rne16" if half else "rne32"
        if self.flushes:
            a, b = (np.where(np.abs(x) < 2.0**operand.least, 0.0, x) for x in (a, b))
            c = np.where(np.abs(c) < 2.0**_LEAST_FP32, np.copysign(0.0, c), c)
        for place in self.order:
            product = a[:, place] * b[:, place]
            c = store(_sum_to_odd(c, product if self.fused else store(product, kept)), kept)
            if self.flushes:
                c = np.where(np.abs(c) < 2.0**_LEAST_FP32, np.copysign(0.0, c), c)
        return c


class Tiles(NamedTuple):
    """AMX: in a block one chain of fused sums over the even places and one over the odd ones; both are added, and their
    sum to c. Subnormal operands, sums and c count as zero.

    Attributes:
        length: products per block.
        even: whether K is cut into equal blocks where as few of these suffice, of an even length (oneDNN).
        walk: the bf16 parts of a and of b that meet, a block of each pair after the other (wider formats by this
            package): rounded to nearest, but cut where two parts hold all bits, whose four pairs meet.
    """

    length: int
    even: bool = False
    walk: tuple[tuple[int, int], ...] = ((0, 0),)

    def at(self, depth: int) -> Tiles:
        """The rule for a K."""
        blocks = max(-(-depth // self.length), 1)
        return self._replace(length=depth // blocks) if self.even and depth and depth % (2 * blocks) == 0 else self

    def unfold(self, x: np.ndarray, side: int) -> np.ndarray:
        """Of rows of a (side 0) or b (1), whole blocks of K, the parts that meet."""
        from ..precisions.parts import split

        parts = split(x.astype(np.float32), "bf16x9") if len(self.walk) > 1 else (x,)
        if len(self.walk) == 4 and max(map(max, self.walk)) == 1:
            leading = (x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
            parts = leading, x - leading
        blocks = [parts[pair[side]].reshape(len(x), -1, self.length) for pair in self.walk]
        return np.stack(blocks, -2).reshape(len(x), -1).astype(np.float64)

    def block(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, operand: Element, half: bool) -> np.ndarray:
        places = (tuple(range(first, self.length, 2)) for first in (0, 1))
        even, odd = (Chain(order, flushes=True).block(a, b, np.zeros_like(c), operand, half) for order in places)
        return _flush(_flush(c) + _flush(even + odd))


class Lanes(NamedTuple):
    """Loops with several sums (torch's of float16 on CPUs, OpenBLAS's by AVX2): places are dealt to them in turn, those
    that are left over to the first; the sums are added one after another, c at last.

    Attributes:
        count: the number of sums.
        by: how each is made.
        unroll: how often one pass of the loop deals to all of them.
    """

    count: int
    by: Chain = Chain()
    unroll: int = 1

    @property
    def length(self) -> int:
        return self.count * self.by.length * self.unroll

    def places(self, depth: int) -> list[np.ndarray]:
        """The places of each sum."""
        dealt = np.arange(depth - depth % (self.count * self.unroll)).reshape(-1, self.count).T
        return [np.append(dealt[0], np.arange(dealt.size, depth)), *dealt[1:]]


def _sum_to_odd(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Sums from which rounding to fewer bits is that of the exact ones, as `_to_odd` has them (error: D. E. Knuth)."""
    with np.errstate(invalid="ignore"):
        total = x + y
        part = total - x
        error = (x - (total - part)) + (y - part)
        even = (total.view(np.int64) & 1) == 0
        toward = np.where((error > 0) == (total > 0), 1, -1)
        moved = (total.view(np.int64) + toward).view(np.float64)
    return np.where(np.isfinite(total) & (error != 0) & even, moved, total)


class Tree(NamedTuple):
    """CDNA2: products are rounded to fp32 and added in pairs, pairs of pairs and at last to c, each to nearest even.
    Subnormal operands and c count as zero, and subnormal sums become zero of their sign."""

    length: int

    def block(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, operand: Element, half: bool) -> np.ndarray:
        a, b = (np.where(np.abs(x) < 2.0**operand.least, 0.0, x) for x in (a, b))
        c = np.where(np.abs(c) < 2.0**_LEAST_FP32, 0.0, c)
        sums = [_flush(a[:, place] * b[:, place]) for place in range(a.shape[-1])]
        while len(sums) > 1:
            sums = [_flush(x + y) for x, y in zip(sums[::2], sums[1::2], strict=True)]
        return _flush(c + sums[0])


def _flush(x: np.ndarray) -> np.ndarray:
    rounded = store(x, "rne32")
    return np.where(np.abs(rounded) < 2.0**_LEAST_FP32, np.copysign(0.0, rounded), rounded)


class TwoStage(NamedTuple):
    """CDNA3's rule: products are aligned to the largest exponent among *them*, truncated toward zero and summed. That
    sum and c are aligned to the larger exponent of both, truncated toward minus infinity, added and rounded to nearest
    even.

    `apart`: products at even and odd places are summed separately and joined first (fp8), and c is dropped if it lies
    more than 25 bits below.
    """

    length: int
    apart: bool = False
    fraction: int = 24
    joint: int = 31

    def block(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, operand: Element, half: bool) -> np.ndarray:
        products, greatest = a * b, powers(a, operand.least) * powers(b, operand.least)
        groups = [slice(None)] if not self.apart else [slice(0, None, 2), slice(1, None, 2)]
        least = 2.0 ** (2 * operand.least)
        tops = [np.maximum(greatest[:, group].max(-1), least) for group in groups]
        unit = 2.0**self.fraction
        sums = [
            np.trunc(products[:, group] * (unit / top)[:, None]).sum(-1) * (top / unit)
            for group, top in zip(groups, tops, strict=True)
        ]
        top = np.maximum.reduce(tops)
        if self.apart:
            sums = [np.floor(each * (unit / top)) * (top / unit) for each in sums]
        of_c = powers(c, _LEAST_FP32)
        both = np.maximum(top, of_c)
        if self.apart:
            c = np.where(of_c < both * 2.0**-25, 0.0, c)
        wide = 2.0**self.joint / both
        total = np.floor(sum(sums) * wide) / wide + np.floor(c * (unit / both)) / (unit / both)
        return store(total, "rne32")
