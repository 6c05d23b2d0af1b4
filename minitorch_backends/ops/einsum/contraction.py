"""The op under einsum: sums of products of tensors whose dimensions have labels, and its gradients, which are such
sums again.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...autograd.modes import grad_mode
from ...backends.strategies import Strategy
from ...dispatch import instrumentation
from ...dispatch.op import Arrays, op
from ...dispatch.samples import Sample, between, sample
from ...tensor.tensor import Tensor, adopt
from ..views.shape import expand
from ..views.transpose import permute
from .equation import Labels, sizes_of
from .paths import BY_FLAGS, strategy_in_force
from .plan import cotangent_labels
from .programs import KEPT, program_for
from .recipes import Recipe

__all__ = ["contract", "contraction"]


def _cotangents(
    g: Tensor,
    operands: list[Tensor],
    inputs: tuple[Labels, ...],
    output: Labels,
    precision: str | None,
    strategy: Strategy,
    needs: tuple[bool, ...] | None,
    memory_limit: int | None,
) -> list[Tensor | None]:
    strategy = BY_FLAGS if isinstance(strategy, tuple) else strategy
    return [
        _cotangent(g, operands, inputs, output, precision, strategy, memory_limit, operand)
        if needs is None or needs[operand]
        else None
        for operand in range(len(operands))
    ]


class _Cotangent(NamedTuple):
    """How the gradient of one operand is made from the result's gradient and the other operands.

    Attributes:
        recipe: their contraction, to the operand's labels but for those along which the gradient is constant.
        shape: the operand's, with sizes of 1 for these.
    """

    recipe: Recipe
    shape: tuple[int, ...]


@functools.lru_cache(KEPT)
def _cotangent_of(
    inputs: tuple[Labels, ...],
    output: Labels,
    shapes: tuple[tuple[int, ...], ...],
    g_shape: tuple[int, ...],
    dtype: np.dtype,
    operand: int,
) -> _Cotangent:
    """Recipes are kept apart by the dtype of g, which all of their operands have."""
    own = inputs[operand]
    terms = (output, *(term for index, term in enumerate(inputs) if index != operand))
    others = [g_shape, *(shape for index, shape in enumerate(shapes) if index != operand)]
    kept = cotangent_labels(own, shapes[operand], terms, others)
    recipe = Recipe(terms, kept, others)
    sizes = sizes_of(terms, others)
    return _Cotangent(recipe, tuple(sizes[label] if label in kept else 1 for label in own))


def _cotangent(
    g: Tensor,
    operands: Sequence[Tensor],
    inputs: tuple[Labels, ...],
    output: Labels,
    precision: str | None,
    strategy: Strategy,
    memory_limit: int | None,
    operand: int,
) -> Tensor:
    """The gradient of one operand: g and the other operands, contracted to the labels of this one."""
    shapes = tuple([each._array.shape for each in operands])
    recipe, shape = _cotangent_of(inputs, output, shapes, g._array.shape, g._array.dtype, operand)
    factors = [each.conj() if each.is_complex() else each for index, each in enumerate(operands) if index != operand]
    tensors = [g, *(each if each.dtype is g.dtype else each.to(g.dtype) for each in factors)]
    if recipe.axes is not None or (precision is None and strategy is BY_FLAGS and memory_limit is None):
        value = contract(recipe, tensors)
    else:
        needs = followed(tensors)
        value = contraction(tensors, recipe.inputs, recipe.output, precision, strategy, needs, memory_limit)
    if value._array.shape != shape:
        value = value.reshape(shape)
    return value if shape == shapes[operand] else expand(value, shapes[operand])


def followed(operands: Sequence[Tensor]) -> tuple[bool, ...]:
    """Which operands derivatives may be asked of: backwards, or all of them while forward mode goes along."""
    return tuple([each.requires_grad or instrumentation.duals is not None for each in operands])


def contract(recipe: Recipe, tensors: Sequence[Tensor]) -> Tensor:
    """The result by the recipe and the flags in force, recorded if operands need gradients; a view where nothing is
    computed."""
    operands = recipe.views(tensors)
    if recipe.axes is not None:
        is_view = recipe.takes_diagonals and recipe.axes == tuple(range(len(recipe.axes)))
        return operands[0] if is_view else permute(operands[0], recipe.axes)
    inputs, output, needs = recipe.inputs, recipe.output, followed(operands)
    if instrumentation.calls:
        return contraction(operands, inputs, output, recipe.precision, recipe.strategy, needs)
    arrays = [each._array for each in operands]
    out = adopt(recipe.run(arrays))
    if True in needs and grad_mode.get().records:
        metadata = {"inputs": inputs, "output": output, "precision": recipe.precision, "strategy": recipe.strategy}
        contraction.op.record(operands, arrays, {**metadata, "needs": needs, "memory_limit": None, "same": None}, out)
    return out


def _samples() -> Iterator[Sample]:
    a, b, c = between(-1, 1, 2, 3), between(-1, 1, 3, 4, seed=1), between(-1, 1, 4, 2, seed=2)
    yield sample([a, b], ((0, 1), (1, 2)), (0, 2))
    yield sample([b.T, a.T], ((2, 1), (1, 0)), (0, 2))
    yield sample([a, b, c], ((0, 1), (1, 2), (2, 0)), ())
    yield sample([a, between(-1, 1, 1, 4, seed=3)], ((0, 1), (1, 2)), (2, 0))
    yield sample([a, between(-1, 1)], ((0, 1), ()), (1,))
    yield sample([between(-1, 1, 2, 0), between(-1, 1, 0, 3)], ((0, 1), (1, 2)), (0, 2))


def _reference(operands: list[np.ndarray], inputs: tuple[Labels, ...], output: Labels, *_: Any) -> np.ndarray:
    pairs = [each for pair in zip(operands, map(list, inputs), strict=True) for each in pair]
    return np.asarray(np.einsum(*pairs, list(output)))


@op(
    operands=_cotangents,
    widen=False,
    method=False,
    warns=False,
    product="matmul",
    reference=_reference,
    samples=_samples,
)
def contraction(
    operands: Arrays,
    inputs,
    output,
    precision=None,
    strategy=BY_FLAGS,
    needs=None,
    memory_limit=None,
    same=None,
) -> np.ndarray:
    """The sum of the products of operands over the labels that `output` lacks; `inputs` has the labels of each.

    An operand has a label once. Raises RuntimeError for sizes that do not agree or intermediates beyond
    `memory_limit` bytes.
    """
    strategy = strategy_in_force() if strategy is BY_FLAGS else strategy
    program = program_for(inputs, output, operands, strategy, same)
    return program.run(operands, precision, memory_limit)
