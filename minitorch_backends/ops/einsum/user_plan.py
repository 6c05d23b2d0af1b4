"""Plans as users have them, which run, slice, draw and describe themselves; and the functions that make them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from ...backends.strategies import check_strategy
from ...display.html import Lines, Rows, as_html
from ...flags import current
from ...tensor.call_errors import argument_errors
from ...tensor.dtypes import get_default_dtype
from ...tensor.tensor import Tensor
from . import plan_format, precision_plan
from .api import check_options, is_shape, not_tensors, read
from .equation import label_name, parse, resolve
from .paths import BY_FLAGS, OBJECTIVES, strategy_in_force
from .plan import Plan, whole_of
from .plan_run import measured_run, run_plan
from .plot import plot as draw
from .program import plan_within, program_for
from .slicing import plans_of_gradients, slice_labels, slice_within, with_limit

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        return plan_format.to_json(self)

    @classmethod
    def from_json(cls, text: str) -> EinsumPlan:
        """The plan that `to_json` wrote. Raises ValueError for other text."""
        return plan_format.from_json(cls, text)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the tree of contractions, and the memory and the sizes of results over the steps.

        Returns the figure; with `path` it is also written, as PNG, PDF or SVG by the end of the name.
        """
        return draw(self, path)

    def _repr_html_(self) -> str:
        return as_html(Lines(plan_format.summary(self)), Rows(plan_format.rows(self), 2))

    def __reduce__(self) -> tuple[Any, ...]:
        blocks = None if self.slicing is None else self.slicing.blocks
        key = self.inputs, self.output, self.shapes, self.strategy, self.path, self.minimize
        return _unpickle, (key, blocks, (self.memory_limit, self.slices, self.itemsize))

    def __repr__(self) -> str:
        return plan_format.text(self)


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
