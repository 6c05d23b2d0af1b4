"""Sums are as accurate over every memory layout as over the contiguous one, whatever the number of threads."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitorch_backends.kernels.arrays import sums
from minitorch_backends.kernels.runtime import threading
from tests.support.layouts import arrays, axes_of, exact

DTYPES = [np.float32, np.complex64, np.float16, ml_dtypes.bfloat16, np.float64, np.complex128]
UNITS = {np.dtype(dtype): 2.0**-23 for dtype in DTYPES} | dict.fromkeys(
    map(np.dtype, (np.float64, np.complex128)), 2.0**-52
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_layout(data: st.DataObject) -> None:
    """Four units in the last place of the sum of magnitudes; of float64, whose sums are not made in more digits, 16."""
    x = data.draw(arrays(DTYPES))
    axes, keepdims, mean = data.draw(axes_of(x)), data.draw(st.booleans()), data.draw(st.booleans())
    wide, unit = exact(x), UNITS[x.dtype] * (16 if x.dtype in (np.float64, np.complex128) else 4)
    count = np.prod([x.shape[axis] for axis in axes]) if mean else 1

    def check(found: Any, terms: np.ndarray, divisor: float = 1) -> None:
        wanted, size = (each.sum(axes, keepdims=keepdims) / divisor for each in (terms, np.abs(terms)))
        assert np.shape(found) == wanted.shape
        assert np.all(np.abs(found - wanted) <= unit * size)

    check(sums.sum(x, axes, keepdims, mean), wide, count)
    check(sums.sum_of_squares(x, axes, keepdims), np.square(np.abs(wide)))
    about = np.asarray(sums.sum(x, axes, True, mean=True, wide=True))
    check(sums.sum_of_squares(x, axes, keepdims, about=about), np.square(np.abs(wide - about)))
    if x.dtype.kind != "c":
        check(sums.sum_of_magnitudes(x, axes, keepdims), np.abs(wide))
    factors = (1 + x.astype(np.result_type(x.dtype, np.float32)) / x.size).astype(x.dtype)
    product = np.multiply.reduce(exact(factors), axes, keepdims=keepdims)
    np.testing.assert_allclose(sums.product(factors, axes, keepdims), product, rtol=max(unit, 2.0**-52 * x.size))


def test_many_short_rows_of_equal_numbers() -> None:
    """The errors of all steps have one sign."""
    x = np.full((1500, 8), 1.1)[:, :7]
    wanted, unit = exact(x), UNITS[x.dtype]
    assert abs(sums.sum(x) - wanted.sum()) <= 16 * unit * wanted.sum()
    assert abs(sums.sum_of_squares(x) - np.square(wanted).sum()) <= 16 * unit * np.square(wanted).sum()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize(
    ("shape", "order", "axes"),
    [
        ((1 << 18,), (0,), (0,)),
        ((70_000, 5), (0, 1), (0,)),
        ((300, 1200), (1, 0), (1,)),
        ((200_000, 2), (1, 0), (0, 1)),
        ((90, 4000), (0, 1), (0,)),
        ((6, 40, 1500), (1, 0, 2), (0, 2)),
        ((3000, 90), (0, 1), (1,)),
    ],
)
def test_large_arrays_have_the_bits_of_one_thread(shape: tuple, order: tuple, axes: tuple, dtype: Any) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype).transpose(order)
    found = set()
    for threads in (1, 2, 3, 7):
        with threading.num_threads(threads):
            found |= {np.asarray(sums.sum(x, axes)).tobytes() for _ in range(5)}
    assert len(found) == 1
    wanted, size = exact(x).sum(axes), np.abs(exact(x)).sum(axes)
    assert np.all(np.abs(sums.sum(x, axes) - wanted) <= (16 if dtype is np.float64 else 4) * UNITS[x.dtype] * size)


def test_equal_float64_numbers_whose_roundings_all_go_one_way() -> None:
    for x in (np.full((2, 3000), 1.1)[:, ::2], np.full(40_000, 1.1), np.full((3000, 4), 1.1).T[::2]):
        wanted = exact(x).sum()
        assert abs(sums.sum(x) - wanted) <= 16 * 2.0**-52 * wanted


def test_hostile_values() -> None:
    x = np.full((40, 30), -0.0, np.float32)
    for each, axis in ((x, 0), (x.T, 0), (x[:, ::2], None)):
        assert np.signbit(sums.sum(each, axis)).all()
    x[3, 4], x[5, 6], x[7, 8], x[9, 8] = np.nan, np.inf, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        for each, axis in ((x, 0), (x.T, 1), (x[::-1], 0), (x, 1), (x[:, ::-1], 1)):
            assert np.array_equal(sums.sum(each, axis), each.sum(axis), equal_nan=True)
    large = np.array([3e38, 3e38, -3e38] * 30, np.float32)
    assert sums.sum(large) == np.inf  # though no sum of three is
    assert np.isclose(sums.sum(large[:3].repeat(30)[::-1] / 30), 3e38)


def test_numpy_answers_for_the_rest() -> None:
    integers = np.arange(6).reshape(2, 3)
    assert sums.sum(integers, 0).tolist() == [3, 5, 7]
    assert sums.product(integers, 1).tolist() == [0, 60]
    assert sums.sum(np.zeros((0, 3), np.float32), 0).tolist() == [0, 0, 0]
    assert sums.sum(np.zeros((3, 0), np.float32), 0).shape == (0,)
    with pytest.raises(ValueError, match="axis"):
        sums.sum(np.ones(300, np.float32), 1)
    with pytest.raises(ValueError, match="duplicate"):
        sums.sum(np.ones((30, 30), np.float32), (0, -2))
