"""The op under einsum: sums of products of tensors whose dimensions have labels, and its gradients, which are such
sums again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...backends.strategies import Strategy
from ...op import Arrays, op
from ...samples import Sample, between, sample
from ...tensor import Tensor
from ..shape import expand
from ..transpose import permute
from .equation import Labels
from .paths import strategy_in_force
from .plan import cotangent_labels
from .programs import program_for

__all__ = ["BY_FLAGS", "contracted", "contraction"]

BY_FLAGS = "flags"
"""The strategy of a call that names none: that of the flags in force, in backward of those in force then."""


def _cotangents(
    g: Tensor,
    operands: list[Tensor],
    inputs: tuple[Labels, ...],
    output: Labels,
    precision: str | None,
    strategy: Strategy,
    needs: tuple[bool, ...] | None,
) -> list[Tensor | None]:
    strategy = BY_FLAGS if isinstance(strategy, tuple) else strategy
    return [
        _cotangent(g, operands, inputs, output, precision, strategy, operand)
        if needs is None or needs[operand]
        else None
        for operand in range(len(operands))
    ]


def _cotangent(
    g: Tensor,
    operands: Sequence[Tensor],
    inputs: tuple[Labels, ...],
    output: Labels,
    precision: str | None,
    strategy: Strategy,
    operand: int,
) -> Tensor:
    """The gradient of one operand: g and the other operands, contracted to the labels of this one."""
    own, shape = inputs[operand], operands[operand]._array.shape
    others = [each for index, each in enumerate(operands) if index != operand]
    factors = [each.conj() if each.is_complex() else each for each in others]
    tensors = [g, *(each if each.dtype is g.dtype else each.to(g.dtype) for each in factors)]
    terms = (output, *(term for index, term in enumerate(inputs) if index != operand))
    kept = cotangent_labels(own, shape, terms, [each._array.shape for each in tensors])
    value = contracted(tensors, terms, kept, precision, strategy)
    if kept != own:
        sizes = dict(zip(kept, value._array.shape, strict=True))
        value = value.reshape(tuple(sizes.get(label, 1) for label in own))
    return value if value._array.shape == shape else expand(value, shape)


def contracted(
    tensors: Sequence[Tensor], inputs: tuple[Labels, ...], output: Labels, precision: str | None, strategy: Strategy
) -> Tensor:
    """The contraction of operands without repeated labels; a view where one operand only changes the order."""
    if len(tensors) == 1 and len(inputs[0]) == len(output):
        return permute(tensors[0], tuple(inputs[0].index(label) for label in output))
    needs = tuple([each.requires_grad for each in tensors])
    return contraction(list(tensors), inputs, output, precision, strategy, needs)


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
