"""Operands with scales, to the bit, and the products of every kernel with them, forward and backward."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitorch_backends as mt
from minitorch_backends import backends, explain
from minitorch_backends.kernels.conv import conv, conv_input_gradient, conv_weight_gradient
from minitorch_backends.kernels.gemm import matmul
from minitorch_backends.kernels.precisions import scaling
from minitorch_backends.kernels.precisions.operand_errors import error_moments
from minitorch_backends.kernels.precisions.products import PRECISIONS, find_precision, predicted_error

from ..support import reference

F = mt.nn.functional
SCALED = [name for name, row in PRECISIONS.items() if row.scale is not None]
every_precision = pytest.mark.parametrize("precision", SCALED)


def normal(*shape: int, seed: int = 0, spread: int = 0) -> np.ndarray:
    """Normal numbers, times powers of two."""
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) * np.exp2(random.integers(-spread, spread + 1, shape))).astype(np.float32)


@given(st.sampled_from(SCALED), st.integers(0, 2**32 - 1), st.sampled_from([0, 3, 12, 60]), st.data())
def test_operands_are_those_of_the_definition(precision: str, seed: int, spread: int, data: Any) -> None:
    """Along any axis of any layout, in groups, with Inf, NaN, zeros and the ends of float32 among them."""
    groups = 1 if PRECISIONS[precision].scale.of_tensor else data.draw(st.integers(1, 3))
    before, k, after = (data.draw(st.integers(0, most)) for most in (4, 70, 4))
    x = normal(before, groups * k, after, seed=seed, spread=spread)
    for value in data.draw(st.lists(st.sampled_from([np.inf, -np.inf, np.nan, 0.0, 1e-45, 3e38]), max_size=3)):
        if x.size:
            x.ravel()[data.draw(st.integers(0, x.size - 1))] = value
    axis = data.draw(st.integers(0, 2))
    x = np.moveaxis(x, 1, axis)
    found = scaling.scale_operand(x, precision, axis, groups)
    parts = np.split(x, groups, axis)
    expected = np.concatenate([reference.scale_operand(each, precision, axis) for each in parts], axis)
    np.testing.assert_array_equal(found.values.astype(np.float64) * found.factor, expected)
    assert not found.fits_bf16 or np.array_equal(
        found.values, mt.from_numpy(found.values).bfloat16().float().numpy(), equal_nan=True
    )


@every_precision
def test_stochastic_rounding_is_right_on_average(precision: str) -> None:
    mt.manual_seed(0)
    x, many = normal(64, 64), 400
    values = np.stack([_value(x, precision, "stochastic") for _ in range(many)]).astype(np.float64)
    down, up = values.min(0), values.max(0)
    nearest = _value(x, precision).astype(np.float64)
    assert np.all((nearest == down) | (nearest == up)), "to one of two neighbours"
    unsaturated = np.abs(x) <= np.abs(values).max(0)
    row = find_precision(precision)
    square, along = error_moments(row.scale, row.operand, "stochastic")
    error = values - x
    of_means = np.mean((values.mean(0) - x)[unsaturated] ** 2)
    assert of_means == pytest.approx(np.mean(error[:, unsaturated] ** 2) / many, rel=0.1)
    assert np.mean(error**2) == pytest.approx(square, rel=0.1)
    assert abs(np.mean(error * x) - along) < 0.01
    mt.manual_seed(0)
    np.testing.assert_array_equal(_value(x, precision, "stochastic"), values[0])


def _value(x: np.ndarray, precision: str, rounding: str | None = None) -> np.ndarray:
    found = scaling.scale_operand(x, precision, -1, 1, rounding)
    return found.values * np.float32(found.factor)


@every_precision
def test_counts_of_saturated_and_vanished_values(precision: str) -> None:
    """In records, for each operand."""
    x, y = np.ones((2, 64), np.float32), normal(64, 3)
    x[0, :5], x[1, :2] = [1.999, -1.999, 2.0**-40, 0, np.inf], 2.0**-40
    with backends.flags(fp32_precision=precision), explain.record() as log:
        mt.from_numpy(x) @ mt.from_numpy(y)
    options = dict(log[0].options)
    assert log[0].implementation == "scaled"
    assert log[0].precision == precision
    saturates = not PRECISIONS[precision].scale.of_tensor
    assert options["saturated"][0] == (2 if saturates else 0)
    assert options["underflow"][0] == 3
    assert options["underflow"][1] == np.count_nonzero((_value(y.T, precision) == 0) & (y.T != 0))


CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "plain": {"shapes": ((2, 40, 7, 6), (5, 40, 3, 3)), "padding": (1, 1)},
    "grouped": {"shapes": ((2, 68, 9, 9), (4, 34, 3, 2)), "groups": 2, "stride": (2, 1)},
}


@every_precision
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_multiply_scaled_operands(case: str, precision: str) -> None:
    """Blocks are of channels, and for the gradient of the weight of places of an image."""
    keywords = dict(CONVOLUTIONS[case])
    x, w = (normal(*shape, seed=seed) for seed, shape in enumerate(keywords.pop("shapes")))
    groups, g = keywords.get("groups", 1), normal(*conv.reference(x, w, **keywords).shape, seed=2)

    def along(axis: int, of: int = 1) -> Callable[[np.ndarray], np.ndarray]:
        def values(array: np.ndarray) -> np.ndarray:
            if PRECISIONS[precision].scale.of_tensor:
                return scaling.scale_operand(array, precision, axis, of).values * float(
                    scaling.scale_operand(array, precision, axis, of).factor
                )
            parts = [reference.scale_operand(each, precision, axis) for each in np.split(array, of, axis)]
            return np.concatenate(parts, axis)

        return values

    def places(array: np.ndarray) -> np.ndarray:
        return reference.scale_operand(array.reshape(*array.shape[:2], -1), precision, 2).reshape(array.shape)

    for kernel, arrays, round_a, round_b, sizes in (
        (conv, (x, w), along(1, groups), along(1), {}),
        (conv_input_gradient, (g, w), along(1, groups), along(0, groups), {"input_size": x.shape[2:]}),
        (conv_weight_gradient, (x, g), places, places, {"kernel_size": w.shape[2:]}),
    ):
        found = kernel(*arrays, precision=precision, **keywords, **sizes)
        a, b = round_a(arrays[0]), round_b(arrays[1])
        expected = kernel.reference(a, b, **keywords, **sizes)
        magnitudes = kernel.reference(np.abs(a), np.abs(b), **keywords, **sizes)
        assert np.all(np.abs(found - expected) <= 1e-6 * magnitudes)
        assert kernel.decide(*arrays, precision=precision, **keywords, **sizes).candidates[0].name == "scaled"


def test_bias_and_relu_follow_the_scale_of_the_tensor() -> None:
    x, w, bias = normal(1, 4, 5, 5), normal(3, 4, 3, 3, seed=1), normal(3, seed=2)
    for precision in ("e4m3", "mxfp8"):
        plain = conv(x, w, precision=precision)
        found = conv(x, w, bias, relu=True, precision=precision)
        np.testing.assert_allclose(found, np.maximum(plain + bias.reshape(3, 1, 1), 0), atol=1e-5)


def gradients(function: Callable[..., mt.Tensor], *shapes: tuple[int, ...]) -> Callable[[], list[mt.Tensor]]:
    def compute() -> list[mt.Tensor]:
        inputs = [mt.from_numpy(normal(*shape, seed=seed)).requires_grad_() for seed, shape in enumerate(shapes)]
        out = function(*inputs)
        return [out, *mt.autograd.grad(out.sin().sum(), inputs)]

    return compute


CALLS: dict[str, Callable[[], list[mt.Tensor]]] = {
    "matmul": gradients(mt.matmul, (40, 48), (48, 56)),
    "linear": gradients(F.linear, (40, 48), (56, 48), (56,)),
    "einsum": gradients(lambda a, b, c: mt.einsum("bik,bkj,jl->bil", a, b, c), (2, 30, 20), (2, 20, 30), (30, 20)),
    "conv": gradients(lambda x, w: F.conv2d(x, w, padding=1), (2, 16, 9, 9), (32, 16, 3, 3)),
    "transposed conv": gradients(F.conv_transpose2d, (2, 16, 5, 5), (16, 8, 3, 3)),
    "attention": gradients(F.scaled_dot_product_attention, *[(2, 2, 40, 32)] * 3),
    "recurrence": gradients(lambda x, w, h: mt.ops.recurrent.rnn_layer(x, w * 0.2, h), (5, 3, 24), (24, 24), (3, 24)),
}


@every_precision
def test_every_product_runs_it_forward_and_backward(precision: str) -> None:
    """No call of a product is left at another precision, and results are as far off as the theory says."""
    sigma = predicted_error(precision, 64).sigma / 8
    for name, call in CALLS.items():
        exact = [each.detach().numpy() for each in call()]
        with backends.flags(fp32_precision=precision), explain.record() as log:
            found = [each.detach().numpy() for each in call()]
        products = [entry for entry in log if entry.kernel != "recurrence_gradient"]
        assert {entry.precision for entry in products} == {precision}, name
        for one, other in zip(found[:1], exact[:1], strict=True):
            error = np.sqrt(np.mean((one - other) ** 2) / np.mean(other**2))
            assert sigma / 4 < error < 4 * sigma, (name, error, sigma)
        assert all(np.isfinite(each).all() for each in found)


@every_precision
def test_the_unit_of_a_device_sums_what_is_scaled(precision: str) -> None:
    """By the rule of h100's FP8 unit; block scales have no unit there."""
    a, b = mt.from_numpy(normal(6, 80)), mt.from_numpy(normal(80, 5, seed=1))
    with backends.flags(fp32_precision=precision, profile="h100"):
        if PRECISIONS[precision].scale.block:
            with pytest.raises(RuntimeError, match=f"has no matrix unit for products at {precision}"):
                a @ b
            return
        found = (a @ b).numpy()
    left, right = scaling.scale_operand(a.numpy(), precision, -1), scaling.scale_operand(b.numpy(), precision, -2)
    rows, columns = np.repeat(left.values, 5, 0), np.tile(right.values.T, (6, 1))
    sums = mt.profiles.mma(rows, columns, np.zeros(30), profile="h100", format=precision).numpy().reshape(6, 5)
    np.testing.assert_array_equal(found, (sums * np.float64(left.factor * right.factor)).astype(np.float32))
    assert not np.array_equal(found, matmul(a.numpy(), b.numpy(), precision=precision))


def test_units_apply_scales_of_blocks_themselves() -> None:
    """The exponents of the scales are added to those of the products, before these are aligned: the sum of each block
    is that of the unit, with the scales taken out where all of a block's products share them."""
    a, b = normal(4, 70, spread=3), normal(70, 3, seed=1, spread=3)
    with backends.flags(fp32_precision="mxfp8", profile="b200"), explain.record() as log:
        found = (mt.from_numpy(a) @ mt.from_numpy(b)).numpy()
        with pytest.raises(RuntimeError, match="has no matrix unit for convolutions at mxfp8"):
            F.conv2d(mt.ones(1, 4, 3, 3), mt.ones(2, 4, 3, 3))
    assert "profile = 'b200'" in (log[0].decided_by or "")
    powers = scaling.block_powers(a, "mxfp8", -1), scaling.block_powers(b, "mxfp8", -2)
    elements = [
        scaling.scale_operand(x, "mxfp8", axis).values / power
        for x, axis, power in zip((a, b), (-1, -2), powers, strict=True)
    ]
    total = np.zeros(12)
    for start in range(0, 70, 32):  # scaling an accumulator by a power of two changes no bit of the unit's sum
        at = slice(start, start + 32)
        rows, columns = np.repeat(elements[0][:, at], 3, 0), np.tile(elements[1][at].T, (4, 1))
        factor = np.outer(powers[0][:, start], powers[1][start]).ravel()
        total = mt.profiles.mma(rows, columns, total / factor, profile="b200", format="e4m3").numpy() * factor
    np.testing.assert_array_equal(found.ravel(), total.astype(np.float32))
    plain = matmul(a, b, precision="mxfp8")
    assert np.abs(found - plain).max() < 1e-5 * np.abs(plain).max()
