"""einsum as users call it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...autograd.modes import grad_mode
from ...backends.strategies import checked
from ...dispatch import instrumentation
from ...dispatch.call_errors import argument_errors
from ...dispatch.op import composite
from ...dispatch.out_argument import written_out
from ...dispatch.samples import Sample, between, sample
from ...flags import current
from ...kernels import registry
from ...kernels.registry import Refused
from ...tensor.tensor import Tensor, adopt, kind_of
from ..matmul import answers
from .constants import run_with_constants
from .contraction import contract, contraction, followed
from .diagonals import diagonals_of
from .equation import Labels, equation_of_sublists, parse, resolve
from .paths import BY_FLAGS, strategy_in_force
from .plan import Plan
from .programs import program_for, tally
from .recipes import Recipe, key_of, recipes

__all__ = ["einsum", "einsum_path", "einsum_plan"]

_mode, _known, _new = grad_mode.get, recipes.get, object.__new__


def _samples() -> Iterator[Sample]:
    a, b, c = between(-1, 1, 2, 3), between(-1, 1, 3, 4, seed=1), between(-1, 1, 4, 2, seed=2)
    square, batch = between(-1, 1, 3, 3, seed=3), between(-1, 1, 2, 3, 4, seed=4)
    yield sample("ij,jk", a, b)
    yield sample("ij,jk->ki", c.T, b.T[:, ::-1].T.T)
    yield sample("ij,jk,kl->il", a, b, c)
    yield sample("bij,bjk->bik", batch, batch.transpose(0, 2, 1))
    yield sample("...ij,jk->...ik", batch, c)
    yield sample("ii->i", square)
    yield sample("ii", square)
    yield sample("iij,j->i", between(-1, 1, 3, 3, 2), between(-1, 1, 2))
    yield sample("ij->ji", a)
    yield sample("ij->j", a)
    yield sample("i,j->ij", between(-1, 1, 3), between(-1, 1, 2))
    yield sample("ij,ij->i", a, a)
    yield sample(",ij->", between(-1, 1), a)
    yield sample("", between(-1, 1))
    yield sample("ij,jk->ik", between(-1, 1, 2, 1), b)
    yield sample("ij,jk->ik", between(-1, 1, 2, 0), between(-1, 1, 0, 3))


def _reference(equation: str, *operands: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum(equation, *operands)).copy()


@composite(method=False, takes="ifc", takes_out=True, product="matmul", reference=_reference, samples=_samples)
def einsum(*args: Any, **options: Any) -> Tensor:
    """Sums of products of operands, in Einstein's notation: `einsum("ij,jk->ik", a, b)`.

    Also `einsum(equation, [a, b])` and `einsum(a, [0, 1], b, [1, 2], [0, 2])`. A letter that the result lacks is
    summed over; one that an operand has twice takes its diagonal; "..." stands for further dimensions, which broadcast
    as sizes of 1 do. Without "->" the result has the letters that occur once, capitals first. Where nothing is
    multiplied or summed the result is a view.

    Three and more operands are contracted two at a time, in the order that `backends.opt_einsum.strategy` finds. Sums
    of products are made by the kernels of matmul, at its precision.

    Keywords:
        strategy: the order of this one call, as the flag takes it.
        precision: of its float32 products, as `matmul` takes it.
        memory_limit: bytes that intermediates may take at once, here and in each gradient; by default
            `backends.einsum_memory_limit`, or 80 % of the free memory.
        out: a tensor that the result is written into.
        share: compute contractions that occur more than once among the same tensors only once; under `no_grad` also
            those of tensors that the last such call had as well, unless they were written to by this library since.
            The intermediates of that call are kept in memory.

    Raises RuntimeError for an equation that is malformed or does not fit the operands, before anything is computed;
    ValueError and TypeError for arguments that are none.
    """
    if not options and not instrumentation.calls:
        try:
            if len(args) == 3:  # unrolled: a look-up by a list of arrays would take 0.3 us more
                equation, x, y = args
                if not registry.observing and instrumentation.born is None:
                    found = answers.answer(current(), equation, x, y)
                    if found is not None:
                        tally.hits += 1
                        return found
                a, b = x._array, y._array
                recipe = _known((equation, a.shape, b.shape, a.dtype, b.dtype))
                operands: Sequence[Tensor] = (x, y)
                plain = x._node is None and y._node is None
            else:
                equation, *operands = args
                recipe = _known(key_of(equation, operands))
                plain = [each._node for each in operands].count(None) == len(operands)
        except (AttributeError, TypeError, ValueError):  # not all of these are tensors: another form, or an error
            recipe = None
        if recipe is not None:
            state, run = recipe.straight
            if state is not current() or registry.observing or not (plain or not _mode().records):
                return contract(recipe, operands)
            try:
                out = run(a, b) if len(args) == 3 else run(*[each._array for each in operands])
            except Refused:  # values that the kernel does not take, which the general way finds again
                return contract(recipe, operands)
            tally.hits += 1
            if recipe.program is not None and len(args) == 3 and plain:
                recipe.remember(state, equation, a, b, out)
            tensor = _new(Tensor)
            tensor._array = out
            tensor._node = tensor._state = tensor._cell = None
            if instrumentation.born is not None:
                instrumentation.born(tensor)
            return tensor
    if not options.keys() <= _OPTIONS:
        unknown = min(options.keys() - _OPTIONS)
        raise TypeError(f"einsum() got an unexpected keyword argument {unknown!r}; it takes {sorted(_OPTIONS)}")
    limit = options.get("memory_limit")
    if limit is not None and (isinstance(limit, (bool, str)) or not isinstance(limit, (int, float)) or limit < 0):
        raise ValueError(f"einsum(): memory_limit={limit!r} is no number of bytes; expected None or a number from 0 on")
    return _general(args, **options)


_OPTIONS = frozenset({"out", "strategy", "precision", "memory_limit", "share"})


def _general(
    args: tuple,
    *,
    out: Tensor | None = None,
    strategy: Any = BY_FLAGS,
    precision: str | None = None,
    memory_limit: int | None = None,
    share: bool = False,
) -> Tensor:
    """`einsum` by the way that knows everything."""
    options = {"strategy": strategy, "precision": precision, "memory_limit": memory_limit, "share": share}
    if out is not None:
        return written_out("einsum", lambda: _general(args, **options), out, args)
    equation, tensors = _read(args)
    if precision is not None and not isinstance(precision, str):
        raise TypeError(
            f"einsum(): argument 'precision' must be str or None, not {type(precision).__name__} {precision!r}"
        )
    if strategy is not BY_FLAGS:
        strategy = checked(strategy)
    named = () if strategy is BY_FLAGS and precision is None else (precision, strategy)
    key = key_of(equation, tensors, *named)
    recipe, limited = _known(key), memory_limit is not None or share
    if recipe is not None and not limited:
        return contract(recipe, tensors)
    if recipe is None:
        shapes = [each._array.shape for each in tensors]
        recipe = Recipe(*resolve(parse(equation), shapes), shapes, *named)
    result = _limited(recipe, tensors, memory_limit, share) if limited else contract(recipe, tensors)
    recipes.keep(key, recipe)  # once the call has done what it says
    return result


def _limited(recipe: Recipe, tensors: Sequence[Tensor], memory_limit: int | None, share: bool) -> Tensor:
    """A call with a limit of its own, or that shares intermediates."""
    if recipe.axes is not None:
        return contract(recipe, tensors)
    operands, precision = recipe.views(tensors), recipe.precision
    same = _same(tensors, recipe.terms) if share else None
    if share and not _mode().records:
        arrays = [each._array for each in operands]
        order = strategy_in_force() if recipe.strategy is BY_FLAGS else recipe.strategy
        program = program_for(recipe.inputs, recipe.output, arrays, order, same)
        return adopt(run_with_constants(program, tensors, arrays, precision, memory_limit))
    needs = followed(operands)
    return contraction(operands, recipe.inputs, recipe.output, precision, recipe.strategy, needs, memory_limit, same)


def _same(tensors: Sequence[Tensor], inputs: Sequence[Labels]) -> tuple[int, ...]:
    """For each operand the first one that is the same tensor, with the same diagonals taken."""
    keys = [(id(each), diagonals_of(term)[0]) for each, term in zip(tensors, inputs, strict=True)]
    return tuple(keys.index(key) for key in keys)


# Forms of calls


def _read(args: tuple) -> tuple[str, list[Tensor]]:
    """The equation and the operands of a call in any form."""
    if len(args) < 2:
        raise ValueError(
            f"einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            f"subscripts list, and got {len(args)} arguments"
        )
    first, rest = args[0], args[1:]
    if isinstance(first, Tensor):
        return _of_sublists(args)
    if isinstance(first, bytes):
        first = first.decode("latin-1")
    if not isinstance(first, str):
        raise TypeError(f"einsum(): argument 'equation' must be str, not {type(first).__name__}")
    if len(rest) == 1 and isinstance(rest[0], (list, tuple)):
        rest = tuple(rest[0])
        if not rest:
            raise ValueError("einsum(): must provide at least one operand, and got an empty list")
    return str(first), _tensors(rest)


def _tensors(operands: Sequence[Any]) -> list[Tensor]:
    for index, each in enumerate(operands):
        if not isinstance(each, Tensor):
            raise TypeError(
                f"einsum(): expected Tensor as element {index} of argument 'operands', but got {kind_of(each)}"
            )
    return list(operands)


def _of_sublists(args: tuple) -> tuple[str, list[Tensor]]:
    output = args[-1] if len(args) % 2 else None
    pairs = args[: len(args) - len(args) % 2]
    return equation_of_sublists(pairs[1::2], output), _tensors(pairs[::2])


# Plans


@argument_errors
def einsum_plan(*args: Any, strategy: Any = BY_FLAGS) -> Plan:
    """The plan of `einsum` of operands in any form of its call, where a shape may stand for an operand:
    `einsum_plan("ij,jk,kl", (8, 9), (9, 4), (4, 2), strategy="greedy")`. Computes nothing.

    Its text shows each contraction, what that costs and what kernel it becomes; `execute(*operands)` adds what it took,
    and `cotangents()` gives the plans of the gradients. Raises what `einsum` does.
    """
    args = tuple(_stand_in(each) if index or not isinstance(args[0], str) else each for index, each in enumerate(args))
    if len(args) == 2 and isinstance(args[1], list):
        args = (args[0], [_stand_in(each) for each in args[1]])
    equation, tensors = _read(args)
    shapes = tuple(each._array.shape for each in tensors)
    inputs, output = resolve(parse(equation), shapes)
    return Plan(inputs, output, shapes, strategy_in_force() if strategy is BY_FLAGS else checked(strategy))


def _stand_in(operand: Any) -> Any:
    """A tensor of the shape, without memory for its elements; anything else as it is."""
    if isinstance(operand, tuple) and all(type(size) is int for size in operand):
        return adopt(np.broadcast_to(np.float32(0), operand))
    return operand


@argument_errors
def einsum_path(*args: Any, strategy: Any = BY_FLAGS) -> tuple[list[Any], str]:
    """The path and the description of `einsum_plan`, in the form of `numpy.einsum_path`."""
    plan = einsum_plan(*args, strategy=strategy)
    return ["einsum_path", *plan.path], repr(plan)
