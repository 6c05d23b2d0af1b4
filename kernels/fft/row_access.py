"""How the rows of a pass are read and written: in the kernel's own memory, or as the user has them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..block.emit import I32, I64, broadcast, lane_numbers, load, masked_store, offset, store, store_past_caches, vector
from ..block.tags import tag_class
from ..runtime.jit import ir
from .butterflies import Arithmetic, Complex
from .lengths import members_of_lanes, sharing_rows


class Place(NamedTuple):
    """What reading and writing a row needs: the arguments of the pass that are the same for all of its rows.

    Attributes:
        swap: whether split parts change places.
        scale, signed: what the user's real and imaginary parts are multiplied by.
        others: bytes to the transforms that share the vectors.
        filled: of the user's parts that a row has, where it has fewer than a vector.
    """

    arithmetic: Arithmetic
    bytes: int
    swap: Any
    scale: Any
    signed: Any
    others: list[ir.Value]
    filled: ir.Value


class Split(NamedTuple):
    """Rows of the kernel's own memory."""

    @staticmethod
    def read(place: Place, at: ir.Value) -> Complex:
        a = place.arithmetic
        builder, kind = a.builder, vector(a.element, a.lanes)
        first = builder.select(place.swap, I64(place.bytes), I64(0))
        second = builder.sub(I64(place.bytes), first)
        parts = [load(builder, kind, offset(builder, at, each), place.bytes) for each in (first, second)]
        return Complex(*parts)

    @staticmethod
    def write(place: Place, value: Complex, at: ir.Value, row: Any) -> None:
        builder = place.arithmetic.builder
        first = builder.select(place.swap, I64(place.bytes), I64(0))
        store(builder, value.re, offset(builder, at, first), place.bytes)
        store(builder, value.im, offset(builder, at, builder.sub(I64(place.bytes), first)), place.bytes)


class Twiddled(NamedTuple):
    """Rows of the kernel's own memory, each multiplied by a vector of roots of unity and by one root."""

    @staticmethod
    def write(place: Place, value: Complex, at: ir.Value, row: Any) -> None:
        a = place.arithmetic
        builder, kind, size = a.builder, vector(a.element, a.lanes), place.bytes // a.lanes
        lanes, phase = row
        vectors = [load(builder, kind, offset(builder, lanes, each), place.bytes) for each in (0, place.bytes)]
        scalars = [
            broadcast(builder, load(builder, a.element, offset(builder, phase, each), size), a.lanes)
            for each in (0, size)
        ]
        value = a.multiply(a.multiply(value, Complex(*vectors)), Complex(*scalars))
        store(builder, value.re, at, place.bytes)
        store(builder, value.im, offset(builder, at, place.bytes), place.bytes)


def _lanes(order: list[int]) -> ir.Constant:
    return ir.Constant(vector(I32, len(order)), order)


class Interleaved(NamedTuple):
    """Rows of the user's complex numbers; what is written is scaled.

    share: how many transforms have parts of a vector. whole: whether rows are as long as their parts of vectors.
    """

    share = 1
    whole = True

    @staticmethod
    def read(place: Place, at: ir.Value) -> Complex:
        a = place.arithmetic
        builder, kind, size = a.builder, vector(a.element, a.lanes), place.bytes // a.lanes
        low, high = (load(builder, kind, offset(builder, at, each), size) for each in (0, place.bytes))
        even = builder.shuffle_vector(low, high, _lanes(list(range(0, 2 * a.lanes, 2))))
        odd = builder.shuffle_vector(low, high, _lanes(list(range(1, 2 * a.lanes, 2))))
        return Complex(even, a.times(odd, place.signed))

    @classmethod
    def write(cls, place: Place, value: Complex, at: ir.Value, row: Any) -> None:
        a = place.arithmetic
        builder = a.builder
        parts = a.times(value.re, place.scale), a.times(value.im, place.signed)
        pieces = max(cls.share // 2, 1)
        for half in range(2):
            order = [lane + part * a.lanes for lane in cls._half(half, place) for part in range(2)]
            numbers = builder.shuffle_vector(*parts, _lanes(order))
            for piece in range(pieces):
                some, to = numbers, offset(builder, at, half * place.bytes)
                if cls.share > 1:
                    width = a.lanes // pieces
                    some = builder.shuffle_vector(some, some, _lanes(list(range(piece * width, (piece + 1) * width))))
                    to = offset(builder, at, place.others[half + 2 * piece])
                cls._put(place, some, to, half * a.lanes if cls.share == 1 else 0)

    @classmethod
    def _half(cls, half: int, place: Place) -> list[int]:
        """The lanes of half of a row, or those of one of the two members of vectors that transforms share."""
        lanes = place.arithmetic.lanes
        if cls.share == 1:
            return list(range(half * lanes // 2, (half + 1) * lanes // 2))
        members = members_of_lanes(lanes, place.bytes // lanes)
        return [lane for lane, (member, _) in enumerate(members) if member == half]

    @classmethod
    def _put(cls, place: Place, numbers: ir.Value, to: ir.Value, first: int) -> None:
        """Store a piece of a row that begins with its part `first`."""
        builder, lanes, size = place.arithmetic.builder, numbers.type.count, place.bytes // place.arithmetic.lanes
        if cls.whole:
            store(builder, numbers, to, size)
            return
        there = builder.icmp_signed("<", lane_numbers(lanes, first), broadcast(builder, place.filled, lanes))
        masked_store(builder, numbers, to, size, there)


class Streamed(Interleaved):
    """The same of a result that the caches do not hold, whose rows begin on cache lines."""

    @classmethod
    def _put(cls, place: Place, numbers: ir.Value, to: ir.Value, first: int) -> None:
        store_past_caches(place.arithmetic.builder, numbers, to, place.bytes)


InPairs = tag_class("InPairs", __name__, Interleaved, share=2)
"""The same, where the lanes of a vector are in turn of two transforms."""

InFours = tag_class("InFours", __name__, Interleaved, share=4)
"""The same, where those of one half of a vector are of two transforms, and those of the other of the next two."""

PartOfOne = tag_class("PartOfOne", __name__, Interleaved, whole=False)
"""Rows that are shorter than a vector, and lie next to each other."""

PartInPairs = tag_class("PartInPairs", __name__, InPairs, whole=False)
"""Rows that are shorter than a half of a vector, and lie next to each other."""


def writer_of(rows: int, lanes: int) -> Any:
    """The class that writes rows of so many complex numbers, of as many transforms as have room in a vector."""
    share = sharing_rows(rows, lanes)
    return {
        (1, True): Interleaved, (2, True): InPairs, (4, True): InFours, (1, False): PartOfOne, (2, False): PartInPairs,
    }[share, share * rows == lanes]  # fmt: skip
