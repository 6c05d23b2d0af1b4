"""Plans run: a flat list of steps over arrays, each product one call of `matmul`'s kernels; and the op that records it.

The gradient of a contraction is a contraction of the result's gradient and the other operands, so that gradients of
every order are made in the same way.
"""

from __future__ import annotations

import functools
import itertools
import os
import time
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...autograd.modes import grad_mode
from ...autograd.versions import writes
from ...backends.strategies import Strategy
from ...dispatch import instrumentation
from ...dispatch.op import Arrays, op
from ...dispatch.samples import Sample, between, sample
from ...flags import current
from ...kernels.gemm.workspace import offered
from ...kernels.sums import sum as sum_over
from ...tensor.dtypes import BOOL, dtype_of, promote_types
from ...tensor.tensor import Tensor, adopt
from ..views.shape import expand
from ..views.slices import diagonal
from ..views.transpose import permute
from .equation import Labels, parse, resolve
from .paths import BY_FLAGS, order_of
from .plan import NEVER_REFUSED, Measured, Plan, Preparation, Step

__all__ = ["contract", "contraction", "measured_run", "plan_for", "run"]

Shape = tuple[int, ...]
_mode = grad_mode.get
_BOOL, _INT64 = np.dtype(bool), np.dtype(np.int64)

FREE_SHARE = 0.8
"""The part of the free memory that one einsum may take when no limit is given."""

KEPT = 4096
"""How many plans are kept. One takes 2 to 20 KB; the least recently used goes first."""


@functools.lru_cache(KEPT)
def plan_for(equation: str | tuple[tuple[Labels, ...], Labels], shapes: tuple[Shape, ...], strategy: Strategy) -> Plan:
    """The plan of an equation, as text or as labels, for operands of these shapes; kept for the next call.

    Raises RuntimeError for an equation that is malformed or does not fit the shapes.
    """
    inputs, output = resolve(parse(equation), shapes) if isinstance(equation, str) else equation
    return Plan(inputs, output, shapes, strategy)


def run(
    plan: Plan,
    arrays: Sequence[np.ndarray],
    precision: str | None = None,
    memory_limit: int | None = None,
    around: Callable[[Step, np.ndarray, np.ndarray, str | None], np.ndarray] | None = None,
) -> np.ndarray:
    """The result for arrays that have each label once, in memory of its own. `around` is called with each step and its
    arguments, in its place.

    Raises RuntimeError where the intermediates would take more memory than they may, and for a product of different
    dtypes; NotImplementedError for a product of booleans.
    """
    if memory_limit is None:
        memory_limit = current().read("einsum_memory_limit")
    if memory_limit is not None or plan.is_large:
        _refuse_too_large(plan, arrays, memory_limit)
    values: list[Any] = list(arrays)
    for place in plan.prepared:
        values[place] = _prepare(plan.preparations[place], values[place])
    for step in plan.steps:
        a, b = values[step.left], values[step.right]
        values[step.left] = values[step.right] = None  # each value is taken once
        dtype = a.dtype
        if dtype is not b.dtype or dtype is _BOOL:
            a, b = _promoted(step, arrays, a, b)
        if around is not None:
            out = around(step, a, b, precision)
        else:  # called through the step, a product of 8 x 8 takes 0.1 us longer
            out = step.multiply(a, b, precision) if step.views is None else step(a, b, precision)
        values.append(out)
    return values[-1] if plan.arrangement is None else plan.arrangement(values[-1])


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


def _promoted(step: Step, arrays: Sequence[np.ndarray], a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The factors of a step in one dtype. A multiplication promotes, and so does the int64 sum of an operand that meets
    the integer dtype of all operands.

    Raises NotImplementedError for a product of booleans, RuntimeError for another one of operands of several dtypes.
    """
    left, right = dtype_of(a), dtype_of(b)
    if step.pair.summed and BOOL in (left.category, right.category):
        raise NotImplementedError(
            "einsum(): sums of products are not implemented for boolean tensors; convert them with .int() or .float()"
        )
    if left is right:
        return a, b
    if step.pair.summed and len({array.dtype for array in arrays}) > 1:
        raise RuntimeError(
            f"einsum(): expected the factors of a sum of products to have the same dtype, but got {left!r} and "
            f"{right!r}; convert one with .to(dtype)"
        )
    dtype = promote_types(left, right).dtype
    return a.astype(dtype, copy=False), b.astype(dtype, copy=False)


# Memory


def free_bytes() -> int | None:
    """The memory that is available without swapping, in bytes; None where the system does not say."""
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


def _refuse_too_large(plan: Plan, arrays: Sequence[np.ndarray], limit: int | None) -> None:
    """Raise RuntimeError where a plan needs more bytes than `limit`, or than its share of the free memory."""
    widest = max(array.dtype.itemsize for array in arrays)
    if any(each.summed for each in plan.preparations) and any(array.dtype.kind in "biu" for array in arrays):
        widest = max(widest, _INT64.itemsize)
    needed = plan.peak_elements * widest
    if limit is not None:
        if needed > limit:
            raise RuntimeError(
                f"einsum(): the intermediates would take {needed:,} bytes at once, and memory_limit is {limit:,}; "
                "raise it, or backends.einsum_memory_limit, or try another strategy"
            )
        return
    if needed <= NEVER_REFUSED:
        return
    free = free_bytes()
    if free is not None and needed > FREE_SHARE * free:
        raise RuntimeError(
            f"einsum(): the intermediates would take {needed:,} bytes at once, and {free:,} are free, of which "
            f"{FREE_SHARE:.0%} may be used; try another strategy, or pass memory_limit="
        )


class Sharing:
    """Makes once what one run of a plan, or the run before it, makes more than once.

    Equal numbers stand for equal values: `numbers` has that of each operand by its key, and that of each contraction by
    what it does to which two numbers. `made` has intermediates by number, `counts` how often each is still to come.
    With `keep`, all intermediates stay for the next run. The result never does, since it is the caller's.
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

    def __call__(self, step: Step, a: np.ndarray, b: np.ndarray, precision: str | None) -> np.ndarray:
        number = next(self.next)
        value = self.made.pop(number, None)
        if value is None:
            value = self.before.get(number)
        if value is None:
            value = step(a, b, precision)
        self.counts[number] -= 1
        if number != self.result and (self.keep or self.counts[number]):
            self.made[number] = value
        return value


_numbers = itertools.count()


def _run_sharing(
    plan: Plan, keys: tuple, arrays: Sequence[np.ndarray], precision: str | None, memory_limit: int | None
) -> np.ndarray:
    """`run` that keeps the intermediates for the next call, unless some operand counts no writes."""
    if any(writes is None for _, writes, _ in keys):
        return run(plan, arrays, precision, memory_limit)
    circumstances = current(), precision, _mode().backward
    before = plan.kept[1] if plan.kept[0] == circumstances else None
    sharing = Sharing(plan, keys, before, keep=True)
    with offered(None):  # what is kept must not lie in the caller's `out`
        out = run(plan, arrays, precision, memory_limit, sharing)
    sharing.before, sharing.known = {}, {}
    plan.kept = circumstances, sharing
    return out


# Tensors


def contract(
    plan: Plan,
    tensors: Sequence[Tensor],
    precision: str | None = None,
    strategy: Strategy = BY_FLAGS,
    memory_limit: int | None = None,
    share: bool = False,
) -> Tensor:
    """The result as a tensor, recorded if operands need gradients; a view where nothing is computed."""
    operands = tensors
    if plan.repeats:
        operands = [
            each if diagonals is None else _take_diagonals(each, *diagonals)
            for each, diagonals in zip(tensors, plan.diagonals, strict=True)
        ]
    if plan.axes is not None:
        unchanged = plan.repeats and plan.axes == tuple(range(len(plan.axes)))
        return operands[0] if unchanged else permute(operands[0], plan.axes)
    arrays, followed = [], False
    for each in operands:
        arrays.append(each._array)
        if each._node is not None:
            followed = True
    if share or instrumentation.is_observed() or (followed and _mode().records):
        return _recorded(plan, tensors, operands, precision, strategy, memory_limit, share)
    return adopt(run(plan, arrays, precision, memory_limit))


def _recorded(
    plan: Plan,
    tensors: Sequence[Tensor],
    operands: Sequence[Tensor],
    precision: str | None,
    strategy: Strategy,
    memory_limit: int | None,
    share: bool,
) -> Tensor:
    """`contract` of tensors of which some may need gradients, or that share intermediates."""
    keys = None
    if share:
        keys = tuple(zip(map(weakref.ref, tensors), map(writes, tensors), plan.diagonals, strict=True))
        if not _mode().records:
            return adopt(_run_sharing(plan, keys, [each._array for each in operands], precision, memory_limit))
    needs = tuple(each.requires_grad or instrumentation.duals is not None for each in operands)
    return contraction(list(operands), plan, precision, strategy, needs, memory_limit, keys)


def _take_diagonals(tensor: Tensor, pairs: tuple[tuple[int, int], ...], axes: tuple[int, ...]) -> Tensor:
    """A view in which each label has one dimension."""
    for first, second in pairs:
        tensor = diagonal(tensor, 0, first, second)
    return tensor if axes == tuple(range(len(axes))) else permute(tensor, axes)


def _gradients(
    g: Tensor,
    operands: list[Tensor],
    plan: Plan,
    precision: str | None,
    strategy: Strategy,
    needs: tuple[bool, ...] | None,
    memory_limit: int | None,
) -> list[Tensor | None]:
    """The gradients; an explicit path holds for the forward contraction only, and the flags choose theirs."""
    options = precision, BY_FLAGS if isinstance(strategy, tuple) else strategy, memory_limit
    wanted = needs or (True,) * len(operands)
    return [_gradient(g, operands, plan, place, *options) if wanted[place] else None for place in range(len(wanted))]


def _gradient(
    g: Tensor,
    operands: list[Tensor],
    plan: Plan,
    place: int,
    precision: str | None,
    strategy: Strategy,
    memory_limit: int | None,
) -> Tensor:
    """The gradient of one operand: g and the other operands, contracted to the labels of this one."""
    gradient, shape = plan.gradients[place], plan.term_shapes[place]
    factors = [each.conj() if each.is_complex() else each for index, each in enumerate(operands) if index != place]
    tensors = [g, *(each if each.dtype is g.dtype else each.to(g.dtype) for each in factors)]
    plan_of_g = plan_for((gradient.inputs, gradient.output), gradient.shapes, order_of(strategy, len(tensors)))
    value = contract(plan_of_g, tensors, precision, strategy, memory_limit)
    if value._array.shape != gradient.shape:
        value = value.reshape(gradient.shape)
    return value if gradient.shape == shape else expand(value, shape)


def _samples() -> Iterator[Sample]:
    a, b, c = between(-1, 1, 2, 3), between(-1, 1, 3, 4, seed=1), between(-1, 1, 4, 2, seed=2)
    for arrays, inputs, output in (
        ([a, b], ((0, 1), (1, 2)), (0, 2)),
        ([b.T, a.T], ((2, 1), (1, 0)), (0, 2)),
        ([a, b, c], ((0, 1), (1, 2), (2, 0)), ()),
        ([a, between(-1, 1, 1, 4, seed=3)], ((0, 1), (1, 2)), (2, 0)),
        ([a, between(-1, 1)], ((0, 1), ()), (1,)),
        ([between(-1, 1, 2, 0), between(-1, 1, 0, 3)], ((0, 1), (1, 2)), (0, 2)),
    ):
        yield sample(arrays, plan_for((inputs, output), tuple(each.shape for each in arrays), None))


def _reference(operands: list[np.ndarray], plan: Plan, *_: Any) -> np.ndarray:
    pairs = [each for pair in zip(operands, map(list, plan.terms), strict=True) for each in pair]
    return np.asarray(np.einsum(*pairs, list(plan.output)))


@op(
    operands=_gradients,
    widen=False,
    method=False,
    warns=False,
    product="matmul",
    reference=_reference,
    samples=_samples,
)
def contraction(
    operands: Arrays,
    plan,
    precision=None,
    strategy=BY_FLAGS,
    needs=None,
    memory_limit=None,
    keys=None,
) -> np.ndarray:
    """The sum of the products of operands that have each label once, as `run` computes it.

    Arguments:
        strategy, memory_limit: those of the call, which act in the gradients too.
        needs: the operands whose gradients may be needed; None: all.
        keys: for each operand what is equal for equal operands, to make what they share only once.
    """
    sharing = None if keys is None else Sharing(plan, keys, None, keep=False)
    return run(plan, operands, precision, memory_limit, sharing)


# Measurement


def measured_run(plan: Plan, operands: Sequence[Any], precision: str | None) -> Tensor:
    """What `Plan.execute` does. The peak is what tracemalloc counts, or that of the results alone where this is more:
    tracemalloc does not see memory that the kernels reuse.
    """
    tensors = [each if isinstance(each, Tensor) else adopt(np.asarray(each)) for each in operands]
    if tuple(each._array.shape for each in tensors) != plan.shapes:
        raise RuntimeError(
            f"this plan is for shapes {[list(shape) for shape in plan.shapes]}, and got "
            f"{[list(each.shape) for each in tensors]}; make a plan for these"
        )
    pairs = zip(tensors, plan.diagonals, strict=True)
    arrays = [(each if taken is None else _take_diagonals(each, *taken))._array for each, taken in pairs]
    circumstances = (precision, current(), *[array.dtype for array in arrays])
    if circumstances not in plan.warm:
        run(plan, arrays, precision)
        plan.warm.add(circumstances)
    seconds, results, held = [], [], [0]

    def timed(step: Step, a: np.ndarray, b: np.ndarray, precision: str | None) -> np.ndarray:
        start = time.perf_counter()
        out = step(a, b, precision)
        seconds.append(time.perf_counter() - start)
        results.append(weakref.ref(out))
        held.append(sum(array.nbytes for ref in results if (array := ref()) is not None))
        return out

    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, start = tracemalloc.get_traced_memory()[0], time.perf_counter()
    try:
        out = run(plan, arrays, precision, around=timed)
        total, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1] - before
    finally:
        if not tracing:
            tracemalloc.stop()
    plan.measured.append(Measured(total, tuple(seconds), max(peak, *held)))
    return adopt(out)
