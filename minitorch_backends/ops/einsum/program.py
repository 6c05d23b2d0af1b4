"""Programs: plans for operands of known dtypes and flags, as a flat list of functions of two arrays.

Each product is one call of a matmul kernel, selected when the program is built.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...autograd.modes import grad_mode
from ...autograd.versions import writes
from ...backends.operands import Roles
from ...backends.strategies import Strategy
from ...dispatch.op import Arrays
from ...dispatch.promotion import EVERY_CATEGORY, refusal_of_dtype
from ...flags import Snapshot, State, current, per_state, snapshot
from ...kernels.arrays.sums import sum as sum_over
from ...kernels.registry import ArraySpec
from ...kernels.runtime.context import restore_on_failure
from ...kernels.runtime.errstate import restore, silence
from ...kernels.runtime.workspace import offer
from ...tensor.dtypes import BOOL, dtype_of, promote_types, to_dtype
from ...tensor.tensor import Tensor
from ..matmul.dispatch import prepared_product, product
from .equation import Labels, parse, resolve
from .pairs import Path
from .paths import BY_FLAGS
from .plan import Plan
from .slicing import Part, Slicing, least_peak, slice_within
from .steps import Multiply, Preparation, Reader, Step

Shape = tuple[int, ...]
Around = Callable[[Multiply, np.ndarray, np.ndarray], np.ndarray]
_mode = grad_mode.get
_INT64 = np.dtype(np.int64)

FREE_SHARE = 0.8
"""The part of the free memory that one einsum may take when no limit is given."""

NEVER_REFUSED = 64 << 20
"""Contractions up to this many bytes run without querying the free memory, which takes 20 us."""

_FLOAT32 = np.dtype(np.float32)

MOST_WAITING = 32
"""Maximum number of slices that an executor holds; finished results may wait for an earlier slice."""

Places = dict[int, slice]
Precision = Any

KEPT = 4096
"""Maximum number of cached plans, of 2 to 20 KB each; the least recently used is dropped first."""


@functools.lru_cache(KEPT)
def plan_for(
    equation: str | tuple[tuple[Labels, ...], Labels], shapes: tuple[Shape, ...], strategy: Strategy,
    path: Path | None = None,
) -> Plan:  # fmt: skip
    """The cached plan of an equation, as text or labels, for operands of these shapes, in a known order or else in that
    of the strategy.

    Raises RuntimeError for an equation that is malformed or does not fit the shapes.
    """
    inputs, output = resolve(parse(equation), shapes) if isinstance(equation, str) else equation
    return Plan(inputs, output, shapes, strategy, path=path)


class Costs(NamedTuple):
    """The inputs of a program, and its memory.

    Attributes:
        plan, precision: the inputs of the program; `dtype`: the result's.
        bytes: the peak of live intermediates; `itemsize`: of the largest dtype among them.
        limit: the maximum number of bytes; `slices`: how to find slices above it, by the flags.
    """

    plan: Plan
    precision: Any
    dtype: np.dtype
    bytes: int
    itemsize: int
    limit: int | None
    slices: str | None


@dataclass(slots=True)
class Program:
    """A plan for operands of known dtypes under the current flags.

    Attributes:
        preparations: the operands that are summed or reshaped first, with the function for it.
        steps: for each contraction its function and the numbers of its two values.
        arrangement: how the last value is read as the result, or None.
        is_small: whether it runs without a memory check, if the call names no limit.
        costs: the data for that check.
    """

    preparations: tuple[tuple[int, Callable[[np.ndarray], np.ndarray]], ...]
    steps: tuple[tuple[Multiply, int, int], ...]
    arrangement: Reader | None
    is_small: bool
    costs: Costs


class StepRoles(tuple):
    """The roles of the factors of each step, or None for a step without a weight; or the pair of formats that a call
    names. `kinds` are the roles of the operands, or `formats` theirs; `forward` is that of `Roles`."""

    kinds: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    forward: State | None = None


def step_formats(plan: Plan, formats: tuple[str, ...]) -> StepRoles:
    """The formats of two operands, for the step that multiplies them."""
    found = StepRoles((formats[step.left], formats[step.right]) for step in plan.steps)
    found.formats = formats
    return found


def step_roles(plan: Plan, kinds: Sequence[str], gradient_of: str = "", forward: State | None = None) -> StepRoles:
    """The roles in a plan whose operands have these: results of steps are activations, or gradients behind one."""
    values, roles = list(kinds), []
    for step in plan.steps:
        pair = values[step.left], values[step.right]
        by_role = "weight" in pair or bool(gradient_of)
        roles.append(Roles(*pair, gradient_of, None, forward) if by_role else None)
        values.append("gradient" if "gradient" in pair else "activation")
    found = StepRoles(roles)
    found.kinds, found.forward = tuple(kinds), forward
    return found


def program_for(plan: Plan, dtypes: Sequence[np.dtype], precision: Any) -> Program:
    """The program of a plan at the precision of a call, at those of a tuple for each step or, for None, of the flags.

    Raises RuntimeError for a product of different dtypes, NotImplementedError for one of booleans.
    """
    precision = tuple(precision) if type(precision) is StepRoles else precision
    if precision is None or type(precision) is str or type(precision) is tuple:
        return program_of(plan, tuple(dtypes), precision, _mode().backward)
    product_at = functools.partial(product, precision=precision)  # recorded by a node, with its origin
    return _make_program(current(), plan, dtypes, precision, lambda *_: product_at)


@per_state(most=KEPT)
def program_of(
    state: State, plan: Plan, dtypes: tuple[np.dtype, ...], precision: str | tuple[str | None, ...] | None, _: bool
) -> Program:
    return _make_program(state, plan, dtypes, precision, prepared_product)


def _make_program(
    state: State, plan: Plan, dtypes: Sequence[np.dtype], precision: Any, product_of: Callable[..., Multiply]
) -> Program:
    values = [
        _INT64 if preparation.summed and dtype.kind in "biu" else dtype
        for dtype, preparation in zip(dtypes, plan.preparations, strict=True)
    ]
    narrow = [each for each in map(to_dtype, dtypes) if each.letter in "np"]
    if narrow and (plan.steps or any(preparation.summed for preparation in plan.preparations)):
        raise refusal_of_dtype("einsum", narrow[0], EVERY_CATEGORY)
    steps, mixed = [], len(set(dtypes)) > 1
    precisions = precision if type(precision) is tuple else (precision,) * len(plan.steps)
    for step, own in zip(plan.steps, precisions, strict=True):
        left, right = values[step.left], values[step.right]
        dtype = _common(step, left, right, mixed)
        multiply: Multiply = _multiply
        if step.matrices is not None:
            multiply = product_of(*(ArraySpec(x, dtype) for x in step.matrices), own)
        multiply = step.bind(multiply)
        steps.append((multiply if left == right else _casting(multiply, dtype), step.left, step.right))
        values.append(dtype)
    preparations = [(place, functools.partial(_prepare, plan.preparations[place])) for place in plan.prepared]
    itemsize = max(dtype.itemsize for dtype in values)
    needed = plan.peak_elements * itemsize + (0 if plan.slicing is None else _sum_bytes(plan, values[-1]))
    limit = state.read("einsum_memory_limit")
    costs = Costs(plan, precision, values[-1], needed, itemsize, limit, state.read("opt_einsum.slices"))
    is_small = limit is None and needed <= NEVER_REFUSED and plan.slicing is None
    return Program(tuple(preparations), tuple(steps), plan.arrangement, is_small, costs)


def _sum_bytes(plan: Plan, dtype: np.dtype) -> int:
    """Bytes for the sum of slices in addition to the result: half types are summed in float32."""
    return 4 * math.prod(plan.result_shape) if dtype.itemsize == 2 else 0


def run(
    program: Program, arrays: Sequence[np.ndarray], memory_limit: float | None = None, around: Around | None = None,
    slices: Any = BY_FLAGS, executor: Any = None,
) -> np.ndarray:  # fmt: skip
    """The result for arrays that have each label once, in memory of its own. `around` is called in place of each step,
    with its function and two arrays; `executor` runs slices, as `Plan.run` takes it.

    Raises RuntimeError where the intermediates would take more memory than they may, and nothing finds slices.
    """
    if not program.is_small or memory_limit is not None:
        costs = program.costs
        plan = plan_within(costs, memory_limit, slices)
        if plan.slicing is not None:
            return run_sliced(plan.slicing, arrays, costs.dtype, costs.precision, around, executor)
    values: list[Any] = [*arrays]
    for place, prepare in program.preparations:
        values[place] = prepare(values[place])
    for multiply, left, right in program.steps:
        a, b = values[left], values[right]
        values[left] = values[right] = None  # each value is taken once
        values.append(multiply(a, b) if around is None else around(multiply, a, b))
    return values[-1] if program.arrangement is None else program.arrangement(values[-1])


def _prepare(preparation: Preparation, array: np.ndarray) -> np.ndarray:
    """The operand as it meets others; half types are summed in float32, integers in int64."""
    axes, dtype = preparation.summed, array.dtype
    if axes and dtype.kind in "biu":
        array = np.add.reduce(array, axes, dtype=_INT64)
    elif axes:
        array = np.asarray(sum_over(array, axes))
        if dtype.itemsize == 2:
            array = array.astype(dtype, copy=False)
    return np.asarray(array).reshape(preparation.shape)


def _multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    token = silence()
    try:
        return np.asarray(np.multiply(a, b))
    finally:
        restore(token)


def _casting(multiply: Multiply, dtype: np.dtype) -> Multiply:
    return lambda a, b: multiply(a.astype(dtype, copy=False), b.astype(dtype, copy=False))


def _common(step: Step, left: np.dtype, right: np.dtype, mixed: bool) -> np.dtype:
    """The dtype for combining two values. A multiplication promotes; so does the int64 sum of an operand with
    the integer dtype of all operands. Other products of different dtypes, and of booleans, are rejected."""
    first, second = dtype_of(np.empty(0, left)), dtype_of(np.empty(0, right))
    if step.matrices is not None and BOOL in (first.category, second.category):
        raise NotImplementedError(
            "einsum(): sums of products are not implemented for boolean tensors; convert them with .int() or .float()"
        )
    if left == right:
        return left
    if step.matrices is not None and mixed:
        raise RuntimeError(
            f"einsum(): expected the factors of a sum of products to have the same dtype, but got {first!r} and "
            f"{second!r}; convert one with .to(dtype)"
        )
    return promote_types(first, second).dtype


# Memory


def free_bytes() -> int | None:
    """The memory available without swapping, in bytes; None if the system does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def plan_within(costs: Costs, memory_limit: float | None, slices: Any) -> Plan:
    """The plan, sliced where it takes more bytes than `memory_limit` or, for None, than the flag has.

    Without either its share of the free memory is the limit, and nothing is sliced: bits must not depend on that.
    Raises RuntimeError where it does not fit.
    """
    needed, plan = costs.bytes, costs.plan
    limit = costs.limit if memory_limit is None else memory_limit
    if limit is None:
        _refuse_too_large(needed)
        return plan
    if needed <= limit:
        return plan
    finder = costs.slices if slices is BY_FLAGS or type(slices) is tuple else slices
    asked = (
        f"einsum(): the intermediates would take {needed:,} bytes at once, and memory_limit is {limit:,}; raise it, or "
        "backends.einsum_memory_limit, or try another strategy"
    )
    if finder is None:
        raise RuntimeError(f'{asked}, or slices="auto"')
    sums = _sum_bytes(plan, costs.dtype)
    found = slice_within(plan, max(int((limit - sums) // costs.itemsize), 0), finder)
    if found is None:
        result, overhead = math.prod(plan.result_shape) * costs.itemsize, current().read("opt_einsum.slicing_overhead")
        least = int(least_peak(plan) * costs.itemsize + sums)
        raise RuntimeError(
            f"{asked}: {finder} found no slices that fit within {overhead:,} times its FLOPs "
            f"(backends.opt_einsum.slicing_overhead); the least memory found is {least:,} bytes, and the result alone "
            f"takes {result:,}"
        )
    return found


def _refuse_too_large(needed: int) -> None:
    """Raise RuntimeError where a contraction needs more bytes than its share of the free memory."""
    if needed <= NEVER_REFUSED:
        return
    free = free_bytes()
    if free is not None and needed > FREE_SHARE * free:
        raise RuntimeError(
            f"einsum(): the intermediates need {needed:,} bytes at once, but only {FREE_SHARE:.0%} of the "
            f"{free:,} free bytes may be used; try another strategy, or pass memory_limit= and slices="
        )


class Sharing:
    """Computes values once that one run of a plan, or the previous run, would compute several times.

    Equal numbers denote equal values: `numbers` has that of each operand by its key, and that of each contraction by
    its operation and its two inputs. `made` has intermediates by number, `counts` the remaining uses of each. With
    `keep`, all intermediates except the result stay for the next run; the result belongs to the caller.
    """

    def __init__(self, plan: Plan, operands: Sequence[tuple], before: Sharing | None, keep: bool) -> None:
        self.numbers: dict[tuple, int] = {}
        self.known = {} if before is None else before.numbers
        self.made: dict[int, np.ndarray] = {}
        self.before = {} if before is None else before.made
        self.keep = keep
        values = [
            self._number((*key, preparation.summed, preparation.shape))
            for key, preparation in zip(operands, plan.preparations, strict=True)
        ]
        for step in plan.steps:
            values.append(self._number((step.key, values[step.left], values[step.right])))
        self.counts, self.result = Counter(values), values[-1]
        self.next = iter(values[len(operands) :])

    def _number(self, key: tuple) -> int:
        number = self.known.get(key)
        return self.numbers.setdefault(key, next(_numbers) if number is None else number)

    def __call__(self, multiply: Multiply, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        number = next(self.next)
        value = self.made.pop(number, None)
        if value is None:
            value = self.before.get(number)
        if value is None:
            value = multiply(a, b)
        self.counts[number] -= 1
        if number != self.result and (self.keep or self.counts[number]):
            self.made[number] = value
        return value


_numbers = itertools.count()


def sharing_keys(plan: Plan, tensors: Sequence[Tensor]) -> tuple[tuple, ...]:
    """For each operand its tensor, its number of writes, and its diagonals."""
    return tuple(zip(map(weakref.ref, tensors), map(writes, tensors), plan.diagonals, strict=True))


@restore_on_failure
def run_sharing(
    plan: Plan, program: Program, keys: tuple, arrays: Sequence[np.ndarray], precision: Any, memory_limit: int | None
) -> np.ndarray:
    """`run` with sharing; under `no_grad` it keeps the intermediates for the next call. It does not slice, since kept
    intermediates are whole."""
    keep = not _mode().records and all(writes is not None for _, writes, _ in keys)
    circumstances = current(), precision, _mode().backward
    before = plan.kept[1] if keep and plan.kept[0] == circumstances else None
    sharing = Sharing(plan, keys, before, keep)
    with offer(None):  # kept intermediates must not lie in the caller's `out`
        out = run(program, arrays, memory_limit, sharing, None)
    if keep:
        sharing.before, sharing.known = {}, {}
        plan.kept = circumstances, sharing
    return out


def contraction(
    operands: Arrays, plan: Any, precision: str | None = None, strategy: Any = BY_FLAGS, needs: Any = None,
    memory_limit: Any = None, keys: Any = None, slices: Any = BY_FLAGS, executor: Any = None,
) -> np.ndarray:  # fmt: skip
    """The forward of the op: the sum of the products of operands without repeated labels.

    Arguments:
        strategy, memory_limit, slices: those of the call, which also apply to the gradients; `slices` may be pairs of
            labels and block sizes.
        needs: the operands whose gradients may be needed; None: all.
        keys: for each operand a key, equal for equal operands, for sharing.
        executor: runs slices, in the forward pass only.
    """
    sharing = None if keys is None else Sharing(plan, keys, None, keep=False)
    program = program_for(plan, [array.dtype for array in operands], precision)
    return run(program, operands, memory_limit, sharing, slices if keys is None else None, executor)


# Slices: sequentially, on threads, or on any executor. Tasks carry the plan of a slice, its operands and the current
# flags. Results are added in slice order, independently of the order of completion, so the bits depend on the slicing
# alone.


def run_sliced(
    slicing: Slicing, arrays: Sequence[np.ndarray], dtype: np.dtype, precision: Precision = None,
    around: Around | None = None, executor: Executor | int | None = None,
) -> np.ndarray:  # fmt: skip
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
    tasks: Iterator[tuple[Places, Plan, list[np.ndarray]]], precision: Precision, around: Around | None,
    executor: Executor | int | None,
) -> Iterator[tuple[Places, np.ndarray]]:  # fmt: skip
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
