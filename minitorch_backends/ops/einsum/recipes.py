"""What is known of a call of einsum by its equation and its operands' shapes and dtypes, kept for the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...flags import State, current
from ...kernels import registry
from ...kernels.registry import Refused
from ...tensor.tensor import Tensor
from .diagonals import take_diagonals
from .equation import Labels, sizes_of
from .execute import Program
from .known import remember
from .paths import BY_FLAGS, strategy_in_force
from .programs import KEPT, Cache, program_for, tally
from .straight import straightened

__all__ = ["Recipe", "key_of", "recipes"]

Straight = tuple[State | None, Callable[..., np.ndarray] | None]
_NONE: Straight = (None, None)


def key_of(equation: str, operands: Sequence[Tensor], *options: Any) -> tuple:
    """What a recipe is known by; `options` are the precision and the strategy of a call that names one of them."""
    arrays = [each._array for each in operands]
    return (equation, *[each.shape for each in arrays], *[each.dtype for each in arrays], *options)


class Recipe:
    """How operands of some shapes and dtypes are contracted.

    Attributes:
        terms: the labels of the operands' dimensions; `inputs`: each label once; `output`: those of the result.
        precision, strategy: those that the call names; None and BY_FLAGS where the flags say.
        axes: where one operand is only seen in another order, that order; None elsewhere.
        straight: the flags that its program was written out for, and the function; (None, None) without one.
        program: what `remember` may still make known to the builtin, or None.

    Raises RuntimeError for shapes that do not fit the labels.
    """

    def __init__(
        self,
        terms: tuple[Labels, ...],
        output: Labels,
        shapes: Sequence[tuple[int, ...]],
        precision: str | None = None,
        strategy: Any = BY_FLAGS,
    ) -> None:
        self.terms, self.output, self.precision, self.strategy = terms, output, precision, strategy
        sizes_of(self.terms, shapes)
        self.inputs = tuple(tuple(dict.fromkeys(term)) for term in self.terms)
        self.takes_diagonals = self.inputs != self.terms
        self.axes: tuple[int, ...] | None = None
        if len(shapes) == 1 and len(self.inputs[0]) == len(self.output):
            self.axes = tuple(self.inputs[0].index(label) for label in self.output)
        self.straight = self._of_operands = _NONE
        self._seen: State | None = None
        self.program: Program | None = None
        self._remembered = 0

    def views(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The operands with each label once."""
        if not self.takes_diagonals:
            return list(tensors)
        return [take_diagonals(each, term) for each, term in zip(tensors, self.terms, strict=True)]

    def run(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The result of the operands with each label once, by its options and the flags in force."""
        (state, straight), now = self._of_operands, current()
        if state is now and straight is not None and not registry.observing:
            try:
                out = straight(*arrays)
                tally.hits += 1
                return out
            except Refused:  # values that a kernel does not take, from which the general way goes on to the next
                pass
        order = strategy_in_force() if self.strategy is BY_FLAGS else self.strategy
        program = program_for(self.inputs, self.output, arrays, order)
        if state is not now and self._seen is now:  # the second time in a row under these flags
            self._of_operands = now, straightened(program, self.precision)
            if not self.takes_diagonals and self._of_operands[1] is not None:
                self.straight = self._of_operands
                self.program, self._remembered = program if len(arrays) == 2 else None, 0
        self._seen = now
        return program.run(arrays, self.precision)

    def remember(self, state: State, equation: str, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        """Have the table of `answers.py` answer the next calls like this one, where it can."""
        if self.program is not None and remember(state, equation, self.program, a, b, out, self._remembered):
            self._remembered += 1
        else:
            self.program = None


recipes = Cache(KEPT)
"""Recipes by `key_of`."""
