"""einsum against torch: values, shapes, dtypes and views of random equations, and what is refused with which error."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_backends as mt

from ..support.einsum_equations import MALFORMED

PIECES = ("a", "b", "C", "...", ",", "->", ".", " ", "1", "-", ">", "\t")


def outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return error


def same_kind_of_error(ours: Any, theirs: Any, equation: str, operands: int) -> bool:
    """Of three and more operands torch's errors are opt_einsum's ValueErrors, or its own RuntimeErrors; opt_einsum
    looks for the dimensions of an ellipsis before it counts operands, and finds no operand for some."""
    allowed = (ValueError, RuntimeError) if operands > 2 else type(theirs)
    missing = operands > 2 and isinstance(theirs, IndexError) and equation.count(",") >= operands
    return isinstance(ours, Exception) and isinstance(ours, allowed) and (missing or isinstance(theirs, allowed))


@settings(max_examples=1000, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
    st.lists(st.lists(st.sampled_from((1, 2, 2, 3)), max_size=3), min_size=1, max_size=3),
)
def test_random_equations(equation: str, shapes: list[list[int]]) -> None:
    arrays = [np.random.default_rng(index).standard_normal(shape) for index, shape in enumerate(shapes)]
    theirs = outcome(torch.einsum, equation, *map(torch.tensor, arrays))
    ours = outcome(mt.einsum, equation, *map(mt.tensor, arrays))
    if isinstance(ours, Exception) or isinstance(theirs, Exception):
        assert same_kind_of_error(ours, theirs, equation, len(arrays)), (ours, theirs)
    else:
        assert tuple(ours.shape) == tuple(theirs.shape)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("equation", "shapes", "kind", "text"), MALFORMED)
def test_malformed_equations_are_malformed_in_torch(equation: str, shapes: tuple, kind: type, text: str) -> None:
    with pytest.raises(kind):
        torch.einsum(equation, *(torch.zeros(shape) for shape in shapes))


@pytest.mark.parametrize("equation", ["ij->ji", "ij", "ij->j", "ij,ij->ij", "ij,jk->ik", "ij,jk,ik->"])
@pytest.mark.parametrize("kind", ["int32", "int64", "float32", "bfloat16", "complex64"])
def test_dtypes(equation: str, kind: str) -> None:
    count = equation.partition("->")[0].count(",") + 1
    ours = mt.einsum(equation, *[mt.ones(2, 2, dtype=getattr(mt, kind))] * count)
    theirs = torch.einsum(equation, *[torch.ones(2, 2, dtype=getattr(torch, kind))] * count)
    assert str(ours.dtype).removeprefix("mt.") == str(theirs.dtype).removeprefix("torch.")
    assert "," in equation or ours._is_view() == theirs._is_view()  # torch's products end as views of their own results
