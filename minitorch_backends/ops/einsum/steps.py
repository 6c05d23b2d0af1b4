"""The steps of a program: what is done to one operand or to two, as objects that are called with arrays, and as the
expressions of the same that straight programs are made of, which silence NumPy's warnings once for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...kernels.gemm.blas import dot, dots, matmul_of_batches, matmul_of_strided
from ...kernels.quiet import restore, silence
from ...kernels.registry import ArraySpec
from ...kernels.sums import sum as sum_over
from ...tensor.dtypes import INTEGER, dtype_of
from ..matmul.dispatch import product, straight_dots, straight_product
from .equation import Labels
from .layout import Pair

__all__ = ["Bind", "Multiplication", "Product", "Step", "Summation", "View", "arrangement", "step_of"]

Shape = tuple[int, ...]
Bind = Callable[[Any], str]
"""Gives a value the name by which expressions know it."""

_BARE = {dots: np.vecdot, matmul_of_batches: matmul_of_strided}
"""What silences NumPy's warnings, and what does the same without."""

_INT64 = np.dtype(np.int64)


class View(NamedTuple):
    """How an array is read: with its dimensions in another order, and then with dimensions of size 1 put in, or in
    another shape. None stands for what is not done.
    """

    axes: tuple[int, ...] | None = None
    ones: tuple[Any, ...] | None = None
    shape: Shape | None = None

    def __call__(self, array: np.ndarray) -> np.ndarray:
        if self.axes is not None:
            array = array.transpose(self.axes)
        if self.ones is not None:
            return array[self.ones]
        return array if self.shape is None else array.reshape(self.shape)

    def code(self, array: str, bind: Bind) -> str:
        """The same as an expression; `ravel` and `squeeze` take half the time of `reshape`."""
        if self.axes is not None:
            array += ".T" if self.axes[::-1] == tuple(range(len(self.axes))) else f".transpose({bind(self.axes)})"
        if self.ones is not None:
            return f"{array}[{bind(self.ones)}]"
        if self.shape is None:
            return array
        if len(self.shape) < 2:
            return f"{array}.ravel()" if self.shape else f"{array}.squeeze()"
        return f"{array}.reshape({bind(self.shape)})"


class Product:
    """One call of the product kernels, with operands read through strides where these reach rows and sums as one.

    Attributes:
        first, second: how operands are read as (batches of) matrices; `specs`: these; `result`: how the product is.
        lines: how operands are read where the products are sums along one dimension of each, which need no matrices.
    """

    def __init__(self, pair: Pair, sizes: dict[int, int], left: np.dtype, right: np.dtype, dtype: np.dtype) -> None:
        self.swapped = pair.swapped
        self.first = _matrices(pair.left, pair.batch, pair.rows, pair.summed, sizes)
        self.second = _matrices(pair.right, pair.batch, pair.summed, pair.columns, sizes)
        one_each = len(pair.rows) == len(pair.columns) == 1
        self.result = View() if one_each else View(shape=tuple(sizes[label] for label in pair.result))
        self.casts_to = None if left == right else dtype
        self.lines: tuple[View, View] | None = None
        if pair.batch and not pair.rows and not pair.columns and len(pair.summed) == 1:
            order = (*pair.batch, *pair.summed)
            self.lines = _in_order(pair.left, order), _in_order(pair.right, order)
        batch = tuple(sizes[label] for label in pair.batch)
        n, k, m = (math.prod(sizes[label] for label in part) for part in (pair.rows, pair.summed, pair.columns))
        self.specs = ArraySpec((*batch, n, k), dtype), ArraySpec((*batch, k, m), dtype)

    def __call__(self, a: np.ndarray, b: np.ndarray, precision: str | None = None) -> np.ndarray:
        if self.casts_to is not None:
            a, b = a.astype(self.casts_to, copy=False), b.astype(self.casts_to, copy=False)
        if self.swapped:
            a, b = b, a
        return self.result(product(self.first(a), self.second(b), precision))

    def code(self, a: str, b: str, bind: Bind, precision: str | None = None) -> str | None:
        if self.casts_to is not None:
            return None
        if self.swapped:
            a, b = b, a
        if self.lines is not None and (sums := straight_dots(*self.specs, precision)) is not None:
            return f"{bind(_BARE[sums])}({self.lines[0].code(a, bind)}, {self.lines[1].code(b, bind)})"
        multiply = straight_product(*self.specs, precision)
        if multiply is None:
            return None
        a, b = self.first.code(a, bind), self.second.code(b, bind)
        made = f"{a}.dot({b})" if multiply is dot else f"{bind(_BARE.get(multiply, multiply))}({a}, {b})"
        return self.result.code(made, bind)


class Multiplication:
    """`np.multiply` of operands that are read in the order of the result, and broadcast where they lack a label."""

    def __init__(self, pair: Pair, left: np.dtype, right: np.dtype, dtype: np.dtype) -> None:
        self.first, self.second = _reading(pair.left, pair.result), _reading(pair.right, pair.result)
        self.casts_to = None if left == right else dtype
        self.of_numbers = not pair.result

    def __call__(self, a: np.ndarray, b: np.ndarray, precision: str | None = None) -> np.ndarray:
        a, b = self.first(a), self.second(b)
        if self.casts_to is not None:
            a, b = a.astype(self.casts_to, copy=False), b.astype(self.casts_to, copy=False)
        token = silence()
        try:
            return np.asarray(np.multiply(a, b))
        finally:
            restore(token)

    def code(self, a: str, b: str, bind: Bind, precision: str | None = None) -> str | None:
        if self.casts_to is not None:
            return None
        made = f"{bind(np.multiply)}({self.first.code(a, bind)}, {self.second.code(b, bind)})"
        return f"{bind(np.asarray)}({made})" if self.of_numbers else made


Step = Product | Multiplication


def step_of(pair: Pair, sizes: dict[int, int], left: np.dtype, right: np.dtype, dtype: np.dtype) -> Step:
    """The contraction of two operands, of these dtypes, to `dtype`."""
    return Product(pair, sizes, left, right, dtype) if pair.summed else Multiplication(pair, left, right, dtype)


class Summation:
    """Sums over dimensions of one operand; half types are summed in float32, integers in int64."""

    def __init__(self, axes: tuple[int, ...], shape: Shape, dtype: np.dtype) -> None:
        self.axes, self.shape, self.dtype = axes, shape, dtype
        self.half = dtype.itemsize == 2 and dtype_of(np.empty(0, dtype)).category > INTEGER

    def __call__(self, array: np.ndarray) -> np.ndarray:
        if self.half:
            return np.asarray(sum_over(array, self.axes)).astype(self.dtype).reshape(self.shape)
        if self.dtype.kind in "biu":
            return np.asarray(np.add.reduce(array, self.axes, dtype=_INT64)).reshape(self.shape)
        return np.asarray(sum_over(array, self.axes)).reshape(self.shape)

    def code(self, array: str, bind: Bind) -> str:
        return f"{bind(self)}({array})"


def arrangement(labels: Labels, order: Labels, shape: Shape) -> View:
    """The last value in the result's order, with the result's dimensions of size 1."""
    view = _in_order(labels, order)
    return view if len(shape) == len(order) else view._replace(shape=shape)


def _in_order(term: Labels, order: Labels) -> View:
    return View(None if term == order else tuple(term.index(label) for label in order))


def _reading(term: Labels, result: Labels) -> View:
    """In the order of the result, with a dimension of size 1 where a label of the result is missing and broadcasting
    would not do as well without.
    """
    if term == result[len(result) - len(term) :]:
        return View()
    ordered = _in_order(term, tuple(label for label in result if label in term)).axes
    ones = tuple(slice(None) if label in term else None for label in result)
    return View(ordered, ones if None in ones else None)


def _matrices(term: Labels, batch: Labels, first: Labels, second: Labels, sizes: dict[int, int]) -> View:
    """Batch x first x second."""
    axes = _in_order(term, (*batch, *first, *second)).axes
    if len(first) == len(second) == 1:
        return View(axes)
    if len(first) <= 1 and len(second) <= 1:
        kept = (slice(None),) * len(batch)
        return View(axes, (*kept, *(slice(None) if group else None for group in (first, second))))
    groups = ([sizes[label] for label in group] for group in (first, second))
    return View(axes, None, (*(sizes[label] for label in batch), *map(math.prod, groups)))
