"""Rounding to short floating-point formats: the values, the range, random rounding, and gradients."""

import ml_dtypes
import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends.kernels.precisions import parts as compiled
from minitorch_backends.kernels.precisions.elements import ELEMENTS, count_range, find_element, round_to_format

DTYPES = {
    "bf16": ml_dtypes.bfloat16, "fp16": np.float16, "e5m2": ml_dtypes.float8_e5m2, "e4m3": ml_dtypes.float8_e4m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn, "e2m3": ml_dtypes.float6_e2m3fn, "e2m1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip


def values():
    """Bit patterns of every kind, numbers of every magnitude, ties, and Inf and NaN."""
    random = np.random.default_rng(0)
    any_bits = random.integers(0, 2**32, 4000, dtype=np.uint32).view(np.float32)
    ties = np.ldexp(random.integers(-64, 64, 2000).astype(np.float32), random.integers(-24, 20, 2000))
    return np.concatenate([any_bits, ties, np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38])])


def same(x, y):
    return bool(np.all(((x == y) & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))))


@pytest.mark.parametrize("name", DTYPES)
def test_nearest_even_is_the_conversion_of_the_dtype(name):
    form, x = find_element(name), values()
    if not form.has_infinity:  # conversions of these dtypes have NaN, or wrap, beyond the range
        x = np.clip(x[~np.isnan(x)], -form.greatest, form.greatest)
    with np.errstate(all="ignore"):
        expected = x.astype(DTYPES[name]).astype(np.float32)
        wide = round_to_format(x.astype(np.float64), name).astype(np.float32)
    assert same(round_to_format(x, name), expected)
    assert same(wide, expected)


@pytest.mark.parametrize(("name", "rounding"), [("tf32", "rna"), ("tf32", "rne"), ("tf32", "rz"), ("bf16", "rne")])
def test_products_round_alike(name, rounding):
    x = values()
    finite = np.isfinite(x)
    expected = compiled.round_to(x, name, rounding)
    assert same(round_to_format(x, name, rounding)[finite], expected[finite])


@pytest.mark.parametrize("name", ELEMENTS)
def test_range(name):
    form, x = find_element(name), values()
    x = x[np.isfinite(x)]
    rounded = np.abs(round_to_format(x, name))
    counts = count_range(x, name)
    assert counts.size == x.size
    assert counts.overflow == np.isinf(rounded).sum()
    assert counts.underflow == ((rounded == 0) & (x != 0)).sum()
    assert counts.subnormal == (0 if form.is_integer else ((rounded > 0) & (rounded < form.least_normal)).sum())
    assert counts.saturated == (0 if form.has_infinity else (np.abs(x) >= form.overflow_threshold).sum())
    assert np.abs(round_to_format(x.astype(np.float64), name, "rz")).max() <= form.greatest
    assert count_range(np.float32([np.inf, np.nan]), name)[:2] == ((0, 0) if form.has_infinity else (0, 1))


def test_stochastic_rounding_has_the_input_as_its_mean():
    x = mt.full((20000,), 1 + 1 / 32)  # e4m3 has 1 and 1 + 1/8
    rounded = mt.round_to(x, "e4m3", "stochastic", generator=mt.Generator().manual_seed(3))
    assert set(rounded.tolist()) == {1.0, 1.125}
    share = (rounded > 1).to(mt.float64).mean().item()
    assert abs(share - 0.25) < 4 * (0.25 * 0.75 / 20000) ** 0.5
    again = mt.round_to(x, "e4m3", "stochastic", generator=mt.Generator().manual_seed(3))
    assert mt.equal(rounded, again)
    mt.manual_seed(5)
    first = mt.round_to(x, "bf16", "stochastic")
    mt.manual_seed(5)
    assert mt.equal(first, mt.round_to(x, "bf16", "stochastic"))


@pytest.mark.parametrize(("gradient", "expected"), [("straight_through", 2.0), ("zero", 0.0)])
def test_gradients(gradient, expected):
    x = mt.tensor([0.3, -7.0], requires_grad=True)
    (2 * mt.round_to(x, "e2m1", gradient=gradient)).sum().backward()
    assert x.grad.tolist() == [expected] * 2


def test_blocks_along_a_dimension_are_those_of_products():
    x = mt.from_numpy(np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32))
    with mt.backends.flags(fp32_precision="mxfp8"):
        assert mt.equal(x @ mt.eye(40), mt.round_to(x, "mxfp8"))
        assert mt.equal(mt.eye(3) @ x, mt.round_to(x, "mxfp8", dim=0))
    drawn = [mt.round_to(x, "nvfp4", "stochastic", generator=mt.Generator().manual_seed(3)) for _ in range(2)]
    assert mt.equal(*drawn)
    assert not mt.equal(drawn[0], mt.round_to(x, "nvfp4"))
    with pytest.raises(ValueError, match=r"round_to\(\): rounding of blocks must be one of rne, stochastic, got 'rz'"):
        mt.round_to(x, "mxfp4", "rz")
    with pytest.raises(IndexError, match=r"round_to\(\): dim must be a dimension of a tensor of 2, got 2"):
        mt.round_to(x, "mxfp4", dim=2)


def test_types_stay_and_mistakes_are_named():
    for dtype in (mt.float16, mt.bfloat16, mt.float32, mt.float64):
        rounded = mt.round_to(mt.tensor([1.0, 1.2], dtype=dtype), "e2m1")
        assert rounded.dtype is dtype
        assert rounded.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match=r"round_to\(\): format must be one of fp32, tf32, .*, nvfp4, .*, got 'fp12'"):
        mt.round_to(mt.ones(2), "fp12")
    with pytest.raises(ValueError, match="rounding must be one of rne, rna, rz, stochastic, got 'up'"):
        mt.round_to(mt.ones(2), "bf16", "up")
    with pytest.raises(ValueError, match="gradient must be one of straight_through, zero, got 'none'"):
        mt.round_to(mt.ones(2), "bf16", gradient="none")
