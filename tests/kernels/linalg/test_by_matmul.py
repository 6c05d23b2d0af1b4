"""Factorisations and substitution by calls of `matmul`, at an exact precision against LAPACK, and at a scaled one."""

from typing import Any

import numpy as np
import pytest

from minitorch_backends.kernels import linalg
from minitorch_backends.kernels.linalg import by_matmul, lapack
from minitorch_backends.kernels.linalg.residuals import residuals


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def definite(n: int) -> np.ndarray:
    a = normal(2, n, n)
    return a @ a.swapaxes(-1, -2) + n * np.eye(n, dtype=np.float32)


CALLS: dict[str, tuple[np.ndarray, ...]] = {
    "cholesky": (definite(150),),
    "lu_factor": (normal(2, 150, 130),),
    "qr": (normal(2, 200, 140),),
    "geqrf": (normal(140, 200),),
    "inv": (definite(140),),
    "solve": (definite(140), normal(2, 140, 9, seed=1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_backward_errors_are_those_of_the_precision(name: str) -> None:
    kernel, arrays = getattr(linalg, name), CALLS[name]
    for precision in ("mxfp8", "e4m3"):
        options: dict[str, Any] = {"precision": precision}
        if name in ("inv", "solve"):
            options["refine"] = False
        (error, *_) = residuals(name, arrays, {}, kernel["magma"](*arrays, **options)).values()
        assert 2.0**-20 < error * 2.0**-24 < 0.3


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_substitution_at_an_exact_precision_is_lapack_s(upper: bool, left: bool, transpose: bool) -> None:
    a, b = (
        normal(2, 150, 150) / 150 + np.eye(150, dtype=np.float32),
        normal(2, *((150, 7) if left else (7, 150)), seed=1),
    )
    for unit in (False, True):
        options = {"upper": upper, "left": left, "transpose": transpose, "unitriangular": unit}
        found = by_matmul.triangular_solve(a, b, **options, precision="ieee")
        np.testing.assert_allclose(found, lapack.triangular_solve(a, b, **options), atol=1e-5)


def test_factors_at_an_exact_precision_are_lapack_s() -> None:
    a, d = normal(2, 150, 170), definite(150)
    for found, expected in ((by_matmul.lu_factor(a), lapack.lu_factor(a)), (by_matmul.cholesky(d), lapack.cholesky(d))):
        for one, other in zip(found, expected, strict=False):
            np.testing.assert_allclose(one, other, atol=2e-3)
    reflections, packed, taus = by_matmul.MatmulReflections(), normal(170, 150), np.zeros(150, np.float32)
    expected = lapack.geqrf(packed)
    reflections.factor(packed, 150, taus)
    np.testing.assert_allclose(np.abs(np.triu(packed)), np.abs(np.triu(expected.a)), atol=1e-3)
    c = normal(170, 3)
    turned = c.copy()
    reflections.apply(150, turned, transposed=True)
    reflections.apply(150, turned)
    np.testing.assert_allclose(turned, c, atol=1e-5)


def test_failures_are_named_as_by_lapack() -> None:
    a = normal(150, 150)
    a[:, 100] = 0
    assert by_matmul.lu_factor(a)[2] == lapack.lu_factor(a).info == 101
    d = definite(150)[:1]
    d[0, 100, 100] = -1
    assert by_matmul.cholesky(d)[1] == lapack.cholesky(d).info == [101]
