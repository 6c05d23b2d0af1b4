"""Recurrences by each implementation, beside their definition in float64."""

import math
from typing import Any

import numpy as np
import pytest

from minitorch_backends.kernels.recurrence import recurrence, recurrence_gradient
from minitorch_backends.kernels.registry import Refused
from minitorch_backends.kernels.runtime import threading

SHAPES = [(3, 2, 5), (1, 1, 1), (2, 0, 3), (2, 70, 40), (3, 1, 16), (5, 9, 32), (0, 2, 4)]
"""Length, rows, and numbers of a state: less than a vector, one vector, panels and what is left, more rows than one
thread takes, and nothing."""

PARTS = {"rnn_tanh": 1, "rnn_relu": 1, "lstm": 4, "gru": 3}

every_cell = pytest.mark.parametrize("cell", PARTS)
every_way = pytest.mark.parametrize("way", list(recurrence.implementations))
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def problem(cell: str, shape: tuple[int, int, int], dtype: Any) -> list[np.ndarray]:
    """A sequence, a matrix, the first state, and the first cell or the bias."""
    (length, rows, size), parts, rng = shape, PARTS[cell], np.random.default_rng(0)
    last = {"gru": [(3 * size,)], "lstm": [(rows, size)]}.get(cell, [])
    sizes = [(length, rows, parts * size), (parts * size, size), (rows, size), *last]
    x, weight, *others = (rng.standard_normal(each).astype(dtype) for each in sizes)
    return [x, weight / dtype(math.sqrt(size)), *others]


def gradient_problem(cell: str, shape: tuple[int, int, int], dtype: Any) -> list[np.ndarray]:
    """The arguments of the gradient."""
    arrays = problem(cell, shape, dtype)
    made = [each.astype(dtype) for each in recurrence.reference(*arrays, cell=cell)]
    rng = np.random.default_rng(1)
    g, other = (rng.standard_normal(made[0].shape).astype(dtype) for _ in range(2))
    rest = {"lstm": [other, arrays[3], *made[1:]] if cell == "lstm" else [], "gru": [arrays[2], *made[1:]]}
    return [g, arrays[1], made[0], *rest.get(cell, [])]


def close(found: Any, wanted: Any, dtype: Any) -> None:
    tolerance = 100 * np.finfo(dtype).eps
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == dtype
        assert one.shape == other.shape
        assert np.allclose(one, other, rtol=tolerance, atol=tolerance)


@every_cell
@every_way
@every_dtype
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients(cell: str, way: str, dtype: Any, shape: tuple[int, int, int]) -> None:
    for kernel, make in ((recurrence, problem), (recurrence_gradient, gradient_problem)):
        arrays = make(cell, shape, dtype)
        close(kernel[way](*arrays, cell=cell), kernel.reference(*arrays, cell=cell), dtype)


@every_cell
@every_way
def test_arrays_may_lie_anywhere(cell: str, way: str) -> None:
    for kernel, make in ((recurrence, problem), (recurrence_gradient, gradient_problem)):
        arrays = make(cell, (3, 4, 5), np.float32)
        wanted = kernel[way](*arrays, cell=cell)
        turned = [np.ascontiguousarray(each.T).T for each in arrays]
        apart = [np.repeat(each[::-1], 2, 0)[::-2] for each in arrays]
        for others in (turned, apart):
            assert all(np.array_equal(*each) for each in zip(kernel[way](*others, cell=cell), wanted, strict=True))


@every_cell
@every_way
def test_threads_give_the_same_bits(cell: str, way: str) -> None:
    arrays = problem(cell, (2, 130, 33), np.float32)
    many = recurrence[way](*arrays, cell=cell)
    with threading.num_threads(1):
        alone = recurrence[way](*arrays, cell=cell)
    if way == "resident":  # products of matrices may be divided otherwise
        assert all(np.array_equal(*each) for each in zip(alone, many, strict=True))
    close(alone, many, np.float32)


@every_cell
@every_way
def test_infinities_and_nan_come_through(cell: str, way: str) -> None:
    hostile = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-40, -0.0, 200, -200], np.float32)
    x = np.tile(hostile, PARTS[cell])[np.newaxis, np.newaxis]
    _, weight, *others = problem(cell, (1, 1, hostile.size), np.float32)
    arrays = [x, weight * 0, *others]
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = [each.astype(np.float32) for each in recurrence.reference(*arrays, cell=cell)]
    for one, each in zip(recurrence[way](*arrays, cell=cell), wanted, strict=True):
        assert np.allclose(one, each, rtol=1e-5, atol=1e-30, equal_nan=True)


@every_way
def test_nothing_comes_from_beyond_the_last_step(way: str) -> None:
    g, weight, output = gradient_problem("rnn_relu", (1, 3, 5), np.float32)
    weight[:] = np.inf
    of_products = recurrence_gradient[way](g, weight, output, cell="rnn_relu")[0]
    assert np.array_equal(of_products, np.where(output > 0, g, 0))


def test_the_loop_says_why_it_leaves_products_to_others() -> None:
    small, large = problem("rnn_tanh", (2, 3, 4), np.float32), problem("rnn_tanh", (1, 1, 600), np.float32)
    many = problem("rnn_tanh", (1, 600, 128), np.float32)
    for arrays, keywords, says in (
        (small, {"precision": "tf32"}, "multiplies exactly, and tf32 was asked for"),
        (large, {}, "leaves 1 rows times a weight of 1,440,000 bytes"),
        (many, {}, "leaves 600 rows"),
    ):
        with pytest.raises(Refused, match=says):
            recurrence["resident"](*arrays, cell="rnn_tanh", **keywords)
        recurrence(*arrays, cell="rnn_tanh", **keywords)


@every_cell
def test_steps_have_the_precision_that_is_asked_for(cell: str) -> None:
    for kernel, make in ((recurrence, problem), (recurrence_gradient, gradient_problem)):
        arrays = make(cell, (5, 6, 24), np.float32)
        wanted = kernel.reference(*arrays, cell=cell)
        for precision, least, most in (("bf16", 1e-5, 0.1), ("ieee", 0, 1e-4)):
            found = kernel["steps"](*arrays, cell=cell, precision=precision)
            error = max(float(np.abs(one - other).max()) for one, other in zip(found, wanted, strict=True))
            assert least <= error <= most


@every_cell
def test_a_preferred_library_makes_the_products(cell: str) -> None:
    arrays = problem(cell, (5, 6, 24), np.float32)
    close(recurrence(*arrays, cell=cell, prefer="blas"), recurrence["resident"](*arrays, cell=cell), np.float32)
    assert recurrence.decide(*arrays, cell=cell, prefer="blas").candidates[0].name == "blas"


@every_cell
@every_way
def test_arrays_that_do_not_fit_are_refused(cell: str, way: str) -> None:
    for kernel, make in ((recurrence, problem), (recurrence_gradient, gradient_problem)):
        arrays = make(cell, (3, 2, 5), np.float32)
        for place in range(len(arrays)):
            for bad in (arrays[place].astype(np.float64), np.repeat(arrays[place], 2, -1), arrays[place][..., None]):
                with pytest.raises(RuntimeError, match=f"{cell}: expected"):
                    kernel.implementations[way].run(*arrays[:place], bad, *arrays[place + 1 :], cell=cell)
        with pytest.raises(ValueError, match="'rnn' is not a recurrence; expected one of rnn_tanh"):
            kernel.implementations[way].run(*arrays, cell="rnn")
