"""The online softmax of flash attention with one query in each lane: emitted code.

Scores are the product of the keys and the queries, in this order: a row holds the scores of all queries of a panel with
one key. Maxima and sums then go down the rows, lane by lane, with no reduction across lanes; and two neighbouring rows
rounded and interleaved are a row of a tile of the product with the values.

2**x for x <= 0 is 2**n * p(f) with n the nearest integer and |f| <= 1/2, or the next lower one, where p is the
polynomial of least relative error, of a degree that the precision of the weights asks for. Results below 2**-125 may
be zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..gemm.emit import (
    F32,
    I1,
    I16,
    I32,
    I64,
    POINTER,
    broadcast,
    call,
    lane_numbers,
    load,
    loop,
    offset,
    splat,
    store,
    transpose,
    vector,
)  # fmt: skip
from ..gemm.microkernels import Rows, convert
from ..gemm.packing import TilePanel, ToBf16, VectorPanel, converted, interleaved_parts
from ..gemm.tags import field_class, instance
from ..jit import intrinsic, ir, types

__all__ = ["Form", "Weights", "finish_panel", "hide_lanes", "soften_panel", "start_panel"]

_LOWEST, _LOG_2 = -125.0, 0.6931471805599453
_MAGIC = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer, which the low bits then hold
_POWERS = {
    3: (0.999928073614, 0.693260985892, 0.242611122161, 0.055171667509),
    4: (0.999999261437, 0.693121814701, 0.240247448398, 0.055917860552, 0.009570101628),
    5: (1.0, 0.693146967062, 0.240221197227, 0.055507132756, 0.009675541376, 0.001327647156),
    6: (1.0, 0.693147206083, 0.240226468389, 0.055503283446, 0.009618490955, 0.00134000513, 0.000153457215),
}
"""By degree, for fractions from -1/2 to 1/2. Relative errors before rounding: 7.5e-5, 2.6e-6, 1.5e-7 and 3e-9."""

_POWERS_UP = {
    3: (0.999925218626, 0.695833539508, 0.226067158668, 0.07802452045),
    4: (1.000002593442, 0.693003833486, 0.241442760601, 0.052011455304, 0.01353417046),
    5: (1.0, 0.693153072127, 0.240153620488, 0.055826315079, 0.008989338698, 0.001877578644),
    6: (1.0, 0.693146985167, 0.240229821623, 0.055483393952, 0.009678766929, 0.001244011253, 0.00021701556),
}
"""The same for fractions from 0 to 1."""

_DEGREES = {"bf16": 3, "tf32": 4, "fp16": 4}
"""By what weights are rounded to, so that the polynomial adds at most 4 % to that rounding; 5 for two parts of bf16."""


class Weights(NamedTuple):
    """How weights are left for the product with the values: a panel format of the right operand, and the microkernel
    that will take it."""

    panel: Any
    kernel: Any

    @staticmethod
    def degree(tag: Any) -> int:
        conversion = field_class(tag.types[0], "conversion")
        return _DEGREES.get(conversion.target) or (5 if conversion.tile_parts == 2 else 6)


class Form:
    """What the emitting functions need of the tag: lanes, vectors of a row, constants."""

    def __init__(self, builder: ir.IRBuilder, tag: Any) -> None:
        self.builder, kernel = builder, field_class(tag, "kernel")
        self.lanes, self.row_bytes = min(16, kernel.nr), 4 * kernel.nr
        self.count, self.height = kernel.nr // self.lanes, kernel.mr
        self.kind, self.vector_bytes = vector(F32, self.lanes), 4 * self.lanes
        self.avx512 = kernel.nr == 32
        self.panel = instance(tag.types[0])
        self.conversion = field_class(tag.types[0], "conversion")
        self.powers = _POWERS_UP if self.avx512 else _POWERS
        self.degree = Weights.degree(tag)

    def splat(self, value: float) -> ir.Constant:
        return splat(F32, value, self.lanes)

    def row(self, at: ir.Value, index: ir.Value) -> ir.Value:
        return offset(self.builder, at, self.builder.mul(index, I64(self.row_bytes)))

    def load(self, at: ir.Value, number: int) -> ir.Value:
        return load(self.builder, self.kind, offset(self.builder, at, number * self.vector_bytes), 4)

    def store(self, value: ir.Value, at: ir.Value, number: int) -> None:
        store(self.builder, value, offset(self.builder, at, number * self.vector_bytes), 4)

    def fused(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a * b + c, in one rounding where the CPU can."""
        return call(self.builder, f"llvm.fmuladd.v{self.lanes}f32", self.kind, a, b, c)

    def larger(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

    def power(self, difference: ir.Value, scale: ir.Value, lowest: ir.Value, powers: tuple) -> ir.Value:
        """2**(scale * difference) for differences <= 0; NaN of NaN. `lowest` is the difference of the least result."""
        builder, magic, integers = self.builder, self.splat(_MAGIC), vector(I32, self.lanes)
        if self.avx512:
            return self._power_by_instructions(builder.fmul(difference, scale), powers)
        below = builder.fcmp_ordered("<", difference, lowest)
        shifted = self.fused(difference, scale, magic)
        whole = builder.fsub(magic, shifted)
        fraction = self.fused(difference, scale, whole)
        value = self.splat(powers[-1])
        for power in reversed(powers[:-1]):
            value = self.fused(value, fraction, self.splat(power))
        exponent = builder.shl(builder.bitcast(shifted, integers), splat(I32, 23, self.lanes))
        scaled = builder.bitcast(builder.add(builder.bitcast(value, integers), exponent), self.kind)
        # The low bits of a NaN are no exponent, and would make a number of it.
        scaled = builder.select(builder.fcmp_unordered("uno", difference, difference), difference, scaled)
        return builder.select(below, self.splat(0.0), scaled)

    def _power_by_instructions(self, x: ir.Value, powers: tuple) -> ir.Value:
        """2**x by VREDUCEPS and VSCALEFPS of AVX-512, which also take what is too small: a quarter faster."""
        rest = splat(F32, 0.0), I16(-1), I32(4)  # all lanes, exceptions and rounding as they are
        fraction = call(self.builder, "llvm.x86.avx512.mask.reduce.ps.512", self.kind, x, I32(9), *rest)  # down
        value = self.splat(powers[-1])
        for power in reversed(powers[:-1]):
            value = self.fused(value, fraction, self.splat(power))
        return call(self.builder, "llvm.x86.avx512.mask.scalef.ps.512", self.kind, value, x, *rest)

    def logarithm(self, value: ir.Value) -> ir.Value:
        """log2 of normal numbers, to 1e-7: with s = (m - 1) / (m + 1), log m = 2 artanh s for m in [3/4, 3/2)."""
        builder, integers = self.builder, vector(I32, self.lanes)
        bits = builder.sub(builder.bitcast(value, integers), splat(I32, 0x3F400000, self.lanes))
        exponent = builder.ashr(bits, splat(I32, 23, self.lanes))
        reduced = builder.and_(bits, splat(I32, 0x7FFFFF, self.lanes))
        mantissa = builder.bitcast(builder.add(reduced, splat(I32, 0x3F400000, self.lanes)), self.kind)
        one = self.splat(1.0)
        s = builder.fdiv(builder.fsub(mantissa, one), builder.fadd(mantissa, one))
        square, series = builder.fmul(s, s), self.splat(1 / 9)
        for divisor in (7, 5, 3, 1):
            series = self.fused(series, square, self.splat(1 / divisor))
        factor = builder.fmul(s, self.splat(2.8853900817779268))  # 2 / log 2
        return self.fused(series, factor, builder.sitofp(exponent, self.kind))


def _pointers(builder: ir.IRBuilder, *addresses: ir.Value) -> list[ir.Value]:
    return [builder.inttoptr(address, POINTER) for address in addresses]


def _float(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    return builder.bitcast(builder.trunc(bits, I32), F32)


def _any(builder: ir.IRBuilder, flags: list[ir.Value]) -> ir.Value:
    """Whether any lane of any of these vectors of booleans is true."""
    joined = flags[0]
    for more in flags[1:]:
        joined = builder.or_(joined, more)
    bits = ir.IntType(joined.type.count)
    return builder.icmp_unsigned("!=", builder.bitcast(joined, bits), bits(0))


@intrinsic
def start_panel(typingctx, tag, state):
    """Set the maxima of a panel at the address `state` to -inf and its sums, which follow them, to zero."""

    def codegen(context, builder, signature, arguments):
        form, [state] = Form(builder, tag), _pointers(builder, arguments[1])
        for number in range(form.count):
            form.store(form.splat(float("-inf")), state, number)
            form.store(form.splat(0.0), state, form.count + number)
        return context.get_dummy_value()

    return types.void(tag, types.int64), codegen


@intrinsic
def hide_lanes(typingctx, tag, row, first):
    """Set lanes 0 to `first` - 1 of the row at an address to -inf."""

    def codegen(context, builder, signature, arguments):
        form, [row] = Form(builder, tag), _pointers(builder, arguments[1])
        last = broadcast(builder, builder.trunc(arguments[2], I32), form.lanes)
        for number in range(form.count):
            hidden = builder.icmp_signed("<", lane_numbers(form.lanes, number * form.lanes), last)
            form.store(builder.select(hidden, form.splat(float("-inf")), form.load(row, number)), row, number)
        return context.get_dummy_value()

    return types.void(tag, types.int64, types.int64), codegen


def _maxima(form: Form, scores: ir.Value, keys: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
    """The largest score of each lane, in four chains where the rows come in fours."""
    builder, chains = form.builder, 4 if form.height % 4 == 0 else 1

    def step(index: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        at = form.row(scores, builder.mul(index, I64(chains)))
        after = []
        for chain in range(chains):
            row = offset(builder, at, chain * form.row_bytes)
            before = found[chain * form.count :]
            after += [form.larger(form.load(row, number), before[number]) for number in range(form.count)]
        return after

    found = loop(builder, builder.sdiv(keys, I64(chains)), before * chains, step)
    while len(found) > form.count:
        half = len(found) // 2
        found = [form.larger(a, b) for a, b in zip(found[:half], found[half:], strict=True)]
    if chains == 1:
        return found

    def rest(index: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        at = form.row(scores, builder.sub(keys, builder.add(index, I64(1))))
        return [form.larger(form.load(at, number), value) for number, value in enumerate(found)]

    return loop(builder, builder.srem(keys, I64(chains)), found, rest) if form.panel is VectorPanel else found


def _weights_of_vectors(form: Form, scores: ir.Value, keys: ir.Value, weigh: Any) -> list[ir.Value]:
    """Weights in the place of the scores, rounded; the sums of the unrounded ones."""

    def step(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        row, after = form.row(scores, index), []
        for number, total in enumerate(sums):
            weight = weigh(form.load(row, number), number)
            form.store(converted(form.builder, weight, form.conversion), row, number)
            after.append(form.builder.fadd(total, weight))
        return after

    return loop(form.builder, keys, [form.splat(0.0)] * form.count, step)


def _weights_of_tiles(form: Form, scores: ir.Value, weights: ir.Value, keys: ir.Value, weigh: Any) -> list[ir.Value]:
    """Weights as panels of tiles (`TilePanel`); the sums of the unrounded ones."""
    builder, parts = form.builder, form.conversion.tile_parts

    def pair(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        above = form.row(scores, builder.shl(index, I64(1)))
        below = offset(builder, above, form.row_bytes)
        step, line = builder.lshr(index, I64(4)), builder.and_(index, I64(15))
        begin = builder.add(builder.mul(step, I64(2048 * parts)), builder.mul(line, I64(64)))
        at, after = offset(builder, weights, begin), []
        for number, total in enumerate(sums):
            both = [weigh(form.load(row, number), number) for row in (above, below)]
            for part, value in enumerate(interleaved_parts(builder, form.conversion, both)):
                store(builder, value, offset(builder, at, 2048 * part + 1024 * number), 64)
            after.append(builder.fadd(total, builder.fadd(*both)))
        return after

    return loop(builder, builder.ashr(keys, I64(1)), [form.splat(0.0)] * form.count, pair)


@intrinsic
def soften_panel(typingctx, tag, scores, weights, keys, scale, state, sums, sum_rows):
    """Take the scores of some more keys into the softmax of a panel of queries, and leave their weights.

    All are int64: addresses, counts, and the bits of the float32 `scale`, which is positive and includes log2(e).
    Where the maximum of a lane grows, its sum in `state` and its lane of the `sum_rows` rows at `sums` shrink. For
    tiles `keys` is a multiple of 32; vector units find the weights in the place of the scores.
    """

    def codegen(context, builder, signature, arguments):
        form = Form(builder, tag)
        _, scores, weights, keys, scale, state, sums, sum_rows = arguments
        scores, weights, state, sums = _pointers(builder, scores, weights, state, sums)
        scale, count = broadcast(builder, _float(builder, scale), form.lanes), form.count
        lowest = builder.fdiv(form.splat(_LOWEST), scale)
        before = [form.load(state, number) for number in range(count)]
        after = _maxima(form, scores, keys, before)
        seen = [builder.fcmp_ordered(">", value, form.splat(float("-inf"))) for value in after]
        shifts = [builder.select(flag, value, form.splat(0.0)) for flag, value in zip(seen, after, strict=True)]

        def weigh(score: ir.Value, number: int, degree: int = form.degree) -> ir.Value:
            return form.power(builder.fsub(score, shifts[number]), scale, lowest, form.powers[degree])

        if form.panel is VectorPanel:
            totals = _weights_of_vectors(form, scores, keys, weigh)
        else:
            totals = _weights_of_tiles(form, scores, weights, keys, weigh)
        # Exactly 1 where the maximum stays, which the shorter polynomials are not.
        shrinks = [weigh(value, number, 6) for number, value in enumerate(before)]
        for number in range(count):
            form.store(after[number], state, number)
            total = builder.fmul(form.load(state, count + number), shrinks[number])
            form.store(builder.fadd(total, totals[number]), state, count + number)
        changed = _any(builder, [builder.fcmp_unordered("!=", value, form.splat(1.0)) for value in shrinks])
        with builder.if_then(builder.and_(changed, builder.icmp_signed(">", sum_rows, I64(0)))):

            def shrink(index: ir.Value, _: list) -> list:
                row = form.row(sums, index)
                for number, factor in enumerate(shrinks):
                    form.store(builder.fmul(form.load(row, number), factor), row, number)
                return []

            loop(builder, sum_rows, [], shrink)
        return context.get_dummy_value()

    return types.void(tag, *[types.int64] * 7), codegen


def _store_turned(
    form: Form,
    access: Rows,
    sums: ir.Value,
    factor: ir.Value,
    rows: ir.Value,
    columns: ir.Value,
    out: ir.Value,
    out_stride: ir.Value,
) -> None:
    """Store the first `rows` lanes of `columns` sums, times the factor, as rows of `out`: a square at a time, of
    neighbouring pairs in bf16 where `access` takes twice the lanes."""
    builder, lanes, width = form.builder, form.lanes, access.lanes

    def square(index: ir.Value, _: list) -> list:
        first = builder.mul(index, I64(width))
        at = form.row(sums, first)
        read = [load(builder, form.kind, offset(builder, at, k * form.row_bytes), 4) for k in range(width)]
        scaled = [builder.fmul(each, factor) for each in read]
        if width > lanes:
            pairs = [interleaved_parts(builder, ToBf16, scaled[k : k + 2])[0] for k in range(0, width, 2)]
            lines = transpose(builder, [builder.bitcast(pair, vector(I32, lanes)) for pair in pairs])
            turned = [builder.bitcast(line, vector(I16, width)) for line in lines]
        else:
            turned = [convert(builder, value, access.element) for value in transpose(builder, scaled)]
        inside = broadcast(builder, builder.trunc(builder.sub(columns, first), I32), width)
        mask = builder.icmp_signed("<", lane_numbers(width), inside)
        begin = offset(builder, out, builder.mul(first, I64(access.element.size)))
        for line, value in enumerate(turned):
            here = builder.icmp_signed("<", I64(line), rows)
            chosen = builder.select(here, mask, ir.Constant(vector(I1, width), [0] * width))
            access.write(value, offset(builder, begin, builder.mul(I64(line), out_stride)), chosen)
        return []

    loop(builder, builder.sdiv(builder.add(columns, I64(width - 1)), I64(width)), [], square)


@intrinsic
def finish_panel(typingctx, tag, element, state, scale, sums, rows, columns, out, out_stride, logarithms):
    """Divide a panel's sums (columns x lanes) by its totals, and store them turned, as rows of `out`; and the
    log-sum-exps of its first `rows` lanes. A lane that has seen nothing gives zeros, and +inf."""
    target = instance(element)

    def codegen(context, builder, signature, arguments):
        form = Form(builder, tag)
        _, _, state, scale, sums, rows, columns, out, out_stride, logarithms = arguments
        state, sums, out, logarithms = _pointers(builder, state, sums, out, logarithms)
        scale = broadcast(builder, _float(builder, scale), form.lanes)
        lanes, paired = form.lanes, form.panel is TilePanel and target.stored is I16
        access = Rows(builder, target, 2 * lanes if paired else lanes)
        whole = Rows(builder, _Single, lanes)
        present = broadcast(builder, builder.trunc(rows, I32), lanes)
        for number in range(form.count):
            total, largest = form.load(state, form.count + number), form.load(state, number)
            empty = builder.fcmp_ordered("==", total, form.splat(0.0))
            factor = builder.fdiv(form.splat(1.0), builder.select(empty, form.splat(1.0), total))
            # For scores that are scaled before, this factor is exactly 1: no score is too large for it.
            factor_of_largest = builder.fmul(scale, form.splat(_LOG_2))
            value = builder.fmul(form.logarithm(total), form.splat(_LOG_2))
            value = form.fused(largest, factor_of_largest, value)
            wrong = builder.fcmp_unordered("uno", total, total)
            value = builder.select(empty, form.splat(float("inf")), builder.select(wrong, total, value))
            mask = builder.icmp_signed("<", lane_numbers(lanes, number * lanes), present)
            whole.write(value, offset(builder, logarithms, number * form.vector_bytes), mask)
            begin = offset(builder, sums, number * form.vector_bytes)
            _store_turned(form, access, begin, factor, builder.sub(rows, I64(number * lanes)), columns,
                          offset(builder, out, builder.mul(I64(number * lanes), out_stride)), out_stride)  # fmt: skip
        return context.get_dummy_value()

    return types.void(tag, element, *[types.int64] * 8), codegen


class _Single:
    stored, size = F32, 4
