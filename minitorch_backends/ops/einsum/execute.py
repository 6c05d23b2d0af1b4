"""Plans as programs: a flat list of steps over arrays, in which every product is one call of the product kernels."""

from __future__ import annotations

import time
import tracemalloc
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...flags import current
from ...tensor.dtypes import BOOL, dtype_of, promote_types
from ...tensor.tensor import Tensor, adopt
from .layout import Pair
from .limit import NEVER_REFUSED, refuse_too_large
from .plan import Measured, Plan, Preparation
from .steps import Step, Summation, View, arrangement, step_of

__all__ = ["Program", "measured_run"]

_INT64 = np.dtype(np.int64)


class Program:
    """A plan for operands of known dtypes, ready to run.

    Attributes:
        plan: the plan.
        first: for each operand that must be summed or reshaped first, its place and what does it.
        steps: (what contracts two arrays at a precision, the values it takes, those that nothing needs afterwards).
        last: brings the last value to the result's order and shape.
        bytes: the predicted peak.

    Raises RuntimeError for a product of different dtypes and NotImplementedError for one of booleans.
    """

    def __init__(self, plan: Plan, dtypes: Sequence[np.dtype], same: Sequence[int] | None = None) -> None:
        self.plan = plan
        kinds = [_summed_dtype(d) if p.summed else d for d, p in zip(dtypes, plan.preparations, strict=True)]
        self.first = [
            (place, _preparation(preparation, dtype))
            for place, (preparation, dtype) in enumerate(zip(plan.preparations, dtypes, strict=True))
            if preparation.changes(plan.shapes[place])
        ]
        mixed = len(set(dtypes)) > 1
        steps = []
        for step in plan.steps:
            left, right = (kinds[value] for value in step.operands)
            dtype = _result_dtype(step.pair, left, right, mixed)
            contract = step_of(step.pair, plan.sizes, left, right, dtype)
            steps.append((contract, _places(step.pair), *step.operands))
            kinds.append(dtype)
        self.steps = _freeing(steps, len(plan.inputs), None if same is None else _alike(same, plan.preparations))
        labels = plan.steps[-1].pair.result if plan.steps else plan.preparations[0].labels
        self.last = arrangement(labels, plan.core_output, plan.result_shape)
        self.bytes = plan.peak_elements * max((kind.itemsize for kind in kinds), default=0)

    def asks_for_memory(self) -> bool:
        """Whether each run under the flags in force asks first how much memory it may take."""
        limit = current().read("einsum_memory_limit")
        return self.bytes > (NEVER_REFUSED if limit is None else min(limit, NEVER_REFUSED))

    def run(
        self, arrays: Sequence[np.ndarray], precision: str | None = None, memory_limit: int | None = None
    ) -> np.ndarray:
        """The result; its memory is its own. Raises RuntimeError where it would take more memory than it may."""
        self.refuse(memory_limit)
        values: list[Any] = list(arrays)
        for place, prepare in self.first:
            values[place] = prepare(values[place])
        for contract, left, right, done in self.steps:
            values.append(contract(values[left], values[right], precision))
            for value in done:
                values[value] = None
        return self.last(values[-1])

    def refuse(self, memory_limit: int | None) -> None:
        """Raise RuntimeError where the intermediates would take more memory than the call, or the flag, lets them."""
        if memory_limit is None:
            memory_limit = current().read("einsum_memory_limit")
        if memory_limit is not None or self.bytes > NEVER_REFUSED:
            refuse_too_large(self.bytes, memory_limit)

    def run_measured(
        self, arrays: Sequence[np.ndarray], precision: str | None
    ) -> tuple[np.ndarray, tuple[float, ...], int]:
        """`run`, with the seconds of each step, and the most bytes of results that lived at once."""
        seconds, results, held = [], [], [0]

        def timed(contract: Step) -> Any:
            def run(*operands: Any) -> np.ndarray:
                start = time.perf_counter()
                out = contract(*operands)
                seconds.append(time.perf_counter() - start)
                results.append(weakref.ref(out))
                held.append(sum(array.nbytes for ref in results if (array := ref()) is not None))
                return out

            return run

        clocked = object.__new__(Program)
        clocked.__dict__.update(self.__dict__, steps=[(timed(contract), *rest) for contract, *rest in self.steps])
        return clocked.run(arrays, precision), tuple(seconds), max(held)


def measured_run(plan: Plan, operands: Sequence[Any], precision: str | None) -> Tensor:
    """What `Plan.execute` does. The peak is what tracemalloc sees, which NumPy tells of its memory, or that of the
    results alone where the kernels have given them memory of earlier ones, of which tracemalloc hears nothing.
    """
    from .diagonals import without_repeats

    arrays = [each._array if isinstance(each, Tensor) else np.asarray(each) for each in operands]
    if tuple(array.shape for array in arrays) != plan.shapes:
        raise RuntimeError(
            f"this plan is for shapes {[list(shape) for shape in plan.shapes]}, and got "
            f"{[list(array.shape) for array in arrays]}; make a plan for these"
        )
    arrays = [without_repeats(array, term) for array, term in zip(arrays, plan.inputs, strict=True)]
    program = Program(plan, [array.dtype for array in arrays])
    circumstances = (precision, current(), *[array.dtype for array in arrays])
    if circumstances not in plan.warm:
        program.run(arrays, precision)
        plan.warm.add(circumstances)
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, start = tracemalloc.get_traced_memory()[0], time.perf_counter()
    try:
        out, step_seconds, held = program.run_measured(arrays, precision)
        seconds, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1] - before
    finally:
        if not tracing:
            tracemalloc.stop()
    plan.measured.append(Measured(seconds, step_seconds, max(peak, held)))
    return adopt(out)


def _alike(same: Sequence[int], preparations: Sequence[Preparation]) -> list[int]:
    """For each operand the first one that is the same tensor and is prepared in the same way."""
    prepared = [(first, p.summed, p.shape) for first, p in zip(same, preparations, strict=True)]
    return [prepared.index(each) for each in prepared]


def _freeing(steps: Sequence[tuple], operands: int, same: Sequence[int] | None) -> list[tuple]:
    """The steps with the values that are not needed after each; where `same` says which operands are one tensor, steps
    that would compute what an earlier one has are left out.
    """
    values = list(range(operands) if same is None else same)
    known: dict[tuple, int] = {}
    kept: list[tuple] = []
    for contract, places, left, right in steps:
        key = (places, values[left], values[right])
        if same is None or key not in known:
            known[key] = operands + len(kept)
            kept.append((contract, values[left], values[right]))
        values.append(known[key])
    last_use = {value: number for number, (_, *used) in enumerate(kept) for value in used}
    return [
        (contract, left, right, tuple(v for v in dict.fromkeys((left, right)) if last_use[v] == number))
        for number, (contract, left, right) in enumerate(kept)
    ]


# Dtypes


def _summed_dtype(dtype: np.dtype) -> np.dtype:
    return _INT64 if dtype.kind in "biu" else dtype


def _result_dtype(pair: Pair, left: np.dtype, right: np.dtype, mixed: bool) -> np.dtype:
    """The dtype of a contraction: multiplications promote, products of different dtypes or of booleans are refused."""
    first, second = dtype_of(np.empty(0, left)), dtype_of(np.empty(0, right))
    if pair.summed and BOOL in (first.category, second.category):
        raise NotImplementedError(
            "einsum(): sums of products are not implemented for boolean tensors; convert them with .int() or .float()"
        )
    if left == right:
        return left
    if pair.summed and mixed:
        raise RuntimeError(
            f"einsum(): expected the factors of a sum of products to have the same dtype, but got {first!r} and "
            f"{second!r}; convert one with .to(dtype)"
        )
    return promote_types(first, second).dtype


def _preparation(preparation: Preparation, dtype: np.dtype) -> Summation | View:
    axes, shape = preparation.summed, preparation.shape
    return Summation(axes, shape, dtype) if axes else View(shape=shape)


def _places(pair: Pair) -> tuple:
    """The contraction in terms of places instead of labels: equal for steps that do the same to the same values."""
    names = {label: place for place, label in enumerate(dict.fromkeys((*pair.left, *pair.right)))}
    terms = (pair.left, pair.right, pair.summed, pair.result)
    return (pair.swapped, *(tuple(names[label] for label in term) for term in terms))
