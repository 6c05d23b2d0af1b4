"""Standardisation of rows with weights and biases, and its gradients: tags (like those of `functions`) of the layout of
weights and biases, and of the statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...block.emit import F64, call, either, suffix
from ...block.tags import tag_class
from ...runtime.jit import ir
from ..elementwise.sweeps import OfColumn, OfSegment, Row, Sweeps
from .functions import Places

Moments = tag_class("Moments", __name__, about_mean=True, scaled=True)
"""The mean, and the root of the variance."""

Square = tag_class("Square", __name__, about_mean=False, scaled=True)
"""The root of the mean square."""

Nothing = tag_class("Nothing", __name__, about_mean=False, scaled=False)
"""A row stays as it is."""


STATISTICS = {"moments": Moments(), "square": Square(), "nothing": Nothing()}

Standard = Callable[[ir.Value], ir.Value]


class OfRows(NamedTuple):
    """A weight and a bias for a row; so are the sums of their gradients."""

    @staticmethod
    def operand(row: Sweeps, at: ir.Value) -> Any:
        """What passes read weights or biases from."""
        return row.every(at)

    @staticmethod
    def sums(row: Sweeps, at: Places, standard: Standard) -> list[ir.Value]:
        """The sums over a row of the weighted gradient, and of its products with the standardised row. Sums for the
        gradients of biases and weights are stored."""
        found = row.totals(2, lambda g, x: [g, row.times(g, standard(x))], at.first, at.second)
        for sum, place in zip(found, (at.bias_sums, at.weight_sums), strict=True):
            row.keep(sum, place)
        weight = row.every(at.weight)
        return [row.times(sum, weight) for sum in found]


class OfSegments(NamedTuple):
    """A weight and a bias for each segment of a row; so are the sums of their gradients."""

    @staticmethod
    def operand(row: Row, at: ir.Value) -> Any:
        return OfSegment(at)

    @staticmethod
    def sums(row: Row, at: Places, standard: Standard) -> list[ir.Value]:
        def weigh(segment: ir.Value, *found: ir.Value) -> list[ir.Value]:
            for sum, place in zip(found, (at.bias_sums, at.weight_sums), strict=True):
                row.keep(sum, row.of_segment(place, segment))
            weight = row.every(row.of_segment(at.weight, segment))
            return [row.times(sum, weight) for sum in found]

        made = lambda g, x: [g, row.times(g, standard(x))]  # noqa: E731
        return row.totals(2, made, at.first, at.second, of_segment=weigh)


class OfColumns(NamedTuple):
    """A weight and a bias for each number of a row of one segment, the same for all rows. What makes up their gradients
    is added to float64 sums that some rows share."""

    @staticmethod
    def operand(row: Row, at: ir.Value) -> Any:
        return OfColumn(at)

    @staticmethod
    def sums(row: Row, at: Places, standard: Standard) -> list[ir.Value]:
        def weigh(g: ir.Value, x: ir.Value, weight: ir.Value) -> list[ir.Value]:
            of_row = row.times(g, weight)
            return [of_row, row.times(of_row, standard(x))]

        row.add_to_columns(at.bias_sums, lambda g: g, at.first)
        row.add_to_columns(at.weight_sums, lambda g, x: row.times(g, standard(x)), at.first, at.second)
        return row.totals(2, weigh, at.first, at.second, OfColumn(at.weight))


WEIGHTS = {"rows": OfRows(), "segments": OfSegments(), "columns": OfColumns()}


class Standardize(NamedTuple):
    """out = (first - mean) / deviation * weight + bias, with deviation = sqrt(variance + eps); one and other are mean
    and deviation, of those that the statistics have."""

    weights: NamedTuple
    statistics: NamedTuple

    @staticmethod
    def emit(row: Sweeps, at: Places, weights: Any, statistics: Any) -> None:
        about = rest = factor = None
        if statistics.about_mean:
            about, rest = row.exact_mean(at.first)
            row.keep(about, at.one)
        if statistics.scaled:
            deviation, factor = _deviation(row, at, about, rest)
            row.keep(deviation, at.other)

        def standardize(x: ir.Value, weight: ir.Value, bias: ir.Value) -> ir.Value:
            return row.fma(_standard(row, x, about, rest, factor), weight, bias)

        row.write_each(at.out, standardize, at.first, *[weights.operand(row, each) for each in (at.weight, at.bias)])


def _deviation(row: Sweeps, at: Places, about: ir.Value | None, rest: ir.Value | None) -> tuple[ir.Value, ir.Value]:
    """The root of the mean square and its inverse. Squares are float64, which holds those of every float32."""
    builder, numbers = row.builder, row.builder.sitofp(row.numbers, F64)

    def square(x: ir.Value) -> list[ir.Value]:
        difference = row.widen(_standard(row, x, about, rest, None))
        return [builder.fmul(difference, difference)]

    def root(like: Callable, sum: ir.Value) -> list[ir.Value]:
        eps = like(builder.bitcast(at.eps, F64))
        variance = builder.fadd(builder.fdiv(sum, like(numbers)), eps)
        kind = "f64" if variance.type is F64 else suffix(F64, row.lanes)
        found = call(builder, f"llvm.sqrt.{kind}", variance.type, variance)
        return [found, builder.fdiv(like(F64(1.0)), found)]

    return tuple(row.narrow(each) for each in row.once(root, *row.wide_totals(1, square, at.first)))


def _standard(
    row: Sweeps, x: ir.Value, about: ir.Value | None, rest: ir.Value | None, factor: ir.Value | None
) -> ir.Value:
    """`rest` is what the mean has beside `about` (`Sweeps.exact_mean`)."""
    x = x if about is None else row.minus(row.minus(x, about), rest)
    return x if factor is None else row.times(x, factor)


_FAR = 16.0
"""Means from so many deviations on are so far from 0 that their rounding matters."""


def _rest_of_mean(row: Sweeps, array: ir.Value, about: ir.Value, deviation: ir.Value) -> ir.Value:
    """What rounding left of the mean of a row, by one more pass, where the mean is far from 0; 0 elsewhere."""
    builder = row.builder
    magnitude = builder.select(
        builder.fcmp_ordered("<", about, row.number(0.0)), row.minus(row.number(0.0), about), about
    )
    far = builder.fcmp_ordered(">", magnitude, row.times(deviation, row.number(_FAR)))
    some = builder.icmp_unsigned("!=", builder.bitcast(far, ir.IntType(row.lanes)), ir.IntType(row.lanes)(0))
    found = either(
        builder, some, lambda: [row.mean(row.total(lambda x: row.minus(x, about), array))], lambda: [row.number(0.0)]
    )
    return builder.select(far, found[0], row.number(0.0))


class StandardizeGradient(NamedTuple):
    """The gradient of `Standardize`. Let h = first * weight, and y the standardised second with mean `one` and
    deviation `other`; then out = (h - mean(h) - y * mean(h * y)) / deviation."""

    weights: NamedTuple
    statistics: NamedTuple

    @staticmethod
    def emit(row: Sweeps, at: Places, weights: Any, statistics: Any) -> None:
        about = row.every(at.one) if statistics.about_mean else None
        deviation = row.every(at.other) if statistics.scaled else None
        factor = None if deviation is None else row.over(row.number(1.0), deviation)
        rest = None if about is None else _rest_of_mean(row, at.second, about, deviation)

        def standard(x: ir.Value) -> ir.Value:
            return _standard(row, x, about, rest, factor)

        shift, slope = (row.mean(sum) for sum in weights.sums(row, at, standard))

        def gradient(g: ir.Value, x: ir.Value, weight: ir.Value) -> ir.Value:
            h = row.times(g, weight)
            if about is not None:
                h = row.minus(h, shift)
            return h if factor is None else row.times(row.minus(h, row.times(standard(x), slope)), factor)

        row.write_each(at.out, gradient, at.first, at.second, weights.operand(row, at.weight))
