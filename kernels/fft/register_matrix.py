"""The transform of one matrix in vector registers, or of those that share vectors, as it is emitted: `registers.py`
says how, and has the loops."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from ..block.emit import I32, I64, POINTER, broadcast, load, offset, store, vector, zero
from ..block.tags import field_class
from ..runtime.jit import ir
from .butterflies import Complex
from .complex_vectors import Address, Vectors, lane_order
from .lengths import matrix_in_registers, members_of_lanes, numbers_of_lanes, places_of_lanes, sharing
from .spectra import combine_mirrors, real_ends, spectrum

WholeArguments = namedtuple("WholeArguments", "source source_step target target_step first last scale roots turns")
"""first, last: of the transforms. roots: [row][part][column]; in row 0 they are 1. turns: for real numbers, the
roots of `spectra.py`: [row][part][lane] of the first half of the rows that are written, or of all that are read."""


class Matrix(Vectors):
    """Emits the transform of one matrix, or of those that share vectors.

    Attributes:
        filled: columns with those that fill the last vector.
        width: columns of a transform in a vector, whose lanes are taken in turn from two members: two transforms, or
            the first and the second half of neighbouring columns of one.
        starts: the first columns of the members.
        numbers: the column in each lane.
        order: of the rows of a square when it is turned, and so of the columns that come out of it.
        line: bytes of a vector of complex numbers.
        squares: as how many a square is turned on its way through memory.
        vectors_down, vectors_across: vectors of columns, and of rows, of the transforms that share them.
    """

    def __init__(self, builder: ir.IRBuilder, leaf: Any, job: ir.Value, roots: ir.Value) -> None:
        super().__init__(builder, field_class(leaf, "vectors"))
        self.n, self.direction = field_class(leaf, "shape").n, field_class(leaf, "direction")
        self.a, self.b = matrix_of(leaf)
        self.share, self.line = sharing_of(leaf), 2 * self.lanes * self.size
        self.members, self.squares = min(self.share, 2), 1 if self.line == 32 else 2
        self.width, self.numbers = self.lanes // self.members, numbers_of_lanes(self.members, self.lanes, self.size)
        self.filled = -(-self.b // self.width) * self.width
        self.vectors_down, self.vectors_across = self.filled // self.width, self.a * self.share // self.lanes
        self.starts = (0, 0) if self.members == 2 else (0, self.lanes // 2)
        self.order = list(range(self.width)) if self.members == 2 else self.numbers
        self.field = {name: builder.extract_value(job, place) for place, name in enumerate(WholeArguments._fields)}
        self.roots, self.turns = (builder.inttoptr(each, POINTER) for each in (roots, self.field["turns"]))

    def transforms(self, name: str, first: ir.Value) -> list[Address]:
        """The addresses of the transforms that share vectors, the last one for those that are not there."""
        builder, found = self.builder, []
        final = builder.sub(self.field["last"], I64(1))
        for index in range(self.share):
            number = builder.add(first, I64(index))
            number = builder.select(builder.icmp_signed("<", number, final), number, final)
            found.append(self.address(builder.add(self.field[name], builder.mul(number, self.field[f"{name}_step"]))))
        return found

    def ask(self, ask: Callable[..., None], transforms: list[Address], part: ir.Value, parts: int) -> None:
        """Ask for one of some equal parts of transforms."""
        count = -(-self.n // (self.lanes * parts))
        first = self.builder.mul(part, I64(count * self.lanes))
        numbers = [self.builder.add(first, I64(vector * self.lanes)) for vector in range(count)]
        for each in transforms:
            self.ask_for(ask, each.at, numbers, max(self.line // 64, 1))

    def groups(self, first: ir.Value) -> list[list[Address]]:
        """The addresses of the sources that are the members of vectors of columns."""
        sources = self.transforms("source", first)
        return [sources[at : at + self.members] for at in range(0, self.share, self.members)]

    def _first_of(self, index: ir.Value) -> ir.Value:
        """The first of a vector of columns: the last one takes some again where they do not fill vectors."""
        first, last = self.builder.mul(index, I64(self.width)), I64(max(self.b - self.width, 0))
        return self.builder.select(self.builder.icmp_signed("<", first, last), first, last)

    def _factor(self, table: ir.Value, row: int, vectors: int, index: ir.Value | None = None) -> Complex:
        """Of a table of rows of so many vectors, one, or the first."""
        start = I64(0) if index is None else self.builder.mul(index, I64(self.lanes))
        places = [self.builder.add(start, I64((2 * row + part) * vectors * self.lanes)) for part in range(2)]
        return Complex(*[self.load(table, each, self.lanes * self.size) for each in places])

    def _swap(self, value: Complex) -> Complex:
        return Complex(value.im, value.re) if self.direction.inverse else value

    def _addresses(self, sources: list[Address], numbers: list[ir.Value]) -> list[Address]:
        """The addresses of a number of each member."""
        members = sources if self.members == 2 else sources * 2
        return [self.plain_address(*each) for each in zip(members, numbers, strict=True)]

    def _row(self, sources: list[Address], j1: int, index: ir.Value) -> Complex:
        """A vector of columns of a row. Where there are fewer than it has, others are of the next row, or masked."""
        first = self._first_of(index)
        numbers = [self.builder.add(first, I64(j1 * self.b + start)) for start in self.starts]
        masks = mirror_masks = None
        if j1 == self.a - 1 and self.b < self.width:
            there = [self.b - start for start in self.starts]
            masks = [self.masks(I64(each))[0] for each in there]
            mirror_masks = [self.builder.not_(self.masks(I64(self.lanes // 2 - each))[0]) for each in there]
        x = self.read_members(*self._addresses(sources, numbers), masks)
        if self.direction.real and self.direction.inverse:
            mirrors = [self.builder.sub(I64(self.n - self.lanes // 2 + 1), number) for number in numbers]
            y = self.read_members(*self._addresses(sources, mirrors), mirror_masks, backwards=True)
            if j1 == 0:
                columns = ir.Constant(vector(I32, self.lanes), self.numbers)
                start = broadcast(self.builder, self.builder.trunc(first, I32), self.lanes)
                ends = self.builder.icmp_signed("==", self.builder.add(columns, start), zero(columns.type))
                x, y = (real_ends(self.arithmetic, each, ends) for each in (x, y))
            root = self._factor(self.turns, j1, self.vectors_down, index)
            x, _ = combine_mirrors(self.arithmetic, x, y, Complex(root.re, self.builder.fneg(root.im)))
        return self._swap(x)

    def down(self, sources: list[Address], index: ir.Value) -> list[Complex]:
        """A vector of columns, transformed and multiplied by roots of unity and the scale."""
        out = self.arithmetic.transform([self._row(sources, j1, index) for j1 in range(self.a)])
        factors = [self._factor(self.roots, k1, self.vectors_down, index) for k1 in range(self.a)]
        scaled = Complex(*[self.arithmetic.times(part, factors[0].re) for part in out[0]])
        return [scaled, *[self.arithmetic.multiply(*each) for each in zip(out[1:], factors[1:], strict=True)]]

    def lines(self, rows: list[Complex], squares: int = 1) -> list[Complex]:
        """The columns of a square; those of two squares are columns where halves of vectors change places."""
        rows, size = [rows[k] for k in self.order], self.width // squares
        return [line for at in range(0, len(rows), size) for line in self.turn(rows[at : at + size], self.members)]

    def in_order(self, lines: list[Complex], first: int) -> list[Complex]:
        """The columns from `first` on of the square that has them, which was turned."""
        start = min(first, max(self.b - self.width, 0))
        return [lines[self.order.index(column - start)] for column in range(first, min(start + self.width, self.b))]

    def line_at(self, memory: ir.Value, number: int) -> Complex:
        """A line of a square. One that was turned as two takes its other half from another line: to insert what is
        loaded needs no port that shuffles."""
        if self.squares == 1:
            return Complex(*[self.load(memory, (2 * number + part) * self.lanes, self.line // 2) for part in range(2)])
        half, quarter = self.width // 2, self.line // 4
        places = [(number % half + each * half) * self.line + number // half * quarter for each in range(2)]
        return Complex(*[self._join(memory, [at + 2 * part * quarter for at in places]) for part in range(2)])

    def _join(self, memory: ir.Value, places: list[int]) -> ir.Value:
        kind, order = vector(self.tag.element, self.lanes // 2), lane_order(list(range(self.lanes)))
        halves = [load(self.builder, kind, offset(self.builder, memory, at), self.line // 4) for at in places]
        return self.builder.shuffle_vector(*halves, order)

    def across(self, columns: list[Complex], targets: list[Address], first: ir.Value) -> None:
        """Transform and write rows; each vector has row `first` and those after it."""
        rows = self.arithmetic.transform(columns)
        numbered, places = enumerate(rows), places_of_lanes(self.share, self.lanes, self.size)
        if self.direction.real and not self.direction.inverse:
            roots = [self._factor(self.turns, k2, 1) for k2 in range(-(-self.b // 2))]
            numbered = spectrum(self.arithmetic, rows, roots, places)
        for k2, value in numbered:
            if k2 < self.b:
                at = self.builder.add(first, I64(k2 * self.a))
                self._write(self._swap(value), [self.plain(each.at, at)[0] for each in targets])
            else:
                self._write_ends(value, [places.index((transform, 0)) for transform in range(self.share)], targets)

    def _write_ends(self, value: Complex, lanes: list[int], targets: list[Address]) -> None:
        """The last frequency of each transform, which is real."""
        for lane, target in zip(lanes, targets, strict=True):
            number = self.builder.extract_element(value.re, I32(lane))
            at = self.plain(target.at, self.n)[0]
            store(self.builder, number, at, self.size)
            store(self.builder, ir.Constant(number.type, 0.0), offset(self.builder, at, self.size), self.size)

    def _write(self, value: Complex, places: list[ir.Value]) -> None:
        """A row, or those of the transforms that share a vector."""
        for member in range(2):
            lanes = [lane for lane, (each, _) in enumerate(members_of_lanes(self.lanes, self.size)) if each == member]
            order = [lane + part * self.lanes for lane in lanes for part in range(2)]
            row = self.builder.shuffle_vector(*value, lane_order(order))
            pieces = [offset(self.builder, places[0], member * self.lanes * self.size)]
            if self.share > 1:
                pieces = places[member::2]
            width = self.lanes // len(pieces)
            for piece, at in enumerate(pieces):
                some = lane_order(list(range(piece * width, (piece + 1) * width)))
                store(self.builder, self.builder.shuffle_vector(row, row, some), at, self.size)


def matrix_of(leaf: Any) -> tuple[int, int]:
    found = matrix_in_registers(field_class(leaf, "shape").n, field_class(leaf, "vectors").lanes)
    assert found is not None
    return found


def sharing_of(leaf: Any) -> int:
    direction = field_class(leaf, "direction")
    spectra = direction.real and not direction.inverse
    return sharing(field_class(leaf, "shape").n, field_class(leaf, "vectors").lanes, spectra)
