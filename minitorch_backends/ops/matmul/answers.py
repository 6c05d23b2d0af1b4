"""Calls of two small operands that one builtin function answers (`kernels/gemm/calls.py`): the table of all such calls.

Who makes the call asks `answer` first, where nobody observes kernels or the births of tensors, and has the table
`remember` what it could not answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...flags import State
from ...kernels.precision import ALIASES, PRECISIONS
from ...tensor.tensor import Tensor

__all__ = ["MATMUL", "answer", "remember"]

MATMUL: dict[str | None, object] = {precision: object() for precision in (None, *PRECISIONS, *ALIASES)}
"""The names of calls of `matmul`, at the precision of the flags or one of their own: names are told apart by identity,
and no equation that a user writes is one of these."""

_SLOTS = ("_array", "_node", "_state", "_cell")


def _unknown(*_: Any) -> None:
    """Before the first call that is remembered, whose time the compilation is part of."""


answer: Callable[..., Tensor | None] = _unknown
"""`answer(state, name, x, y)`: the result of the call of this name (an equation, an op) under these flags, or None for
a call that is not remembered or must be looked at: of tensors with a history, of subclasses, of anything else."""

_table: Any = None


def remember(
    state: State,
    name: object,
    operands: tuple[np.ndarray, np.ndarray],
    out: np.ndarray,
    work: Any,
    swapped: bool = False,
) -> bool:
    """Have `answer` know calls like this one, whose result was `out`; `work` is what `calls.Table.add` takes, of both
    operands in turn or `swapped`. Whether it does now."""
    global _table, answer
    if _table is None:
        from ...kernels.gemm import calls

        array, node, *rest = _SLOTS
        _table = calls.Table(Tensor, array, node, rest) if calls.available(Tensor, _SLOTS) else False
        answer = _table.call if _table else _unknown
    return bool(_table) and out.flags.c_contiguous and _table.add(state, name, operands, out.shape, work, swapped)
