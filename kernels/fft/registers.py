"""Leaves that transform short rows whole: a matrix of a rows and b columns in vector registers, of which the compiler
puts on the stack those that the CPU has not, so that the user's memory is read in order, and written in order.

With j = b * j1 + j2 and k = k1 + a * k2, columns are transformed over j1 (a vector holds a row, a lane a column),
multiplied by exp(-2 pi i j2 k1 / n), transposed, and transformed over j2 (D. Bailey, "FFTs in external or hierarchical
memory", 1990). Where a row fills half of a vector, or the columns do after the transpose, two transforms share it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..gemm.emit import (
    F32,
    F64,
    I32,
    I64,
    POINTER,
    align_stack,
    broadcast,
    call,
    lane_numbers,
    load,
    offset,
    store,
    transpose,
    vector,
    zero,
)
from ..gemm.tags import constant, field_class
from ..jit import intrinsic, ir, njit, types
from .butterflies import Arithmetic, Complex
from .codelets import vectors
from .lengths import MATRICES, sharing

__all__ = ["InTwo", "Vectors", "Whole", "WholeArguments", "leaf_of"]


class Matrix16(NamedTuple):
    n = 16


class Matrix32(NamedTuple):
    n = 32


class Matrix64(NamedTuple):
    n = 64


class Matrix128(NamedTuple):
    n = 128


class Matrix256(NamedTuple):
    n = 256


class Matrix512(NamedTuple):
    n = 512


_EVERY = (Matrix16, Matrix32, Matrix64, Matrix128, Matrix256, Matrix512)
_SHAPES = {each.n: each for each in _EVERY}


class WholeArguments(NamedTuple):
    """first, last: of the transforms. Imaginary parts are multiplied by sign as they are read, and by signed_scale as
    they are written: with -1 and -scale, the conjugates of both make the inverse transform."""

    source: int
    source_step: int
    target: int
    target_step: int
    first: int
    last: int
    sign: int
    scale: int
    signed_scale: int
    roots: int


def _order(values: list[int]) -> ir.Constant:
    return ir.Constant(vector(I32, len(values)), values)


class Vectors:
    """Emits what vectors of the user's complex numbers need."""

    def __init__(self, builder: ir.IRBuilder, tag: Any, sign: ir.Value) -> None:
        self.builder, self.tag, self.lanes, self.size = builder, tag, tag.lanes, tag.size
        self.arithmetic = Arithmetic(builder, tag.element, tag.lanes)
        self.kind = vector(tag.element, tag.lanes)
        self.sign = self.number(sign)
        align_stack(builder)

    def number(self, bits: ir.Value) -> ir.Value:
        """A vector of the float64 that an int64 holds the bits of."""
        value = self.builder.bitcast(bits, F64)
        value = value if self.tag.element is F64 else self.builder.fptrunc(value, F32)
        return broadcast(self.builder, value, self.lanes)

    def load(self, base: ir.Value, elements: ir.Value | int, align: int | None = None) -> ir.Value:
        at = elements * self.size if isinstance(elements, int) else self.builder.mul(elements, I64(self.size))
        return load(self.builder, self.kind, offset(self.builder, base, at), align or self.size)

    def masks(self, numbers: ir.Value) -> list[ir.Value]:
        """Of both halves of a row of so many complex numbers, int64."""
        parts = broadcast(self.builder, self.builder.trunc(self.builder.add(numbers, numbers), I32), self.lanes)
        first = (lane_numbers(self.lanes, half * self.lanes) for half in range(2))
        return [self.builder.icmp_signed("<", each, parts) for each in first]

    def _load_some(self, at: ir.Value, mask: ir.Value) -> ir.Value:
        name = f"llvm.masked.load.v{self.lanes}f{8 * self.size}.p0"
        at = self.builder.bitcast(at, self.kind.as_pointer())
        return call(self.builder, name, self.kind, at, I32(self.size), mask, zero(self.kind))

    def read(self, low: ir.Value, high: ir.Value, masks: list[ir.Value] | None = None) -> Complex:
        """The complex numbers that lie at two addresses, or those of them that the masks say."""
        if masks is None:
            halves = [self.load(each, 0) for each in (low, high)]
        else:
            halves = [self._load_some(*each) for each in zip((low, high), masks, strict=True)]
        parts = [
            self.builder.shuffle_vector(*halves, _order(list(range(part, 2 * self.lanes, 2)))) for part in range(2)
        ]
        return Complex(parts[0], self.arithmetic.times(parts[1], self.sign))

    def plain(self, base: ir.Value, number: ir.Value | int) -> tuple[ir.Value, ir.Value]:
        """The addresses of a vector of the complex numbers from one on."""
        step = 2 * self.size
        at = number * step if isinstance(number, int) else self.builder.mul(number, I64(step))
        low = offset(self.builder, base, at)
        return low, offset(self.builder, low, self.lanes * self.size)

    def turn(self, rows: list[Complex]) -> list[Complex]:
        parts = [transpose(self.builder, [row[part] for row in rows]) for part in range(2)]
        return [Complex(*each) for each in zip(*parts, strict=True)]


class _Matrix(Vectors):
    """Emits the transform of one matrix, or of two side by side."""

    def __init__(self, builder: ir.IRBuilder, tag: Any, shape: Any, field: dict[str, ir.Value]) -> None:
        super().__init__(builder, tag, field["sign"])
        self.a, self.b = MATRICES[shape.n]
        self.pair = sharing(shape.n, tag.lanes) == 2
        self.scale, self.signed_scale = (self.number(field[name]) for name in ("scale", "signed_scale"))

    def write(self, value: Complex, low: ir.Value, high: ir.Value) -> None:
        factors = (self.scale, self.signed_scale)
        parts = [self.arithmetic.times(part, factor) for part, factor in zip(value, factors, strict=True)]
        numbers = [lane + part * self.lanes for lane in range(self.lanes) for part in range(2)]
        for half, at in enumerate((low, high)):
            order = _order(numbers[half * self.lanes : (half + 1) * self.lanes])
            store(self.builder, self.builder.shuffle_vector(*parts, order), at, self.size)

    def down(self, rows: list[Complex], roots: ir.Value, first: ir.Value | int) -> list[Complex]:
        """Columns, from `first` on, transformed and multiplied by roots of unity."""
        width = max(self.b, self.lanes)
        out = self.arithmetic.transform(rows)
        for k1 in range(1, self.a):
            places = [2 * width * k1, 2 * width * k1 + width]
            if not isinstance(first, int):
                places = [self.builder.add(first, I64(place)) for place in places]
            turned = Complex(*[self.load(roots, place, self.lanes * self.size) for place in places])
            out[k1] = self.arithmetic.multiply(out[k1], turned)
        return out

    def whole(self, sources: list[ir.Value], targets: list[ir.Value], roots: ir.Value) -> None:
        """In registers."""
        step = 2 * self.size
        if self.pair and self.b == self.a:
            places = [[offset(self.builder, each, j1 * self.b * step) for each in sources] for j1 in range(self.a)]
            rows = self.down([self.read(*each) for each in places], roots, 0)
        else:
            rows = []
            for source in sources:
                read = [self.read(*self.plain(source, j1 * self.b)) for j1 in range(self.a)]
                rows += self.down(read, roots, 0)
        for k2, value in enumerate(self.arithmetic.transform(self.turn(rows))):
            if self.pair:
                low, high = (offset(self.builder, each, k2 * self.a * step) for each in targets)
            else:
                low, high = self.plain(targets[0], k2 * self.a)
            self.write(value, low, high)


@intrinsic
def _in_registers(typingctx, leaf, job, first, second):
    """Transform the first and the second of a pair, or one alone."""

    def codegen(context, builder, signature, arguments):
        tag, shape = field_class(leaf, "vectors"), field_class(leaf, "shape")
        _, job, *numbers = arguments
        field = {name: builder.extract_value(job, place) for place, name in enumerate(WholeArguments._fields)}
        matrix = _Matrix(builder, tag, shape, field)

        def at(name: str) -> list[ir.Value]:
            places = [builder.add(field[name], builder.mul(each, field[f"{name}_step"])) for each in numbers]
            return [builder.inttoptr(each, POINTER) for each in places[: 1 + matrix.pair]]

        matrix.whole(at("source"), at("target"), builder.inttoptr(field["roots"], POINTER))
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
def _columns(typingctx, leaf, job, index, first, memory):
    """A vector of columns of the matrix, to memory."""

    def codegen(context, builder, signature, arguments):
        tag, shape = field_class(leaf, "vectors"), field_class(leaf, "shape")
        _, job, index, first, memory = arguments
        field = {name: builder.extract_value(job, place) for place, name in enumerate(WholeArguments._fields)}
        m = _Matrix(builder, tag, shape, field)
        source = builder.inttoptr(builder.add(field["source"], builder.mul(index, field["source_step"])), POINTER)
        roots, memory = (builder.inttoptr(each, POINTER) for each in (field["roots"], memory))
        rows = [m.read(*m.plain(source, builder.add(first, I64(j1 * m.b)))) for j1 in range(m.a)]
        rows = m.down(rows, roots, first)
        to = offset(builder, memory, builder.mul(first, I64(2 * m.a * m.size)))
        for k1 in range(0, m.a, m.lanes):
            for j2, value in enumerate(m.turn(rows[k1 : k1 + m.lanes])):
                for part in range(2):
                    at = (2 * m.a * j2 + part * m.a + k1) * m.size
                    store(builder, value[part], offset(builder, to, at), m.lanes * m.size)
        return context.get_dummy_value()

    return types.void(leaf, job, types.int64, types.int64, types.int64), codegen


@intrinsic
def _rows(typingctx, leaf, job, index, first, memory):
    """A vector of rows of the matrix, from memory."""

    def codegen(context, builder, signature, arguments):
        tag, shape = field_class(leaf, "vectors"), field_class(leaf, "shape")
        _, job, index, first, memory = arguments
        field = {name: builder.extract_value(job, place) for place, name in enumerate(WholeArguments._fields)}
        m = _Matrix(builder, tag, shape, field)
        target = builder.inttoptr(builder.add(field["target"], builder.mul(index, field["target_step"])), POINTER)
        memory = builder.inttoptr(memory, POINTER)
        places = [[2 * m.a * j2 + part * m.a for part in range(2)] for j2 in range(m.b)]
        rows = [
            Complex(*[m.load(memory, builder.add(first, I64(place)), m.lanes * m.size) for place in pair])
            for pair in places
        ]
        for k2, value in enumerate(m.arithmetic.transform(rows)):
            m.write(value, *m.plain(target, builder.add(first, I64(k2 * m.a))))
        return context.get_dummy_value()

    return types.void(leaf, job, types.int64, types.int64, types.int64), codegen


def _sharing(leaf: Any) -> int:
    return sharing(field_class(leaf, "shape").n, field_class(leaf, "vectors").lanes)


@njit(cache=False, no_cpython_wrapper=True)
def _whole(leaf, job):
    count = constant(leaf, "sharing")
    for first in range(job.first, job.last, count):
        second = min(first + 1, job.last - 1)
        _in_registers(leaf, job, first, second)


class Whole(NamedTuple):
    """Leaf: transforms whose matrix is one vector wide and high."""

    vectors: NamedTuple
    shape: NamedTuple
    run = _whole
    arguments = WholeArguments
    sharing = _sharing


def _side(index: int) -> Any:
    return lambda leaf: MATRICES[field_class(leaf, "shape").n][index]


@njit(cache=False, no_cpython_wrapper=True)
def _in_two(leaf, job):
    a, b, lanes = constant(leaf, "rows"), constant(leaf, "columns"), constant(leaf.vectors, "lanes")
    memory = _matrix_on_stack(leaf)
    for index in range(job.first, job.last):
        for first in range(0, b, lanes):
            _columns(leaf, job, index, first, memory)
        for first in range(0, a, lanes):
            _rows(leaf, job, index, first, memory)


class InTwo(NamedTuple):
    """Leaf: transforms of larger matrices, in two steps through memory in the L1 cache."""

    vectors: NamedTuple
    shape: NamedTuple
    run = _in_two
    arguments = WholeArguments
    rows, columns = _side(0), _side(1)


def leaf_of(n: int, size: int, lanes: int) -> Any:
    """The leaf for a length that has a matrix."""
    a, b = MATRICES[n]
    direct = sharing(n, lanes) == 2 or a == b == lanes
    return (Whole if direct else InTwo)(vectors(size, lanes * size), _SHAPES[n]())
