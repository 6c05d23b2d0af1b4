"""Every implementation of every factorisation, on easy and hard matrices: backward errors within p(n) units."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from minitorch_backends.kernels import linalg
from minitorch_backends.kernels.linalg.residuals import residuals
from minitorch_backends.kernels.registry import Refused

from ...support.matrices import adjoint, hard, random

DTYPES = ("float32", "float64", "complex64", "complex128")


def implementations(*names: str) -> list[Any]:
    return [pytest.param(name, each, id=f"{name}-{each}") for name in names
            for each in getattr(linalg, name).implementations]  # fmt: skip


def check(name: str, implementation: str, arrays: tuple, units: float, **keywords: Any) -> Any:
    """Run one implementation, and hold it to a backward error; None where it refuses."""
    before = [each.copy() for each in arrays]
    try:
        result = getattr(linalg, name)[implementation](*arrays, **keywords)
    except Refused:
        return None
    assert all(np.array_equal(one, other) for one, other in zip(arrays, before, strict=True)), "an argument is changed"
    for measure, error in residuals(name, arrays, keywords, result).items():
        assert error <= units, f"{name}[{implementation}] {keywords}: {measure} error of {error:.3g} units"
    return result


def batches(n: int, dtype: str) -> Iterator[tuple[str, np.ndarray]]:
    kinds = hard(n, dtype)
    yield from kinds.items()
    yield "batch", np.stack([np.stack([kinds["random"], kinds["Hilbert"], kinds["identity"]])] * 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "implementation"), implementations("cholesky"))
def test_cholesky(name: str, implementation: str, dtype: str) -> None:
    for n in (0, 1, 2, 7, 40):
        for kind, a in batches(n, dtype):
            definite = a @ adjoint(a) + (0.1 * np.eye(n)).astype(dtype)
            result = check(name, implementation, (definite,), 10 + n)
            if result is not None:
                assert not result.info.any(), kind
                assert result.info.dtype == np.int32
                assert result.info.shape == a.shape[:-2]
                assert not np.triu(result.L, 1).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "implementation"), implementations("cholesky"))
def test_cholesky_says_which_minor_is_not_positive(name: str, implementation: str, dtype: str) -> None:
    matrices = np.stack([np.eye(5, dtype=dtype)] * 3)
    matrices[1, 3, 3] = -1
    matrices[2, 0, 0] = 0
    result = check(name, implementation, (matrices,), np.inf)
    if result is not None:
        assert result.info.tolist() == [0, 4, 1]
        matrices[1, 3, 1] = matrices[1, 1, 3] = np.nan
        matrices[2, 0, 0] = np.nan
        assert getattr(linalg, name)[implementation](matrices).info.tolist() == [0, 4, 1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "implementation"), implementations("lu_factor"))
def test_lu_factor(name: str, implementation: str, dtype: str) -> None:
    for n in (0, 1, 2, 7, 40):
        for _, a in batches(n, dtype):
            check(name, implementation, (a,), 10 + 4 * n)
    for shape in ((5, 3), (3, 5), (2, 40, 9), (0, 4), (4, 0)):
        check(name, implementation, (random(*shape, dtype=dtype),), 50)
    singular = np.stack([np.eye(3, dtype=dtype), np.diag([1, 0, 2]).astype(dtype)])
    result = check(name, implementation, (singular,), 10)
    if result is not None:
        assert result.info.tolist() == [0, 2]
        assert result.pivots.dtype == np.int32
        assert result.pivots.tolist() == [[1, 2, 3]] * 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "implementation"), implementations("solve", "inv"))
def test_solutions(name: str, implementation: str, dtype: str) -> None:
    for n in (0, 1, 2, 7, 40):
        for kind, a in batches(n, dtype):
            if kind in ("zero", "rank-deficient", "Hilbert", "batch"):
                continue
            arrays = (a, random(*a.shape[:-1], 3, dtype=dtype)) if name == "solve" else (a,)
            result = check(name, implementation, arrays, 20 + 8 * n)
            if result is not None:
                assert not result.info.any(), kind
    singular = np.stack([np.eye(3, dtype=dtype), np.diag([1, 0, 2]).astype(dtype)])
    arrays = (singular, np.ones((2, 3, 1), dtype)) if name == "solve" else (singular,)
    with contextlib.suppress(Refused):
        assert getattr(linalg, name)[implementation](*arrays).info.tolist() == [0, 2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "implementation"), implementations("qr"))
def test_qr(name: str, implementation: str, dtype: str) -> None:
    for mode in ("reduced", "complete", "r"):
        for _, a in batches(7, dtype):
            check(name, implementation, (a,), 100, mode=mode)
        for shape in ((1, 1), (5, 3), (3, 5), (2, 40, 9), (0, 4), (4, 0)):
            check(name, implementation, (random(*shape, dtype=dtype),), 100, mode=mode)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "implementation"), implementations("eigh"))
def test_eigh(name: str, implementation: str, dtype: str) -> None:
    for n in (0, 1, 2, 7, 33):
        for _, a in batches(n, dtype):
            for options in ({}, {"lower": False}, {"vectors": False}):
                result = check(name, implementation, (a + adjoint(a),), 50 + 10 * n, **options)
                if result is not None:
                    assert not result.info.any()
                    assert (np.diff(result.w) >= 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "implementation"), implementations("svd"))
def test_svd(name: str, implementation: str, dtype: str) -> None:
    shapes = [(7, 7), (1, 1), (9, 4), (4, 9), (2, 33, 20), (0, 3), (3, 0)]
    matrices = [random(*shape, dtype=dtype) for shape in shapes] + [a for _, a in batches(7, dtype)]
    for a in matrices:
        for options in ({}, {"full": True}, {"vectors": False}, {"driver": "gesvd"}):
            result = check(name, implementation, (a,), 300, **options)
            if result is not None:
                assert not result.info.any()
                assert (np.diff(result.S) <= 0).all()
                assert (result.S >= 0).all()


def test_svd_tells_of_matrices_that_gesvd_has_solved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from minitorch_backends.kernels.linalg import lapack

    def routine(name: str, a: np.ndarray, found: Any = lapack._routine) -> Any:
        run = found(name, a)
        return (lambda *args, **options: (*run(*args, **options)[:3], 1)) if name == "gesdd" else run

    a = random(2, 7, 5, dtype="float32")
    assert linalg.svd["lapack"](a).report == {"routine": "gesdd"}
    monkeypatch.setattr(lapack, "_routine", routine)
    result = check("svd", "lapack", (a,), 300)
    assert result.report == {"routine": "gesdd", "solved_again_by_gesvd": 2}
    assert not result.info.any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "implementation"), implementations("eig", "eigh", "svd"))
def test_values_scale_with_a_matrix_of_extreme_entries(name: str, implementation: str, dtype: str) -> None:
    """A power of two times a matrix has that power times its values, however near it is to the ends of the range."""
    kind = np.finfo(dtype)
    a = random(2, 5, 5, dtype=dtype)
    a = a + adjoint(a)
    run, field = getattr(linalg, name)[implementation], {"svd": "S"}.get(name, "w")
    try:
        expected = np.sort(getattr(run(a, vectors=False), field), -1)
    except Refused:
        return
    for exponent in (kind.maxexp - 8, kind.minexp + 8):
        scaled = np.sort(getattr(run(a * kind.dtype.type(2.0**exponent), vectors=False), field), -1)
        back = scaled * kind.dtype.type(2.0**-exponent)
        assert np.allclose(back, expected, rtol=0, atol=200 * kind.eps * abs(expected).max()), exponent
