"""Plans as users have them, which run, slice, draw and describe themselves; and the functions that make them."""

from __future__ import annotations

import json
import math
import os
import time
import tracemalloc
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ...backends.strategies import check_strategy, checked_slices
from ...display.html import Lines, Rows, as_html
from ...flags import current
from ...tensor.call_errors import argument_errors
from ...tensor.dtypes import get_default_dtype
from ...tensor.tensor import Tensor, adopt
from . import precision_plan
from .api import check_options, contract, is_shape, not_tensors, read, take_diagonals
from .equation import Labels, label_name, parse, resolve, text_of
from .paths import BY_FLAGS, OBJECTIVES, checked_path, strategy_in_force
from .plan import Measured, Plan, whole_of
from .precision_plan import step_precisions
from .program import plan_within, program_for, run
from .slicing import plans_of_gradients, slice_labels, slice_within, with_limit
from .steps import Multiply

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMAT = 1
"""Raised when the meaning of a field changes."""


def text(plan: Plan) -> str:
    cells = rows(plan)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([summary(plan), *lines])


def rows(plan: Plan) -> list[tuple[str, ...]]:
    """The head of the table of steps, and its lines."""
    found: list[tuple[str, ...]] = [("", "contraction", "flops", "elements", "flops/element", "kernel", "seconds")]
    last = plan.measured[-1] if plan.measured else None
    for term, shape, preparation in zip(plan.inputs, plan.term_shapes, plan.preparations, strict=True):
        if preparation.summed:
            size, flops = math.prod(preparation.shape), math.prod(shape)
            intensity = f"{flops / (flops + size):.3g}"
            found.append(("", text_of([term], preparation.labels), f"{flops:,}", f"{size:,}", intensity, "sum", ""))
    for number, step in enumerate(plan.steps):
        seconds = f"{last.step_seconds[number]:.3g}" if last else ""
        values, counts = " ".join(map(str, step.operands)), (f"{step.flops:,}", f"{step.size:,}")
        found.append((values, step.equation, *counts, f"{step.intensity:.3g}", step.kernel, seconds))
    return found


def summary(plan: Plan) -> str:
    """The equation, the order, the costs, the slices, and the last measurement, a line each."""
    last = plan.measured[-1] if plan.measured else None
    sizes = ", ".join(f"{label_name(label)}={size}" for label, size in sorted(plan.sizes.items()))
    costs = (
        f"{plan.flops:,} flops ({_count(plan.naive_flops)} in one loop), largest intermediate "
        f"{plan.largest_intermediate:,}, peak {plan.peak_elements:,} elements, writes {plan.writes:,}"
    )
    if plan.search_seconds is not None:
        costs += f"; order found in {plan.search_seconds:.2g} s"
    aim = "" if plan.minimize == "flops" else f", minimizing {plan.minimize}"
    found = "as given" if isinstance(plan.strategy, tuple) else f"by strategy {plan.strategy!r}{aim}"
    order = f"path {list(plan.path)} {'seen from the operand, of the order ' if plan.is_derived else ''}{found}"
    head = [f"Plan of {plan.equation} with {sizes or 'no dimensions'}; {order}", costs]
    if plan.slicing is not None:
        head.append(str(plan.slicing))
    if last:
        head.append(f"measured: {last.seconds:.3g} s, peak {last.peak:,} bytes")
    return "\n".join(head)


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"{number:.3g}"


def to_json(plan: Plan) -> str:
    strategy = plan.strategy if isinstance(plan.strategy, (str, tuple)) else None
    names = "inputs", "output", "shapes", "path", "minimize", "memory_limit", "slices", "itemsize"
    fields: dict[str, Any] = {"format": _FORMAT, "strategy": strategy, **{name: getattr(plan, name) for name in names}}
    fields["blocks"] = None if plan.slicing is None else list(plan.slicing.blocks.items())
    return json.dumps(fields)


_Plan = TypeVar("_Plan", bound=Plan)


def from_json(kind: type[_Plan], written: str) -> _Plan:
    try:
        fields = json.loads(written)
        if fields["format"] != _FORMAT:
            raise ValueError(f"format {fields['format']!r} instead of {_FORMAT}")
        inputs, shapes, path = (_tuples(fields[name]) for name in ("inputs", "shapes", "path"))
        (output,) = _tuples([fields["output"]])
        strategy, minimize, blocks = fields["strategy"], fields["minimize"], fields["blocks"]
        strategy = None if strategy is None else check_strategy(strategy)
        limit, slices, itemsize = fields["memory_limit"], checked_slices(fields["slices"]), fields["itemsize"]
        if minimize not in OBJECTIVES or not (limit is None or type(limit) is int) or type(itemsize) is not int:
            raise ValueError(f"minimize={minimize!r}, memory_limit={limit!r}, itemsize={itemsize!r}")
        if len(shapes) != len(inputs) or any(map(_differ, inputs, shapes)) or not {*output} <= {*sum(inputs, ())}:
            raise ValueError("labels and shapes that do not fit")
        checked_path(path, len(inputs), f"the path {list(path)}")
        plan = kind(inputs, output, shapes, strategy, path=path, minimize=minimize)
        if blocks is not None:
            plan = slice_labels(plan, {label: max(block, 1) for label, block in _tuples(blocks)})
        return plan if limit is None and slices is None else with_limit(plan, limit, slices, itemsize)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"Plan.from_json(): text must be what Plan.to_json() writes, got {_short(written)}: {error}"
        ) from None


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}..."


def _differ(term: Labels, shape: tuple[int, ...]) -> bool:
    return len(term) != len(shape)


def _tuples(lists: Any) -> tuple[tuple[int, ...], ...]:
    """Lists of non-negative integers as tuples."""
    found = tuple(tuple(each) for each in lists)
    for each in found:
        if any(type(number) is not int or number < 0 for number in each):
            raise ValueError(f"{list(each)} with other than non-negative integers")
    return found


def _tensors_of(plan: Plan, operands: Sequence[Any]) -> list[Tensor]:
    """The operands as tensors. Raises RuntimeError where their shapes are not those of the plan."""
    tensors = [each if isinstance(each, Tensor) else adopt(np.asarray(each)) for each in operands]
    if tuple(each._array.shape for each in tensors) != plan.shapes:
        raise RuntimeError(
            f"this plan is for shapes {[list(shape) for shape in plan.shapes]}, got "
            f"{[list(each.shape) for each in tensors]}; make a plan for these"
        )
    return tensors


def run_plan(plan: Plan, operands: Sequence[Any], precision: Any, executor: Any) -> Tensor:
    """The contraction of a plan over operands; the arguments are those of `Plan.run`."""
    tensors = _tensors_of(plan, operands)
    precision = step_precisions(plan, precision)
    if executor is not None:
        _check_executor(plan, tensors, executor)
    slices = tuple(plan.slicing.blocks.items()) if plan.slicing is not None and plan.slices is None else plan.slices
    if plan.slicing is None and plan.memory_limit is None:
        slices = BY_FLAGS
    return contract(plan, tensors, precision, plan.strategy, plan.memory_limit, slices, False, executor)


def _check_executor(plan: Plan, tensors: Sequence[Tensor], executor: Any) -> None:
    """Raise for an object that cannot run slices, and RuntimeError if the slices of all threads exceed the plan's
    limit."""
    threads = isinstance(executor, int) and not isinstance(executor, bool)
    if not (threads and executor > 0) and not hasattr(executor, "submit"):
        raise TypeError(
            "Plan.run(): executor must be None, a positive number of threads or a concurrent.futures.Executor, got "
            f"{executor!r}"
        )
    if plan.slicing is None:
        raise ValueError("Plan.run(): executor runs slices, and this plan has none; make it with slices=")
    if threads and plan.memory_limit is not None:
        itemsize = max(each._array.dtype.itemsize for each in tensors)
        needed = (plan.slicing.held_elements + executor * plan.slicing.body_elements) * itemsize
        if needed > plan.memory_limit:
            raise RuntimeError(
                f"Plan.run(): {executor} threads would take {needed:,} bytes at once, and the memory_limit of the plan "
                f"is {plan.memory_limit:,}; use fewer threads, or make a plan with a lower limit"
            )


def measured_run(plan: Plan, operands: Sequence[Any], precision: Any) -> Tensor:
    """Implement `Plan.execute`. The peak is tracemalloc's, or that of the results if larger, since tracemalloc does not
    see memory that kernels reuse."""
    pairs = zip(_tensors_of(plan, operands), plan.diagonals, strict=True)
    arrays = [(each if taken is None else take_diagonals(each, *taken))._array for each, taken in pairs]
    dtypes, precision = [array.dtype for array in arrays], step_precisions(plan, precision)
    program, circumstances = program_for(plan, dtypes, precision), (precision, current(), *dtypes)
    if circumstances not in plan.warm:
        run(program, arrays)
        plan.warm.add(circumstances)
    order = range(len(plan.steps)) if plan.slicing is None else plan.slicing.step_order
    seconds, numbers, held = [0.0] * len(plan.steps), iter(order), 0  # no lists that grow: they would be counted
    results = list[weakref.ref]()

    def timed_multiply(multiply: Multiply, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        nonlocal held
        start = time.perf_counter()
        out = multiply(a, b)
        seconds[next(numbers)] += time.perf_counter() - start
        results[:] = [*(ref for ref in results if ref() is not None), weakref.ref(out)]
        held = max(held, sum(array.nbytes for ref in results if (array := ref()) is not None))
        return out

    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, start = tracemalloc.get_traced_memory()[0], time.perf_counter()
    try:
        out = run(program, arrays, around=timed_multiply)
        total, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1] - before
    finally:
        if not tracing:
            tracemalloc.stop()
    plan.measured.append(Measured(total, tuple(seconds), max(peak, held)))
    return adopt(out)


class EinsumPlan(Plan):
    """A `Plan` that computes. Its attributes are described there."""

    def cotangents(self) -> tuple[EinsumPlan, ...]:
        """The plan of each operand's gradient, in the order of this plan as seen from the operand; from left to right
        where no strategy chose one."""
        return plans_of_gradients(self)

    def slice_labels(self, blocks: Mapping[int, int]) -> EinsumPlan:
        """This plan with labels divided into blocks of these sizes. Unknown labels and whole ones are ignored."""
        return slice_labels(self, blocks)

    def within(self, most: int, finder: str) -> EinsumPlan | None:
        """This plan, sliced to a peak of at most `most` elements; None if no slicing is found whose FLOPs are at most
        `opt_einsum.slicing_overhead` times its own."""
        return slice_within(self, most, finder)

    def run(
        self,
        *operands: Any,
        precision: str | Sequence[str | None] | None = None,
        executor: Executor | int | None = None,
    ) -> Tensor:
        """Contract tensors as planned; gradients are recorded.

        Arguments:
            precision: of float32 products: one for all, or a sequence with one for each of `steps`; None uses the
                flags. Gradients have other steps; after a sequence they run at the flags' precision.
            executor: runs the slices: an executor of `concurrent.futures`, or a number of threads; None runs them one
                after another. The current flags travel with each slice. Partial results are added in slice order, so
                that the bits do not depend on the executor. Gradients run without it.

        A plan made under a memory limit keeps it here and in each gradient; each thread holds one slice. Raises
        RuntimeError for operands of other shapes and for slices that exceed the limit. Raises ValueError for a sequence
        of a wrong length, and for an executor if the plan is not sliced.
        """
        return run_plan(self, operands, precision, executor)

    def execute(self, *operands: Any, precision: str | Sequence[str | None] | None = None) -> Tensor:
        """Contract tensors as planned, and append time and memory to `measured`. Nothing is recorded for gradients.

        The first execution for given dtypes and flags runs twice and measures the second run, since the first compiles
        or loads kernels. Raises RuntimeError for operands of other shapes.
        """
        return measured_run(self, operands, precision)

    def error_estimate(self, precision: str | Sequence[str | None] | None = None) -> float:
        """The expected error of the result of float32 operands, relative in the Frobenius norm.

        That of each step follows from its length and precision (`kernels.precisions.products.predicted_error`), for
        operands of independent normal variates; those of the steps add in quadrature. `precision` is that of `run`.
        """
        return precision_plan.error_estimate(self, precision)

    def lower_within(
        self, budget: float, precisions: Sequence[str] | None = None, costs: Mapping[str, float] | None = None
    ) -> tuple[str, ...]:
        """The precisions of the steps with the least cost whose `error_estimate` is at most `budget`, for `run`.

        Arguments:
            precisions: those to choose from; by default all that have the range of fp32, since values are not known.
            costs: the time of one multiplication and addition at each precision, in any unit, as it was measured; by
                default that of matrix units of devices, `precision_plan.unit_cost`.

        Raises ValueError where no choice obeys the budget.
        """
        return precision_plan.lower_within(self, budget, precisions, costs)

    def to_json(self) -> str:
        """The plan as JSON: labels, shapes, order and slices. A strategy that is a function is left out."""
        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> EinsumPlan:
        """The plan that `to_json` wrote. Raises ValueError for other text."""
        return from_json(cls, text)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the tree of contractions, and the memory and the sizes of results over the steps.

        Returns the figure; with `path` it is also written, as PNG, PDF or SVG by the end of the name. Needs matplotlib.
        """
        from .plot import plot

        return plot(self, path)

    def _repr_html_(self) -> str:
        return as_html(Lines(summary(self)), Rows(rows(self), 2))

    def __reduce__(self) -> tuple[Any, ...]:
        blocks = None if self.slicing is None else self.slicing.blocks
        key = self.inputs, self.output, self.shapes, self.strategy, self.path, self.minimize
        return _unpickle, (key, blocks, (self.memory_limit, self.slices, self.itemsize))

    def __repr__(self) -> str:
        return text(self)


def _unpickle(key: tuple, blocks: Mapping[int, int] | None, limit: tuple[int | None, str | None, int]) -> EinsumPlan:
    plan: Any = slice_labels(whole_of(EinsumPlan, *key), blocks or {})
    return plan if limit[:2] == (None, None) else with_limit(plan, *limit)


@argument_errors
def einsum_plan(
    equation: Any = None,
    /,
    *operands: Any,
    strategy: Any = BY_FLAGS,
    minimize: str = "flops",
    memory_limit: int | None = None,
    slices: Any = BY_FLAGS,
) -> EinsumPlan:
    """The plan of an `einsum`, without computing anything. A shape may stand for an operand:
    `einsum_plan("ij,jk,kl", (8, 9), (9, 4), (4, 2), strategy="greedy")`.

    Subscripts may be any non-ASCII characters, as in quimb, cotengra and opt_einsum. The plan's text shows each
    contraction, its cost and its kernel. `run(*operands)` contracts tensors, `execute` also measures time and memory,
    and `cotangents()` gives the plans of the gradients. Raises the errors of `einsum`.

    Arguments:
        strategy: as for `einsum`; also a `ContractionTree` of cotengra and quimb, including its sliced indices, and a
            `PathInfo` of opt_einsum.
        minimize: the objective of the strategy: "flops", "size" of the largest intermediate, "write" (elements of all
            intermediates) or "combo" (flops + 64 * write). Objectives other than "flops" need "auto", "auto-hq", "dp",
            "random-greedy", "random-greedy-128" or "cotengra".
        memory_limit: limit in bytes for live intermediates, of the operands' dtype, or of the default dtype if all
            operands are shapes.
        slices: "auto", "cotengra" or None, as for `einsum`; or a mapping of subscripts to numbers of parts, `{"j": 4}`.

    Raises ValueError for an unknown objective, and for a strategy that cannot minimise it.
    """
    text, given = read(equation, operands)
    try:
        shapes = tuple(tuple(map(int, each)) if is_shape(each) else each._array.shape for each in given)
    except AttributeError:
        raise not_tensors(given) from None
    inputs, output = resolve(parse(text, any_letter=True), shapes)
    if minimize not in OBJECTIVES:
        names = ", ".join(map(repr, OBJECTIVES))
        raise ValueError(f"einsum_plan(): minimize must be one of {names}, got {minimize!r}")
    parts = slices if isinstance(slices, Mapping) else None
    check_options(BY_FLAGS, None, memory_limit, BY_FLAGS if parts is not None else slices, "einsum_plan")
    order = strategy_in_force() if strategy is BY_FLAGS else check_strategy(strategy)
    plan = EinsumPlan(inputs, output, shapes, order, minimize=minimize)
    if parts is not None:
        plan = plan.slice_labels(_blocks_of_parts(plan.sizes, parts))
    elif slices is BY_FLAGS and memory_limit is None:
        plan = plan.slice_labels(_blocks_of_tree(plan, strategy))
    if memory_limit is None:
        return plan
    dtypes = [each._array.dtype for each in given if isinstance(each, Tensor)]
    program = program_for(plan, (dtypes + [get_default_dtype().dtype] * len(given))[: len(given)], None)
    finder = current().read("opt_einsum.slices") if slices is BY_FLAGS else None if parts is not None else slices
    found = plan_within(program.costs, memory_limit, finder)
    return with_limit(
        found,  # type: ignore[return-value]
        int(memory_limit),
        finder,
        program.costs.itemsize,
    )


@argument_errors
def einsum_path(equation: Any = None, /, *operands: Any, strategy: Any = BY_FLAGS) -> tuple[list[Any], str]:
    """The path and the description of `einsum_plan`, in the form of `numpy.einsum_path`."""
    plan = einsum_plan(equation, *operands, strategy=strategy)
    return ["einsum_path", *plan.path], repr(plan)


def _blocks_of_parts(sizes: Mapping[int, int], parts: Mapping[str, int]) -> dict[int, int]:
    """The size of the blocks of each label, from the numbers of parts of subscripts.

    Raises ValueError for subscripts that the equation lacks, and for numbers that are not from 1 to the size.
    """
    names = {label_name(label): label for label in sizes}
    blocks = {}
    for name, count in parts.items():
        if name not in names:
            known = ", ".join(names)
            raise ValueError(f"einsum_plan(): slices must name subscripts of the equation ({known}), got {name!r}")
        size = sizes[names[name]]
        if type(count) is not int or not 1 <= count <= size:
            raise ValueError(
                f"einsum_plan(): slices[{name!r}] must be a number of parts from 1 to {size}, got {count!r}"
            )
        blocks[names[name]] = -(-size // count)
    return blocks


def _blocks_of_tree(plan: Plan, tree: Any) -> dict[int, int]:
    """The labels that a tree of cotengra slices, to single indices; none for other strategies."""
    sliced = getattr(tree, "sliced_inds", None)
    if not sliced or not hasattr(tree, "inputs"):
        return {}
    return {
        label: 1
        for own, term in zip(tree.inputs, plan.inputs, strict=True)
        for index, label in zip(own, term, strict=True)
        if index in sliced
    }
