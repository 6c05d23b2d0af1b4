"""The public einsum functions, recorded for gradients.

The gradient of a contraction is a contraction of the result's gradient with the other operands, so gradients of every
order use the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.modes import grad_mode
from ...autograd.views import is_parameter
from ...backends import precision_policy
from ...backends.operands import recorded_state
from ...backends.strategies import Strategy, check_strategy, checked_slices
from ...dispatch.op import composite, op
from ...dispatch.out_argument import written_out
from ...kernels.precisions import find_format
from ...tensor import instrumentation
from ...tensor.tensor import Tensor, adopt, kind_of
from ..views.shape import expand
from ..views.slices import diagonal
from ..views.transpose import permute
from .equation import equation_of_sublists
from .paths import BY_FLAGS, order_of, strategy_in_force
from .plan import Plan
from .program import (
    StepRoles,
    contraction,
    plan_for,
    program_for,
    program_of,
    run,
    run_sharing,
    sharing_keys,
    step_formats,
    step_roles,
)  # fmt: skip
from .slicing import slice_labels

_mode = grad_mode.get


@composite(method=False, takes="ifc", takes_out=True, product="matmul", autocast="lower", batch="contract")
def einsum(
    equation: Any = None,
    /,
    *operands: Any,
    strategy: Any = BY_FLAGS,
    precision: str | tuple[str, str] | None = None,
    memory_limit: int | None = None,
    slices: str | None = BY_FLAGS,
    share: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Sum products of operands in Einstein's notation: `einsum("ij,jk->ik", a, b)`.

    Also `einsum(equation, [a, b])` and `einsum(a, [0, 1], b, [1, 2], [0, 2])`. Labels missing in the result are summed
    over. A label repeated in one operand takes its diagonal. "..." stands for further dimensions, which broadcast.
    Without "->" the result has the labels that occur once, capitals first. The result is a view if nothing is
    multiplied or summed.

    Three or more operands are contracted pairwise, in the order that `backends.opt_einsum.strategy` finds. Sums of
    products run on the kernels of matmul, at its precision.

    Arguments:
        strategy: the order for this call, with the values of the flag. Gradients are contracted in the same order, seen
            from their operand; where the flags choose it, and have changed since, they choose that of gradients anew.
        precision: of its float32 products, as for `matmul`; of two operands also a pair of formats, the first for the
            left one.
        memory_limit: limit in bytes for live intermediates, here and in each gradient; by default
            `backends.einsum_memory_limit`, or 80 % of the free memory.
        slices: how to find labels to slice if a contraction exceeds the limit, with the values of the flag
            `opt_einsum.slices`: "auto" or "cotengra"; None: raise. Slices run one after another and share nothing.
        share: compute contractions that occur several times among the same tensors only once. Under `no_grad` this
            includes contractions of the previous such call, unless this library has written to their tensors since. The
            intermediates of that call are kept in memory.
        out: a tensor to write the result into.

    Raises RuntimeError for an equation that is malformed or does not fit the operands, before anything is computed, and
    ValueError or TypeError for arguments of wrong values and types.
    """
    if strategy is not BY_FLAGS or precision is not None or memory_limit is not None or slices is not BY_FLAGS:
        strategy = check_options(strategy, precision, memory_limit, slices)
    if out is not None or instrumentation.autocast is not None or instrumentation.batching is not None:
        options = {"strategy": strategy, "precision": precision, "memory_limit": memory_limit, "slices": slices}
        options["share"] = share
        if out is not None:
            return written_out("einsum", lambda: einsum(equation, *operands, **options), out, (equation, *operands))
        batching = instrumentation.batching
        if batching and (result := batching(einsum, (equation, *operands), options)) is not NotImplemented:
            return result
        multiplies = len(operands) > 1 or not isinstance(operands[0], Tensor)
        cast = instrumentation.autocast if multiplies else None
        if cast and (result := cast("einsum", einsum, (equation, *operands), options)) is not NotImplemented:
            return result
    if type(equation) is str and len(operands) > 1:
        tensors: Sequence[Tensor] = operands
    else:
        equation, tensors = read(equation, operands)
    shapes = []
    try:
        for each in tensors:  # takes less time than a comprehension
            array = each._array
            shapes.append(array.shape)
    except AttributeError:
        raise not_tensors(tensors) from None
    order = None if len(shapes) < 3 else strategy_in_force() if strategy is BY_FLAGS else strategy
    plan = plan_for(equation, tuple(shapes), order)
    if type(precision) is tuple:
        precision = _formats_of_pair(plan, precision, len(tensors))
    if slices is BY_FLAGS and not share:
        return contract(plan, tensors, precision, strategy, memory_limit)
    return contract(plan, tensors, precision, strategy, memory_limit, slices, share)


def is_shape(operand: Any) -> bool:
    return isinstance(operand, tuple) and all(type(size) is int or isinstance(size, np.integer) for size in operand)


def check_options(strategy: Any, precision: Any, memory_limit: Any, slices: Any, called: str = "einsum") -> Strategy:
    """The strategy; raises for options of wrong types or values."""
    if slices is not BY_FLAGS:
        checked_slices(slices)
    if precision is not None and not isinstance(precision, (str, tuple)):
        raise TypeError(
            "einsum(): argument 'precision' must be str, a pair of str or None, not "
            f"{type(precision).__name__} {precision!r}"
        )
    number = isinstance(memory_limit, (int, float)) and not isinstance(memory_limit, bool)
    if memory_limit is not None and not (number and memory_limit >= 0):
        raise ValueError(
            f"{called}(): memory_limit must be None or a non-negative number of bytes, got {memory_limit!r}"
        )
    return strategy if strategy is BY_FLAGS else check_strategy(strategy)


def _formats_of_pair(plan: Plan, names: tuple[str, ...], operands: int) -> StepRoles:
    if len(names) != 2 or operands != 2:
        raise ValueError(
            f"einsum(): precision must be one name, or a pair of formats for two operands, got {names!r} for {operands}"
        )
    for each in names:
        find_format(each)
    return step_formats(plan, names)


def not_tensors(operands: Sequence[Any]) -> TypeError:
    index, other = next((index, each) for index, each in enumerate(operands) if not isinstance(each, Tensor))
    return TypeError(f"einsum(): expected Tensor as element {index} of argument 'operands', but got {kind_of(other)}")


def read(equation: Any, operands: tuple) -> tuple[str, Sequence[Any]]:
    """The equation and the operands of a call in any form."""
    if not operands:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            f"subscripts list, got {equation is not None:d} arguments"
        )
    if isinstance(equation, Tensor) or is_shape(equation):
        output = None if len(operands) % 2 else operands[-1]
        pairs = (equation, *operands)[: len(operands) + len(operands) % 2]
        return equation_of_sublists(pairs[1::2], output), pairs[::2]
    if isinstance(equation, bytes):
        equation = equation.decode("latin-1")
    if not isinstance(equation, str):
        raise TypeError(f"einsum(): argument 'equation' must be str, not {type(equation).__name__}")
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)) and not is_shape(operands[0]):
        operands = tuple(operands[0])
        if not operands:
            raise ValueError("einsum(): must provide at least one operand, got an empty list")
    return str(equation), operands


# Recording


def contract(
    plan: Plan, tensors: Sequence[Tensor], precision: Any = None, strategy: Strategy = BY_FLAGS,
    memory_limit: int | None = None, slices: Any = BY_FLAGS, share: bool = False, executor: Any = None,
) -> Tensor:  # fmt: skip
    """The result as a tensor, recorded if operands need gradients; a view where nothing is computed."""
    operands = tensors
    if plan.repeats:
        pairs = zip(tensors, plan.diagonals, strict=True)
        operands = [each if diagonals is None else take_diagonals(each, *diagonals) for each, diagonals in pairs]
    if plan.axes is not None:
        unchanged = plan.repeats and plan.axes == tuple(range(len(plan.axes)))
        return operands[0] if unchanged else permute(operands[0], plan.axes)
    if precision is None and precision_policy.by_role:
        precision = _roles_of(plan, operands)
    arrays, dtypes, followed = [], [], False
    for each in operands:  # one loop takes less time than three comprehensions
        array = each._array
        arrays.append(array)
        dtypes.append(array.dtype)
        if each._node is not None:
            followed = True
    keys = sharing_keys(plan, tensors) if share else None
    mode = _mode()
    if instrumentation.active > 1 or (followed and mode.records):
        needs = tuple(each.requires_grad or instrumentation.duals is not None for each in operands)
        options = strategy, needs, memory_limit, keys, slices, executor
        return recorded_contraction(list(operands), plan, precision, *options)
    if precision is None:
        program = program_of(plan, tuple(dtypes), None, mode.backward)
    else:
        program = program_for(plan, dtypes, precision)
    if slices is BY_FLAGS and keys is None:
        return adopt(run(program, arrays, memory_limit))  # a short call takes less time
    if keys is not None:
        return adopt(run_sharing(plan, program, keys, arrays, precision, memory_limit))
    return adopt(run(program, arrays, memory_limit, None, slices, executor))


def _roles_of(plan: Plan, operands: Sequence[Tensor]) -> StepRoles | None:
    """The roles of the steps; None without a parameter."""
    kinds = ["weight" if is_parameter(each) else "activation" for each in operands]
    return step_roles(plan, kinds, "", recorded_state()) if "weight" in kinds else None


def take_diagonals(tensor: Tensor, pairs: tuple[tuple[int, int], ...], axes: tuple[int, ...]) -> Tensor:
    """A view with one dimension per label."""
    for first, second in pairs:
        tensor = diagonal(tensor, 0, first, second)
    return tensor if axes == tuple(range(len(axes))) else permute(tensor, axes)


def _gradients(
    g: Tensor, operands: list[Tensor], plan: Plan, precision: Any, strategy: Strategy, needs: tuple[bool, ...] | None,
    memory_limit: int | None, slices: Any,
) -> list[Tensor | None]:  # fmt: skip
    """The gradients; precisions of steps hold for the forward contraction only, and the flags choose theirs."""
    options = None if type(precision) is tuple else precision, strategy, memory_limit, slices  # a StepRoles goes on
    wanted = needs or (True,) * len(operands)
    return [_gradient(g, operands, plan, place, *options) if wanted[place] else None for place in range(len(wanted))]


def _gradient(
    g: Tensor, operands: list[Tensor], plan: Plan, place: int, precision: Any, strategy: Strategy,
    memory_limit: int | None, slices: Any,
) -> Tensor:  # fmt: skip
    """The gradient of one operand: g and the other operands, contracted to the labels of this one, in the order of the
    forward contraction unless the flags ask for another one by now."""
    gradient, shape = plan.gradients[place], plan.term_shapes[place]
    factors = [each.conj() if each.is_complex() else each for index, each in enumerate(operands) if index != place]
    tensors = [g, *(each if each.dtype is g.dtype else each.to(g.dtype) for each in factors)]
    order = order_of(strategy, len(tensors))
    path = plan.path_of_gradient(place) if order == plan.strategy else None
    plan_of_g = plan_for((gradient.inputs, gradient.output), gradient.shapes, order, path)
    if type(slices) is tuple:
        plan_of_g = slice_labels(plan_of_g, dict(slices))
    if type(precision) is StepRoles and precision.formats:
        names = [precision.formats[place], *(name for at, name in enumerate(precision.formats) if at != place)]
        precision = step_formats(plan_of_g, tuple(names))
    elif type(precision) is StepRoles:
        kinds = ["gradient", *(kind for index, kind in enumerate(precision.kinds) if index != place)]
        of = "weight" if precision.kinds[place] == "weight" else "input"
        precision = step_roles(plan_of_g, kinds, of, precision.forward)
    value = contract(plan_of_g, tensors, precision, strategy, memory_limit, slices)
    if value._array.shape != gradient.shape:
        value = value.reshape(gradient.shape)
    return value if gradient.shape == shape else expand(value, shape)


recorded_contraction = op(
    operands=_gradients, traits="unwidened function silent", product="matmul", batch="loop: einsum adds a letter"
)(contraction)
