"""Small products that one builtin function answers: the bits of the general way, and what it must leave to it."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.flags import current
from minitorch_backends.kernels.precision import PRECISIONS
from minitorch_backends.ops.matmul import answers
from minitorch_backends.ops.matmul.dispatch import product

SHAPES = [((8, 8), (8, 8)), ((1, 5), (5, 3)), ((17, 33), (33, 20)), ((4, 6, 7), (4, 7, 5))]


def _operands(*shapes: tuple[int, ...], dtype: str = "float32") -> list[np.ndarray]:
    return [np.random.default_rng(seed).standard_normal(shape).astype(dtype) for seed, shape in enumerate(shapes)]


def _layouts(x: np.ndarray) -> list[np.ndarray]:
    columns = np.ascontiguousarray(np.swapaxes(x, -1, -2))
    return [x, np.swapaxes(columns, -1, -2), np.repeat(x, 2, -1)[..., ::2], x[..., ::-1]]


def _answers(a: mt.Tensor, b: mt.Tensor) -> mt.Tensor | None:
    return answers.answer(current(), answers.MATMUL[None], a, b)


_SIZES = itertools.count(131)
"""Of products that no other test makes: a few layouts of a shape are remembered, and others may take their places."""


@pytest.fixture(autouse=True)
def _table() -> None:
    size = next(_SIZES)
    a, b = (mt.tensor(np.ones(shape, np.float32)) for shape in ((2, size), (size, 2)))
    for _ in range(2):
        a @ b
    if _answers(a, b) is None:
        pytest.skip("no table can be made for this Python, or nothing small is compiled here")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shapes", SHAPES)
def test_the_bits_of_the_general_way(shapes: tuple, precision: str) -> None:
    with backends.flags(fp32_precision=precision):
        for a, b in itertools.product(*map(_layouts, _operands(*shapes))):
            x, y = mt.from_numpy(a), mt.from_numpy(b)
            expected = product(a, b)
            for _ in range(3):
                assert np.array_equal((x @ y).numpy(), expected)


@pytest.mark.parametrize("precision", ["ieee", "bf16", "tf32", "bfx9"])
def test_calls_that_name_a_precision(precision: str) -> None:
    """They are answered under a name of their own, whatever the flags allow."""
    a, b = _operands((20, 33), (33, 18))
    x, y = mt.from_numpy(a), mt.from_numpy(b)
    with backends.flags(fp32_precision="bf16"):
        expected = product(a, b, precision)
        for _ in range(3):
            assert np.array_equal(mt.matmul(x, y, precision=precision).numpy(), expected)
        found = answers.answer(current(), answers.MATMUL[precision], x, y)
        assert found is not None
        assert np.array_equal(found.numpy(), expected)
        assert np.array_equal((x @ y).numpy(), product(a, b))
    with pytest.raises(ValueError, match="is unknown; expected"):
        mt.matmul(x, y, precision="fp8")


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_types(dtype: str) -> None:
    x, y = (mt.from_numpy(each).to(getattr(mt, dtype)) for each in _operands((9, 17), (17, 6)))
    results = [(x @ y).double().numpy() for _ in range(4)]
    assert all(np.array_equal(results[0], each) for each in results)
    assert (x @ y).dtype is x.dtype
    assert np.allclose(results[0], x.double().numpy() @ y.double().numpy(), atol=0.1)


def test_each_state_of_the_flags_has_its_own() -> None:
    x, y = (mt.from_numpy(each) for each in _operands((8, 8), (8, 8)))
    exact = (x @ y).numpy()
    for _ in range(3):
        with backends.flags(fp32_precision="bf16"):
            assert not np.array_equal((x @ y).numpy(), exact)
            assert not np.array_equal(mt.mm(x, y).numpy(), exact)
        assert np.array_equal((x @ y).numpy(), exact)
        assert np.array_equal(x.matmul(y).numpy(), exact)


def test_what_is_left_to_the_general_way() -> None:
    x, y = (mt.from_numpy(each) for each in _operands((6, 6), (6, 6)))
    for _ in range(3):
        expected = (x @ y).numpy()
    assert _answers(x, y) is not None
    assert _answers(x, mt.nn.Parameter(y)) is _answers(x, y[:, :5]) is _answers(x, y.double()) is _answers(x, 3) is None
    with pytest.raises(TypeError):
        x @ 3
    with explain.record() as log:
        x @ y
    assert [entry.kernel for entry in log] == ["matmul"]
    leaf = x.clone().requires_grad_()
    (leaf @ y).sum().backward()
    assert leaf.grad is not None
    with mt.no_grad():
        assert np.array_equal((leaf.detach() @ y).numpy(), expected)
    with mt.inference_mode():
        assert (x @ y).is_inference()


def test_values_that_tiles_refuse() -> None:
    x, y = _operands((24, 40), (40, 19))
    with backends.flags(fp32_precision="bf16x3"):
        usual = mt.from_numpy(x) @ mt.from_numpy(y)
        x[0, 0] = np.inf
        for _ in range(3):
            assert np.isinf((mt.from_numpy(x) @ mt.from_numpy(y)).numpy()[0]).all()
        assert np.allclose((mt.from_numpy(x) @ mt.from_numpy(y)).numpy()[1:], usual.numpy()[1:], atol=1e-5)


def test_many_threads() -> None:
    x, y = (mt.from_numpy(each) for each in _operands((16, 16), (16, 16)))
    expected, wrong = (x @ y).numpy(), []

    def work() -> None:
        wrong.extend(1 for _ in range(500) if not np.array_equal((x @ y).numpy(), expected))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_products_for_several_threads_are_not_its_own() -> None:
    x, y = (mt.from_numpy(each) for each in _operands((1024, 32, 32), (1024, 32, 32)))
    for _ in range(3):
        x @ y
    assert _answers(x, y) is None
