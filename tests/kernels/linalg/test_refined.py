"""Solutions at reduced precision are refined to float32's accuracy, or done again."""

import numpy as np
import pytest

from minitorch_backends.kernels import linalg, registry
from minitorch_backends.kernels.linalg.refine import refine_solution

from ...support.matrices import random, with_values

PRECISIONS = ("tf32", "bf16", "bf16x3", "bf16x6")
ROUNDOFF = 2.0**-24


def or_skip(name: str, *arrays: np.ndarray, **keywords):
    try:
        return getattr(linalg, name)["magma"](*arrays, **keywords)
    except registry.Refused as refused:
        pytest.skip(str(refused))


def worst(x: np.ndarray, exact: np.ndarray) -> float:
    return float(np.abs(x - exact).max() / np.abs(exact).max())


@pytest.mark.parametrize("precision", PRECISIONS)
def test_solutions(precision: str) -> None:
    n = 160
    a, b = random(n, n, dtype="float32") / 10 + np.eye(n, dtype=np.float32) * 3, random(n, 2, dtype="float32")
    exact = np.linalg.solve(a.astype(float), b)
    raw = or_skip("solve", a, b, precision=precision, refine=False)
    found = or_skip("solve", a, b, precision=precision)
    assert (found.report["factored_at"], found.report["solved_again_in_ieee"]) == (precision, 0)
    assert found.report["backward_error"] <= n**0.5 * ROUNDOFF
    wanted = worst(linalg.solve["magma"](a, b).x, exact)
    assert worst(found.x, exact) <= 10 * wanted
    if precision in ("tf32", "bf16"):
        assert worst(raw.x, exact) > 10 * wanted
        assert found.report["refinements"] > 0


@pytest.mark.parametrize("precision", PRECISIONS)
def test_inverses(precision: str) -> None:
    n = 160
    a = random(2, n, n, dtype="float32") / 10 + np.eye(n, dtype=np.float32) * 3
    found = or_skip("inv", a, precision=precision)
    raw = or_skip("inv", a, precision=precision, refine=False)
    exact = np.linalg.inv(a.astype(float))
    wanted = worst(linalg.inv["magma"](a).inverse, exact)
    assert worst(found.inverse, exact) <= 10 * wanted
    if precision in ("tf32", "bf16"):
        assert worst(raw.inverse, exact) > 10 * wanted


@pytest.mark.parametrize("precision", PRECISIONS)
def test_solutions_from_cholesky_factors(precision: str) -> None:
    a = random(150, 150, dtype="float32")
    factor = linalg.cholesky["magma"](a @ a.T / 150 + np.eye(150, dtype=np.float32)).L
    b = random(150, 20, dtype="float32")
    exact = np.linalg.solve(factor.astype(float) @ factor.T.astype(float), b)
    assert worst(or_skip("cholesky_solve", factor, b, precision=precision), exact) < 50 * ROUNDOFF


@pytest.mark.parametrize("driver", ["gels", "gelsy"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_least_squares(precision: str, driver: str) -> None:
    """Residuals that are not small, for which the seminormal equations would fail."""
    a = with_values(np.linspace(1, 3, 40), 200, "float32")
    b = random(200, 3, dtype="float32")
    exact = np.linalg.lstsq(a.astype(float), b, rcond=None)[0]
    found = or_skip("lstsq", a, b, rcond=1e-6, driver=driver, precision=precision)
    assert worst(found.x, exact) < 50 * ROUNDOFF
    assert (found.rank is None) == (driver == "gels")
    assert found.rank is None or found.rank == 40
    if precision in ("tf32", "bf16"):
        raw = or_skip("lstsq", a, b, rcond=1e-6, driver="gels", precision=precision, refine=False)
        assert worst(raw.x, exact) > 200 * ROUNDOFF


def test_least_squares_leave_doubtful_ranks_to_pivoting() -> None:
    a = with_values(np.where(np.arange(40) < 20, 1.0, 1e-7), 200, "float32")
    b = random(200, 1, dtype="float32")
    or_skip("solve", np.eye(3, dtype=np.float32), np.ones((3, 1), np.float32), precision="bf16x3")
    with pytest.raises(registry.Refused, match="rank is not certain"):
        linalg.lstsq["magma"](a, b, rcond=1e-5, driver="gelsy", precision="bf16x3")
    found = linalg.lstsq(a, b, rcond=1e-5, driver="gelsy", precision="bf16x3", prefer="magma")
    assert found.rank == 20


@pytest.mark.parametrize("ratio", [1.0, 0.3, 1e-2, 1e-4])
@pytest.mark.parametrize("n", [1, 2, 40, 150])
def test_conditions_are_estimated_on_the_safe_side(n: int, ratio: float) -> None:
    from minitorch_backends.kernels.linalg.reflections import _reciprocal_condition

    R = np.linalg.qr(with_values(np.linspace(1, ratio if n > 1 else 1, n), n + 50, "float64"), "r").astype(np.float32)
    values = np.linalg.svd(R.astype(float), compute_uv=False)
    exact = values[-1] / values[0]
    assert 0.4 * exact <= _reciprocal_condition(np.triu(R)) <= 0.9 * exact
    overflowing = np.triu(np.ones_like(R)) - np.eye(n, dtype=np.float32) + np.eye(n, dtype=np.float32) * 1e-40
    for wrong in (np.zeros_like(R), np.full_like(R, np.nan), *([overflowing] if n > 2 else [])):
        assert _reciprocal_condition(wrong) < 1e-60


def test_ranks_that_normal_numbers_have_are_certain() -> None:
    a, b = random(300, 100, dtype="float32"), random(300, 1, dtype="float32")
    assert or_skip("lstsq", a, b, rcond=1e-5, driver="gelsy", precision="tf32").rank == 100


def test_what_does_not_converge_is_solved_again() -> None:
    n = 150
    a, b = with_values(np.logspace(0, -6, n), n, "float32"), random(n, 1, dtype="float32")
    found = or_skip("solve", a, b, precision="bf16")
    assert found.report["solved_again_in_ieee"] == 1
    assert np.array_equal(found.x, linalg.solve["magma"](a, b).x)
    inverse = or_skip("inv", a, precision="bf16")
    assert inverse.report["solved_again_in_ieee"] == 1
    assert np.array_equal(inverse.inverse, linalg.inv["magma"](a).inverse)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_values_that_tiles_flush_or_overflow(scale: float) -> None:
    n = 130
    a = (random(n, n, dtype="float32") + 10 * np.eye(n, dtype=np.float32)) * np.float32(scale)
    b = random(n, 1, dtype="float32")
    exact = np.linalg.solve(a.astype(float), b)
    assert worst(or_skip("solve", a, b, precision="bf16x3").x, exact) < 100 * ROUNDOFF


def test_refinement_stops() -> None:
    """On a diagonal matrix: good factors converge, bad ones are found out, and NaN ends it."""
    d, b = np.array([1.0, 2.0, 4.0], np.float32)[:, None], np.ones((3, 1), np.float32)
    start = b / d * np.float32(1.01)
    assert refine_solution(start, b, 4.0, lambda x: d * x, lambda r: r / d * np.float32(1.01)).converged
    assert not refine_solution(start, b, 4.0, lambda x: d * x, lambda r: -r / d).converged
    assert not refine_solution(start, b, 4.0, lambda x: d * x, lambda r: r * np.nan).converged


def test_refinement_that_stalls_far_from_float32_has_not_converged() -> None:
    """For 600 unknowns one and a half roundoffs are usual; an earlier bound of 20 was too loose."""
    n, unit = 600, 2.0**-24
    d, b = np.ones((n, 1), np.float32), np.ones((n, 1), np.float32)
    for units, fine in ((4, True), (20, False)):
        start = b + np.float32(2 * units * unit)  # with a backward error of about so many units
        found = refine_solution(start, b, 1.0, lambda x: d * x, lambda r: r * np.float32(0.01))
        assert (found.converged, found.error > unit) == (fine, True)
