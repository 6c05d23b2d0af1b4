"""The functions of a row: tags whose `emit` generates their passes, given the places of the row's numbers and of two
more."""

from __future__ import annotations

from typing import NamedTuple

from ...block.emit import F64
from ...runtime.jit import ir
from ..elementwise.sweeps import Sweeps


class Places(NamedTuple):
    """Of a row or a strip: its operands and its result; one number for each row and another; weights and biases, and
    the sums that make up their gradients (`standardization`); and the bits of a float64, `eps`."""

    first: ir.Value
    second: ir.Value
    out: ir.Value
    one: ir.Value
    other: ir.Value
    weight: ir.Value
    bias: ir.Value
    weight_sums: ir.Value
    bias_sums: ir.Value
    eps: ir.Value


class Softmax(NamedTuple):
    """out = exp(first) / sum(exp(first))."""

    @staticmethod
    def emit(row: Sweeps, at: Places) -> None:
        largest = row.largest(at.first)

        def exponential(x: ir.Value) -> ir.Value:
            return row.exponential(row.minus(x, largest))

        if row.element.size == 2:  # where results go they would be rounded twice
            factor = row.over(row.number(1.0), row.total(exponential, at.first))
            row.write_each(at.out, lambda x: row.times(exponential(x), factor), at.first)
            return
        row.write_each(at.out, exponential, at.first)
        factor = row.over(row.number(1.0), row.total(lambda x: x, at.out))
        row.write_each(at.out, lambda x: row.times(x, factor), at.out)


class Largest(NamedTuple):
    """one = max(first), NaN where there is one."""

    @staticmethod
    def emit(row: Sweeps, at: Places) -> None:
        row.keep(row.extreme(at.first, ">"), at.one)


class Smallest(NamedTuple):
    """one = min(first), NaN where there is one."""

    @staticmethod
    def emit(row: Sweeps, at: Places) -> None:
        row.keep(row.extreme(at.first, "<"), at.one)


class RunningSums(NamedTuple):
    """out = the sums of first up to each number."""

    @staticmethod
    def emit(row: Sweeps, at: Places) -> None:
        row.write_running(at.out, at.first, -0.0, row.plus)


class RunningProducts(NamedTuple):
    """out = the products of first up to each number. A product of some float64 could overflow, or vanish, where that of
    all does not."""

    @staticmethod
    def emit(row: Sweeps, at: Places) -> None:
        row.write_running(at.out, at.first, 1.0, row.times, in_pairs=row.element.working is not F64)


class SoftmaxGradient(NamedTuple):
    """out = second * (first - sum(first * second))."""

    @staticmethod
    def emit(row: Sweeps, at: Places) -> None:
        total = row.total(row.times, at.first, at.second)
        row.write_each(at.out, lambda g, y: row.times(y, row.minus(g, total)), at.first, at.second)


class Exponentials(NamedTuple):
    """out = exp(first - max(first)), one = sum(out), and other = max(first). Of a row of -inf, which sees nothing, they
    are 0, 1 and inf; where the sum is NaN, so is the last one."""

    @staticmethod
    def emit(row: Sweeps, at: Places) -> None:
        builder, largest = row.builder, row.largest(at.first)
        nothing = builder.fcmp_ordered("==", largest, row.number(float("-inf")))
        shift = builder.select(nothing, row.number(0.0), largest)
        row.write_each(at.out, lambda x: row.exponential(row.minus(x, shift)), at.first)
        total = row.total(lambda x: x, at.out)
        empty = builder.fcmp_ordered("==", total, row.number(0.0))
        wrong = builder.fcmp_unordered("uno", total, total)
        row.keep(builder.select(empty, row.number(1.0), total), at.one)
        row.keep(builder.select(empty, row.number(float("inf")), builder.select(wrong, total, shift)), at.other)


class LogSumExp(NamedTuple):
    """one = log(sum(exp(first))), -inf of -inf alone."""

    @staticmethod
    def emit(row: Sweeps, at: Places) -> None:
        builder, largest, zero = row.builder, row.largest(at.first), row.number(0.0)
        finite = builder.fcmp_ordered("==", row.minus(largest, largest), zero)
        shift = builder.select(finite, largest, zero)
        total = row.total(lambda x: row.exponential(row.minus(x, shift)), at.first)
        row.keep(row.plus(row.by_float64("log", total), shift), at.one)


class LogSoftmax(NamedTuple):
    """out = first - log(sum(exp(first)))."""

    @staticmethod
    def emit(row: Sweeps, at: Places) -> None:
        largest = row.largest(at.first)
        total = row.total(lambda x: row.exponential(row.minus(x, largest)), at.first)
        logarithm = row.by_float64("log", total)
        row.write_each(at.out, lambda x: row.minus(row.minus(x, largest), logarithm), at.first)


class LogSoftmaxGradient(NamedTuple):
    """out = first - exp(second) * sum(first)."""

    @staticmethod
    def emit(row: Sweeps, at: Places) -> None:
        total = row.total(lambda g: g, at.first)
        row.write_each(at.out, lambda g, y: row.minus(g, row.times(row.exponential(y), total)), at.first, at.second)
