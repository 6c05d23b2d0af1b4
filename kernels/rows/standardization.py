"""Standardisation of rows with weights and biases, and its gradients: tags (like those of `functions`) of the layout of
weights and biases, and of the statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..elementwise.sweeps import OfColumn, OfSegment, Row, Sweeps
from ..gemm.emit import F64, broadcast
from ..jit import ir
from .functions import Places


class Moments(NamedTuple):
    """The mean, and the root of the variance."""

    about_mean, scaled = True, True


class Square(NamedTuple):
    """The root of the mean square."""

    about_mean, scaled = False, True


class Nothing(NamedTuple):
    """A row stays as it is."""

    about_mean, scaled = False, False


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
        about, factor = None, None
        if statistics.about_mean:
            about = row.mean(row.total(lambda x: x, at.first))
            row.keep(about, at.one)
        if statistics.scaled:
            deviation = _deviation(row, at, about)
            row.keep(deviation, at.other)
            factor = row.over(row.number(1.0), deviation)

        def standardize(x: ir.Value, weight: ir.Value, bias: ir.Value) -> ir.Value:
            return row.fma(_standard(row, x, about, factor), weight, bias)

        row.write_each(at.out, standardize, at.first, *[weights.operand(row, each) for each in (at.weight, at.bias)])


def _deviation(row: Sweeps, at: Places, about: ir.Value | None) -> ir.Value:
    builder, working = row.builder, row.element.working

    def square(x: ir.Value) -> ir.Value:
        difference = _standard(row, x, about, None)
        return row.times(difference, difference)

    eps = builder.bitcast(at.eps, F64)
    eps = broadcast(builder, eps if working is F64 else builder.fptrunc(eps, working), row.lanes)
    return row.by_float64("sqrt", row.plus(row.mean(row.total(square, at.first)), eps))


def _standard(row: Sweeps, x: ir.Value, about: ir.Value | None, factor: ir.Value | None) -> ir.Value:
    x = x if about is None else row.minus(x, about)
    return x if factor is None else row.times(x, factor)


class StandardizeGradient(NamedTuple):
    """The gradient of `Standardize`. Let h = first * weight, and y the standardised second with mean `one` and
    deviation `other`; then out = (h - mean(h) - y * mean(h * y)) / deviation."""

    weights: NamedTuple
    statistics: NamedTuple

    @staticmethod
    def emit(row: Sweeps, at: Places, weights: Any, statistics: Any) -> None:
        about = row.every(at.one) if statistics.about_mean else None
        factor = row.over(row.number(1.0), row.every(at.other)) if statistics.scaled else None

        def standard(x: ir.Value) -> ir.Value:
            return _standard(row, x, about, factor)

        shift, slope = (row.mean(sum) for sum in weights.sums(row, at, standard))

        def gradient(g: ir.Value, x: ir.Value, weight: ir.Value) -> ir.Value:
            h = row.times(g, weight)
            if about is not None:
                h = row.minus(h, shift)
            return h if factor is None else row.times(row.minus(h, row.times(standard(x), slope)), factor)

        row.write_each(at.out, gradient, at.first, at.second, weights.operand(row, at.weight))
