"""Straight programs of einsum: the way of later calls gives what the way of the first one gives."""

from __future__ import annotations

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.ops.einsum.recipes import recipes

from .test_einsum import flags_as_before, normal

__all__ = ["flags_as_before"]


@pytest.mark.parametrize("equation", ["ij,jk->ik", "bi,bi->b", "ij,ij->", "bij,bjk->bik", "ij,jk,kl->li", "i,j->ij"])
def test_straight_programs_obey_the_flags_of_the_moment(equation: str) -> None:
    """The way of the third call is that of the first for other flags, layouts, observers, values and modes."""
    terms = equation.partition("->")[0].split(",")
    arrays = [normal(*(9,) * len(term), seed=index, dtype=np.float32) for index, term in enumerate(terms)]
    tensors = [mt.tensor(array) for array in arrays]
    exact = [mt.einsum(equation, *tensors).numpy() for _ in range(4)]
    with backends.flags(fp32_precision="bf16"):
        rough = [mt.einsum(equation, *tensors).numpy() for _ in range(4)]
        recipes.clear()
        np.testing.assert_array_equal(rough[3], mt.einsum(equation, *tensors).numpy())
        for out in rough[1:]:
            np.testing.assert_array_equal(out, rough[0])
    assert np.array_equal(rough[0], exact[0]) == (equation == "i,j->ij")
    np.testing.assert_array_equal(mt.einsum(equation, *tensors).numpy(), exact[3])
    with mt.explain.record() as log:
        mt.einsum(equation, *tensors)
    assert len(log) == len(tensors) - 1 - (equation == "i,j->ij")
    turned = [mt.tensor(array.T.copy()).permute(*range(array.ndim)[::-1]) for array in arrays]
    outs = [mt.einsum(equation, *turned).numpy() for _ in range(4)]
    np.testing.assert_allclose(outs[3], exact[0], rtol=1e-5, atol=1e-5)
    leaves = [mt.tensor(array, requires_grad=True) for array in arrays]
    recorded = [mt.einsum(equation, *leaves) for _ in range(4)]
    gradients = [mt.autograd.grad(out.sum(), leaves) for out in recorded]
    for leaf, first, last in zip(leaves, gradients[0], gradients[3], strict=True):
        np.testing.assert_array_equal(first.numpy(), last.numpy())
        assert first.shape == leaf.shape
    with mt.no_grad():
        assert not mt.einsum(equation, *leaves).requires_grad
    for tensor in tensors:
        tensor[...] = 1e30
    assert mt.einsum(equation, *tensors).isinf().all()  # and no warning


def test_straight_programs_leave_values_to_the_next_implementation() -> None:
    """Subnormal factors, which tiles flush, are found while packing: the kernel refuses them amid a program."""
    tensors = [mt.tensor(normal(40, 40, seed=seed, dtype=np.float32)) for seed in range(3)]
    with backends.flags(fp32_precision="bf16"):
        for _ in range(4):
            mt.einsum("ij,jk,kl->il", *tensors)
        tensors[1].mul_(1e-39)
        small = mt.einsum("ij,jk,kl->il", *tensors)
    expected = np.linalg.multi_dot([each.numpy().astype(np.float64) for each in tensors])
    np.testing.assert_allclose(small.numpy(), expected, rtol=0, atol=0.02 * np.abs(expected).max())


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,ij->ij"])
def test_the_limit_of_memory_is_a_flag(equation: str) -> None:
    """It holds for calls that every shorter way knows, for gradients, and gives way to the limit of a call."""
    a = mt.tensor(normal(7, 7, dtype=np.float32))
    needed = mt.einsum_plan(equation, (7, 7), (7, 7)).peak_elements * 4
    for limit in (None, needed, None):
        with backends.flags(einsum_memory_limit=limit):
            for _ in range(5):
                mt.einsum(equation, a, a)
        with backends.flags(einsum_memory_limit=needed - 1):
            for _ in range(4):
                with pytest.raises(
                    RuntimeError, match=f"take {needed} bytes at once, and memory_limit is {needed - 1};"
                ):
                    mt.einsum(equation, a, a)
            mt.einsum(equation, a, a, memory_limit=needed)
    x = a.clone().requires_grad_()
    out = mt.einsum(equation, x, a).sum()
    with backends.flags(einsum_memory_limit=needed - 1), pytest.raises(RuntimeError, match="einsum_memory_limit"):
        out.backward()
    for bad in (-1, 1.5, True, "all"):
        with pytest.raises((RuntimeError, TypeError), match="einsum_memory_limit"):
            backends.einsum_memory_limit = bad
    assert backends.einsum_memory_limit is None
