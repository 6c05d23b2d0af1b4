"""Intermediates that depend on operands which stay the same from call to call: made once, for calls with `share=True`
under `no_grad`.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...autograd.versions import writes
from ...backends.precision_policy import precision_of
from ...flags import current
from ...kernels.gemm.workspace import offered
from ...tensor.tensor import Tensor
from .execute import Program

__all__ = ["run_with_constants"]


class _Kept(NamedTuple):
    """What the last call left: its operands and their versions, how it multiplied, and its intermediates by value."""

    operands: tuple[weakref.ref[Tensor], ...]
    versions: tuple[tuple[int, int] | None, ...]
    precision: tuple[Any, ...]
    values: dict[int, np.ndarray]


_kept: weakref.WeakKeyDictionary[Program, _Kept] = weakref.WeakKeyDictionary()


def run_with_constants(
    program: Program, tensors: Sequence[Tensor], arrays: Sequence[np.ndarray], precision: str | None, limit: int | None
) -> np.ndarray:
    """`Program.run`, in which a contraction of operands that are the tensors of the last call, unwritten since, is not
    made again.

    The intermediates of one call are kept for each program, until the next call or until the program is dropped.
    """
    program.refuse(limit)
    versions = tuple(map(writes, tensors))
    if None in versions:
        return program.run(arrays, precision, limit)
    how = (precision or precision_of("matmul").precision, current().read("tf32_rounding"))
    last = _kept.get(program)
    constant = [False] * len(tensors)
    if last is not None and last.precision == how:
        pairs = zip(tensors, versions, last.operands, last.versions, strict=True)
        constant = [ref() is tensor and version == before for tensor, version, ref, before in pairs]
    values: list[Any] = list(arrays)
    for place, prepare in program.first:
        values[place] = prepare(values[place])
    sources: list[frozenset[int]] = [frozenset((place,)) for place in range(len(arrays))]
    intermediates: dict[int, np.ndarray] = {}
    whole = len(arrays) + len(program.steps) - 1  # which the caller is given
    with offered(None):  # what is kept must not lie in the caller's `out`
        for contract, left, right, done in program.steps:
            value, source = len(values), sources[left] | sources[right]
            known = last is not None and all(constant[place] for place in source) and last.values.get(value)
            made = known if isinstance(known, np.ndarray) else contract(values[left], values[right], precision)
            values.append(made)
            sources.append(source)
            for used in done:
                values[used] = None
            if len(source) < len(arrays) and value != whole:
                intermediates[value] = made
    _kept[program] = _Kept(tuple(map(weakref.ref, tensors)), versions, how, intermediates)
    return program.last(values[-1])
