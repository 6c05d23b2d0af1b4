"""Leaves that transform short rows whole: a matrix of a rows and b columns in vector registers, of which the compiler
puts on the stack those that the CPU has not, so that the user's memory is read in order, and written in order.

With j = b * j1 + j2 and k = k1 + a * k2, columns are transformed over j1 (a vector holds a row, a lane a column),
multiplied by exp(-2 pi i j2 k1 / n), transposed, and transformed over j2 (D. Bailey, "FFTs in external or hierarchical
memory", 1990). Where a row fills half of a vector, or the columns do after the transpose, two transforms share it, and
four where both do half.

The inverse transform is the forward one with real and imaginary parts exchanged in what is read and written, which
takes no instruction in code of its own. Real numbers are half as many complex ones, whose spectrum becomes that of the
real numbers before it is written, or is read as that of the complex ones (`spectra.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..gemm.emit import I32, I64, POINTER, broadcast, loop, offset, store, vector, zero
from ..gemm.tags import constant, field_class
from ..jit import intrinsic, ir, njit, types
from .butterflies import Complex
from .codelets import vectors
from .complex_vectors import Vectors, lane_order
from .lengths import MATRICES, sharing
from .spectra import real_ends, spectrum, tangled
from .table import ONE

__all__ = ["InTwo", "Whole", "WholeArguments", "leaf_of"]


class Matrix16(NamedTuple):
    n = 16


class Matrix32(NamedTuple):
    n = 32


class Matrix60(NamedTuple):
    n = 60


class Matrix64(NamedTuple):
    n = 64


class Matrix128(NamedTuple):
    n = 128


class Matrix256(NamedTuple):
    n = 256


class Matrix512(NamedTuple):
    n = 512


_EVERY = (Matrix16, Matrix32, Matrix60, Matrix64, Matrix128, Matrix256, Matrix512)
_SHAPES = {each.n: each for each in _EVERY}


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
    """Emits the transform of one matrix, or of those that share vectors."""

    def __init__(self, builder: ir.IRBuilder, leaf: Any, job: ir.Value, roots: ir.Value) -> None:
        super().__init__(builder, field_class(leaf, "vectors"))
        self.n, self.direction = field_class(leaf, "shape").n, field_class(leaf, "direction")
        self.a, self.b = MATRICES[self.n]
        self.share, self.width = sharing(self.n, self.lanes), -(-self.b // self.lanes) * self.lanes
        self.field = {name: builder.extract_value(job, place) for place, name in enumerate(WholeArguments._fields)}
        self.roots, self.turns = (builder.inttoptr(each, POINTER) for each in (roots, self.field["turns"]))

    def transforms(self, name: str, first: ir.Value) -> list[ir.Value]:
        """The addresses of the transforms that share vectors, the last one for those that are not there."""
        builder, found = self.builder, []
        final = builder.sub(self.field["last"], I64(1))
        for index in range(self.share):
            number = builder.add(first, I64(index))
            number = builder.select(builder.icmp_signed("<", number, final), number, final)
            at = builder.add(self.field[name], builder.mul(number, self.field[f"{name}_step"]))
            found.append(builder.inttoptr(at, POINTER))
        return found

    def _aligned(self, table: ir.Value, row: int, width: int, first: ir.Value | None = None) -> Complex:
        """A vector of a table of rows whose parts have `width` numbers, from `first` on."""
        places = [(2 * row + part) * width for part in range(2)]
        numbers = places if first is None else [self.builder.add(first, I64(place)) for place in places]
        return Complex(*[self.load(table, number, self.lanes * self.size) for number in numbers])

    def _swapped(self, value: Complex) -> Complex:
        return Complex(value.im, value.re) if self.direction.inverse else value

    def _row(self, sources: list[ir.Value], j1: int, first: ir.Value) -> Complex:
        """Columns of a row, from `first` on, or the whole rows of two transforms. What a vector has beyond the columns
        is of the next row, or masked."""
        number = self.builder.add(first, I64(j1 * self.b))

        def places(number: ir.Value) -> list[ir.Value]:
            if len(sources) == 2:
                return [self.plain(each, number)[0] for each in sources]
            return list(self.plain(sources[0], number))

        together, last = self.lanes // len(sources), j1 == self.a - 1
        masks = self.masks(self.builder.sub(I64(self.b), first)) if last and self.b % together else None
        x = self.read(*places(number), masks)
        if self.direction.real and self.direction.inverse:
            mirror = self.builder.sub(I64(self.n - together + 1), number)
            y = self.read(*places(mirror), backwards=together)
            if j1 == 0:
                columns = ir.Constant(vector(I32, self.lanes), [lane % together for lane in range(self.lanes)])
                start = broadcast(self.builder, self.builder.trunc(first, I32), self.lanes)
                ends = self.builder.icmp_signed("==", self.builder.add(columns, start), zero(columns.type))
                x, y = (real_ends(self.arithmetic, each, ends) for each in (x, y))
            root = self._aligned(self.turns, j1, self.width, first)
            x, _ = tangled(self.arithmetic, x, y, Complex(root.re, self.builder.fneg(root.im)))
        return self._swapped(x)

    def down(self, sources: list[ir.Value], first: ir.Value) -> list[Complex]:
        """Columns, from `first` on, transformed and multiplied by roots of unity and the scale."""
        out = self.arithmetic.transform([self._row(sources, j1, first) for j1 in range(self.a)])
        factors = [self._aligned(self.roots, k1, self.width, first) for k1 in range(self.a)]
        scaled = Complex(*[self.arithmetic.times(part, factors[0].re) for part in out[0]])
        return [scaled, *[self.arithmetic.multiply(*each) for each in zip(out[1:], factors[1:], strict=True)]]

    def across(self, columns: list[Complex], targets: list[ir.Value], first: ir.Value) -> None:
        """Rows, of which each vector has `first` and those after it, transformed and written."""
        rows, end = self.arithmetic.transform(columns), None
        if self.direction.real and not self.direction.inverse:
            roots = [self._aligned(self.turns, k2, self.lanes) for k2 in range(self.b // 2)]
            rows, end = spectrum(self.arithmetic, rows, roots, self.a)
        for k2, value in enumerate(rows):
            at = self.builder.add(first, I64(k2 * self.a))
            self._write(self._swapped(value), [self.plain(each, at)[0] for each in targets])
        for index, target in enumerate(targets if end else []):
            number = self.builder.extract_element(end.re, I32(index * self.a))
            at = self.plain(target, self.n)[0]
            store(self.builder, number, at, self.size)
            store(self.builder, ir.Constant(number.type, 0.0), offset(self.builder, at, self.size), self.size)

    def _write(self, value: Complex, places: list[ir.Value]) -> None:
        """A row, or those of the transforms that share a vector."""
        numbers = [lane + part * self.lanes for lane in range(self.lanes) for part in range(2)]
        for half in range(2):
            order = numbers[half * self.lanes : (half + 1) * self.lanes]
            if self.share == 1:
                pieces = [offset(self.builder, places[0], half * self.lanes * self.size)]
            else:
                pieces = places[half * self.share // 2 : (half + 1) * self.share // 2]
            row = self.builder.shuffle_vector(*value, lane_order(order))
            width = self.lanes // len(pieces)
            for piece, at in enumerate(pieces):
                some = lane_order(list(range(piece * width, (piece + 1) * width)))
                store(self.builder, self.builder.shuffle_vector(row, row, some), at, self.size)


@intrinsic
def _scaled_roots(typingctx, leaf, job):
    """The address of the roots times the scale."""

    def codegen(context, builder, signature, arguments):
        leaf, job = signature.args[0], arguments[1]
        m = _Matrix(builder, leaf, job, I64(0))
        vectors = 2 * m.a * m.width // m.lanes
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
        sources, halves = m.transforms("source", first), m.share // 2
        groups = [[each] for each in sources]
        if 2 * m.b == m.lanes:
            groups = [list(each) for each in zip(sources[:halves], sources[halves:], strict=True)]
        columns: list[Complex] = []
        for column in range(0, m.b, m.lanes):
            rows = [row for group in groups for row in m.down(group, I64(column))]
            columns += m.turn(rows)[: m.b - column]
        m.across(columns, m.transforms("target", first), I64(0))
        return context.get_dummy_value()

    return types.void(leaf, job, types.int64, types.int64), codegen


@intrinsic
def _matrix_on_stack(typingctx, leaf):
    """The address of memory for a matrix: [column][part][row]."""

    def codegen(context, builder, signature, arguments):
        tag, n = field_class(leaf, "vectors"), field_class(leaf, "shape").n
        with builder.goto_entry_block():
            place = builder.alloca(ir.ArrayType(ir.IntType(8), 2 * n * tag.size))
            place.align = 64
        return builder.ptrtoint(place, I64)

    return types.int64(leaf), codegen


@intrinsic
def _columns(typingctx, leaf, job, roots, index, first, memory):
    """A vector of columns of the matrix, to memory."""

    def codegen(context, builder, signature, arguments):
        _, job, roots, index, first, memory = arguments
        m = _Matrix(builder, signature.args[0], job, roots)
        rows = m.down(m.transforms("source", index), first)
        to = offset(builder, builder.inttoptr(memory, POINTER), builder.mul(first, I64(2 * m.a * m.size)))
        for k1 in range(0, m.a, m.lanes):
            for j2, value in enumerate(m.turn(rows[k1 : k1 + m.lanes])):
                for part in range(2):
                    at = (2 * m.a * j2 + part * m.a + k1) * m.size
                    store(builder, value[part], offset(builder, to, at), m.lanes * m.size)
        return context.get_dummy_value()

    return types.void(leaf, job, *(types.int64,) * 4), codegen


@intrinsic
def _rows(typingctx, leaf, job, roots, index, first, memory):
    """A vector of rows of the matrix, from memory."""

    def codegen(context, builder, signature, arguments):
        _, job, roots, index, first, memory = arguments
        m = _Matrix(builder, signature.args[0], job, roots)
        memory = builder.inttoptr(memory, POINTER)
        places = [[2 * m.a * j2 + part * m.a for part in range(2)] for j2 in range(m.b)]
        rows = [
            Complex(*[m.load(memory, builder.add(first, I64(place)), m.lanes * m.size) for place in pair])
            for pair in places
        ]
        m.across(rows, m.transforms("target", index), first)
        return context.get_dummy_value()

    return types.void(leaf, job, *(types.int64,) * 4), codegen


def _sharing(leaf: Any) -> int:
    return sharing(field_class(leaf, "shape").n, field_class(leaf, "vectors").lanes)


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
    return lambda leaf: MATRICES[field_class(leaf, "shape").n][index]


@njit(cache=False, no_cpython_wrapper=True)
def _in_two(leaf, job):
    a, b, lanes = constant(leaf, "rows"), constant(leaf, "columns"), constant(leaf.vectors, "lanes")
    memory, roots = _matrix_on_stack(leaf), _scaled_roots(leaf, job)
    for index in range(job.first, job.last):
        for first in range(0, b, lanes):
            _columns(leaf, job, roots, index, first, memory)
        for first in range(0, a, lanes):
            _rows(leaf, job, roots, index, first, memory)


class InTwo(NamedTuple):
    """Leaf: transforms of larger matrices, in two steps through memory in the L1 cache."""

    vectors: NamedTuple
    shape: NamedTuple
    direction: NamedTuple
    run = _in_two
    arguments = WholeArguments
    rows, columns = _side(0), _side(1)


def leaf_of(n: int, size: int, lanes: int, inverse: bool, real: bool = False) -> Any:
    """The leaf for a length that has a matrix."""
    a, b = MATRICES[n]
    direct = sharing(n, lanes) > 1 or a == b == lanes
    return (Whole if direct else InTwo)(vectors(size, lanes * size), _SHAPES[n](), _DIRECTIONS[inverse, real]())
