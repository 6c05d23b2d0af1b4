"""Linear algebra on tensors: every family on hard matrices, what is refused and how, gradients, flags."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.autograd.gradcheck import gradcheck, gradgradcheck
from minitorch_backends.kernels import linalg as kernels
from minitorch_backends.kernels.linalg.choice import LARGE, SMALL, smallest_batch
from minitorch_backends.kernels.linalg.residuals import residuals
from minitorch_backends.kernels.registry import Refused
from minitorch_backends.ops.linalg.cross_check import CrossCheckWarning

from ..support.matrices import adjoint, hard, random

linalg = mt.linalg
LIBRARIES = ("default", "cusolver", "magma")
EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "complex64": 2.0**-23, "complex128": 2.0**-52}


pytestmark = pytest.mark.usefixtures("default_flags")


def size_of(a: Any) -> float:
    return float(np.linalg.norm(np.asarray(a).astype(np.complex128)))


def assert_small(difference: Any, scale: float, dtype: str, factor: float = 60) -> None:
    assert size_of(difference) <= factor * EPS[dtype] * scale, size_of(difference) / EPS[dtype] / max(scale, 1e-300)


every_family = pytest.mark.parametrize("library", LIBRARIES)
every_dtype = pytest.mark.parametrize("dtype", EPS)


# Values


@every_family
@every_dtype
def test_factors_of_hard_matrices(library: str, dtype: str) -> None:
    """The product of the factors is the matrix, within p(n) units of roundoff; a batch as one by one."""
    n = 9
    with backends.cuda.flags(linalg_library=library):
        for kind, a in {**hard(n, dtype), "batch": np.stack(list(hard(n, dtype).values()))}.items():
            A, scale = mt.tensor(a), size_of(a)
            Q, R = linalg.qr(A)
            assert_small(Q.numpy() @ R.numpy() - a, scale, dtype)
            assert_small(adjoint(Q.numpy()) @ Q.numpy() - np.eye(n), n, dtype)
            U, S, Vh = linalg.svd(A)
            assert_small((U.numpy() * S.numpy()[..., None, :]) @ Vh.numpy() - a, scale, dtype)
            w, V = linalg.eigh(A + A.mH)
            assert_small((V.numpy() * w.numpy()[..., None, :]) @ adjoint(V.numpy()) - (a + adjoint(a)), scale, dtype)
            P, L, U = linalg.lu(A)
            assert_small(P.numpy() @ L.numpy() @ U.numpy() - a, scale, dtype)
            positive = A @ A.mH + 0.1 * mt.eye(n).to(A.dtype)
            L = linalg.cholesky(positive).numpy()
            assert_small(L @ adjoint(L) - positive.numpy(), size_of(positive.numpy()), dtype), kind


@every_family
@every_dtype
def test_solutions_are_backward_stable(library: str, dtype: str) -> None:
    n = 9
    with backends.cuda.flags(linalg_library=library):
        for kind in ("random", "graded", "clustered", "Hilbert", "identity"):
            a, b = hard(n, dtype)[kind], random(n, 2, dtype=dtype, seed=5)
            A, B = mt.tensor(a), mt.tensor(b)
            for x in (linalg.solve(A, B).numpy(), linalg.lu_solve(*linalg.lu_factor(A), B).numpy()):
                assert_small(a @ x - b, size_of(a) * size_of(x) + size_of(b), dtype)
            x = linalg.solve(A, B.mT, left=False).numpy()
            assert_small(x @ a - b.T, size_of(a) * size_of(x) + size_of(b), dtype)
            inverse = linalg.inv(A).numpy()
            assert_small(inverse @ a - np.eye(n), size_of(inverse) * size_of(a), dtype)


@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
@every_dtype
def test_least_squares_solutions_meet_the_normal_equations(driver: str | None, dtype: str) -> None:
    a, b = random(2, 12, 5, dtype=dtype), random(2, 12, 3, dtype=dtype)
    found = linalg.lstsq(mt.tensor(a), mt.tensor(b), driver=driver)
    residual = a @ found.solution.numpy() - b
    assert_small(adjoint(a) @ residual, size_of(a) * size_of(b), dtype)
    if driver not in (None, "gelsy"):
        assert_small(found.residuals.numpy() - np.sum(np.abs(residual) ** 2, -2), size_of(b) ** 2, dtype)
    assert found.rank.tolist() == ([] if driver == "gels" else [5, 5])
    assert found.singular_values.shape == ((2, 5) if driver in ("gelsd", "gelss") else (0,))


def test_least_squares_of_a_rank_deficient_matrix_is_the_shortest_solution() -> None:
    a = random(6, 2) @ random(2, 4, seed=1)
    for driver in ("gelsy", "gelsd", "gelss"):
        found = linalg.lstsq(mt.tensor(a), mt.tensor(random(6, 1, seed=2)), driver=driver)
        np.testing.assert_allclose(found.solution.numpy(), np.linalg.pinv(a) @ random(6, 1, seed=2), atol=1e-12)
        assert found.rank.item() == 2


def test_one_matrix_meets_a_batch_of_right_sides_with_one_factorisation() -> None:
    A, B = mt.tensor(random(2, 1, 3, 3)), mt.tensor(random(4, 3, 2))
    with explain.record() as log:
        x, info = linalg.solve_ex(A, B)
    assert [entry.shapes for entry in log] == [((2, 3, 3), (2, 3, 8))]
    assert info.shape == (2, 1)
    np.testing.assert_allclose((A @ x).numpy(), np.broadcast_to(B.numpy(), (2, 4, 3, 2)), atol=1e-13)


def test_ranks_of_matrices_with_and_without_tolerances() -> None:
    values = np.array([1.0, 1e-3, 1e-9, 0.0])
    A = mt.tensor(np.stack([np.diag(values), np.eye(4)]))
    assert linalg.matrix_rank(A).tolist() == [3, 4]
    assert linalg.matrix_rank(A, rtol=1e-6).tolist() == [2, 4]
    assert linalg.matrix_rank(A, atol=1e-2, hermitian=True).tolist() == [1, 4]
    assert linalg.matrix_rank(A, rtol=mt.tensor([1e-6, 2.0], dtype=mt.float64)).tolist() == [2, 0]
    np.testing.assert_allclose(linalg.pinv(A, rtol=1e-2).numpy()[0], np.diag([1.0, 0, 0, 0]))


@every_dtype
def test_exponentials_of_every_size(dtype: str) -> None:
    """Each approximant, and several squarings, against the eigenvectors of Hermitian matrices."""
    a = random(5, 5, dtype=dtype, seed=3)
    a = (a + adjoint(a)) / 10
    for size in (1e-3, 0.1, 1.0, 3.0, 40.0):
        w, V = np.linalg.eigh(a * size)
        wanted = (V * np.exp(w)) @ adjoint(V)
        assert_small(mt.matrix_exp(mt.tensor((a * size).astype(dtype))).numpy() - wanted, size_of(wanted), dtype, 2000)


def test_results_have_torchs_names() -> None:
    A = mt.tensor(random(2, 3, 3))
    names = {
        "eigh": ("eigenvalues", "eigenvectors"), "eig": ("eigenvalues", "eigenvectors"), "svd": ("U", "S", "Vh"),
        "qr": ("Q", "R"), "lu": ("P", "L", "U"), "lu_factor": ("LU", "pivots"), "inv_ex": ("inverse", "info"),
        "lu_factor_ex": ("LU", "pivots", "info"), "cholesky_ex": ("L", "info"), "slogdet": ("sign", "logabsdet"),
        "ldl_factor": ("LD", "pivots"), "ldl_factor_ex": ("LD", "pivots", "info"),
    }  # fmt: skip
    for name, fields in names.items():
        assert getattr(linalg, name)(A @ A.mT)._fields == fields
    assert linalg.lstsq(A, A)._fields == ("solution", "residuals", "rank", "singular_values")
    assert linalg.solve_ex(A, A)._fields == ("result", "info")


def test_out_takes_the_results() -> None:
    A, target = mt.tensor(random(3, 3)), mt.zeros(3, 3, dtype=mt.float64)
    assert linalg.inv(A, out=target) is target
    np.testing.assert_array_equal(target.numpy(), linalg.inv(A).numpy())
    w, V = mt.zeros(3, dtype=mt.float64), mt.zeros(3, 3, dtype=mt.float64)
    found = linalg.eigh(A, out=(w, V))
    assert found.eigenvalues is w
    np.testing.assert_allclose(w.numpy(), linalg.eigvalsh(A).numpy())


# What is refused

SINGULAR = np.stack([np.eye(3), np.diag([1.0, 0, 2])])
INDEFINITE = np.stack([np.eye(3), np.diag([1.0, 2, -3])])
NOT_FINITE = np.array([[1.0, np.nan], [0, 1]])

FAILURES: dict[str, tuple[Callable[..., Any], np.ndarray, str]] = {
    "inv": (linalg.inv, SINGULAR, r"linalg.inv: \(Batch element 1\): The diagonal element 2 is zero"),
    "inverse": (mt.inverse, SINGULAR[1], "linalg.inv: The diagonal element 2 is zero"),
    "solve": (lambda A: linalg.solve(A, A), SINGULAR, r"\(Batch element 1\): The solver failed .*2 of U is zero"),
    "lu_factor": (linalg.lu_factor, SINGULAR, r"\(Batch element 1\): U\[2,2\] is zero"),
    "lu_factor_ex": (lambda A: linalg.lu_factor_ex(A, check_errors=True), SINGULAR, r"lu_factor_ex: \(Batch element 1"),
    "inv_ex": (lambda A: linalg.inv_ex(A, check_errors=True), SINGULAR, "inv_ex"),
    "solve_ex": (lambda A: linalg.solve_ex(A, A, check_errors=True), SINGULAR, "solve_ex"),
    "tensorinv": (lambda A: linalg.tensorinv(A[1], 1), SINGULAR, "singular"),
    "matrix_power": (lambda A: linalg.matrix_power(A, -2), SINGULAR, "singular"),
    "cholesky": (linalg.cholesky, INDEFINITE, r"\(Batch element 1\).*leading minor of order 3"),
    "cholesky_ex": (lambda A: linalg.cholesky_ex(A, check_errors=True), INDEFINITE, "order 3"),
    "ldl_factor": (linalg.ldl_factor, SINGULAR, r"D\[2,2\]"),
    "eigh": (linalg.eigh, NOT_FINITE.T, r"non-finite values: A\[1, 0\] is nan"),
    "eigvalsh": (linalg.eigvalsh, NOT_FINITE.T, "non-finite"),
    "svd": (linalg.svd, NOT_FINITE, "non-finite"),
    "svdvals": (linalg.svdvals, np.full((2, 2), np.inf), "non-finite"),
    "pinv": (linalg.pinv, NOT_FINITE, "non-finite"),
    "cond": (linalg.cond, NOT_FINITE, "non-finite"),
    "nuclear norm": (lambda A: linalg.norm(A, "nuc"), NOT_FINITE, "non-finite"),
}


@pytest.mark.parametrize("name", FAILURES)
@every_family
def test_what_numbers_make_impossible_raises_the_batch_index_and_the_place(name: str, library: str) -> None:
    function, array, message = FAILURES[name]
    before = array.copy()
    with backends.cuda.flags(linalg_library=library), pytest.raises(linalg.LinAlgError, match=message):
        function(mt.tensor(array))
    np.testing.assert_array_equal(array, before)
    assert issubclass(linalg.LinAlgError, RuntimeError)


def test_forms_with_info_raise_nothing() -> None:
    A = mt.tensor(SINGULAR)
    assert linalg.inv_ex(A).info.tolist() == [0, 2]
    assert linalg.solve_ex(A, A).info.tolist() == [0, 2]
    assert linalg.lu_factor_ex(A).info.tolist() == [0, 2]
    assert linalg.cholesky_ex(mt.tensor(INDEFINITE)).info.tolist() == [0, 3]
    assert linalg.cond(A, 1).tolist() == [1, float("inf")]
    assert linalg.slogdet(A).logabsdet.tolist() == [0, -float("inf")]
    assert mt.logdet(mt.tensor(np.diag([1.0, -1]))).isnan().item()


SQUARE = mt.tensor(random(3, 3))
WIDE = mt.tensor(random(3, 4))

REFUSALS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "not square": (lambda: linalg.inv(WIDE), RuntimeError, "3 by 4 matrices"),
    "vector": (lambda: linalg.det(WIDE[0]), RuntimeError, "at least 2 dimensions"),
    "integers": (lambda: linalg.inv(SQUARE.long()), RuntimeError, "int64"),
    "list": (lambda: linalg.solve([1.0], SQUARE), TypeError, "must be a Tensor, not list"),
    "shapes": (lambda: linalg.solve(SQUARE, WIDE.mT), RuntimeError, r"AX = B \(3x3 and 4x3\)"),
    "shapes on the right": (lambda: linalg.solve(SQUARE, WIDE, left=False), RuntimeError, r"XA = B \(3x3 and 3x4\)"),
    "batches": (
        lambda: linalg.solve(SQUARE.expand(2, 3, 3), SQUARE.expand(3, 3, 3)), RuntimeError, r"\[2\] of A and \[3\]",
    ),
    "vector on the left": (lambda: linalg.solve(SQUARE, WIDE[:, 0], left=False), RuntimeError, "left=False"),
    "triangle": (lambda: linalg.solve_triangular(SQUARE, WIDE.mT, upper=True), RuntimeError, "AX = B"),
    "mode": (lambda: linalg.qr(WIDE, "thin"), RuntimeError, "'thin' but expected one of 'reduced'"),
    "UPLO": (lambda: linalg.eigh(SQUARE, "X"), RuntimeError, "'L' or 'U', but got 'X'"),
    "svd driver": (lambda: linalg.svd(WIDE, driver="gesdd"), RuntimeError, "driver='gesdd'"),
    "lstsq driver": (lambda: linalg.lstsq(WIDE, SQUARE, driver="qr"), RuntimeError, "'qr'"),
    "lstsq shapes": (lambda: linalg.lstsq(WIDE, WIDE.mT), RuntimeError, r"\[3, 4\] and \[4, 3\]"),
    "no pivoting": (lambda: linalg.lu_factor(SQUARE, pivot=False), RuntimeError, "pivot=False"),
    "pivots": (lambda: linalg.lu_solve(SQUARE, mt.tensor([1, 2, 3]), SQUARE), RuntimeError, "int32"),
    "pivots out of range": (
        lambda: linalg.lu_solve(SQUARE, mt.tensor([1, 9, 3], dtype=mt.int32), SQUARE), RuntimeError, "between 1 and 3",
    ),
    "ldl pivots without a second": (
        lambda: linalg.ldl_solve(SQUARE, mt.tensor([-1, -1, -3], dtype=mt.int32), SQUARE), RuntimeError,
        "that of row 3 has no second",
    ),
    "lu_unpack pivots": (
        lambda: mt.lu_unpack(SQUARE, mt.tensor([-1, 0, 3], dtype=mt.int32)), RuntimeError,
        "between 1 and 3, got -1",
    ),
    "lu_unpack number of pivots": (
        lambda: mt.lu_unpack(SQUARE, mt.tensor([1, 2], dtype=mt.int32)), RuntimeError, "of shape \\[3\\]",
    ),
    "vector_norm dtype": (
        lambda: linalg.vector_norm(SQUARE, dtype=mt.int64), RuntimeError, "floating or complex",
    ),
    "ldl pivots": (
        lambda: linalg.ldl_solve(SQUARE, mt.tensor([7, 2, 3], dtype=mt.int32), SQUARE), RuntimeError, "between 1 and 3",
    ),
    "order": (lambda: linalg.matrix_norm(SQUARE, 3), RuntimeError, "Order 3 not supported"),
    "order of vectors": (lambda: linalg.vector_norm(SQUARE, "nuc"), RuntimeError, "'nuc'"),
    "one dimension twice": (lambda: linalg.matrix_norm(SQUARE, dim=(1, 1)), RuntimeError, "multiple times"),
    "3-D norm": (lambda: linalg.norm(SQUARE[None], 2), RuntimeError, "1D or 2D"),
    "power": (lambda: linalg.matrix_power(SQUARE, 0.5), TypeError, "must be int, not float"),
    "ind": (lambda: linalg.tensorinv(SQUARE, 0), RuntimeError, "positive integer"),
    "tensorsolve": (lambda: linalg.tensorsolve(SQUARE, WIDE[:2, 0]), RuntimeError, "Expected self"),
    "reflectors": (lambda: linalg.householder_product(WIDE, WIDE[0]), RuntimeError, "Expected input"),
    "eig of NaN": (lambda: linalg.eig(mt.tensor(NOT_FINITE)), RuntimeError, "non-finite"),
    "cross": (lambda: linalg.cross(WIDE, WIDE), RuntimeError, "length 3. Got 4"),
    "vander": (lambda: linalg.vander(WIDE, N=1), RuntimeError, "greater than 1"),
    "precision": (lambda: linalg.inv(SQUARE.float(), precision="half"), ValueError, "'half'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    call, kind, message = REFUSALS[name]
    with pytest.raises(kind, match=message):
        call()


# Gradients


def minors(a: np.ndarray) -> np.ndarray:
    """The cofactors, one by one."""
    n = len(a)
    return np.array([[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(n)]
                     for i in range(n)])  # fmt: skip


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_the_gradient_of_a_determinant_is_exact_at_every_rank(rank: int, dtype: str) -> None:
    a = random(4, rank, dtype=dtype) @ random(rank, 4, dtype=dtype, seed=1)
    A = mt.tensor(a).requires_grad_()
    linalg.det(A).backward(mt.tensor(1.0).to(A.dtype))
    np.testing.assert_allclose(A.grad.numpy(), minors(a).conj(), atol=1e-12)
    assert gradcheck(linalg.det, [A])
    assert gradgradcheck(linalg.det, [A])


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_gradients_of_determinants_that_are_near_zero_in_a_batch(dtype: str) -> None:
    """Only these leave the LU factors of all."""
    a = random(3, 4, 5, 5, dtype=dtype)
    a[0, 1, 2], a[1, 2], a[2, 3, :, 0], a[1, 0, 4] = a[0, 1, 3], 0, 0, a[1, 0, 3] * np.float32(1 + 1e-6)
    A, g = mt.tensor(a).requires_grad_(), random(3, 4, dtype=dtype, seed=1)
    linalg.det(A).backward(mt.tensor(g))
    expected = np.stack([minors(each.astype(complex)) for each in a.reshape(-1, 5, 5)]).reshape(a.shape).conj()
    expected *= g[..., None, None]
    np.testing.assert_allclose(
        A.grad.numpy(), expected, atol=(1e-5 if dtype == "float32" else 1e-13) * abs(expected).max()
    )


def test_gradients_of_factors_whose_rows_go_around() -> None:
    """A permutation of three rows is not its own inverse, as those of two are."""
    matrix = mt.tensor([[0.1, 0.2, 3.0], [4.0, 0.3, 0.5], [0.6, 5.0, 0.7]], dtype=mt.float64, requires_grad=True)
    assert mt.linalg.lu_factor(matrix)[1].tolist() == [2, 3, 3]
    assert mt.autograd.gradcheck(lambda matrix: mt.linalg.lu_factor(matrix)[0], matrix)


def test_third_derivatives_of_a_determinant_at_zero() -> None:
    """det is multilinear in the rows: at 0 its third derivative by three elements of three rows is a sign."""
    A = mt.zeros(3, 3, dtype=mt.float64).requires_grad_()
    found = linalg.det(A)
    for place in ((0, 0), (1, 1), (2, 2)):
        found = mt.autograd.grad(found, [A], create_graph=True)[0][place]
    assert found.item() == pytest.approx(1)


def test_losses_that_depend_on_phases_are_refused() -> None:
    a = mt.tensor(random(3, 3, dtype="complex128")).requires_grad_()
    hermitian = a + a.mH
    losses = {
        "linalg_eigh_backward: The eigenvectors": linalg.eigh(hermitian).eigenvectors.real.sum(),
        "linalg_eig_backward: The eigenvectors": linalg.eig(a).eigenvectors.real.sum(),
        "svd_backward: The singular vectors": linalg.svd(a).U.real.sum(),
    }
    for message, loss in losses.items():
        with pytest.raises(RuntimeError, match=message + r".*up to multiplication by e\^\{i phi\}"):
            loss.backward()
    assert a.grad is None


def test_qr_refuses_gradients_of_what_is_not_unique() -> None:
    a = mt.tensor(random(4, 2)).requires_grad_()
    with pytest.raises(RuntimeError, match="mode='complete' and nrows > ncols"):
        linalg.qr(a, "complete").Q.sum().backward()
    with pytest.raises(RuntimeError, match="mode='r'"):
        linalg.qr(a, "r").R.sum().backward()


def test_what_is_not_read_of_a_hermitian_matrix_need_not_be_finite() -> None:
    A = mt.tensor([[1.0, math.nan], [0.5, 2.0]])
    whole = mt.tensor([[1.0, 0.5], [0.5, 2.0]])
    for function in (linalg.eigvalsh, lambda x: linalg.eigh(x)[0], lambda x: linalg.pinv(x, hermitian=True)):
        np.testing.assert_array_equal(function(A).numpy(), function(whole).numpy())
    with pytest.raises(linalg.LinAlgError, match=r"A\[0, 1\] is nan"):
        linalg.eigvalsh(A, "U")
    with pytest.raises(RuntimeError, match="UPLO argument to be 'L' or 'U', but got 'Q'"):
        linalg.eigvalsh(A, "Q")


def test_empty_matrices_have_a_condition() -> None:
    for p in (None, 2, -2):
        assert linalg.cond(mt.ones(0, 2), p).item() == 0
        assert linalg.cond(mt.ones(3, 0, 2), p).tolist() == [0, 0, 0]


def test_gradients_of_singular_vectors_do_not_square_the_values() -> None:
    found = []
    for scale in (1.0, 2.0**-80):
        A = (mt.tensor([[1.0, 2.0], [3.0, 5.0]]) * scale).requires_grad_()
        U, _, Vh = linalg.svd(A)
        (U[0, 0] ** 2 + Vh[0, 1] ** 2).backward()
        found.append(A.grad * scale)
    np.testing.assert_allclose(found[1].numpy(), found[0].numpy(), rtol=2e-5)


def test_norms_in_another_type() -> None:
    for dtype in (mt.float16, mt.bfloat16):
        assert linalg.vector_norm(mt.ones(3, dtype=dtype), dtype=dtype).dtype is dtype
        assert linalg.norm(mt.ones(3, dtype=dtype), dtype=mt.float32).dtype is mt.float32
        assert linalg.vector_norm(mt.full((4,), 100.0, dtype=dtype), 3, dtype=dtype).item() == pytest.approx(
            158.74, rel=4e-3
        )
    z = mt.tensor([3 + 4.1j, 1 + 1.3j], dtype=mt.complex64, requires_grad=True)
    linalg.vector_norm(z, math.inf, dtype=mt.complex128).backward()
    np.testing.assert_allclose(z.grad.numpy(), [(3 + 4.1j) / abs(3 + 4.1j), 0], rtol=1e-6)


def test_gradients_of_values_hold_where_values_are_repeated() -> None:
    """Sums of all eigenvalues or singular values are smooth where single ones, and vectors, are not."""
    for function in (linalg.eigvalsh, linalg.svdvals):
        A = mt.eye(3, dtype=mt.float64).requires_grad_()
        function(A).sum().backward()
        np.testing.assert_allclose(A.grad.numpy(), np.eye(3), atol=1e-12)


def test_invariants_of_complex_vectors_have_gradients() -> None:
    """Projectors on eigenvectors and products of singular vectors do not depend on phases."""

    def projector(a: Any) -> Any:
        v = linalg.eigh(a + a.mH).eigenvectors[:, :1]
        return v @ v.mH

    def polar(a: Any) -> Any:
        U, _, Vh = linalg.svd(a, full_matrices=False)
        return U @ Vh

    for function, shape in ((projector, (3, 3)), (polar, (4, 2)), (polar, (2, 3))):
        assert gradcheck(function, [mt.tensor(random(*shape, dtype="complex128")).requires_grad_()])


# Flags


def record(compute: Callable[[], Any], **options: Any) -> explain.Log:
    with explain.record(**options) as log:
        compute()
    return log


@every_family
def test_a_trace_shows_family_routine_and_who_decided(library: str) -> None:
    A = mt.tensor(random(5, 8, 8))
    with backends.cuda.flags(linalg_library=library):
        (entry,) = record(lambda: linalg.eigh(A + A.mT))
    options = dict(entry.options)
    assert options["prefer"] == {"magma": "magma"}.get(library, "jacobi")
    assert options["routine"]
    assert entry.decided_by == f"cuda.linalg_library = {library!r}" + (", by size" if library == "default" else "")


def test_the_default_goes_by_size_and_batch() -> None:
    """The kernel for small matrices from its least batch on, LAPACK for fewer, blocked algorithms for large ones."""

    def first_asked(kernel: str, *shape: int) -> str:
        a = mt.tensor(random(*shape))
        calls = {"cholesky": lambda: linalg.cholesky_ex(a), "eigh": lambda: linalg.eigh(a)}
        (entry,) = record(calls[kernel])
        return dict(entry.options)["prefer"]

    for kernel, small in (("cholesky", "batched"), ("eigh", "jacobi")):
        for size in (4, SMALL):
            least = int(smallest_batch(kernel, size))
            assert [first_asked(kernel, batch, size, size) for batch in (least - 1, least)] == ["lapack", small]
        assert [first_asked(kernel, size, size) for size in (SMALL + 1, LARGE - 1, LARGE)] == [
            "lapack",
            "lapack",
            "magma",
        ]


def test_the_driver_of_a_call_goes_before_the_flag() -> None:
    A = mt.tensor(random(40, 30))
    for driver, asked in (("gesvdj", "jacobi"), ("gesvd", "magma")):
        (entry,) = record(lambda driver=driver: linalg.svd(A, driver=driver))
        assert (dict(entry.options)["prefer"], entry.implementation) == (asked, asked)
        assert dict(entry.options)["routine"].startswith(driver)
        assert entry.decided_by == f"driver={driver!r} of the call"


def test_backward_errors_are_shown_if_asked() -> None:
    A = mt.tensor(random(6, 6))
    (entry,) = record(lambda: linalg.qr(A), residuals=True)
    assert {"backward_error", "orthogonality_error"} <= set(dict(entry.options))
    assert 0 < dict(entry.options)["backward_error"] < 50
    (plain,) = record(lambda: linalg.qr(A))
    assert "backward_error" not in dict(plain.options)


def test_why_answers_for_linear_algebra() -> None:
    answer = explain.why("linalg.solve", mt.tensor(random(3, 3)), mt.tensor(random(3, 1)))
    assert answer.kernel == "solve"
    assert answer.implementations[0] == "batched"
    assert answer.decided_by == "cuda.linalg_library = 'default', by size"
    assert explain.why("linalg.eigh", mt.tensor(random(3, 3))).implementations[0] == "lapack"


@pytest.fixture
def wrong_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second implementation of eigh is off by a thousandth, that of lu_factor sees no zero pivot."""

    def wrong(a: Any, **keywords: Any) -> Any:
        found = kernels.eigh["lapack"](a, **keywords)
        return found._replace(w=found.w * 1.001)

    def blind(a: Any, **keywords: Any) -> Any:
        return kernels.lu_factor["lapack"](a, **keywords)._replace(info=np.zeros(a.shape[:-2], np.int32))

    for kernel, run in ((kernels.eigh, wrong), (kernels.lu_factor, blind)):
        kept = dict(kernel.implementations)
        monkeypatch.setattr(kernel, "implementations", {"lapack": kept["lapack"]})
        kernel.impl("wrong")(run)


@pytest.mark.usefixtures("wrong_second")
def test_cross_check_warns_with_the_figures() -> None:
    A = mt.tensor(random(4, 4))
    with backends.flags(cross_check=True):
        with pytest.warns(
            CrossCheckWarning, match=r"eigh of 4x4 float64 by 'lapack' and by 'wrong': the values differ"
        ):
            linalg.eigh(A + A.mT)
        with pytest.warns(CrossCheckWarning, match=r"info is 2 and 0"):
            linalg.lu_factor_ex(mt.tensor(np.diag([1.0, 0, 2])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linalg.eigh(A + A.mT)


def test_cross_check_is_silent_where_families_agree() -> None:
    with warnings.catch_warnings(), backends.flags(cross_check=True):
        warnings.simplefilter("error")
        for dtype in ("float32", "float64"):
            for a in hard(9, dtype).values():
                A = mt.tensor(np.stack([a, a]))
                linalg.eigh(A + A.mT), linalg.svd(A), linalg.qr(A), linalg.lu(A)
                linalg.solve_triangular(A, A, upper=True), linalg.lstsq(A, A, driver="gelsd")
                definite = A @ A.mT + mt.eye(9).to(A.dtype)
                factor = linalg.cholesky(definite)
                mt.cholesky_solve(A, factor), mt.cholesky_inverse(factor), mt.lu_solve(A, *linalg.lu_factor(definite))
        linalg.solve_triangular(mt.zeros(3, 3), mt.ones(3, 1), upper=True)


def systems(dtype: str, sides: int = 3) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """For each kernel of solutions and factors its arguments."""
    a, b = random(2, 9, 9, dtype=dtype) + 9 * np.eye(9, dtype=dtype), random(2, 9, sides, dtype=dtype, seed=1)
    tall, right = random(2, 12, 5, dtype=dtype), random(2, 12, sides, dtype=dtype, seed=2)
    lu, factor = kernels.lu_factor["lapack"](a), kernels.cholesky["lapack"](a @ a.swapaxes(-1, -2)).L
    packed, tau, _ = kernels.geqrf["lapack"](tall)
    return {
        "triangular_solve": ((a, b), {"upper": True, "unitriangular": True}),
        "triangular_solve, transposed": ((a, b), {"transpose": True}),
        "triangular_solve, from the right": ((a, b.swapaxes(-1, -2).copy()), {"left": False}),
        "cholesky_solve": ((factor, b), {}),
        "cholesky_inverse": ((factor,), {}),
        "lu_solve": ((lu.LU, lu.pivots, b), {}),
        "lu_solve, transposed": ((lu.LU, lu.pivots, b), {"transpose": True}),
        "lstsq": ((tall, right), {"rcond": 1e-9, "driver": "gelsd"}),
        "geqrf": ((tall,), {}),
        "householder_product": ((packed, tau), {}),
        "eig": ((a,), {"vectors": False}),
    }


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", sorted(systems("float64")))
def test_every_solution_has_a_residual(case: str, dtype: str) -> None:
    arguments, keywords = systems(dtype)[case]
    name = case.split(",", maxsplit=1)[0]
    result = getattr(kernels, name)["lapack"](*arguments, **keywords)
    (right,) = residuals(name, arguments, keywords, result).values()
    assert right < 50
    several = result if isinstance(result, tuple) else (result,)
    wrong = tuple(each * 1.01 if isinstance(each, np.ndarray) and each.dtype.kind in "fc" else each for each in several)
    (large,) = residuals(name, arguments, keywords, wrong).values()
    assert large > 1000


def test_cross_check_compares_with_another_function_or_says_that_there_is_none() -> None:
    A = mt.tensor(random(4, 4) + 1j * random(4, 4, seed=1))
    with backends.flags(cross_check=True):
        for call in (lambda: linalg.eigh(A + A.mH), lambda: linalg.svd(A), lambda: linalg.eig(A)):
            (entry,) = record(call)
            assert entry.decided_by.endswith("; cross_check finds no second family that takes this")
        first, second = record(lambda: linalg.svd(A.real))
        assert (first.implementation, second.decided_by) == ("jacobi", "cross_check = True")


def test_matrices_of_one_block_have_no_products_of_low_precision() -> None:
    for n, computed in ((64, "ieee"), (65, None)):
        A = mt.tensor(random(n, n, dtype="float32") + n * np.eye(n, dtype="float32"))
        for call in (linalg.inv, lambda A: linalg.solve(A, A)):
            with backends.flags(fp32_precision="bf16"):
                (entry,) = record(lambda call=call, A=A: call(A))
            options = dict(entry.options)
            assert (options.get("computed_at"), "factored_at" in options) == (computed, computed is None)


@pytest.mark.parametrize("precision", ["tf32", "bf16", "bf16x3", "bf16x6"])
def test_refined_solutions_are_as_good_as_ieee(precision: str) -> None:
    n = 100
    a, b = random(n, n, dtype="float32") + 10 * np.eye(n, dtype=np.float32), random(n, 2, dtype="float32", seed=1)
    A, B = mt.tensor(a), mt.tensor(b)
    with backends.flags(fp32_precision=precision):
        (entry,) = record(lambda: linalg.solve(A, B))
        x, inverse = linalg.solve(A, B).numpy(), linalg.inv(A).numpy()
    assert entry.precision == (precision if precision != "bf16" else entry.precision)
    assert entry.decided_by.startswith("fp32_precision")
    assert_small(a.astype(float) @ x - b, size_of(a) * size_of(x) + size_of(b), "float32", 10)
    assert_small(inverse.astype(float) @ a - np.eye(n), size_of(inverse) * size_of(a), "float32", 30)


def test_the_precision_of_a_call_goes_before_the_flags_and_float64_has_none() -> None:
    A, B = mt.tensor(random(20, 20, dtype="float32")), mt.tensor(random(20, 1, dtype="float32"))
    (entry,) = record(lambda: linalg.solve(A, B, precision="bf16x3"))
    assert (entry.precision, entry.decided_by) == ("bf16x3", "precision='bf16x3' of the call")
    (entry,) = record(lambda: linalg.solve(A.double(), B.double(), precision="bf16x3"))
    assert entry.precision == "ieee"


def test_backward_precision_reaches_solutions() -> None:
    A, B = mt.tensor(random(40, 40, dtype="float32")), mt.tensor(random(40, 1, dtype="float32")).requires_grad_()
    for value, expected in (("live", "ieee"), ("recorded", "tf32"), ("bf16x6", "bf16x6")):
        with backends.flags(backward_precision=value):
            with backends.flags(fp32_precision="tf32"):
                loss = linalg.solve(A, B).sum()
            log = record(loss.backward)
        assert [entry.precision for entry in log if entry.kernel in ("solve", "lu_solve")] == [expected]


# NaN


@pytest.mark.parametrize("implementation", ["lapack", "magma", "batched"])
@pytest.mark.parametrize("place", [(0, 0), (1, 1), (2, 0), (3, 3)])
def test_a_pivot_that_is_no_number_spoils_what_depends_on_it(implementation: str, place: tuple[int, int]) -> None:
    a = np.stack([np.eye(4) + 0.1, np.eye(4) + 0.2])
    a[(1, *place)] = np.nan
    b = np.ones((2, 4, 1))
    for kernel, arrays in ((kernels.solve, (a, b)), (kernels.inv, (a,))):
        if implementation not in kernel.implementations:
            continue
        try:
            found = kernel[implementation](*arrays)
        except Refused:
            continue
        assert np.isfinite(found[0][0]).all()
        assert np.isnan(found[0][1]).all()
        assert not found.info.any()


def test_lu_of_a_pivot_that_is_no_number() -> None:
    _, L, U = mt.linalg.lu(mt.tensor([[math.nan, 1.0], [1.0, 1.0]]))
    assert (L[1, 0].isnan(), U[1, 1].isnan()) == (True, True)
    assert mt.linalg.solve(mt.tensor([[math.nan, 1.0], [1.0, 1.0]]), mt.ones(2)).isnan().all()
    with pytest.raises(RuntimeError, match="singular"):
        mt.linalg.inv(mt.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, math.nan, 1.0]]).T.contiguous() * 0)


@pytest.mark.parametrize("UPLO", ["L", "U"])
@pytest.mark.parametrize("dtype", [mt.float64, mt.complex128])
def test_gradients_of_eigenvectors_stay_hermitian(UPLO: str, dtype: mt.dtype) -> None:
    mt.manual_seed(0)
    A = mt.randn(4, 4, dtype=dtype)
    A = ((A + A.mH) / 2).requires_grad_()
    _, V = mt.linalg.eigh(A, UPLO)
    (V.abs() ** 2 * mt.arange(16.0, dtype=mt.float64).reshape(4, 4)).sum().backward()
    assert np.abs(A.grad.numpy() - A.grad.mH.numpy()).max() < 1e-12 * np.abs(A.grad.numpy()).max()


@pytest.mark.parametrize("size", [2, 100])
@pytest.mark.parametrize(
    ("first", "second"), [("float64", "float32"), ("float32", "float64"), ("complex64", "float32")]
)
def test_systems_of_two_types_are_refused(first: str, second: str, size: int) -> None:
    """Loops for small matrices took the bytes of one for those of the other."""
    A, B = mt.eye(size, dtype=getattr(mt, first)) * 3, mt.ones(size, 1, dtype=getattr(mt, second))
    pivots = mt.arange(1, size + 1, dtype=mt.int32)
    for call in (
        lambda: mt.linalg.solve(A, B), lambda: mt.linalg.solve(A, B.mT, left=False), lambda: mt.linalg.solve_ex(A, B),
        lambda: mt.linalg.solve_triangular(A, B, upper=True), lambda: mt.cholesky_solve(B, A),
        lambda: mt.linalg.lu_solve(A, pivots, B), lambda: mt.linalg.ldl_solve(A, pivots, B),
        lambda: mt.linalg.tensorsolve(A, B[:, 0]), lambda: mt.linalg.lstsq(A, B),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="Expected A and B to have the same dtype"):
            call()


def test_types_in_which_norms_are_computed() -> None:
    real, imaginary = mt.ones(2, 2), mt.full((2, 2), 1j)
    assert mt.linalg.matrix_norm(real, dtype=mt.float64).dtype is mt.float64
    for x, dtype, sentence in (
        (imaginary, mt.float32, "complex for complex"), (real, mt.complex64, "real for real"),
        (real.double(), mt.float32, "without narrowing"), (real, mt.int64, "floating or complex"),
    ):  # fmt: skip
        for norm in (mt.linalg.matrix_norm, mt.linalg.vector_norm, mt.linalg.norm):
            with pytest.raises(RuntimeError, match=sentence):
                norm(x, dtype=dtype)
    with pytest.raises(RuntimeError, match="length 1 or 2"):
        mt.linalg.norm(real, 2, ())


def test_conditions_of_singular_matrices_by_the_nuclear_norm() -> None:
    A = mt.tensor([[[1.0, 0.0], [0.0, 0.0]], [[2.0, 0.0], [0.0, 1.0]]])
    assert mt.linalg.cond(A, "nuc").tolist() == [math.inf, pytest.approx(4.5)]


def test_signs_of_infinite_determinants() -> None:
    sign, logarithm = mt.linalg.slogdet(mt.tensor([[math.inf, 0.0], [0.0, -2.0]]))
    assert (sign.item(), logarithm.item()) == (-1.0, math.inf)
    assert mt.logdet(mt.tensor([[math.inf, 0.0], [0.0, 2.0]])).item() == math.inf


def test_tolerances_of_pseudo_inverses_and_ranks() -> None:
    A = mt.tensor([[3.0, 0.0], [0.0, 1.0]], requires_grad=True)
    inverses = mt.linalg.pinv(A, atol=mt.tensor([2.0, 0.5]))
    assert inverses[:, 1, 1].tolist() == [0.0, 1.0]
    inverses.sum().backward()
    assert A.grad.shape == A.shape
    assert mt.linalg.pinv(A, 0.5)[1, 1].item() == mt.linalg.pinv(A, 0.5, True)[1, 1].item() == 0.0
    assert mt.linalg.matrix_rank(A, 2.0, True).item() == 1


@pytest.mark.parametrize("exponent", [-1, -2, -3])
def test_negative_powers(exponent: int) -> None:
    A = mt.tensor([[2.0, 1.0], [0.5, 3.0]], dtype=mt.float64, requires_grad=True)
    np.testing.assert_allclose(linalg.matrix_power(A, exponent).tolist(), np.linalg.matrix_power(A.tolist(), exponent))
    assert mt.autograd.gradcheck(lambda A: linalg.matrix_power(A, exponent), (A,))
    assert mt.autograd.gradgradcheck(lambda A: linalg.matrix_power(A, exponent), (A,))


def test_powers_of_integers() -> None:
    A = mt.tensor([[1, 2], [3, 4]])
    assert mt.linalg.matrix_power(A, 3).tolist() == [[37, 54], [81, 118]]
    with pytest.raises(RuntimeError, match="expected a floating point or complex tensor"):
        mt.linalg.matrix_power(A, -1)


# Gradients where values are equal


def orthonormal(rows: int, columns: int, seed: int) -> mt.Tensor:
    """Orthonormal columns."""
    return mt.tensor(np.linalg.qr(random(rows, columns, seed=seed))[0])


@pytest.mark.parametrize("values", [[1.0, 1, 2, 3], [2.0, 2, 2, 2], [5.0, 5, 3, 3]], ids=str)
@pytest.mark.parametrize("shape", [(4, 4), (6, 4), (4, 6)], ids=str)
def test_gradients_through_equal_singular_values(values: list[float], shape: tuple[int, int]) -> None:
    """Losses that do not depend on the rotation of vectors of equal values: A, A A^T A, and the norm."""
    A = ((orthonormal(shape[0], 4, 0) * mt.tensor(values)) @ orthonormal(shape[1], 4, 1).T).requires_grad_()
    C, a = mt.tensor(random(*shape, seed=2)), A.detach()
    U, S, Vh = linalg.svd(A, full_matrices=False)
    wanted = {
        (((U * S) @ Vh) * C).sum(): C,
        (((U * S**3) @ Vh) * C).sum(): C @ a.T @ a + a @ C.T @ a + a @ a.T @ C,
        linalg.norm((U * S) @ Vh): a / linalg.norm(a),
        S.sum(): (U @ Vh).detach(),
    }
    for loss, exact in wanted.items():
        (g,) = mt.autograd.grad(loss, A, retain_graph=True)
        np.testing.assert_allclose(g.numpy(), exact.numpy(), atol=1e-6)


@pytest.mark.parametrize("values", [[1.0, 1, 2, 3], [2.0, 2, 2, 2], [0.0, 0, 1, 2], [-1.0, -1, 0, 0]], ids=str)
def test_gradients_through_equal_eigenvalues(values: list[float]) -> None:
    """The functions A and exp(A), whose derivative is a divided difference (Daleckii and Krein, 1965)."""
    V, w = orthonormal(4, 4, 0).numpy(), np.array(values)
    A = mt.tensor((V * w) @ V.T).requires_grad_()
    C = random(4, 4, seed=2)
    C += C.T
    gaps, powers = w[:, None] - w, np.exp(w)
    ratios = np.where(gaps == 0, powers, (powers[:, None] - powers) / np.where(gaps == 0, 1, gaps))
    found, vectors = linalg.eigh(A)
    for function, exact in ((lambda w: w, C), (lambda w: w.exp(), V @ (ratios * (V.T @ C @ V)) @ V.T)):
        loss = (((vectors * function(found)) @ vectors.T) * mt.tensor(C)).sum()
        (g,) = mt.autograd.grad(loss, A, retain_graph=True)
        np.testing.assert_allclose(g.numpy(), exact, atol=1e-6)


def test_gradients_that_depend_on_how_equal_values_are_turned_are_not_finite_by_chance() -> None:
    """One vector of several, and two products together, whose limits cannot be told apart."""
    A = mt.eye(3, dtype=mt.float64).requires_grad_()
    U, S, Vh = linalg.svd(A)
    loss = U[:, 0].sum() + Vh[1].sum()
    assert not mt.autograd.grad(loss, A, retain_graph=True)[0].isfinite().all()
    first, second = (mt.tensor(random(3, 3, seed=seed)) for seed in (0, 1))
    loss = (((U * S) @ Vh) * first).sum() + ((U @ Vh) * second).sum()
    assert mt.autograd.grad(loss, A)[0].isnan().any()
    singular = mt.diag(mt.tensor([1.0, 0, 0], dtype=mt.float64)).requires_grad_()
    U, S, Vh = linalg.svd(singular)
    assert mt.autograd.grad(((U * S) @ Vh).sum(), singular)[0].isnan().any()


@pytest.mark.parametrize("precision", ["ieee", "tf32", "fp16", "bf16x3"])
def test_exponentials_at_every_precision_stay_in_its_range(precision: str) -> None:
    """Squared matrices leave the range of fp16, as do the coefficients of the approximants."""
    from scipy.linalg import expm

    a = np.array([[3.0, 9.0, 0.5], [-2.0, 11.0, 1.0], [0.0, 0.0, 12.0]])
    with backends.flags(fp32_precision=precision):
        found = mt.linalg.matrix_exp(mt.tensor(np.stack([a, a / 16]).astype(np.float32))).numpy()
    for each, wanted in zip(found, (expm(a), expm(a / 16)), strict=True):
        assert np.abs(each - wanted).max() <= 0.02 * np.abs(wanted).max()
        assert not each[2, :2].any()


@pytest.mark.parametrize("name", ["int8x4", "int8mod8"])
def test_solvers_on_emulated_float64_are_refined_to_it(name: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (mt.from_numpy(rng.standard_normal(shape)) for shape in ((150, 150), (150, 2)))
    exact = {"solve": mt.linalg.solve(a, b), "inv": mt.linalg.inv(a) @ b}
    for refine in (True, False):
        with backends.flags(fp64_precision=name), explain.record() as log:
            found = {"solve": mt.linalg.solve(a, b, refine=refine), "inv": mt.linalg.inv(a, refine=refine)}
        found["inv"] = found["inv"] @ b
        errors = {key: ((found[key] - exact[key]).norm() / exact[key].norm()).item() for key in exact}
        assert all(error < 1e-11 if refine else error > 1e-9 for error in errors.values()), errors
        assert all(dict(each.options)["factored_at"] == name for each in log) if refine else True


def test_einsum_takes_emulated_float64() -> None:
    rng = np.random.default_rng(0)
    factors = [mt.from_numpy(rng.standard_normal((20, 20))) for _ in range(3)]
    exact = mt.einsum("ab,bc,cd->ad", *factors)
    with backends.flags(fp64_precision="int8x3"), explain.record() as log:
        found = mt.einsum("ab,bc,cd->ad", *factors)
    assert {each.implementation for each in log} == {"emulated"}
    assert 1e-9 < ((found - exact).norm() / exact.norm()).item() < 1e-4
