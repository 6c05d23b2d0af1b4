"""The step of each recurrence after its product: tags whose `emit` generates the code from inputs to outputs."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..arrays.elementwise.mathematics import HyperbolicTangent
from ..arrays.elementwise.vectors import Vectors
from ..runtime.jit import ir


def _sigmoid(v: Vectors, x: ir.Value) -> ir.Value:
    """1 / (1 + e**-x); where the power is infinite, 0."""
    one = v.number(1.0)
    return v.over(one, v.plus(one, v.exponential(v.negative(x))))


def _tanh(v: Vectors, x: ir.Value) -> ir.Value:
    return HyperbolicTangent.emit(v, x)


def _less(v: Vectors, x: ir.Value) -> ir.Value:
    """1 - x."""
    return v.minus(v.number(1.0), x)


def _bend(v: Vectors, y: ir.Value) -> ir.Value:
    """The derivative of tanh where it is y."""
    return _less(v, v.times(y, y))


def _slope(v: Vectors, y: ir.Value) -> ir.Value:
    """The derivative of the logistic function where it is y."""
    return v.times(y, _less(v, y))


# `reads` and `writes` are the numbers of parts of each array. The first input is the product: of the state before, or,
# for gradients, of those of the next step, which then is the recurrent part of this state's gradient.


class Tanh(NamedTuple):
    """h = tanh(x + product)."""

    reads, writes = (1, 1), (1,)

    @staticmethod
    def emit(v: Vectors, product: ir.Value, x: ir.Value) -> list[ir.Value]:
        return [_tanh(v, v.plus(x, product))]


class Relu(NamedTuple):
    """h = max(x + product, 0); NaN stays."""

    reads, writes = (1, 1), (1,)

    @staticmethod
    def emit(v: Vectors, product: ir.Value, x: ir.Value) -> list[ir.Value]:
        total, zero = v.plus(x, product), v.number(0.0)
        return [v.builder.select(v.builder.fcmp_ordered("<", total, zero), zero, total)]


class TanhGradient(NamedTuple):
    """Of the sum, given that of h."""

    reads, writes = (1, 1, 1), (1,)

    @staticmethod
    def emit(v: Vectors, product: ir.Value, g: ir.Value, h: ir.Value) -> list[ir.Value]:
        return [v.times(v.plus(g, product), _bend(v, h))]


class ReluGradient(NamedTuple):
    """Of the sum, given that of h."""

    reads, writes = (1, 1, 1), (1,)

    @staticmethod
    def emit(v: Vectors, product: ir.Value, g: ir.Value, h: ir.Value) -> list[ir.Value]:
        zero = v.number(0.0)
        return [v.builder.select(v.builder.fcmp_ordered(">", h, zero), v.plus(g, product), zero)]


class LongShortTerm(NamedTuple):
    """Reads x and the cell before, and writes the gates i, f, g, o, the cell and the state."""

    reads, writes = (4, 4, 1), (4, 1, 1)

    @staticmethod
    def emit(v: Vectors, *read: ir.Value) -> list[ir.Value]:
        sums, before = [v.plus(x, product) for product, x in zip(read[:4], read[4:8], strict=True)], read[8]
        entered, kept, shown = (_sigmoid(v, sums[each]) for each in (0, 1, 3))
        candidate = _tanh(v, sums[2])
        cell = v.fma(kept, before, v.times(entered, candidate))
        return [entered, kept, candidate, shown, cell, v.times(shown, _tanh(v, cell))]


class LongShortTermGradient(NamedTuple):
    """Reads the gradients of the state and of the cell, from here and from the next step, the gates, the cell and the
    one before; writes the gradients of the sums and of the cell before."""

    reads, writes = (1, 1, 1, 1, 4, 1, 1), (4, 1)

    @staticmethod
    def emit(v: Vectors, *read: ir.Value) -> list[ir.Value]:
        product, g, of_this, carried, entered, kept, candidate, shown, cell, before = read
        of_hidden, bent = v.plus(g, product), _tanh(v, cell)
        of_cell = v.fma(v.times(of_hidden, shown), _bend(v, bent), v.plus(of_this, carried))
        return [
            v.times(v.times(of_cell, candidate), _slope(v, entered)),
            v.times(v.times(of_cell, before), _slope(v, kept)),
            v.times(v.times(of_cell, entered), _bend(v, candidate)),
            v.times(v.times(of_hidden, bent), _slope(v, shown)),
            v.times(of_cell, kept),
        ]


class Gated(NamedTuple):
    """Reads x, the bias of the product and the state before; writes r, z, n and what the product gave for n, and the
    state."""

    reads, writes = (3, 3, 3, 1), (4, 1)

    @staticmethod
    def emit(v: Vectors, *read: ir.Value) -> list[ir.Value]:
        x, before = read[3:6], read[9]
        reset, kept, given = (v.plus(product, bias) for product, bias in zip(read[:3], read[6:9], strict=True))
        reset, kept = _sigmoid(v, v.plus(x[0], reset)), _sigmoid(v, v.plus(x[1], kept))
        new = _tanh(v, v.fma(reset, given, x[2]))
        return [reset, kept, new, given, v.fma(kept, v.minus(before, new), new)]


class GatedGradient(NamedTuple):
    """Reads the gradients of the state (from the output, and from the next step without the product), the gates and the
    state before. Writes the gradients of the sums, of the product, and of the state before without the product."""

    reads, writes = (1, 1, 1, 4, 1), (3, 3, 1)

    @staticmethod
    def emit(v: Vectors, *read: ir.Value) -> list[ir.Value]:
        product, g, carried, reset, kept, new, given, before = read
        of_hidden = v.plus(v.plus(g, carried), product)
        of_new = v.times(v.times(of_hidden, _less(v, kept)), _bend(v, new))
        of_kept = v.times(v.times(of_hidden, v.minus(before, new)), _slope(v, kept))
        of_reset = v.times(v.times(of_new, given), _slope(v, reset))
        return [of_reset, of_kept, of_new, of_reset, of_kept, v.times(of_new, reset), v.times(of_hidden, kept)]


TAGS: dict[str, Any] = {
    tag.__name__: tag
    for tag in (
        Tanh, Relu, LongShortTerm, Gated, TanhGradient, ReluGradient, LongShortTermGradient, GatedGradient,
    )
}  # fmt: skip
