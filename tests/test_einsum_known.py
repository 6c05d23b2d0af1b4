"""Small einsums of two operands that one builtin function answers: the bits of the other ways, and what it must see."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.flags import current
from minitorch_backends.ops.matmul import answers

from .einsum_equations import OPT_EINSUM, SIZES

SHAPES = {
    "i,j->ij": ((8,), (8,)),
    "i,j->ji": ((5,), (7,)),
    "bi,bi->b": ((8, 8), (8, 8)),
    "ij,ij->": ((8, 8), (8, 8)),
    "ij,j->i": ((8, 8), (8,)),
    "j,ij->i": ((8,), (3, 8)),
    "ij,jk->ik": ((8, 8), (8, 8)),
    "ij,jk->ki": ((3, 8), (8, 5)),
    "ij,kj->ik": ((9, 8), (17, 8)),
    "bij,bjk->bik": ((4, 3, 8), (4, 8, 5)),
    "ij,ij->ij": ((8, 8), (8, 8)),
    "ij,j->ij": ((3, 8), (8,)),
    "i,ij->ij": ((3,), (3, 8)),
    ",ij->ij": ((), (3, 8)),
    "ab,cd->abcd": ((2, 3), (4, 5)),
    "ijk,kl->ijl": ((2, 3, 4), (4, 5)),
}


def _operand(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _layouts(a: np.ndarray) -> Iterator[np.ndarray]:
    yield a
    if a.ndim:
        yield np.asfortranarray(a)
        yield np.repeat(a, 2, -1)[..., ::2]
        yield a[..., ::-1]


def _calls(equation: str, *tensors: mt.Tensor) -> list[np.ndarray]:
    """The results of the general way, of the program written out, of the call that is remembered, and of the next."""
    return [mt.einsum(equation, *tensors).numpy().copy() for _ in range(5)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("equation", SHAPES)
def test_all_ways_give_the_same_bits(equation: str, dtype: str) -> None:
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
    for equation in ("i,j->ij", "i,i->i"):
        results = _calls(equation, mt.from_numpy(special), mt.from_numpy(special[::-1]))
        assert all(np.array_equal(results[0].view(np.int32), each.view(np.int32)) for each in results)


def test_the_result_is_a_tensor_of_its_own() -> None:
    a = mt.from_numpy(_operand((8, 8), "float32", 1))
    one, two = ([mt.einsum("ij,jk->ik", a, a) for _ in range(5)][-1] for _ in range(2))
    assert type(one) is mt.Tensor
    assert not np.shares_memory(one.numpy(), two.numpy())
    assert one._node is one._state is one._cell is None
    one += 1
    assert one.grad is None
    assert not np.array_equal(one.numpy(), two.numpy())


def test_what_it_must_leave_to_the_other_ways() -> None:
    a = mt.from_numpy(_operand((6, 6), "float32", 1))
    for _ in range(4):
        mt.einsum("ij,jk->ik", a, a)
    if answers.answer(current(), "ij,jk->ik", a, a) is None:
        pytest.skip("no table can be made for this Python")
    assert answers.answer(current(), "ij,jk->ik", a, 3) is None
    assert answers.answer(current(), "ij,jk->ik", a, mt.nn.Parameter(a)) is None
    assert answers.answer(current(), "ij,jk->ik", a, a.double()) is None
    assert answers.answer(current(), "ij,jk->ik", a, a[:, :5]) is None
    assert answers.answer(None, "ij,jk->ik", a, a) is None
    x = a.clone().requires_grad_()
    mt.einsum("ij,jk->ik", x, a).sum().backward()
    assert x.grad is not None
    with explain.record() as log:
        mt.einsum("ij,jk->ik", a, a)
    assert len(log) == 1
    with mt.inference_mode():
        assert mt.einsum("ij,jk->ik", a, a).is_inference()
    with pytest.raises(RuntimeError, match="size"):
        mt.einsum("ij,jk->ik", a, a[:5])


def test_many_equations_in_many_threads() -> None:
    """Entries are replaced by others at the same place all the time."""
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
