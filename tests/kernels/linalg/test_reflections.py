"""QR by blocks at the edges of its panels and blocks; products of reflections; least squares."""

import numpy as np
import pytest

from minitorch_backends.kernels import linalg
from minitorch_backends.kernels.linalg.blocked_qr import PANEL, WIDE
from minitorch_backends.kernels.linalg.residuals import residuals
from minitorch_backends.kernels.runtime import threading

from ...support.matrices import hard, random, with_values

DTYPES = ("float32", "float64")
COUNTS = (1, PANEL - 1, PANEL + 1, 3 * PANEL, WIDE, WIDE + 3 * PANEL + 5, 2 * WIDE + 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", COUNTS)
def test_qr(count: int, dtype: str) -> None:
    for shape in ((count, count), (count + 40, count), (count, count + 40)):
        a = random(*shape, dtype=dtype)
        for mode in ("reduced", "complete", "r"):
            found = linalg.qr["magma"](a, mode=mode)
            errors = residuals("qr", (a,), {"mode": mode}, found)
            assert max(errors.values(), default=0) <= 20 + 2 * count, errors  # LAPACK's orthogonality: about n
            assert not np.tril(found.R, -1).any()
            expected = linalg.qr["lapack"](a, mode=mode).R
            assert np.allclose(found.R, expected, atol=1e3 * np.finfo(dtype).eps * np.abs(expected).max())


@pytest.mark.parametrize("dtype", DTYPES)
def test_hard_matrices(dtype: str) -> None:
    for scale in (1.0, 1e-36, 1e30):
        for kind, a in hard(WIDE + 20, dtype).items():
            matrix = (a * scale).astype(dtype)
            errors = residuals("qr", (matrix,), {}, linalg.qr["magma"](matrix))
            subnormal = dtype == "float32" and scale == 1e-36 and kind in ("graded", "Hilbert", "rank-deficient")
            assert errors["orthogonality"] <= 20 + 2 * WIDE, (kind, scale, errors)
            assert errors["backward"] <= (3000 if subnormal else 50), (kind, scale, errors)


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_are_those_of_lapack(dtype: str) -> None:
    a = random(2, 200, 150, dtype=dtype)
    found, expected = linalg.geqrf["magma"](a), linalg.geqrf["lapack"](a)
    assert np.allclose(found.a, expected.a, atol=1e-3 if dtype == "float32" else 1e-11)
    assert np.allclose(found.tau, expected.tau, atol=1e-4 if dtype == "float32" else 1e-12)
    for count in (150, 100, 1):
        arrays = expected.a, expected.tau[..., :count]
        product = linalg.householder_product["magma"](*arrays)
        assert np.allclose(product, linalg.householder_product["lapack"](*arrays), atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_hostile_values_end(value: float) -> None:
    a = random(150, 140, dtype="float32")
    a[3, 2] = value
    assert not np.isfinite(linalg.qr["magma"](a).R).all()


def test_strides_and_threads_do_not_change_bits() -> None:
    whole = random(300, 300, dtype="float32")
    threads, results = threading.get_num_threads(), []
    for a in (whole.T, whole[::2, ::-1], whole[3:200, 7:190]):
        try:
            for count in (1, 2):
                threading.set_num_threads(count)
                results.append(linalg.qr["magma"](a))
        finally:
            threading.set_num_threads(threads)
        results.append(linalg.qr["magma"](np.ascontiguousarray(a)))
        for other in results[1:]:
            assert np.array_equal(results[0].Q, other.Q)
            assert np.array_equal(results[0].R, other.R)
        results.clear()


@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares_by_reflections(dtype: str) -> None:
    for rows, columns in ((200, 150), (150, 150), (40, 1)):
        a = with_values(np.linspace(1, 3, columns), rows, dtype)
        a, b = np.stack([a, -a]), random(2, rows, 3, dtype=dtype)
        found = linalg.lstsq["magma"](a, b, rcond=0.0, driver="gels")
        expected = linalg.lstsq["lapack"](a, b, rcond=0.0, driver="gels")
        assert np.abs(found.x - expected.x).max() <= 100 * np.finfo(dtype).eps * np.abs(expected.x).max()
        assert not found.info.any()
        by_columns = linalg.lstsq["magma"](np.asfortranarray(a[0]), np.asfortranarray(b[0]), rcond=0.0, driver="gels")
        np.testing.assert_array_equal(by_columns.x, found.x[0])
    a, b = random(2, 60, 50, dtype=dtype), random(2, 60, 2, dtype=dtype)
    a[1, :, 20] = 0
    found = linalg.lstsq["magma"](a, b, rcond=0.0, driver="gels")
    assert found.info.tolist() == linalg.lstsq["lapack"](a, b, rcond=0.0, driver="gels").info.tolist() == [0, 21]
