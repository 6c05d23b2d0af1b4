"""Leaves that transform short rows whole: a matrix of a rows and b columns in vector registers, of which the compiler
puts on the stack those that the CPU has not, so that the user's memory is read in order, and written in order. What is
read next and what is written is asked for meanwhile, a few lines at a time: beyond the L2 cache a fifth to a third less
time, since transforms are as long as few lines, and are worked on for longer than the CPU looks ahead (bench/NOTES.md).

With j = b * j1 + j2 and k = k1 + a * k2, columns are transformed over j1 (a vector holds a row, a lane a column),
multiplied by exp(-2 pi i j2 k1 / n), transposed, and transformed over j2 (D. Bailey, "FFTs in external or hierarchical
memory", 1990). Where rows or columns do not fill vectors, two or four transforms share them, and lanes are read in
turn from two, which leaves one round of exchanges less to the transpose.

The inverse transform is the forward one with real and imaginary parts exchanged in what is read and written, which
takes no instruction in code of its own. Real numbers are half as many complex ones, whose spectrum becomes that of the
real numbers before it is written, or is read as that of the complex ones (`spectra.py`).
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

from ..gemm.emit import I32, I64, POINTER, broadcast, load, loop, offset, opaque, store, transpose, vector, zero
from ..gemm.tags import constant, field_class
from ..jit import intrinsic, ir, njit, types
from .butterflies import Complex
from .codelets import vectors
from .complex_vectors import Address, Vectors, lane_order
from .lengths import (
    IN_REGISTERS,
    in_registers,
    matrix_in_registers,
    members_of_lanes,
    numbers_of_lanes,
    places_of_lanes,
    sharing,
)
from .spectra import real_ends, spectrum, tangled
from .table import ONE

__all__ = ["InTwo", "Whole", "WholeArguments", "leaf_of"]


def _shape(n: int) -> Any:
    """A tag of a length, under a name by which it is found when compiled code is read again."""
    tag = globals()[f"Matrix{n}"] = namedtuple(f"Matrix{n}", (), module=__name__)
    tag.n = n
    return tag


_SHAPES = {n: _shape(n) for n in IN_REGISTERS}


class Forward(NamedTuple):
    """Complex numbers to complex numbers."""

    inverse, real = False, False


class Inverse(NamedTuple):
    inverse, real = True, False


class RealForward(NamedTuple):
    """Real numbers to half of their spectrum."""

    inverse, real = False, True


class RealInverse(NamedTuple):
    inverse, real = True, True


_DIRECTIONS = {(each.inverse, each.real): each for each in (Forward, Inverse, RealForward, RealInverse)}


class WholeArguments(NamedTuple):
    """first, last: of the transforms. roots: [row][part][column]; in row 0 they are 1. turns: for real numbers, the
    roots of `spectra.py`: [row][part][lane] of the first half of the rows that are written, or of all that are read."""

    source: int
    source_step: int
    target: int
    target_step: int
    first: int
    last: int
    scale: int
    roots: int
    turns: int


class _Matrix(Vectors):
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
        self.a, self.b = _matrix(leaf)
        self.share, self.line = _sharing(leaf), 2 * self.lanes * self.size
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

    def ask(self, name: str, first: ir.Value, part: ir.Value, parts: int) -> None:
        """Ask for a part of the lines of transforms that are soon read ("source") or written ("target")."""
        lines = -(-2 * (self.n + int(self.direction.real)) * self.size // (64 * parts))
        start = self.builder.mul(part, I64(64 * lines))
        for each in self.transforms(name, first):
            self.ask_for(offset(self.builder, each.at, start), lines, name == "target")

    def groups(self, first: ir.Value) -> list[list[Address]]:
        """The addresses of the sources that are the members of vectors of columns."""
        sources = self.transforms("source", first)
        return [sources[at : at + self.members] for at in range(0, self.share, self.members)]

    def _factor(self, table: ir.Value, row: int, vectors: int, first: ir.Value | None = None) -> Complex:
        """Of a table of rows of so many vectors, the first one, or that of the columns from `first` on."""
        start = I64(0) if first is None else self.builder.mul(first, I64(self.members))
        places = [self.builder.add(start, I64((2 * row + part) * vectors * self.lanes)) for part in range(2)]
        return Complex(*[self.load(table, each, self.lanes * self.size) for each in places])

    def _swapped(self, value: Complex) -> Complex:
        return Complex(value.im, value.re) if self.direction.inverse else value

    def _addresses(self, sources: list[Address], numbers: list[ir.Value]) -> list[Address]:
        """The addresses of a number of each member."""
        members = sources if self.members == 2 else sources * 2
        return [self.plain_address(*each) for each in zip(members, numbers, strict=True)]

    def _row(self, sources: list[Address], j1: int, first: ir.Value) -> Complex:
        """Columns of a row, from `first` on. What a vector has beyond the columns is of the next row, or masked."""
        numbers, masks = [self.builder.add(first, I64(j1 * self.b + start)) for start in self.starts], None
        if j1 == self.a - 1 and self.b % self.width:
            masks = [self.masks(self.builder.sub(I64(self.b - start), first))[0] for start in self.starts]
        x = self.read_members(*self._addresses(sources, numbers), masks)
        if self.direction.real and self.direction.inverse:
            mirrors = [self.builder.sub(I64(self.n - self.lanes // 2 + 1), number) for number in numbers]
            y = self.read_members(*self._addresses(sources, mirrors), backwards=True)
            if j1 == 0:
                columns = ir.Constant(vector(I32, self.lanes), self.numbers)
                start = broadcast(self.builder, self.builder.trunc(first, I32), self.lanes)
                ends = self.builder.icmp_signed("==", self.builder.add(columns, start), zero(columns.type))
                x, y = (real_ends(self.arithmetic, each, ends) for each in (x, y))
            root = self._factor(self.turns, j1, self.b // self.width, first)
            x, _ = tangled(self.arithmetic, x, y, Complex(root.re, self.builder.fneg(root.im)))
        return self._swapped(x)

    def down(self, sources: list[Address], first: ir.Value) -> list[Complex]:
        """Columns, from `first` on, transformed and multiplied by roots of unity and the scale."""
        out = self.arithmetic.transform([self._row(sources, j1, first) for j1 in range(self.a)])
        factors = [self._factor(self.roots, k1, self.vectors_down, first) for k1 in range(self.a)]
        scaled = Complex(*[self.arithmetic.times(part, factors[0].re) for part in out[0]])
        return [scaled, *[self.arithmetic.multiply(*each) for each in zip(out[1:], factors[1:], strict=True)]]

    def turn(self, rows: list[Complex], squares: int = 1) -> list[Complex]:
        """The columns of a square; those of two squares are columns where halves of vectors change places."""
        rows, size = [rows[k] for k in self.order], self.width // squares
        return [line for at in range(0, len(rows), size) for line in self._turned(rows[at : at + size])]

    def _turned(self, rows: list[Complex]) -> list[Complex]:
        parts = [transpose(self.builder, [row[part] for row in rows], self.members) for part in range(2)]
        return [Complex(*each) for each in zip(*parts, strict=True)]

    def in_order(self, lines: list[Complex]) -> list[Complex]:
        """The columns of a square that was turned."""
        return [lines[self.order.index(column)] for column in range(self.width)]

    def line_at(self, memory: ir.Value, number: int) -> Complex:
        """A line of a square. One that was turned as two takes its other half from another line: to insert what is
        loaded needs no port that shuffles."""
        if self.squares == 1:
            return Complex(*[self.load(memory, (2 * number + part) * self.lanes, self.line // 2) for part in range(2)])
        half, quarter = self.width // 2, self.line // 4
        places = [(number % half + each * half) * self.line + number // half * quarter for each in range(2)]
        return Complex(*[self._joined(memory, [at + 2 * part * quarter for at in places]) for part in range(2)])

    def _joined(self, memory: ir.Value, places: list[int]) -> ir.Value:
        kind, order = vector(self.tag.element, self.lanes // 2), lane_order(list(range(self.lanes)))
        halves = [load(self.builder, kind, offset(self.builder, memory, at), self.line // 4) for at in places]
        return self.builder.shuffle_vector(*halves, order)

    def across(self, columns: list[Complex], targets: list[Address], first: ir.Value) -> None:
        """Rows, of which each vector has `first` and those after it, transformed and written."""
        rows = self.arithmetic.transform(columns)
        numbered, places = enumerate(rows), places_of_lanes(self.share, self.lanes, self.size)
        if self.direction.real and not self.direction.inverse:
            roots = [self._factor(self.turns, k2, 1) for k2 in range(self.b // 2)]
            numbered = spectrum(self.arithmetic, rows, roots, places)
        for k2, value in numbered:
            if k2 < self.b:
                at = self.builder.add(first, I64(k2 * self.a))
                self._write(self._swapped(value), [self.plain(each.at, at)[0] for each in targets])
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


def _matrix(leaf: Any) -> tuple[int, int]:
    found = matrix_in_registers(field_class(leaf, "shape").n, field_class(leaf, "vectors").lanes)
    assert found is not None
    return found


def _sharing(leaf: Any) -> int:
    direction = field_class(leaf, "direction")
    spectra = direction.real and not direction.inverse
    return sharing(field_class(leaf, "shape").n, field_class(leaf, "vectors").lanes, spectra)


@intrinsic
def _scaled_roots(typingctx, leaf, job):
    """The address of the roots times the scale."""

    def codegen(context, builder, signature, arguments):
        leaf, job = signature.args[0], arguments[1]
        m = _Matrix(builder, leaf, job, I64(0))
        vectors = 2 * m.a * m.vectors_down
        with builder.goto_entry_block():
            place = builder.alloca(ir.ArrayType(ir.IntType(8), vectors * m.lanes * m.size))
            place.align = 64
        roots, to = builder.inttoptr(m.field["roots"], POINTER), builder.bitcast(place, POINTER)
        scaled = builder.icmp_signed("!=", m.field["scale"], I64(ONE))
        with builder.if_then(scaled):
            scale = m.number(m.field["scale"])

            def multiply(index, _):
                at = builder.mul(index, I64(m.lanes))
                value = m.arithmetic.times(m.load(roots, at, m.lanes * m.size), scale)
                store(builder, value, offset(builder, to, builder.mul(at, I64(m.size))), m.lanes * m.size)
                return []

            loop(builder, I64(vectors), [], multiply)
        return builder.select(scaled, builder.ptrtoint(to, I64), m.field["roots"])

    return types.int64(leaf, job), codegen


@intrinsic
def _in_registers(typingctx, leaf, job, roots, first):
    """Transform as many as share vectors, from the first on."""

    def codegen(context, builder, signature, arguments):
        _, job, roots, first = arguments
        m = _Matrix(builder, signature.args[0], job, roots)
        groups, columns = m.groups(first), list[Complex]()
        m.ask("source", builder.add(first, I64(m.share)), I64(0), 1)
        m.ask("target", first, I64(0), 1)
        for column in range(0, m.b, m.width):
            rows = [row for group in groups for row in m.down(group, I64(column))]
            columns += m.in_order(m.turn(rows))[: m.b - column]
        m.across(columns, m.transforms("target", first), I64(0))
        return context.get_dummy_value()

    return types.void(leaf, job, types.int64, types.int64), codegen


@intrinsic
def _matrix_on_stack(typingctx, leaf):
    """The address of memory for the matrices that share vectors: [vector of rows][column][part][lane]."""

    def codegen(context, builder, signature, arguments):
        rows, columns = _matrix(leaf)
        width, lanes, size = _width(leaf), field_class(leaf, "vectors").lanes, field_class(leaf, "vectors").size
        lines = rows * _sharing(leaf) // lanes * -(-columns // width) * width
        with builder.goto_entry_block():
            place = builder.alloca(ir.ArrayType(ir.IntType(8), 2 * lines * lanes * size))
            place.align = 64
        return builder.ptrtoint(place, I64)

    return types.int64(leaf), codegen


@intrinsic
def _columns(typingctx, leaf, job, roots, index, first, memory):
    """A vector of columns of the matrices, to memory; halves of vectors are yet to change places."""

    def codegen(context, builder, signature, arguments):
        _, job, roots, index, first, memory = arguments
        m = _Matrix(builder, signature.args[0], job, roots)
        part = builder.udiv(first, I64(m.width))
        m.ask("source", builder.add(index, I64(m.share)), part, m.vectors_down + m.vectors_across)
        m.ask("target", index, part, m.vectors_down)
        rows = [row for group in m.groups(index) for row in m.down(group, first)]
        to = offset(builder, builder.inttoptr(memory, POINTER), builder.mul(first, I64(m.line)))
        for block in range(len(rows) // m.width):
            for line, value in enumerate(m.turn(rows[block * m.width : (block + 1) * m.width], m.squares)):
                for part in range(2):
                    at = (block * m.filled + line) * m.line + part * m.line // 2
                    store(builder, value[part], offset(builder, to, at), m.line // 2)
        return context.get_dummy_value()

    return types.void(leaf, job, *(types.int64,) * 4), codegen


@intrinsic
def _rows(typingctx, leaf, job, roots, index, first, memory):
    """A vector of rows of the matrices, from memory."""

    def codegen(context, builder, signature, arguments):
        _, job, roots, index, first, memory = arguments
        m = _Matrix(builder, signature.args[0], job, roots)
        # Unknown to LLVM, which would keep what is in memory in registers where all loops are of one turn.
        memory = builder.inttoptr(opaque(builder, memory), POINTER)
        part = builder.add(builder.udiv(first, I64(m.width)), I64(m.vectors_down))
        m.ask("source", builder.add(index, I64(m.share)), part, m.vectors_down + m.vectors_across)
        at, columns = offset(builder, memory, builder.mul(first, I64(m.filled * m.line // m.width))), list[Complex]()
        for column in range(0, m.b, m.width):
            square = offset(builder, at, column * m.line)
            columns += m.in_order([m.line_at(square, line) for line in range(m.width)])[: m.b - column]
        m.across(columns, m.transforms("target", index), first)
        return context.get_dummy_value()

    return types.void(leaf, job, *(types.int64,) * 4), codegen


@njit(cache=False, no_cpython_wrapper=True)
def _whole(leaf, job):
    roots = _scaled_roots(leaf, job)
    for first in range(job.first, job.last, constant(leaf, "sharing")):
        _in_registers(leaf, job, roots, first)


class Whole(NamedTuple):
    """Leaf: transforms whose columns, or those of the ones that share vectors, are as high as a vector is long."""

    vectors: NamedTuple
    shape: NamedTuple
    direction: NamedTuple
    run = _whole
    arguments = WholeArguments
    sharing = _sharing


def _side(index: int) -> Any:
    return lambda leaf: _matrix(leaf)[index]


@njit(cache=False, no_cpython_wrapper=True)
def _in_two(leaf, job):
    memory, roots, width = _matrix_on_stack(leaf), _scaled_roots(leaf, job), constant(leaf, "width")
    share = constant(leaf, "sharing")
    for index in range(job.first, job.last, share):
        for first in range(0, constant(leaf, "columns"), width):
            _columns(leaf, job, roots, index, first, memory)
        for first in range(0, constant(leaf, "rows"), width):
            _rows(leaf, job, roots, index, first, memory)


def _width(leaf: Any) -> int:
    return field_class(leaf, "vectors").lanes // min(_sharing(leaf), 2)


class InTwo(NamedTuple):
    """Leaf: transforms of larger matrices, in two steps through memory in the L1 cache."""

    vectors: NamedTuple
    shape: NamedTuple
    direction: NamedTuple
    run = _in_two
    arguments = WholeArguments
    rows, columns = _side(0), _side(1)
    sharing, width = _sharing, _width


def leaf_of(n: int, size: int, lanes: int, inverse: bool, real: bool = False) -> Any:
    """The leaf for a length that has a matrix."""
    return (Whole if in_registers(n, lanes, real) else InTwo)(
        vectors(size, lanes * size), _SHAPES[n](), _DIRECTIONS[inverse, real]()
    )
