"""einsum call after call: every layout of the operands, the flags and modes of the moment, threads, and equal bits."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.ops.einsum.program import plan_for

from ...support.einsum_equations import OPT_EINSUM, SIZES
from .test_einsum import normal

pytestmark = pytest.mark.usefixtures("default_flags")

SHAPES = {
    "i,j->ij": ((8,), (8,)), "i,j->ji": ((5,), (7,)), "bi,bi->b": ((8, 8), (8, 8)), "ij,ij->": ((8, 8), (8, 8)),
    "ij,j->i": ((8, 8), (8,)), "j,ij->i": ((8,), (3, 8)), "ij,jk->ik": ((8, 8), (8, 8)), "ij,jk->ki": ((3, 8), (8, 5)),
    "ij,kj->ik": ((9, 8), (17, 8)), "bij,bjk->bik": ((4, 3, 8), (4, 8, 5)), "ij,ij->ij": ((8, 8), (8, 8)),
    "ij,j->ij": ((3, 8), (8,)), "i,ij->ij": ((3,), (3, 8)), ",ij->ij": ((), (3, 8)), "ab,cd->abcd": ((2, 3), (4, 5)),
    "ijk,kl->ijl": ((2, 3, 4), (4, 5)),
}  # fmt: skip


def _operand(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _layouts(a: np.ndarray) -> Iterator[np.ndarray]:
    yield a
    if a.ndim:
        yield np.asfortranarray(a)
        yield np.repeat(a, 2, -1)[..., ::2]
        yield a[..., ::-1]


def _calls(equation: str, *tensors: mt.Tensor) -> list[np.ndarray]:
    """The results of the first call and of two later ones, whose plan is kept."""
    return [mt.einsum(equation, *tensors).numpy().copy() for _ in range(3)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("equation", SHAPES)
def test_every_layout_and_every_call(equation: str, dtype: str) -> None:
    first, second = (_operand(shape, dtype, seed) for seed, shape in enumerate(SHAPES[equation]))
    for a in _layouts(first):
        for b in _layouts(second):
            results = _calls(equation, mt.from_numpy(a), mt.from_numpy(b))
            for other in results[1:]:
                assert other.dtype == dtype
                assert np.array_equal(results[0], other)
            assert np.allclose(results[0], np.einsum(equation, a, b), atol=1e-5)


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_at_the_precision_of_the_flags(precision: str) -> None:
    a, b = (mt.from_numpy(_operand((8, 8), "float32", seed)) for seed in (1, 2))
    exact = _calls("ij,jk->ik", a, b)
    with backends.flags(fp32_precision=precision):
        rounded = _calls("ij,jk->ik", a, b)
    assert all(np.array_equal(rounded[0], each) for each in rounded)
    assert not np.array_equal(rounded[0], exact[0])
    assert np.array_equal(_calls("ij,jk->ik", a, b)[0], exact[0])


@pytest.mark.parametrize("equation", [each for each in OPT_EINSUM if each.count(",") == 1])
def test_the_equations_of_opt_einsum(equation: str) -> None:
    terms = equation.partition("->")[0].split(",")
    arrays = [_operand(tuple(SIZES[each] for each in term), "float32", len(term)) for term in terms]
    results = _calls(equation, *map(mt.from_numpy, arrays))
    assert all(np.array_equal(results[0], each) for each in results)
    assert np.allclose(results[0], np.einsum(equation, *arrays), atol=1e-4)


def test_special_numbers() -> None:
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38, -1], np.float32)
    with np.errstate(all="ignore"):
        products = {"i,j->ij": np.multiply.outer(special, special[::-1]), "i,i->i": special * special[::-1]}
    for equation, expected in products.items():
        for result in _calls(equation, mt.from_numpy(special), mt.from_numpy(special[::-1])):
            np.testing.assert_array_equal(result, expected)
            numbers = ~np.isnan(expected)
            assert np.array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers])


def test_the_result_is_a_tensor_of_its_own() -> None:
    a = mt.from_numpy(_operand((8, 8), "float32", 1))
    one, two = (mt.einsum("ij,jk->ik", a, a) for _ in range(2))
    assert type(one) is mt.Tensor
    assert not np.shares_memory(one.numpy(), two.numpy())
    assert one._node is one._state is one._cell is None
    one += 1
    assert one.grad is None
    assert not np.array_equal(one.numpy(), two.numpy())


def test_a_later_call_sees_its_own_operands_and_modes() -> None:
    a = mt.from_numpy(_operand((6, 6), "float32", 1))
    mt.einsum("ij,jk->ik", a, a)
    with pytest.raises(TypeError, match="expected Tensor as element 1"):
        mt.einsum("ij,jk->ik", a, 3)
    with pytest.raises(RuntimeError, match="same dtype"):
        mt.einsum("ij,jk->ik", a, a.double())
    with pytest.raises(RuntimeError, match="size"):
        mt.einsum("ij,jk->ik", a, a[:5])
    assert mt.einsum("ij,jk->ik", a, a[:, :5]).shape == (6, 5)
    assert mt.einsum("ij,jk->ik", a, mt.nn.Parameter(a)).requires_grad
    x = a.clone().requires_grad_()
    mt.einsum("ij,jk->ik", x, a).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.ones((6, 6)) @ a.numpy().T, rtol=1e-5, atol=1e-5)
    with explain.record() as log:
        mt.einsum("ij,jk->ik", a, a)
    assert len(log) == 1
    with mt.inference_mode():
        assert mt.einsum("ij,jk->ik", a, a).is_inference()


def test_many_equations_in_many_threads() -> None:
    arrays = [mt.from_numpy(_operand((2, 3), "float32", seed)) for seed in range(4)]
    expected = [[float((x.numpy() * y.numpy()).sum()) for y in arrays] for x in arrays]
    wrong: list[str] = []

    def work(worker: int) -> None:
        for turn in range(300):
            first, second = chr(65 + turn % 20), chr(97 + (turn + worker) % 20)
            equation = f"{first}{second},{first}{second}->"
            for i, x in enumerate(arrays):
                for j, y in enumerate(arrays):
                    if abs(float(mt.einsum(equation, x, y)) - expected[i][j]) > 1e-5:
                        wrong.append(equation)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


@pytest.mark.parametrize("equation", ["ij,jk->ik", "bi,bi->b", "ij,ij->", "bij,bjk->bik", "ij,jk,kl->li", "i,j->ij"])
def test_the_flags_of_the_moment_act(equation: str) -> None:
    """This holds on calls whose plan is kept, and with other layouts, observers, values and modes."""
    terms = equation.partition("->")[0].split(",")
    arrays = [normal(*(9,) * len(term), seed=index, dtype=np.float32) for index, term in enumerate(terms)]
    tensors = [mt.tensor(array) for array in arrays]
    exact = [mt.einsum(equation, *tensors).numpy() for _ in range(2)]
    with backends.flags(fp32_precision="bf16"):
        rough = [mt.einsum(equation, *tensors).numpy() for _ in range(2)]
        plan_for.cache_clear()
        np.testing.assert_array_equal(rough[1], mt.einsum(equation, *tensors).numpy())
        for out in rough[1:]:
            np.testing.assert_array_equal(out, rough[0])
    assert np.array_equal(rough[0], exact[0]) == (equation == "i,j->ij")
    np.testing.assert_array_equal(mt.einsum(equation, *tensors).numpy(), exact[1])
    with mt.explain.record() as log:
        mt.einsum(equation, *tensors)
    assert len(log) == len(tensors) - 1 - (equation == "i,j->ij")
    turned = [mt.tensor(array.T.copy()).permute(*range(array.ndim)[::-1]) for array in arrays]
    outs = [mt.einsum(equation, *turned).numpy() for _ in range(2)]
    np.testing.assert_allclose(outs[1], exact[0], rtol=1e-5, atol=1e-5)
    leaves = [mt.tensor(array, requires_grad=True) for array in arrays]
    recorded = [mt.einsum(equation, *leaves) for _ in range(2)]
    gradients = [mt.autograd.grad(out.sum(), leaves) for out in recorded]
    for leaf, first, last in zip(leaves, gradients[0], gradients[1], strict=True):
        np.testing.assert_array_equal(first.numpy(), last.numpy())
        assert first.shape == leaf.shape
    with mt.no_grad():
        assert not mt.einsum(equation, *leaves).requires_grad
    for tensor in tensors:
        tensor[...] = 1e30
    assert mt.einsum(equation, *tensors).isinf().all()  # and no warning


def test_values_that_an_implementation_refuses_go_to_the_next() -> None:
    """Subnormal factors, which tiles flush, are found while packing: the kernel refuses them amid a plan."""
    tensors = [mt.tensor(normal(40, 40, seed=seed, dtype=np.float32)) for seed in range(3)]
    with backends.flags(fp32_precision="bf16"):
        for _ in range(2):
            mt.einsum("ij,jk,kl->il", *tensors)
        tensors[1].mul_(1e-39)
        small = mt.einsum("ij,jk,kl->il", *tensors)
    expected = np.linalg.multi_dot([each.numpy().astype(np.float64) for each in tensors])
    np.testing.assert_allclose(small.numpy(), expected, rtol=0, atol=0.02 * np.abs(expected).max())


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,ij->ij"])
def test_the_limit_of_memory_is_a_flag(equation: str) -> None:
    """The limit holds for later calls and for gradients; a limit of one call replaces it."""
    a = mt.tensor(normal(7, 7, dtype=np.float32))
    needed = mt.einsum_plan(equation, (7, 7), (7, 7)).peak_elements * 4
    for limit in (None, needed, None):
        with backends.flags(einsum_memory_limit=limit):
            for _ in range(2):
                mt.einsum(equation, a, a)
        with backends.flags(einsum_memory_limit=needed - 1):
            for _ in range(2):
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
