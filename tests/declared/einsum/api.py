"""Samples and references of `ops/einsum/api.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minitorch_backends.ops.einsum.plan import Plan
from minitorch_backends.ops.einsum.program import plan_for

from ..samples import Sample, between, sample
from ..table import declare


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


declare("einsum", _reference, _samples)


def _contractions() -> Iterator[Sample]:
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


def _contract(operands: list[np.ndarray], plan: Plan, *_: Any) -> np.ndarray:
    pairs = [each for pair in zip(operands, map(list, plan.terms), strict=True) for each in pair]
    return np.asarray(np.einsum(*pairs, list(plan.output)))


declare("contraction", _contract, _contractions)
