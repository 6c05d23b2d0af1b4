"""Promotion against torch: exhaustively over pairs of dtypes, with dimensions, 0-dim and scalar, and in every op."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import minitorch_backends as mt
from minitorch_backends.tensor.dtypes import DType, dtypes, result_dtype, scalar_dtype
from minitorch_backends.tensor.tensor import adopt

from ..declared.samples import Sample
from ..support.calls import ARITHMETIC, arrays_in, run, samples_of
from .peer import KINDS, is_missing, name_of, promoting, torch_dtype, torch_outcome

SCALARS = [True, 3, 2.5, 1j]
PAIRS = list(itertools.product(ARITHMETIC, repeat=2))
WIDE_UNSIGNED = {"uint16", "uint32", "uint64"}
"""Types that torch promotes with themselves and with real floating types only."""


def refused_by_torch(first: DType, second: DType) -> bool:
    wide = WIDE_UNSIGNED & {first.name, second.name}
    return first is not second and bool(wide) and not (first.is_floating_point or second.is_floating_point)


def test_promote_types() -> None:
    for first, second in itertools.filterfalse(lambda pair: refused_by_torch(*pair), PAIRS):
        assert mt.promote_types(first, second).name == name_of(
            torch.promote_types(torch_dtype(first), torch_dtype(second))
        )


@pytest.mark.parametrize("default", ["float32", "float64"])
def test_result_type(default: str) -> None:
    before = mt.get_default_dtype(), torch.get_default_dtype()
    mt.set_default_dtype(dtypes[default])
    torch.set_default_dtype(getattr(torch, default))
    try:
        for first, second in PAIRS:
            for ndims in [] if refused_by_torch(first, second) else itertools.product((0, 1), repeat=2):
                peers = [
                    torch.ones((2,) * ndim, dtype=torch_dtype(each))
                    for each, ndim in zip((first, second), ndims, strict=True)
                ]
                assert result_of(zip((first, second), ndims, strict=True)) == name_of(torch.result_type(*peers)), (
                    first,
                    second,
                    ndims,
                )
        for dtype, scalar, ndim in itertools.product(ARITHMETIC, SCALARS, (0, 1)):
            wanted = name_of(torch.result_type(torch.ones((2,) * ndim, dtype=torch_dtype(dtype)), scalar))
            assert result_of([(dtype, ndim), (scalar_dtype(scalar), 2)]) == wanted, (dtype, scalar, ndim)
    finally:
        mt.set_default_dtype(before[0])
        torch.set_default_dtype(before[1])


def result_of(operands: Any) -> str:
    """By `result_dtype`, from pairs of a dtype and 1 for dimensions, 0 for a 0-dim tensor, 2 for a scalar."""
    groups: dict[int, list[DType]] = {1: [], 0: [], 2: []}
    for dtype, kind in operands:
        groups[kind].append(dtype)
    return result_dtype(*map(tuple, groups.values())).name


MIXED_HERE = {
    "isclose": "two dtypes are compared in their common one; torch refuses them",
    "rsub": "a boolean is converted to the other's type; torch refuses booleans beside any type",
    "sub": "a boolean is converted to the other's type; torch refuses booleans beside any type",
}
"""Ops that promote two dtypes that torch refuses."""


@pytest.mark.parametrize("name", promoting())
def test_result_dtypes_of_ops(name: str) -> None:
    call = next(call for call in samples_of(name) if len(arrays_in(call)) == 2 and not call.kwargs)
    operands: list[Any] = [*itertools.product(ARITHMETIC, (0, 1)), *SCALARS]
    wrong = []
    for first, second in itertools.product(operands, repeat=2):
        if not isinstance(first, tuple):
            continue
        wanted = torch_dtype_of(name, with_operands(call, first, second, peer))
        got = dtype_of_result(name, with_operands(call, first, second, mine))
        permitted = wanted == "refused" and name in MIXED_HERE
        if got != wanted and wanted != "missing" and not permitted:
            wrong.append((first, second, got, wanted))
    assert not wrong, f"{name}: {len(wrong)} pairs differ (here, in torch): {wrong[:8]}"


def with_operands(call: Sample, first: Any, second: Any, make: Any) -> Sample:
    """The call with its two arrays replaced by operands made of (dtype, ndim), or by a number."""
    operands = iter((first, second))
    args = [
        make(next(operands)) if isinstance(arg, np.ndarray) and arg.dtype == np.float64 else make(arg)
        for arg in call.args
    ]
    return Sample(tuple(args), {})


def dtype_of_result(name: str, call: Sample) -> str:
    try:
        return run(name, call).dtype.name
    except KINDS:
        return "refused"


def torch_dtype_of(name: str, call: Sample) -> str:
    out = torch_outcome(name, call)
    if isinstance(out, Exception):
        return "missing" if is_missing(out) else "refused"
    return name_of(out.dtype)


def mine(operand: Any) -> Any:
    if isinstance(operand, np.ndarray):
        return mt.tensor(operand)
    return adopt(np.ones((2,) * operand[1], operand[0].dtype)) if isinstance(operand, tuple) else operand


def peer(operand: Any) -> Any:
    if isinstance(operand, np.ndarray):
        return torch.from_numpy(operand)
    return torch.ones((2,) * operand[1], dtype=torch_dtype(operand[0])) if isinstance(operand, tuple) else operand
