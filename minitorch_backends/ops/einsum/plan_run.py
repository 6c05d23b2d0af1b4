"""Running plans: with gradients and on executors, or measured."""

from __future__ import annotations

import time
import tracemalloc
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...flags import current
from ...tensor.tensor import Tensor, adopt
from .api import contract, take_diagonals
from .paths import BY_FLAGS
from .plan import Measured, Plan
from .precision_plan import step_precisions
from .program import program_for, run
from .steps import Multiply


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
    """What `Plan.run` does."""
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
