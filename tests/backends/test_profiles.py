"""`backends.profile`: products summed by the rule of another device's matrix unit, beside the unit itself."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.kernels.precisions.parts import round_to

F = mt.nn.functional


def normal(*shape: int, seed: int = 0) -> mt.Tensor:
    return mt.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def by_unit(a: np.ndarray, b: np.ndarray, profile: str, operand: str) -> np.ndarray:
    """The product of matrices as dot products of the unit."""
    way = mt.profiles.PROFILES[profile].tf32_rounding if operand == "tf32" else None
    a, b = (round_to(np.ascontiguousarray(x), operand, way) for x in (a, b))
    rows, columns = np.repeat(a, b.shape[1], 0), np.tile(b.T, (len(a), 1))
    found = mt.profiles.mma(rows, columns, np.zeros(len(rows)), profile=profile, format=operand)
    return found.numpy().reshape(len(a), b.shape[1])


def test_names_of_devices_are_known_in_any_case() -> None:
    with backends.flags(profile="H100"):
        assert backends.profile == "h100"
    with backends.flags(profile="RTX_Blackwell"):
        assert backends.profile == "rtx_blackwell"
    found = mt.profiles.mma([[1.0, 2.0]], [[3.0, 4.0]], [0.5], profile="A100", format="fp16")
    assert found.tolist() == [11.5]
    for unknown in ("H100x", "h 100"):
        with pytest.raises(RuntimeError, match=f"profile = '{unknown}' is unknown"):
            backends.profile = unknown


@pytest.mark.parametrize(("profile", "operand"), [("a100", "tf32"), ("h100", "bf16"), ("v100", "fp16")])
def test_products_and_their_gradients_are_the_units(profile: str, operand: str) -> None:
    a, b, g = normal(5, 40).requires_grad_(), normal(40, 6, seed=1).requires_grad_(), normal(5, 6, seed=2)
    x, y, z = (each.detach().numpy() for each in (a, b, g))
    with backends.flags(profile=profile, fp32_precision=operand):
        results = [a @ b, mt.einsum("ij,jk->ik", a, b), *mt.autograd.grad(a @ b, (a, b), g)]
        batch = mt.matmul(a.expand(2, 5, 40), b)
    wanted = [by_unit(*each, profile, operand) for each in ((x, y), (x, y), (z, y.T), (x.T, z))]
    for found, expected in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(found.detach().numpy(), expected)
    np.testing.assert_array_equal(batch.detach().numpy(), np.stack([wanted[0]] * 2))
    assert not np.array_equal(results[0].detach().numpy(), round_to(x, operand) @ round_to(y, operand))


@given(
    st.sampled_from([("a100", "tf32"), ("h100", "bf16"), ("h100", "tf32"), ("mi250", "fp16"), ("mi300", "bf16")]),
    st.lists(st.integers(0, 3), max_size=2),
    st.tuples(st.integers(1, 5), st.integers(0, 70), st.integers(1, 5)),
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
    st.lists(st.sampled_from([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45, 1e-39, 3e38, 65520.0]), max_size=3),
    st.integers(0, 2**32 - 1),
)
def test_any_product_is_the_unit_s(which: Any, batch: Any, sizes: Any, layout: Any, hostile: Any, seed: int) -> None:
    """Any shape, batch, broadcast and strides, with hostile values, bit for bit."""
    (profile, operand), (m, k, n), (a_turned, b_turned, a_alone, reverse) = which, sizes, layout
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, turned: bool, alone: bool) -> mt.Tensor:
        shape = (*([] if alone else batch), *((columns, rows) if turned else (rows, columns)))
        x = (random.standard_normal(shape) * np.exp2(random.integers(-20, 20, shape))).astype(np.float32)
        for value in hostile if x.size else ():
            x.ravel()[random.integers(x.size)] = value
        tensor = mt.from_numpy(x)
        return tensor.mT if turned else tensor

    a, b = matrix(m, k, a_turned, a_alone), matrix(k, n, b_turned, False)
    a = a.flip(-1) if reverse else a
    with backends.flags(profile=profile, fp32_precision=operand):
        found = (a @ b).numpy()
    whole = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left, right = np.broadcast_to(a.numpy(), (*whole, m, k)), np.broadcast_to(b.numpy(), (*whole, k, n))
    expected = [by_unit(left[at], right[at], profile, operand) for at in np.ndindex(*whole)]
    wanted = np.array(expected, np.float32).reshape(found.shape)
    np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))


def test_half_tensors_are_rounded_once_at_the_end() -> None:
    a, b = normal(4, 40).half(), normal(40, 3, seed=1).half()
    with backends.flags(profile="h100"):
        found = a @ b
    wanted = by_unit(a.float().numpy(), b.float().numpy(), "h100", "fp16").astype(np.float16)
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_the_profile_wins_over_rounded_sums_of_halves() -> None:
    a, b = normal(4, 3000).half(), normal(3000, 3, seed=1).half()
    with backends.flags(emulate="cuda"):
        reduced = a @ b
        with backends.flags(profile="h100"), explain.record() as log:
            found = a @ b
    with backends.flags(profile="h100"):
        assert (found == a @ b).all()
    assert not (found == reduced).all()
    assert log[0].implementation == "matrix_unit"
    assert "profile = 'h100', which overrides emulate = 'cuda', whose default it is" in (log[0].decided_by or "")


def test_stacks_bring_their_device() -> None:
    """Its rounding of operands and its exact path for vectors; a flag that is set wins."""
    a, b = normal(5, 40), normal(40, 6, seed=1)
    truncated = [round_to(x.numpy(), "tf32", "rz") for x in (a, b)]
    with backends.flags(emulate="mlx"), explain.record() as log:
        found, column = a @ b, a @ b[:, :1]
        with backends.flags(tf32_rounding="rne"):
            nearest = a @ b
        with backends.flags(profile="a100"):
            on_a100 = a @ b
    np.testing.assert_allclose(found.numpy(), truncated[0] @ truncated[1], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(column.numpy(), (a @ b[:, :1]).numpy())
    expected = [round_to(x.numpy(), "tf32", "rne") for x in (a, b)]
    np.testing.assert_allclose(nearest.numpy(), expected[0] @ expected[1], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(on_a100.numpy(), by_unit(a.numpy(), b.numpy(), "a100", "tf32"))
    assert "emulate = 'mlx', whose profile is 'apple_m5'" in (log[0].decided_by or "")
    with backends.flags(emulate="rocm", **{"cuda.matmul.fp32_precision": "tf32"}):
        xf32 = (a @ b).numpy()
        assert mt.matmul(a, b, precision="bf16x3").isfinite().all(), (
            "what a stack's device lacks is left to float32 sums"
        )
    rows, columns = np.repeat(truncated[0], 6, 0), np.tile(truncated[1].T, (5, 1))
    wanted = mt.profiles.mma(rows, columns, np.zeros(30), profile="mi300", format="tf32")
    np.testing.assert_array_equal(xf32, wanted.numpy().reshape(5, 6))


def test_a_tpu_flushes_subnormal_numbers() -> None:
    tiny, one = mt.full((1, 2), 1e-39), mt.eye(2)
    with backends.flags(emulate="jax-tpu"):
        assert (tiny @ one).tolist() == [[0.0, 0.0]]
        assert (mt.full((1, 2), 2.0**-100) @ (one * 2.0**-40)).tolist() == [[0.0, 0.0]]
        with backends.flags(**{"xla.mat_mul_precision": "high"}):
            assert (tiny @ one).tolist() == [[0.0, 0.0]]
    with backends.flags(profile="tpu", fp32_precision="bf16"):
        assert (tiny @ one).tolist() == [[0.0, 0.0]]
    with pytest.raises(ValueError, match=r"mma\(\): profile must be a device with a known summation order, got 'tpu'"):
        mt.profiles.mma([[1.0]], [[1.0]], [0.0], profile="tpu", format="bf16")


SOLVERS: dict[str, Any] = {
    "solve": lambda a, b: mt.linalg.solve(a, b, refine=False),
    "inv": lambda a, b: mt.linalg.inv(a, refine=False),
    "cholesky_solve": lambda a, b: mt.cholesky_solve(b, mt.linalg.cholesky(a @ a.mT), refine=False),
    "lstsq": lambda a, b: mt.linalg.lstsq(a, b, refine=False, driver="gels").solution,
}


@pytest.mark.parametrize("precision", ["tf32", "e4m3"])
@pytest.mark.parametrize("name", SOLVERS)
def test_products_of_linear_algebra(name: str, precision: str) -> None:
    """By the unit, with other bits than without it; refined, the solution is that of float32."""
    a, b = normal(150, 150) + 30 * mt.eye(150), normal(150, 20, seed=1)
    exact = SOLVERS[name](a, b).numpy()
    found = {}
    for profile in (None, "h100"):
        with backends.flags(profile=profile, fp32_precision=precision), explain.record() as log:
            found[profile] = SOLVERS[name](a, b).numpy()
        (entry,) = [each for each in log if each.kernel == name]
        assert entry.implementation == "magma"
        assert ("unit" in dict(entry.options)) == (profile is not None)
    error = {profile: np.abs(each - exact).max() / np.abs(exact).max() for profile, each in found.items()}
    assert not np.array_equal(found[None], found["h100"])
    assert 1e-6 < error["h100"] < (2e-2 if precision == "tf32" else 0.5)
    assert error["h100"] < 3 * error[None]
    with backends.flags(profile="h100", fp32_precision=precision):
        refined = mt.linalg.solve(a, b).numpy()
    np.testing.assert_allclose(refined, mt.linalg.solve(a, b).numpy(), atol=1e-6)


CALLS: dict[str, Any] = {
    "conv": lambda: F.conv2d(normal(2, 4, 5, 5), normal(3, 4, 3, 3, seed=1)),
    "attention": lambda: F.scaled_dot_product_attention(*(normal(1, 2, 6, 8, seed=seed) for seed in range(3))),
    "recurrence": lambda: mt.ops.recurrent.rnn_layer(normal(2, 3, 8), normal(8, 8, seed=1), mt.zeros(3, 8)),
}


@pytest.mark.parametrize("name", CALLS)
def test_other_kernels_sum_by_the_unit(name: str) -> None:
    """Their results have other bits than float32 sums of the same operands, and are near."""
    with backends.flags(fp32_precision="tf32"):
        plain = CALLS[name]().numpy()
        with backends.flags(profile="a100"), explain.record() as log:
            found = CALLS[name]().numpy()
    (entry,) = [each for each in log if each.kernel == name]
    assert "unit" in dict(entry.options)
    assert "profile = 'a100'" in entry.decided_by
    assert not np.array_equal(found, plain)
    np.testing.assert_allclose(found, plain, rtol=0, atol=2.0**-10 * np.abs(plain).max())


def test_explain_names_profile_rule_and_evidence() -> None:
    with backends.flags(profile="h100", fp32_precision="tf32"):
        text = str(explain.why("matmul", normal(3, 4), normal(4, 5)))
    assert "runs by matrix_unit at tf32" in text
    assert "profile = 'h100'" in text
    assert "h100 tf32: Aligned(" in text
    assert "by model" in text
    with backends.flags(profile="h100", fp32_precision="tf32"), explain.record(residuals=True) as log:
        normal(3, 64) @ normal(64, 5, seed=1)
    assert 1e-5 < dict(log[0].options)["relative_error"] < 1e-3


def test_what_a_device_has_no_unit_for() -> None:
    """Exact products bypass the unit; other precisions raise an error."""
    a, b = normal(4, 4), normal(4, 4, seed=1)
    with backends.flags(profile="v100"):
        np.testing.assert_array_equal((a @ b).numpy(), mt.matmul(a, b, precision="ieee").numpy())
        with pytest.raises(RuntimeError, match="no matrix unit for products at tf32"):
            mt.linalg.solve(a, b, precision="tf32")
        for precision in ("tf32", "bf16x3"):
            with pytest.raises(RuntimeError, match=f"profile = 'v100' has no matrix unit for products at {precision}"):
                mt.matmul(a, b, precision=precision)
        with pytest.raises(RuntimeError, match="products at bf16, whose formats are fp16"):
            a.bfloat16() @ b.bfloat16()
        with pytest.raises(RuntimeError, match="multiplies float32 and half arrays, not complex64"):
            mt.matmul(mt.complex(a, b), mt.complex(a, b), precision="fp16")
        with backends.flags(fp32_precision="tf32"):
            assert explain.precision_of("matmul").precision == "tf32"
    with pytest.raises(RuntimeError, match="profile = 'h1000' is unknown"):
        backends.profile = "h1000"


def test_a_row_of_ones_own_is_a_choice() -> None:
    from minitorch_backends.profiles import PROFILES, Aligned, Format, Profile, add

    add(Profile("mine", {"fp16": (Format(Aligned(10, 4, (-133, -21)), "inferred"),)}))
    try:
        with backends.flags(profile="mine"):
            found = mt.tensor([[1, 2.0**-11]]).half() @ mt.tensor([[1.0], [1.0]]).half()
        assert found.item() == 1.0
    finally:
        PROFILES.pop("mine")
