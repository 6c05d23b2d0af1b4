"""The kernels for many small matrices: accuracy at every size, LAPACK's info and pivots, bits that depend on nothing
but the matrix, and inputs that no iteration may hang on."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitorch_backends.kernels import linalg
from minitorch_backends.kernels.linalg.residuals import residuals
from minitorch_backends.kernels.registry import Refused
from minitorch_backends.kernels.runtime import threading

DTYPES = ("float32", "float64")
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32)
FAMILY = {"eigh": "jacobi", "svd": "jacobi"}
SYMMETRIC = ("cholesky", "eigh")
NAMES = ("cholesky", "lu_factor", "solve", "inv", "qr", "eigh", "svd")


def run(name: str, *arrays: np.ndarray, **keywords: Any) -> Any:
    return getattr(linalg, name)[FAMILY.get(name, "batched")](*arrays, **keywords)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def orthogonal(n: int, seed: int) -> np.ndarray:
    return np.linalg.qr(random(n, n, seed=seed))[0]


def hard(m: int, n: int) -> np.ndarray:
    """A batch of the kinds of matrices that break naive methods."""
    k, rows, columns = min(m, n), np.arange(m)[:, None], np.arange(n)
    U, V = orthogonal(m, 1)[:, :k], orthogonal(n, 2)[:, :k]
    order = np.arange(k)
    with_values = [1 + 1e-6 * (order % 3), np.where(order < k // 2, 1.0, 0.0), np.where(order < 1, 1.0, 1e-9)]
    return np.stack(
        [
            random(m, n),
            random(m, n) * 10.0 ** (-rows / 3),
            random(m, n) * 10.0 ** (-columns / 3),
            *[(U * values) @ V.T for values in with_values],
            1.0 / (1 + rows + columns),
            np.eye(m, n),
            np.zeros((m, n)),
            np.ones((m, n)),
            np.triu(random(m, n)),
            1e-30 * random(m, n),
            1e30 * random(m, n),
        ]
    )


def arguments(name: str, a: np.ndarray, dtype: str) -> tuple[np.ndarray, ...]:
    """The operands of a task, from square matrices: symmetric, definite, with a right side."""
    if name == "cholesky":
        size = np.abs(a).max(axis=(-1, -2), keepdims=True) + (a == 0).all(axis=(-1, -2), keepdims=True)
        a = (a / size) @ (a / size).swapaxes(-1, -2) + 0.1 * np.eye(a.shape[-1])
    elif name == "eigh":
        a = a + a.swapaxes(-1, -2)
    a = a.astype(dtype)
    return (a, random(*a.shape[:-1], 3).astype(dtype)) if name == "solve" else (a,)


def check(name: str, arrays: tuple[np.ndarray, ...], units: float, **keywords: Any) -> None:
    """Backward errors of each matrix of the batch by itself, so that no large one hides another."""
    result = run(name, *arrays, **keywords)
    for index in range(len(arrays[0])):
        of_one = tuple(x if x is None or isinstance(x, dict) else x[index] for x in result)
        for measure, error in residuals(name, tuple(x[index] for x in arrays), keywords, of_one).items():
            assert error <= units, f"{name} {keywords}, {arrays[0].shape}, matrix {index}: {measure} {error:.3g}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["cholesky", "lu_factor", "eigh"])
def test_square_matrices(name: str, dtype: str) -> None:
    for n in SIZES:
        check(name, arguments(name, hard(n, n), dtype), 8 + 3 * n)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["solve", "inv"])
def test_regular_matrices(name: str, dtype: str) -> None:
    for n in SIZES:
        a = np.stack([random(n, n, seed=seed) + np.eye(n) for seed in range(5)] + [orthogonal(n, 3), np.eye(n)])
        check(name, arguments(name, a, dtype), 8 + 3 * n)


def test_inverse_is_right_from_both_sides() -> None:
    a = random(9, 12, 12) + 4 * np.eye(12)
    inverse = run("inv", a).inverse
    assert np.allclose(inverse @ a, np.eye(12), atol=1e-12)
    assert np.allclose(a @ inverse, np.eye(12), atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_qr(dtype: str) -> None:
    for m in SIZES:
        for n in (1, m, 6):
            for mode in ("reduced", "complete"):
                check("qr", (hard(m, n).astype(dtype),), 10 + 2 * max(m, n), mode=mode)
            a = random(3, m, n).astype(dtype)
            assert np.array_equal(run("qr", a, mode="r").R, run("qr", a).R)
            ours, lapack = run("geqrf", a), linalg.geqrf["lapack"](a)
            roundoff = 100 * max(m, n) * np.finfo(dtype).eps
            np.testing.assert_allclose(ours.a, lapack.a, atol=roundoff, rtol=roundoff)
            np.testing.assert_allclose(ours.tau, lapack.tau, atol=roundoff, rtol=roundoff)


@pytest.mark.parametrize("dtype", DTYPES)
def test_svd(dtype: str) -> None:
    for m in SIZES:
        for n in (1, m, 6):
            a = hard(m, n).astype(dtype)
            for full in (False, True):
                check("svd", (a,), 16 + 4 * max(m, n), full=full)
            with_vectors, without = run("svd", a), run("svd", a, vectors=False)
            assert without.U is without.Vh is None
            assert np.array_equal(with_vectors.S, without.S)
            assert not with_vectors.info.any()
            assert np.all(np.diff(with_vectors.S, axis=-1) <= 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh_reads_one_triangle(dtype: str) -> None:
    for n in (2, 5, 16, 19):
        a = random(6, n, n).astype(dtype)
        for lower in (True, False):
            triangle = np.tril if lower else np.triu
            once, again = run("eigh", a, lower=lower), run("eigh", triangle(a), lower=lower)
            assert np.array_equal(once.V, again.V)
            assert np.array_equal(once.w, run("eigh", a, lower=lower, vectors=False).w)
            assert np.all(np.diff(once.w, axis=-1) >= 0)
            check("eigh", (a,), 8 + 3 * n, lower=lower)


def test_jacobi_finds_small_singular_values_accurately() -> None:
    """Columns of very different lengths: relative accuracy, where bidiagonalisation has that of the largest only."""
    lengths = 10.0 ** -np.arange(0, 16, 2.0)
    a = orthogonal(8, 1) * lengths
    singular = run("svd", a[None]).S[0]
    np.testing.assert_allclose(singular, lengths, rtol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangular_solve(dtype: str) -> None:
    for order, others in ((1, 3), (4, 1), (7, 5), (16, 9), (32, 2)):
        a = (random(19, order, order) / (2 * order) + np.eye(order)).astype(dtype)
        for number in range(16):
            upper, left, unitriangular, transpose = (bool(number >> bit & 1) for bit in range(4))
            b = random(19, *((order, others) if left else (others, order))).astype(dtype)
            x = linalg.triangular_solve["batched"](
                a, b, upper=upper, left=left, unitriangular=unitriangular, transpose=transpose
            )  # fmt: skip
            factor = np.triu(a) if upper else np.tril(a)
            if unitriangular:
                factor = factor - np.diagflat(np.zeros(order)) + (np.eye(order) - np.eye(order) * a)
            factor = (factor.swapaxes(-1, -2) if transpose else factor).astype("f8")
            error = (factor @ x if left else x @ factor) - b
            assert np.abs(error).max() <= (8 + order) * np.finfo(dtype).eps * np.abs(x).max()


@pytest.mark.parametrize("dtype", DTYPES)
def test_pivots_and_info_are_those_of_lapack(dtype: str) -> None:
    for m, n in ((1, 1), (3, 3), (8, 8), (5, 9), (9, 5), (32, 32), (1, 7), (7, 1)):
        a = random(37, m, n).astype(dtype)
        a[1], a[2, :, min(m, n) // 2], a[3] = 0, 0, np.triu(a[3], 1)
        a[4, :, 0] = np.sign(a[4, :, 0])  # ties: the first of equal ones is the pivot
        ours, lapack = run("lu_factor", a), linalg.lu_factor["lapack"](a)
        assert np.array_equal(ours.info, lapack.info)
        assert np.array_equal(ours.pivots, lapack.pivots)
        if m == n:
            for name in ("inv", "solve"):
                arrays = (a, np.ones((37, n, 1), dtype))[: 1 + (name == "solve")]
                assert np.array_equal(run(name, *arrays).info != 0, lapack.info != 0)
            definite = a @ a.swapaxes(-1, -2) + 1e-2 * np.eye(n, dtype=dtype)
            definite[5, n // 2, n // 2] = -1
            definite[6] = 0
            ours_c, lapack_c = run("cholesky", definite), linalg.cholesky["lapack"](definite)
            assert np.array_equal(ours_c.info, lapack_c.info)
            assert ours_c.info[5] == n // 2 + 1
            assert ours_c.info[6] == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_solutions_from_factors(dtype: str) -> None:
    for n, k in ((1, 1), (5, 2), (8, 8), (17, 3), (32, 1)):
        a, b = (random(21, n, n) + 2 * np.eye(n)).astype(dtype), random(21, n, k).astype(dtype)
        factors, units = run("lu_factor", a), (8 + 3 * n) * float(np.finfo(dtype).eps) / 2
        assert np.array_equal(run("lu_solve", factors.LU, factors.pivots, b), run("solve", a, b).x)
        for matrix, x in (
            (a, run("lu_solve", factors.LU, factors.pivots, b)),
            (a.swapaxes(-1, -2), run("lu_solve", factors.LU, factors.pivots, b, transpose=True)),
        ):
            scale = np.linalg.norm(matrix, axis=(1, 2)) * np.linalg.norm(x, axis=(1, 2))
            residual = matrix.astype("f8") @ x - b
            assert np.all(np.linalg.norm(residual, axis=(1, 2)) <= units * (scale + np.linalg.norm(b, axis=(1, 2))))
        definite = (a @ a.swapaxes(-1, -2)).astype(dtype)
        L = run("cholesky", definite).L
        x, inverse = run("cholesky_solve", L, b), run("cholesky_inverse", L)
        assert np.array_equal(inverse, inverse.swapaxes(-1, -2))
        scale = np.linalg.norm(definite, axis=(1, 2)) * np.linalg.norm(x, axis=(1, 2))
        assert np.all(np.linalg.norm(definite.astype("f8") @ x - b, axis=(1, 2)) <= 2 * units * scale)
        errors = np.linalg.norm(definite.astype("f8") @ inverse - np.eye(n), axis=(1, 2))
        assert np.all(errors <= 2 * n * units * np.linalg.cond(definite.astype("f8")))


def test_pivots_out_of_range_do_no_harm() -> None:
    packed, b = np.stack([np.eye(4)] * 3), np.ones((3, 4, 1))
    for wrong in (-(2**31), -1, 0, 5, 2**31 - 1):
        x = run("lu_solve", packed, np.full((3, 4), wrong, np.int32), b)
        assert np.array_equal(x, b)


def results(value: Any) -> list[np.ndarray]:
    values = value if isinstance(value, tuple) else (value,)
    return [x for x in values if x is not None and not isinstance(x, dict)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_bits_depend_on_the_matrix_alone(name: str, dtype: str) -> None:
    """Wherever it stands in a batch, whatever stands beside it, for every number of threads."""
    threads = threading.get_num_threads()
    for n in (3, 8, 13):
        arrays = arguments(name, np.concatenate([hard(n, n), random(57, n, n)]), dtype)
        together = results(run(name, *arrays))
        order = np.random.default_rng(n).permutation(len(arrays[0]))
        moved = results(run(name, *(x[order] for x in arrays)))
        alone = [results(run(name, *(x[i : i + 1] for x in arrays))) for i in range(0, len(order), 9)]
        try:
            threading.set_num_threads(1)
            serial = results(run(name, *arrays))
        finally:
            threading.set_num_threads(threads)
        for index, whole in enumerate(together):
            assert whole[order].tobytes() == moved[index].tobytes()
            assert whole.tobytes() == serial[index].tobytes()
            for one, i in zip(alone, range(0, len(order), 9), strict=True):
                assert one[index].tobytes() == whole[i : i + 1].tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_non_finite_input_ends_and_shows(name: str, dtype: str, value: float) -> None:
    """The call ends, info or NaN or Inf report the failure, and neighbouring matrices are unaffected."""
    for n in (2, 9):
        arrays = arguments(name, random(20, n, n), dtype)
        clean = results(run(name, *arrays))
        for place in ((0, 0), (n - 1, 0), (n - 1, n - 1)):
            bad = arrays[0].copy()
            bad[7][place] = value
            outcome = run(name, bad, *arrays[1:])
            parts = results(outcome)
            info = getattr(outcome, "info", np.zeros(20))
            values = parts[:-1] if hasattr(outcome, "info") else parts
            if name != "inv" or np.isnan(value):  # 1 / Inf is 0
                assert info[7] != 0 or any(not np.isfinite(x[7]).all() for x in values), place
            for before, after in zip(clean, parts, strict=True):
                assert np.delete(before, 7, 0).tobytes() == np.delete(after, 7, 0).tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_arguments_of_any_strides_are_left_alone(name: str) -> None:
    for layout in (lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2), lambda x: np.repeat(x, 2, axis=0)[::2]):
        arrays = arguments(name, random(5, 6, 6), "float64")
        strided: list[np.ndarray] = [layout(x) for x in arrays]
        copies = [x.copy() for x in strided]
        for one, other in zip(results(run(name, *strided)), results(run(name, *arrays)), strict=True):
            assert np.array_equal(one, other)
        assert all(np.array_equal(one, other) for one, other in zip(strided, copies, strict=True))


def test_leading_dimensions_stay() -> None:
    a = random(2, 3, 4, 5, 5)
    result = run("svd", a)
    assert [x.shape for x in results(result)] == [(2, 3, 4, 5, 5), (2, 3, 4, 5), (2, 3, 4, 5, 5), (2, 3, 4)]
    assert run("eigh", a[0, 0, 0]).w.shape == (5,)
    assert run("lu_factor", a).pivots.shape == (2, 3, 4, 5)
    assert run("cholesky", np.eye(5)).info.shape == ()


def test_sweeps_are_reported() -> None:
    assert run("eigh", np.eye(6)[None]).report["sweeps"] == 0
    assert 2 <= run("eigh", random(4, 6, 6)).report["sweeps"] <= 12
    assert 2 <= run("svd", random(4, 6, 6)).report["sweeps"] <= 15


REFUSED: list[tuple[str, Callable[[], tuple], dict, str]] = [
    ("cholesky", lambda: (np.eye(33),), {}, "at most 32 x 32, not of size 33"),
    ("inv", lambda: (np.eye(3, dtype=complex),), {}, "compiled for float32 and float64, not complex128"),
    ("solve", lambda: (np.eye(3, dtype="f4"), np.ones((3, 1), "f4")), {"precision": "tf32"}, "no products at tf32"),
    ("qr", lambda: (np.ones((0, 4, 4)),), {}, "nothing to do"),
    ("svd", lambda: (np.eye(3),), {"driver": "gesvd"}, "is not a QR iteration"),
]


@pytest.mark.parametrize(("name", "arrays", "keywords", "sentence"), REFUSED)
def test_refusals_say_why(name: str, arrays: Callable[[], tuple], keywords: dict, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        run(name, *arrays(), **keywords)
