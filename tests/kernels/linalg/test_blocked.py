"""The blocked family at the edges of its blocks: backward errors, LAPACK's pivots and info, strides, hostile values."""

from typing import Any

import numpy as np
import pytest

from minitorch_backends.kernels import linalg
from minitorch_backends.kernels.linalg.residuals import residuals
from minitorch_backends.kernels.linalg.updates import BLOCK
from minitorch_backends.kernels.registry import Refused
from minitorch_backends.kernels.runtime import cpu, threading

from ...support.matrices import hard, random

SIZES = (1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5)
DTYPES = ("float32", "float64")


def within(units: float, name: str, arrays: tuple, result: Any, **keywords: Any) -> None:
    errors = residuals(name, arrays, keywords, result)
    assert errors
    assert max(errors.values()) <= units, errors


def definite(n: int, dtype: str) -> np.ndarray:
    a = random(n, n, dtype=dtype)
    return a @ a.T + (0.1 * n * np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_lu_has_the_pivots_of_lapack(n: int, dtype: str) -> None:
    for shape in ((n, n), (n + 9, n), (n, n + 9), (2 * n, n // 2 + 1)):
        a = random(*shape, dtype=dtype)
        result = linalg.lu_factor["magma"](a)
        within(10 + n, "lu_factor", (a,), result)
        assert np.array_equal(result.pivots, linalg.lu_factor["lapack"](a).pivots)
        assert not result.info.any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_solutions_and_inverses(n: int, dtype: str) -> None:
    a, b = random(2, n, n, dtype=dtype), random(2, n, 5, dtype=dtype)
    within(20 + n, "solve", (a, b), linalg.solve["magma"](a, b))
    within(20 + 4 * n, "inv", (a,), linalg.inv["magma"](a))
    packed, pivots, _, _ = linalg.lu_factor["magma"](a)
    transposed = a.swapaxes(-1, -2)
    x = linalg.lu_solve["magma"](packed, pivots, b, transpose=True)
    within(20 + n, "solve", (transposed, b), (x,))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_cholesky_and_its_solutions(n: int, dtype: str) -> None:
    a, b = definite(n, dtype), random(n, 3, dtype=dtype)
    garbage = a + np.triu(np.full_like(a, np.nan), 1)
    result = linalg.cholesky["magma"](garbage)
    within(10, "cholesky", (a,), result)
    assert not np.triu(result.L, 1).any()
    within(20 + n, "solve", (a, b), (linalg.cholesky_solve["magma"](result.L, b),))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_triangular_solve(n: int, left: bool, upper: bool, dtype: str) -> None:
    square = random(n, n, dtype=dtype) + (n * np.eye(n)).astype(dtype)
    for transpose in (False, True):
        for unit in (False, True):
            options = {"upper": upper, "left": left, "transpose": transpose, "unitriangular": unit}
            t = np.tril(square, -1) / (n * n) + np.eye(n) if unit else np.tril(square)
            t = (t.T if upper else t).astype(dtype)
            b = random(n, 37, dtype=dtype) if left else random(37, n, dtype=dtype)
            given = t - (np.eye(n) * 7).astype(dtype) if unit else t  # a diagonal that must not be read
            x = linalg.triangular_solve["magma"](given, b, **options)
            system = t.T if transpose else t
            within(20, "solve", (system, b) if left else (system.T, b.T), (x if left else x.T,))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("end", ["smallest_subnormal", "smallest_normal", "max"])
def test_diagonals_whose_reciprocals_overflow_or_lose_digits(end: str, dtype: str) -> None:
    value, sides = getattr(np.finfo(dtype), end), np.arange(20.0, dtype=dtype)
    a, x = np.diag(np.full(20, value)), np.where(np.arange(20)[:, None] % 2, 1.0, sides[None] == 3).astype(dtype)
    assert np.array_equal(linalg.triangular_solve["magma"](a, x * value), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_hard_matrices(dtype: str) -> None:
    n = BLOCK + 20
    for kind, a in hard(n, dtype).items():
        result = linalg.lu_factor["magma"](a)
        within(10 + 4 * n, "lu_factor", (a,), result)
        if kind in ("zero", "identity"):
            assert result.info == linalg.lu_factor["lapack"](a).info


@pytest.mark.parametrize("dtype", DTYPES)
def test_info_is_that_of_lapack(dtype: str) -> None:
    n = 2 * BLOCK + 3
    for bad in (0, BLOCK - 1, BLOCK, n - 1):
        a = definite(n, dtype)
        a[bad, bad] = -1
        assert linalg.cholesky["magma"](a).info == linalg.cholesky["lapack"](a).info == bad + 1
        a = np.eye(n, dtype=dtype)
        a[bad, bad] = 0
        assert linalg.lu_factor["magma"](a).info == linalg.lu_factor["lapack"](a).info == bad + 1
        assert linalg.inv["magma"](a).info == bad + 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_strides(dtype: str) -> None:
    whole = random(2 * BLOCK + 10, 2 * BLOCK + 10, dtype=dtype)
    for a in (whole.T, whole[::2, ::2], whole[::-1, ::-1], whole[3:90, 7:94], np.broadcast_to(whole[:1], (5, 138))):
        kept = a.copy()
        result = linalg.lu_factor["magma"](a)
        assert np.array_equal(result.LU, linalg.lu_factor["magma"](np.ascontiguousarray(a)).LU)
        assert np.array_equal(a, kept)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e-40])
def test_hostile_values_end(value: float, dtype: str) -> None:
    n = BLOCK + 6
    for a in (np.full((n, n), value, dtype), definite(n, dtype)):
        a[3, 2] = a[n - 1, n - 1] = value
        b = np.full((n, 2), value, dtype)
        for result in (linalg.lu_factor["magma"](a), linalg.inv["magma"](a), linalg.solve["magma"](a, b)):
            assert result.info.shape == ()
        pivots = linalg.lu_factor["magma"](a).pivots
        assert (pivots >= np.arange(1, n + 1)).all()
        assert (pivots <= n).all()
        assert linalg.cholesky["magma"](a).info >= 0


@pytest.mark.parametrize("precision", ["bf16", "bf16x3", "tf32"])
def test_the_precision_of_the_products_shows_in_the_factors(precision: str) -> None:
    a = random(3 * BLOCK, 3 * BLOCK, dtype="float32")
    try:
        error = residuals("lu_factor", (a,), {}, linalg.lu_factor["magma"](a, precision=precision))["backward"]
    except Refused:
        assert cpu.capability() != "amx"
        return
    exact = residuals("lu_factor", (a,), {}, linalg.lu_factor["magma"](a))["backward"]
    unit = linalg.lu_factor.bound[precision] / 2.0**-24
    assert error <= 10 * unit + 2 * exact
    if precision == "bf16":
        assert error > 20 * exact


@pytest.mark.parametrize("precision", ["bf16", "bf16x3"])
@pytest.mark.parametrize("scale", [1.0, 1e-36])
def test_tiny_numbers_do_not_send_factorisations_elsewhere(scale: float, precision: str) -> None:
    """Unless the matrix is as tiny itself; then it is refused, or factored as well as others."""
    a = definite(3 * BLOCK, "float32") * np.float32(scale)
    a[2 * BLOCK, 0] = a[0, 2 * BLOCK] = 1e-39 * scale
    for name in ("lu_factor", "cholesky"):
        kernel = getattr(linalg, name)
        try:
            error = residuals(name, (a,), {}, kernel["magma"](a, precision=precision))["backward"]
        except Refused:
            assert scale < 1 or cpu.capability() not in ("amx", "avx512_bf16")
            continue
        assert error <= 12 * kernel.bound[precision] / 2.0**-24


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_do_not_depend_on_the_threads(dtype: str) -> None:
    a, threads = random(5 * BLOCK + 3, 5 * BLOCK + 3, dtype=dtype), threading.get_num_threads()
    try:
        results = []
        for count in (1, threads):
            threading.set_num_threads(count)
            results.append((*linalg.lu_factor["magma"](a)[:2], linalg.inv["magma"](a)[0]))
    finally:
        threading.set_num_threads(threads)
    for alone, together in zip(*results, strict=True):
        assert np.array_equal(alone, together)
