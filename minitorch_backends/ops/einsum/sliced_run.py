"""Execution of the slices of a contraction: sequentially, on threads, or on any executor.

Tasks carry the plan of a slice, its operands and the current flags. Results are added in slice order, independently of
the order of completion, so the bits depend on the slicing alone.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from ...flags import Snapshot, snapshot
from ...kernels.runtime.context import restore_on_failure
from .plan import Plan
from .program import Around, program_for, run
from .slicing import Part, Slicing

_FLOAT32 = np.dtype(np.float32)

MOST_WAITING = 32
"""Maximum number of slices that an executor holds; finished results may wait for an earlier slice."""

Places = dict[int, slice]
Precision = Any


def run_sliced(
    slicing: Slicing,
    arrays: Sequence[np.ndarray],
    dtype: np.dtype,
    precision: Precision = None,
    around: Around | None = None,
    executor: Executor | int | None = None,
) -> np.ndarray:
    """The result, of a dtype, in memory of its own; the arrays have each label once. `around` is that of `run`.

    Half types are added in float32 and rounded once.
    """
    values = dict(enumerate(arrays))
    for part in slicing.ahead:
        own = [values[value] for value in part.values]
        values[part.result] = _compute(slicing.plan_ahead(part), own, _precision_of(part, precision), around)
    operands = [values[value] for value in slicing.body.values]
    whole, body = slicing.whole, slicing.body
    shape = tuple(whole.sizes[label] for label in whole.core_output)
    total = np.empty(shape, _FLOAT32 if dtype.itemsize == 2 and dtype.kind in "fV" else dtype)
    region: Any = None
    own_precision = _precision_of(body, precision)
    tasks = _tasks(slicing, operands)
    for places, partial in _results(tasks, own_precision, around, executor):
        last, region = region, tuple([places.get(label, slice(None)) for label in whole.core_output])
        block = total[(*region, ...)]
        if region == last:  # slices of one region follow each other
            np.add(block, partial, out=block, casting="unsafe")
        else:
            block[...] = partial
        del partial  # the next slice must find its memory free
    return total.astype(dtype, copy=False).reshape(whole.result_shape)


def _compute(
    plan: Plan, arrays: Sequence[np.ndarray], precision: Precision, around: Around | None = None
) -> np.ndarray:
    return run(program_for(plan, [array.dtype for array in arrays], precision), arrays, math.inf, around)


def _precision_of(part: Part, precision: Precision) -> Precision:
    return tuple(precision[number] for number in part.steps) if type(precision) is tuple else precision


def _tasks(slicing: Slicing, operands: Sequence[np.ndarray]) -> Iterator[tuple[Places, Plan, list[np.ndarray]]]:
    for places in slicing.slices():
        pairs = zip(operands, slicing.body.inputs, strict=True)
        blocks = [slicing.cut(array, term, places) for array, term in pairs]
        yield places, slicing.plan_body(tuple([block.shape for block in blocks])), blocks


def _results(
    tasks: Iterator[tuple[Places, Plan, list[np.ndarray]]],
    precision: Precision,
    around: Around | None,
    executor: Executor | int | None,
) -> Iterator[tuple[Places, np.ndarray]]:
    """The place of each slice with its result, in the order of the slices."""
    if executor is None:
        for places, plan, blocks in tasks:
            yield places, _compute(plan, blocks, precision, around)
    elif isinstance(executor, int):
        with ThreadPoolExecutor(executor, thread_name_prefix="minitorch-slice") as pool:
            yield from _submit(pool, executor, tasks, precision)
    else:
        yield from _submit(executor, MOST_WAITING, tasks, precision)


def _submit(
    executor: Executor, most: int, tasks: Iterator[tuple[Places, Plan, list[np.ndarray]]], precision: Precision
) -> Iterator[tuple[Places, np.ndarray]]:
    flags, running = snapshot(), deque[tuple[Places, Future]]()
    try:
        for places, plan, blocks in tasks:
            if len(running) == most:
                first, future = running.popleft()
                yield first, future.result()
                del future
            running.append((places, executor.submit(_run_slice, flags, plan, blocks, precision)))
        while running:
            first, future = running.popleft()
            yield first, future.result()
            del future
    finally:
        for _, future in running:
            future.cancel()


@restore_on_failure
def _run_slice(flags: Snapshot, plan: Plan, blocks: list[np.ndarray], precision: Precision) -> np.ndarray:
    """Run one slice, in any thread or process, under the flags that came with it."""
    with flags:
        return _compute(plan, blocks, precision)
