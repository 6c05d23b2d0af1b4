"""Float64 products of 8-bit integers: by slices and by moduli, against exact sums and the bounds of their sources."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitorch_backends.kernels.gemm import matmul
from minitorch_backends.kernels.precisions.emulated import (
    digits,
    from_residues,
    scales_by_norms,
    scales_by_sums,
    span,
)  # fmt: skip
from minitorch_backends.kernels.precisions.products import EMULATIONS, MODULI, modulus_limit


def operands(phi: float, m: int = 12, k: int = 200, n: int = 9, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Matrices of the test of both papers: uniform numbers whose magnitudes are spread by phi."""
    random = np.random.default_rng(seed)
    return tuple(  # type: ignore[return-value]
        (random.random(shape) - 0.5) * np.exp(phi * random.standard_normal(shape)) for shape in ((m, k), (k, n))
    )


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    rows, columns = ([[Fraction(x) for x in line] for line in lines.tolist()] for lines in (a, b.T))
    return np.array([[float(sum(x * y for x, y in zip(r, c, strict=True))) for c in columns] for r in rows])


def error(found: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """The largest error relative to the result."""
    true = exact(a, b)
    return float(np.abs((found - true) / true).max())


def test_moduli_are_coprime() -> None:
    assert all(math.gcd(p, q) == 1 for p in MODULI for q in MODULI if p != q)


@pytest.mark.parametrize("name", EMULATIONS)
@pytest.mark.parametrize("phi", [0.0, 1.0])
def test_errors_keep_their_bound(name: str, phi: float) -> None:
    a, b = operands(phi)
    row = EMULATIONS[name]
    found = matmul["emulated"](a, b, precision=name, **({} if row.count else {"bits": 53}))
    largest = np.abs(a).max(1)[:, None] * np.abs(b).max(0)
    kept = row.bits(row.count, a.shape[1]) if row.count else 53
    dropped = row.count * 2.0 ** (-8 * row.count + 12) if row.count and not row.by_moduli else 0
    bound = largest * a.shape[1] * (4 * 2.0**-kept + dropped) + 8 * 2.0**-53 * np.abs(exact(a, b))
    assert (np.abs(found - exact(a, b)) <= bound).all()


@pytest.mark.parametrize("names", [("int8x4", "int8x5", "int8x6", "int8x7"), ("int8mod8", "int8mod10", "int8mod12")])
def test_each_further_part_gains_its_bits(names: tuple[str, ...]) -> None:
    a, b = operands(0.5)
    errors = [error(matmul(a, b, precision=name), a, b) for name in names]
    assert all(2**6 < worse / better < 2**10 for worse, better in itertools.pairwise(errors))


def test_double_precision_takes_the_moduli_of_the_paper() -> None:
    """14 to 16 moduli have float64's accuracy over moderate spreads, 12 do not (arXiv 2504.08009, section 5)."""
    for phi, enough in ((0.0, 14), (0.5, 15), (1.0, 16)):
        a, b = operands(phi, k=512)
        native = error(a @ b, a, b)
        assert error(matmul(a, b, precision=f"int8mod{enough}"), a, b) < 2 * native
        assert error(matmul(a, b, precision="int8mod12"), a, b) > 4 * native


@pytest.mark.parametrize("count", [8, 20])
@pytest.mark.parametrize("phi", [0.0, 4.0])
def test_sums_stay_below_half_of_the_product_of_the_moduli(phi: float, count: int) -> None:
    """Those of magnitudes, also where the bounds are sharp: columns that are multiples of rows, and single terms."""
    a, b = operands(phi, 7, 60, 7)
    for left, right in ((a, b), (a, 3.0 * a.T), (a[:, :1], b[:1])):
        norms = scales_by_norms(left, -1, count), scales_by_norms(right, -2, count)
        for of_rows, of_columns in (norms, scales_by_sums(left, right, count, np.matmul)):
            rows, columns = (np.trunc(np.ldexp(np.abs(x), by)) for x, by in ((left, of_rows), (right, of_columns)))
            sums = [
                sum(int(x) * int(y) for x, y in zip(row, column, strict=True)) for row in rows for column in columns.T
            ]
            assert math.prod(MODULI[:count]) // 2**9 < 2 * max(sums) < math.prod(MODULI[:count]) - 1


def test_bounds_by_sums_gain_where_exponents_are_spread() -> None:
    a, b = operands(4.0)
    true = exact(a, b)
    norms, sums = (np.abs((matmul(a, b, precision=name) - true) / true) for name in ("int8mod10", "int8mod10-accurate"))
    assert np.log2(norms / sums).mean() > 0.5


@pytest.mark.parametrize("phi", [0.0, 1.0, 2.0])
def test_a_number_of_bits_is_kept_over_any_spread(phi: float) -> None:
    a, b = operands(phi)
    for name in ("int8", "int8mod"):
        magnitudes = np.abs(a) @ np.abs(b)
        for bits in (20, 53):
            found = matmul(a, b, precision=name, bits=bits)
            assert (np.abs(found - exact(a, b)) <= magnitudes * 400 * 2.0**-bits).all()


def test_integers_are_multiplied_exactly() -> None:
    random = np.random.default_rng(1)
    a, b = (random.integers(-(2**20), 2**20, shape).astype(float) for shape in ((2, 7, 30), (30, 5)))
    for name in ("int8x7", "int8mod12", "int8mod12-accurate", "int8", "int8mod"):
        np.testing.assert_array_equal(matmul(a, b, precision=name), a @ b)
    z = a + 1j * a[::-1]
    np.testing.assert_array_equal(matmul(z, b + 0j, precision="int8mod14"), z @ b)


@given(st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=5), st.integers(10, len(MODULI)))
def test_residues_give_the_integer_back_rounded_once(values: list[int], count: int) -> None:
    kept = [value for value in values if 2 * abs(value) < math.prod(MODULI[:count]) - 2]
    found = [np.array([float((v + p // 2) % p - p // 2) for v in kept]) for p in MODULI[:count]]
    assert from_residues(found).tolist() == [float(value) for value in kept]


@given(st.lists(st.floats(-(2.0**30), 2.0**30), min_size=1, max_size=9), st.integers(1, 10))
def test_digits_are_int8_and_sum_to_the_number(values: list[float], count: int) -> None:
    x = np.array(values)
    exponents = np.frexp(np.abs(x).max())[1]
    found = digits(x, exponents, count)
    assert all(((each >= -128) & (each <= 127) & (each == np.rint(each))).all() for each in found)
    for place, value in enumerate(values):
        total = sum(Fraction(each[place]) * Fraction(2) ** int(exponents - 6 - 8 * i) for i, each in enumerate(found))
        assert abs(total - Fraction(value)) <= Fraction(2) ** int(exponents - 8 * count + 1)


def test_the_span_bounds_what_terms_lose() -> None:
    for phi in (0.0, 3.0):
        a, b = operands(phi, 6, 70, 5)
        terms = (np.frexp(a)[1][:, :, None] + np.frexp(b)[1][None]).max(1)
        lost = np.frexp(np.abs(a).max(1))[1][:, None] + np.frexp(np.abs(b).max(0))[1] - terms
        assert lost.max() <= span(a, b) <= lost.max() + 40
    assert span(np.zeros((2, 3)), np.ones((3, 2))) == 0


@pytest.mark.parametrize("name", ["int8x7", "int8mod15", "int8mod15-accurate", "int8"])
def test_range_is_that_of_float64(name: str) -> None:
    a, b = operands(0.0)
    for scale in (2.0**1000, 2.0**-1000):
        np.testing.assert_array_equal(matmul(a * scale, b / scale, precision=name), matmul(a, b, precision=name))
    tiny = np.full((2, 3), 5e-324)
    np.testing.assert_array_equal(matmul(tiny, np.ones((3, 2)), precision=name), np.full((2, 2), 15e-324))
    np.testing.assert_array_equal(matmul(np.zeros((2, 3)), np.ones((3, 2)), precision=name), np.zeros((2, 2)))
    assert matmul(np.zeros((2, 0)), np.ones((0, 2)), precision=name).tolist() == [[0, 0], [0, 0]]
    assert np.isposinf(matmul(np.full((1, 2), 1e300), np.full((2, 1), 1e300), precision=name)).all()


def test_what_has_no_digits_falls_back_to_float64() -> None:
    a, b = operands(0.0)
    a[0, 0] = np.inf
    np.testing.assert_array_equal(np.isinf(matmul(a, b, precision="int8x7")[0]), True)
    wide = operands(20.0)
    np.testing.assert_array_equal(matmul(*wide, precision="int8"), matmul(*wide))
    assert EMULATIONS["int8"].least_count(80, 10) is None
    assert modulus_limit(20) > modulus_limit(19)
