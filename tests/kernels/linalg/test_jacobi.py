"""Jacobi's method by blocks: accuracy on easy and hard matrices, small singular values, ends and reports."""

from typing import Any

import numpy as np
import pytest

from minitorch_backends.kernels import linalg
from minitorch_backends.kernels.linalg import block_jacobi
from minitorch_backends.kernels.linalg.residuals import residuals
from minitorch_backends.kernels.runtime import threading

from .test_small import DTYPES, hard, orthogonal, random

SIZES = (33, 40, 100)


def errors(name: str, a: np.ndarray, result: Any, units: float, **keywords: Any) -> None:
    assert not np.any(result.info)
    for measure, error in residuals(name, (a,), keywords, result).items():
        assert error <= units, f"{name} of {a.shape}: {measure} {error:.3g} units"


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh(dtype: str) -> None:
    for n in SIZES:
        for kind in hard(n, n):
            a = np.tril(kind / max(np.abs(kind).max(), 1e-30)).astype(dtype)
            result = linalg.eigh["jacobi"](a)
            errors("eigh", a, result, 16 + n)
            assert np.all(np.diff(result.w) >= 0)
            assert result.report["routine"] == "syevj"
            assert 1 <= result.report["sweeps"] <= 25


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("full", [False, True])
def test_svd(dtype: str, full: bool) -> None:
    for m, n in ((33, 33), (35, 40), (66, 66), (7, 33), (70, 30), (129, 50)):
        for kind in hard(m, n):
            a = kind.astype(dtype)
            result = linalg.svd["jacobi"](a, full=full)
            errors("svd", a, result, 16 + max(m, n), full=full)
            assert np.all(np.diff(result.S) <= 0)
            without = linalg.svd["jacobi"](a, vectors=False)
            assert without.U is without.Vh is None
            roundoff = max(m, n) * float(np.finfo(dtype).eps) * float(result.S[0])
            np.testing.assert_allclose(without.S, result.S, atol=roundoff, rtol=0)


def test_eigenvalues_without_vectors_are_the_same() -> None:
    a = random(50, 50)
    for lower in (True, False):
        both = linalg.eigh["jacobi"](a, lower=lower)
        assert np.array_equal(both.w, linalg.eigh["jacobi"](a, lower=lower, vectors=False).w)
        np.testing.assert_allclose(both.w, np.linalg.eigvalsh(a, "L" if lower else "U"), atol=1e-12)


def test_small_singular_values_are_accurate() -> None:
    """Columns of very different lengths: relative accuracy, where bidiagonalisation has that of the largest only."""
    lengths = 10.0 ** -np.linspace(0, 14, 48)
    np.testing.assert_allclose(linalg.svd["jacobi"](orthogonal(48, 1) * lengths).S, lengths, rtol=1e-12)


def test_batches_and_threads() -> None:
    a = random(2, 2, 40, 36)
    together = linalg.svd["jacobi"](a)
    assert [x.shape for x in together[:4]] == [(2, 2, 40, 36), (2, 2, 36), (2, 2, 36, 36), (2, 2)]
    threads = threading.get_num_threads()
    try:
        threading.set_num_threads(1)
        alone = linalg.svd["jacobi"](a[1, 0])
    finally:
        threading.set_num_threads(threads)
    np.testing.assert_allclose(alone.S, together.S[1, 0], rtol=1e-13)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_input_ends_and_shows(value: float) -> None:
    a = random(2, 40, 40)
    a[1, 7, 3] = value
    for name in ("eigh", "svd"):
        result = getattr(linalg, name)["jacobi"](a)
        assert list(result.info) == [0, 40]
        values = result.w if name == "eigh" else result.S
        assert np.isnan(values[1]).all()
        assert np.isfinite(values[0]).all()


def test_what_does_not_converge_says_so() -> None:
    for name in ("eigh", "svd"):
        result = getattr(linalg, name)["jacobi"](random(40, 40), most_sweeps=1)
        assert result.info == 40
        assert result.report["sweeps"] == 1


@pytest.mark.parametrize("blocks", [2, 4, 6, 10])
def test_every_block_meets_every_other_once(blocks: int) -> None:
    order, step = block_jacobi._rounds(blocks)
    seats, met = np.arange(blocks)[order], []
    for _ in range(blocks - 1):
        met += [frozenset(pair) for pair in seats.reshape(-1, 2).tolist()]
        seats = seats[step]
    assert len(set(met)) == len(met) == blocks * (blocks - 1) // 2
    assert np.array_equal(seats, np.arange(blocks)[order])
