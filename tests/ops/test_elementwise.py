"""Elementwise ops beyond their samples: operators, conventions at kinks, numbers, refusals."""

import inspect
import math
import operator
from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import Tensor
from minitorch_backends.autograd.gradcheck import gradcheck, gradgradcheck

OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow,
}  # fmt: skip
BITWISE = {"&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift}


def leaf(*values: Any) -> Tensor:
    return mt.tensor(list(values), dtype=mt.float64, requires_grad=True)


def gradient(function: Any, *values: float) -> list[float]:
    """The gradient of the sum of `function` at `values`."""
    x = leaf(*values)
    function(x).sum().backward()
    return x.grad.tolist()


# Operators


@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize("dtype", [mt.float32, mt.float64, mt.bfloat16, mt.int64])
def test_operators_take_numbers_on_either_side(symbol: str, dtype: mt.dtype) -> None:
    apply = OPERATORS[symbol]
    x = mt.tensor([3, 5], dtype=dtype)
    for number in (2, 2.0):
        for out, wanted in (
            (apply(x, number), apply(np.array([3, 5]), number)),
            (apply(number, x), apply(number, np.array([3, 5]))),
        ):
            assert np.allclose(out.double().numpy(), wanted, rtol=1e-2 if dtype is mt.bfloat16 else 1e-6), (
                symbol,
                number,
            )
            floating = symbol == "/" or isinstance(number, float)
            assert out.dtype is (mt.get_default_dtype() if dtype is mt.int64 and floating else dtype)


@pytest.mark.parametrize("symbol", [*OPERATORS, *BITWISE])
def test_augmented_assignment_writes_in_place(symbol: str) -> None:
    name = (OPERATORS | BITWISE)[symbol].__name__.strip("_")
    x = mt.tensor([3, 5], dtype=mt.int64 if symbol in BITWISE else mt.float32)
    wanted = (OPERATORS | BITWISE)[symbol](x, 2)
    alias, version = x, x._version
    y = getattr(operator, "i" + name)(x, 2)
    assert y is alias
    assert alias.tolist() == wanted.tolist()
    assert alias._version == version + 1


@pytest.mark.parametrize("symbol", BITWISE)
def test_bitwise_operators_take_numbers_on_either_side(symbol: str) -> None:
    apply, array = BITWISE[symbol], np.array([1, 6, 3])
    assert apply(mt.tensor(array), 2).tolist() == apply(array, 2).tolist()
    assert apply(2, mt.tensor(array)).tolist() == apply(2, array).tolist()


def test_unary_operators() -> None:
    x = mt.tensor([1.5, -2.0])
    assert (-x).tolist() == [-1.5, 2.0]
    assert abs(x).tolist() == [1.5, 2.0]
    assert +x is x
    mask = mt.tensor([True, False])
    assert (~mask).tolist() == [False, True]
    assert mask.tolist() == [True, False]
    assert (~mt.tensor([0, 5])).tolist() == [-1, -6]


def test_equality_with_strangers_is_decided_by_identity() -> None:
    x = mt.tensor([1.0])
    assert (x == None) is False  # noqa: E711
    assert (x != "text") is True
    assert len({x, x}) == 1
    with pytest.raises(TypeError):
        x < None  # noqa: B015
    with pytest.raises(TypeError, match="'other' must be a Tensor or a number, not str"):
        x + "text"


# Domains


def test_nothing_warns() -> None:
    """The suite turns warnings into errors; these leave the domain or overflow."""
    x = mt.tensor([-1.0, 0.0, 1e30, math.inf, math.nan])
    assert mt.sqrt(x).tolist()[:2] == pytest.approx([math.nan, 0.0], nan_ok=True)
    assert mt.log(x).tolist()[1] == -math.inf
    assert (1 / x).tolist()[1] == math.inf
    assert (x / 0).tolist()[2] == math.inf
    assert mt.exp(x).tolist()[2] == math.inf
    assert (x**3).tolist()[2] == math.inf
    assert mt.sigmoid(mt.tensor([-1000.0, 1000.0])).tolist() == [0.0, 1.0]
    assert mt.logsumexp(x[2:4], 0).item() == math.inf
    assert math.isnan(mt.asin(x).tolist()[2])


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_integers_are_not_divided_by_zero(name: str) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        getattr(mt, name)(mt.tensor([1, 2]), mt.tensor([1, 0]))
    assert not math.isfinite(getattr(mt, name)(mt.tensor(1.0), 0.0).item())


def test_division_rounds_as_it_is_told() -> None:
    x, y = mt.tensor([7, -7, 7, -7]), mt.tensor([2, 2, -2, -2])
    assert (x / y).dtype is mt.float32
    for dtype in (mt.int64, mt.int8, mt.float32, mt.float16):
        a, b = x.to(dtype), y.to(dtype)
        floor, trunc = mt.div(a, b, rounding_mode="floor"), mt.div(a, b, rounding_mode="trunc")
        assert floor.tolist() == [3, -4, -4, 3]
        assert trunc.tolist() == [3, -3, -3, 3]
        assert floor.dtype is trunc.dtype is dtype
    assert gradient(lambda x: x.div(2, rounding_mode="floor"), 3.0, 4.0) == [0, 0]
    with pytest.raises(RuntimeError, match="'up'"):
        mt.div(x, y, rounding_mode="up")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        mt.div(x, mt.tensor(0), rounding_mode="trunc")
    with pytest.raises(RuntimeError, match="complex"):
        mt.div(mt.tensor([1j]), 2, rounding_mode="floor")


def test_integer_division_gives_the_default_dtype() -> None:
    mt.set_default_dtype(mt.float64)
    try:
        assert (mt.tensor([1]) / mt.tensor([3])).item() == 1 / 3
    finally:
        mt.set_default_dtype(mt.float32)
    assert (mt.tensor([1]) / 3).item() == np.float32(1) / np.float32(3)


def test_integer_powers() -> None:
    x = mt.tensor([3, -3, 1, -1, 2])
    assert (x**2).tolist() == [9, 9, 1, 1, 4]
    assert (x ** mt.tensor([-1, -2, -3, -3, 3])).tolist() == [0, 0, 1, -1, 8]
    assert (mt.tensor([True, False]) ** 2).tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="negative integer powers are not allowed, got -1"):
        x**-1


def test_refused_scales() -> None:
    with pytest.raises(RuntimeError, match=r"alpha must not be a floating point number, got 0\.5"):
        mt.add(mt.tensor([1]), mt.tensor([1]), alpha=0.5)
    with pytest.raises(RuntimeError, match=r"addcdiv.*int64"):
        mt.addcdiv(mt.tensor([1]), mt.tensor([1]), mt.tensor([1]))
    with pytest.raises(RuntimeError, match="decimals=2"):
        mt.round(mt.tensor([1]), decimals=2)


def test_shapes_that_do_not_broadcast_are_named() -> None:
    for call in (
        lambda x, y: x + y,
        lambda x, y: mt.where(x > 0, x, y),
        lambda x, y: mt.lerp(x, y, 0.5),
        mt.logical_and,
    ):
        with pytest.raises(
            RuntimeError, match=r"size of tensor a \(3\) must match .* b \(4\) at non-singleton dimension 1"
        ) as raised:
            call(mt.ones(2, 3), mt.ones(4))
        assert "[2, 3]" in str(raised.value)
        assert "[4]" in str(raised.value)


def test_numbers_keep_their_digits_beside_half_types() -> None:
    """torch computes with them in float32 too: 0.1 is rounded only with the result."""
    x = mt.tensor([256.0], dtype=mt.bfloat16)
    assert (x * 0.1).float().item() == np.float32(25.625)
    assert (mt.tensor([2048.0], dtype=mt.float16) + 1.5).item() == 2050.0


# Kinks, ties and zeros


def test_gradients_at_kinks() -> None:
    assert gradient(mt.abs, 0.0, -2.0) == [0, -1]
    assert gradient(mt.sign, 0.0, 2.0) == [0, 0]
    assert gradient(mt.round, 0.5, 2.0) == [0, 0]
    assert gradient(mt.sqrt, 0.0) == [math.inf]
    assert gradient(lambda x: x.clamp(0, 1), 0.0, 1.0, -1.0, 2.0) == [1, 1, 0, 0]
    assert gradient(lambda x: x.clamp(mt.tensor(0.0), mt.tensor(1.0)), 0.0, 1.0, 2.0) == [1, 1, 0]
    assert gradient(lambda x: mt.maximum(x, mt.tensor([1.0, 0.0, 3.0])), 1.0, 2.0, 2.0) == [0.5, 1, 0]
    assert gradient(lambda x: mt.minimum(x, mt.tensor([1.0, 0.0, 3.0])), 1.0, 2.0, 2.0) == [0.5, 0, 1]


def test_gradients_of_limits_that_cross() -> None:
    x, low, high = leaf(0.0, 5.0), leaf(2.0, 2.0), leaf(1.0, 3.0)
    y = x.clamp(low, high)
    y.sum().backward()
    assert y.tolist() == [1, 3]
    assert [x.grad.tolist(), low.grad.tolist(), high.grad.tolist()] == [[0, 0], [0, 0], [1, 1]]


def test_powers_of_zero() -> None:
    for exponent, wanted in ((2, 0), (1, 1), (0, 0), (2.0, 0), (0.0, 0)):
        assert gradient(lambda x, exponent=exponent: x**exponent, 0.0) == [wanted]
        assert gradient(lambda x, exponent=exponent: x ** mt.tensor(exponent, dtype=mt.float64), 0.0) == [wanted]
    assert gradient(lambda x: mt.tensor([0.0, 0.0]) ** x, 0.0, 2.0) == [0, 0]


def test_powers_at_zero_can_be_differentiated_twice() -> None:
    x = leaf(0.0, 0.0, 0.0, 1.5)
    for exponent in (mt.tensor([0.0, 1.0, 3.0, 2.0], dtype=mt.float64), 2, 3):
        assert gradcheck(lambda x, exponent=exponent: x**exponent, (x,))
        assert gradgradcheck(lambda x, exponent=exponent: x**exponent, (x,))


def test_nan_goes_through_extrema_but_not_through_fmax() -> None:
    x, y = mt.tensor([math.nan, 1.0]), mt.tensor([0.0, math.nan])
    assert all(map(math.isnan, mt.maximum(x, y).tolist()))
    assert all(map(math.isnan, mt.minimum(x, y).tolist()))
    assert mt.fmax(x, y).tolist() == [0, 1]
    assert mt.fmin(x, y).tolist() == [0, 1]
    assert gradient(lambda z: mt.fmax(z, mt.tensor([math.nan, 5.0])), 1.0, 2.0) == [1, 0]
    assert math.isnan(x.clamp(0, 1).tolist()[0])
    assert mt.sign(x).tolist() == [0, 1]


def test_clamp_promotes_and_needs_a_limit() -> None:
    assert mt.tensor([1, 3]).clamp(max=2.5).tolist() == [1, 2.5]
    assert mt.tensor([1, 3]).clamp_(max=2).tolist() == [1, 2]
    assert mt.tensor([1.0, 3.0]).clip(min=2).tolist() == [2, 3]
    with pytest.raises(RuntimeError, match="at least one of min and max"):
        mt.tensor([1.0]).clamp()


# Choices and complex numbers


def test_where_in_its_forms() -> None:
    mask = mt.tensor([[True, False], [False, True]])
    assert [each.tolist() for each in mt.where(mask)] == [[0, 1], [0, 1]]
    assert mt.where(mask, 1, 2).tolist() == [[1, 2], [2, 1]]
    assert mt.where(mask, 1.0, 2).dtype is mt.float32
    assert mt.tensor([5, 6]).where(mask, 0).tolist() == [[5, 0], [0, 6]]
    assert mt.where(mask, mt.tensor([1.0, 2.0], dtype=mt.float64), 0.1).dtype is mt.float64
    x = mt.ones(2, 2, requires_grad=True)
    mt.where(mask, x, math.nan).sum().backward()
    assert x.grad.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(RuntimeError, match="boolean tensor, got int64"):
        mt.where(mt.tensor([1]), 1, 2)
    with pytest.raises(TypeError, match="one of the two is missing"):
        mt.where(mask, x)


def test_parts_of_complex_numbers_are_views() -> None:
    z = mt.tensor([1 + 2j, 3 - 4j])
    z.real.mul_(10)
    z.imag.zero_()
    assert z.tolist() == [10, 30]
    x = mt.tensor([1.0])
    assert x.real is x
    assert mt.conj(x) is x
    with pytest.raises(RuntimeError, match=r"imag.*float32"):
        x.imag
    assert mt.view_as_complex(mt.view_as_real(z)).tolist() == z.tolist()


def test_closeness() -> None:
    x = mt.tensor([1.0, math.nan, math.inf])
    assert mt.isclose(x, x).tolist() == [True, False, True]
    assert mt.allclose(x, x, equal_nan=True)
    assert not x.allclose(x)
    assert mt.equal(x[:1], x[:1])
    assert not mt.equal(x[:1], x)
    assert mt.isclose(mt.tensor([100]), mt.tensor([101]), rtol=0.02).item()


def test_ints_beyond_the_dtype_of_a_tensor() -> None:
    """They are divided as they are, refused as limits, choices, factors and exponents, and wrap around elsewhere."""
    x = mt.tensor([5, 7, 200], dtype=mt.uint8)
    for divisor in (256, -1, 2**33):
        wanted = (x.numpy().astype(np.float64) / divisor).astype(np.float32)
        np.testing.assert_allclose((x / divisor).numpy(), wanted, rtol=1e-6)
    np.testing.assert_allclose((300 / x).numpy(), (300 / x.numpy().astype(np.float64)).astype(np.float32), rtol=1e-6)
    assert (x / 256).dtype is mt.float32
    assert x.div(256 + 2, rounding_mode="floor").tolist() == [2, 3, 100]
    assert (x + 256).tolist() == x.tolist()
    refused = [
        lambda: x.clamp(0, 256),
        lambda: x.to(mt.int8).clamp(max=200),
        lambda: mt.where(x > 6, x, 256),
        lambda: x**300,
        lambda: x**-2,
        lambda: x.add(x, alpha=256),
    ]
    for call in refused:
        with pytest.raises(RuntimeError, match=r"cannot be converted to type .* without overflow"):
            call()
    assert x.clamp(6, 100).tolist() == [6, 7, 100]
    for call in (lambda y: y // 0, lambda y: y % 0, lambda y: y.fmod(0), lambda y: y.div(0, rounding_mode="trunc")):
        assert call(mt.zeros(0, dtype=mt.int64)).shape == (0,)


def test_parts_that_are_not_finite() -> None:
    found = mt.complex(mt.tensor([1.0, 2.0, math.nan]), mt.tensor([-math.inf, math.nan, 3.0])).numpy()
    np.testing.assert_array_equal(found.real, np.float32([1, 2, math.nan]))
    np.testing.assert_array_equal(found.imag, np.float32([-math.inf, math.nan, 3]))


def test_gradients_beside_branch_cuts_and_of_negative_bases() -> None:
    for sign, wanted in ((-0.0, -1 / math.sqrt(3)), (0.0, -1 / math.sqrt(3))):
        x = mt.tensor([complex(-2, sign)], dtype=mt.complex128, requires_grad=True)
        mt.acosh(x).real.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), [wanted], atol=1e-14)
    base = mt.tensor([-1.5], dtype=mt.float64)
    exponent = mt.tensor([0.5 + 1j], dtype=mt.complex128, requires_grad=True)
    assert gradcheck(lambda exponent: base**exponent, exponent)


def test_integers_are_divided_as_floats_whatever_their_types() -> None:
    T = mt.tensor
    for a, b, expected in (
        (T([7, 200], dtype=mt.uint8), T(-2), [-3.5, -100.0]),
        (T([1, 100], dtype=mt.int8), T(1000), [0.001, 0.1]),
        (T([1.0]), T(4), [0.25]),
        (T(300), T([2, 8], dtype=mt.int8), [150.0, 37.5]),
    ):
        assert (a / b).tolist() == pytest.approx(expected)
    assert (T([7], dtype=mt.int32) / T(2**33)).item() == pytest.approx(7 / 2**33)
    x = T([300, -7])
    assert x.div(True, rounding_mode="floor").tolist() == x.div(True, rounding_mode="trunc").tolist() == [300, -7]
    assert T([7.0, -7.0]).div_(2, rounding_mode="trunc").tolist() == [3.0, -3.0]
    assert str(inspect.signature(mt.div)) == "(input: 'Tensor', other: 'Tensor', *, rounding_mode=None)"
    with pytest.raises(RuntimeError, match=r"rounding_mode to be one of None, .* got \['floor'\]"):
        x.div(2, rounding_mode=["floor"])
    with pytest.raises(RuntimeError, match="an integer divisor is 0"):
        x.div(False, rounding_mode="floor")
    with pytest.raises(RuntimeError, match=r"not implemented for mt\.bool"):
        T([True]).div(T([True]), rounding_mode="trunc")


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16])
@pytest.mark.parametrize("size", [2, 1 << 17])
def test_numbers_that_meet_half_types(dtype: Any, size: int) -> None:
    """They are not rounded for arithmetic, which goes by float32; they are for comparisons."""
    x = mt.full((size,), 60000.0).to(dtype)
    for number in (1e5, 1e-9, 0.1):
        for operation in (operator.mul, operator.truediv):
            exact = operation(x.float(), mt.tensor(number)).to(dtype)
            assert operation(x, number).equal(exact)
            assert operation(x, mt.tensor(number)).equal(exact)
        exact = operation(x.float(), mt.tensor(70001.0)).to(dtype)
        assert operation(x, mt.tensor(70001)).equal(exact)
    x = mt.full((size,), 0.1).to(dtype)
    for number in (0.1, mt.tensor(0.1)):
        assert (x == number).all()
        assert not (x < number).any()
        assert (x >= number).all()


def test_isclose_of_integers_does_not_wrap_around() -> None:
    T = mt.tensor
    assert not mt.allclose(T([127], dtype=mt.int8), T([-1], dtype=mt.int8))
    assert not mt.allclose(T([2**63 - 1]), T([-1]))
    assert mt.allclose(T([200], dtype=mt.uint8), T([201], dtype=mt.uint8), rtol=0, atol=2)
    assert not mt.allclose(T([200], dtype=mt.uint8), T([203], dtype=mt.uint8), rtol=0, atol=2)
    assert mt.allclose(T([100], dtype=mt.uint8), T([101], dtype=mt.uint8), rtol=0.02)


def test_what_fills_keeps_its_64_bits() -> None:
    """A number takes the type of the tensor that it fills where nothing else is promoted."""
    x = mt.zeros(2, dtype=mt.float64)
    for found in (x.clone().fill_(0.1), x.masked_fill(x == 0, 0.1), x.clone().masked_fill_(x == 0, 0.1),
                  mt.nn.init.constant_(x.clone(), 0.1), x.clone().fill_(np.float64(0.1))):  # fmt: skip
        assert found.tolist() == [0.1, 0.1]
    assert x.masked_fill(x == 0, -1e300).tolist() == [-1e300, -1e300]
    assert mt.zeros(1, dtype=mt.complex128).fill_(0.1j).tolist() == [0.1j]
    assert mt.zeros(1, dtype=mt.int64).fill_(2**53 + 1).tolist() == [2**53 + 1]
    for dtype, value in ((mt.float32, 1e39), (mt.float16, 1e5), (mt.float32, 1j), (mt.uint8, 300)):
        with pytest.raises(RuntimeError, match="without overflow"):
            mt.zeros(1, dtype=dtype).fill_(value)


def test_integers_beyond_64_bits() -> None:
    big = 2**63
    assert mt.zeros(1).fill_(big).item() == mt.ones(1).masked_fill(mt.tensor([True]), big).item() == float(big)
    assert (mt.tensor([5.0]) + 2.0**70).item() == pytest.approx(2.0**70)
    assert not (mt.tensor([-big]) == big).item()
    assert (mt.tensor([1]) < big).item()
    for call in (lambda: mt.zeros(1, dtype=mt.int64).fill_(big), lambda: mt.tensor([True]) * big):
        with pytest.raises(RuntimeError, match=r"fits int64|without overflow"):
            call()
    x = mt.tensor([1.0])
    for call in (
        lambda: mt.tensor([1]) + 2**64,
        lambda: x ** -(2**70),
        lambda: x < 2**2000,
        lambda: x.clamp(max=2**64),
        lambda: x.lerp(x, 2**2000),
        lambda: x.fill_(2**64),
        lambda: x.add(x, alpha=2**2000),
        lambda: x.__setitem__(0, 2**64),
        lambda: mt.full((2,), 2**64),
    ):
        with pytest.raises(OverflowError, match=r"^\w+\(\): .* at most 64 bits, got"):
            call()
    assert x.item() == 1


@pytest.mark.parametrize("size", [1, 300_000])
def test_integers_that_are_no_float64_numbers_are_rounded_once(size: int) -> None:
    """By way of float64 this one would be a tie, and 2**60 in float32."""
    odd, rounded = 2**60 + 2**36 + 1, float(2**60 + 2**37)
    x = mt.ones(size).requires_grad_()
    (x * odd).sum().backward()
    for found in (x * odd, odd * x, x + odd, mt.ones(size).mul_(odd), x.grad):
        assert (found == rounded).all(), found
    assert mt.copysign(x, odd).sum() == size


def test_subtraction_refuses_booleans() -> None:
    flag = mt.tensor([True])
    for call in (
        lambda: flag - 2, lambda: 2 - flag, lambda: flag - flag, lambda: mt.tensor([1]) - flag,
        lambda: mt.tensor([1.0]) - True, lambda: mt.tensor([1]).sub_(flag),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=r"sub\(\) is not implemented for booleans; use \^"):
            call()


def test_integer_powers_of_negative_tensors() -> None:
    T = mt.tensor
    assert (T([2, 1, -1]) ** T(-1)).tolist() == [0, 1, -1]
    assert mt.pow(2, T([-128, -1, 0, 3, 7, 127], dtype=mt.int8)).tolist() == [0, 0, 1, 8, -128, 0]
    with pytest.raises(RuntimeError, match="negative integer powers are not allowed, got -1"):
        T([2]) ** -1


def test_complex_log1p_keeps_small_numbers() -> None:
    z = [1e-10 + 1e-10j, 1e-12, -0.5 + 0.1j, 3 + 4j]
    for dtype, tolerance in ((mt.complex64, 1e-6), (mt.complex128, 1e-9)):
        found = mt.tensor(z, dtype=dtype).log1p().tolist()
        exact = [1e-10 + 1e-10j, 1e-12, *(np.log(1 + np.array(z[2:])))]
        assert [abs(a - b) <= tolerance * abs(b) for a, b in zip(found, exact, strict=True)] == [True] * 4


def test_ldexp_overflows_where_its_result_does() -> None:
    found = mt.ldexp(mt.tensor([1e-30, 0.0, 1e30]), mt.tensor([200, 200, -150])).tolist()
    assert found == pytest.approx([1e-30 * 2.0**200, 0.0, 1e30 * 2.0**-150], rel=1e-6)


def test_gradients_of_logit_at_and_beyond_its_ends() -> None:
    x = leaf(0.0, -0.5, 1.0, 2.0, 0.5)
    for eps, expected in ((None, [math.inf, math.nan, math.inf, math.nan, 4.0]), (0.2, [0.0, 0.0, 0.0, 0.0, 4.0])):
        (found,) = mt.autograd.grad(mt.logit(x, eps).sum(), x)
        assert found.tolist() == pytest.approx(expected, nan_ok=True)


def test_read_only_memory_is_refused_in_words() -> None:
    memory = np.zeros(4, np.float32)
    memory.flags.writeable = False
    x = mt.from_numpy(memory)
    for call in (lambda: x.add_(1), x.relu_, x.exp_, lambda: x.mul_(x)):
        with pytest.raises(RuntimeError, match="is read-only"):
            call()
    assert x._version == 0


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16, mt.float32, mt.float64])
def test_ldexp_beyond_every_exponent(dtype: Any) -> None:
    x = mt.tensor([0.0, math.inf, -math.inf, 0.0, 3.0]).to(dtype)
    found = mt.ldexp(x, mt.tensor([3000, -3000, 3000, 40, -3])).tolist()
    assert found == [0.0, math.inf, -math.inf, 0.0, 0.375]


def test_remainders_of_half_types_are_those_of_the_rounded_number() -> None:
    x = mt.tensor([-884.0, 0.3]).bfloat16()
    assert (x % 1.7).equal(x % mt.tensor(1.7).bfloat16())
    assert mt.fmod(x, 1.7).equal(mt.fmod(x, mt.tensor(1.7).bfloat16()))
    assert mt.nn.functional.threshold(mt.tensor([0.10009765625]).bfloat16(), 0.1, 20).item() == 0.10009765625


@pytest.mark.parametrize("count", [1, 5000])
def test_lgamma_beside_its_zeros(count: int) -> None:
    """By its series there, whose next term is below a unit in the last place: few numbers and many."""
    for step in (1e-6, -1e-7, 1e-9, -1e-12):
        for zero, slope, bend in (
            (1, -0.5772156649015329, math.pi**2 / 6),
            (2, 0.42278433509846713, math.pi**2 / 6 - 1),
        ):
            place = zero + step
            exact = (place - zero) * slope + (place - zero) ** 2 * bend / 2
            found = mt.lgamma(mt.full((count,), place, dtype=mt.float64))
            assert abs(found[0].item() / exact - 1) < 3e-12
    assert mt.lgamma(mt.tensor(2.0)).item() == 0
    assert mt.lgamma(mt.tensor(3.0, dtype=mt.float64)).item() == pytest.approx(math.log(2), rel=1e-15)


def test_lgamma_of_huge_negative_numbers() -> None:
    assert mt.lgamma(mt.full((5000,), -1e306, dtype=mt.float64)).isinf().all()
    assert mt.lgamma(mt.full((5000,), -2.0, dtype=mt.float64)).isposinf().all()


def test_extrema_that_skip_nan_hand_their_gradient_to_one() -> None:
    nan = math.nan
    for function in (mt.fmax, mt.fmin):
        x, y = leaf(nan, nan, 1.0, 2.0), leaf(nan, 1.0, nan, 2.0)
        function(x, y).sum().backward()
        assert (x.grad.tolist(), y.grad.tolist()) == ([1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0])


def test_shifts_and_diagonals_are_whole_numbers() -> None:
    x = mt.ones(3, 3)
    for call in (lambda: mt.roll(x, 1.5), lambda: mt.roll(x, None), lambda: mt.tril(x, 1.5), lambda: mt.triu(x, "a")):
        with pytest.raises(TypeError):
            call()
    assert not mt.tril(x, -(2**63)).any()
    assert mt.triu(x, -(2**70)).equal(x)


def test_factors_of_products_that_are_added_have_the_type_of_these() -> None:
    five, two, three = (mt.tensor([each], dtype=mt.uint8) for each in (5, 2, 3))
    assert mt.addcmul(five, two, three, value=-1).tolist() == [255]
    one = mt.ones(1, dtype=mt.int32)
    assert mt.addcmul(one, one, one, value=1.5).tolist() == [2]
    for function in (mt.addcmul, mt.addcdiv):
        with pytest.raises(RuntimeError, match="is complex"):
            function(mt.ones(1), mt.ones(1), mt.ones(1), value=1j)


def test_what_is_compared_and_contained() -> None:
    with pytest.raises(TypeError, match="must be Tensors, got int"):
        mt.equal(mt.ones(1), 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a Tensor or a number, not str"):
        _ = "a" in mt.ones(1)
    assert 1 in mt.ones(1)


def test_numbers_can_be_copied() -> None:
    assert mt.zeros(2).copy_(3).tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match="can't assign a str"):
        mt.zeros(2).copy_("3")


def test_integers_are_added_at_places_times_a_whole_number() -> None:
    x = mt.zeros(3, dtype=mt.int64).index_add(0, mt.tensor([0, 1]), mt.tensor([3, 4]), alpha=2.0)
    assert x.tolist() == [6, 8, 0]


def test_places_in_nothing_and_of_nothing() -> None:
    assert mt.searchsorted(mt.zeros(2, 0), mt.ones(2, 3)).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert mt.searchsorted(mt.zeros(2, 3), mt.ones(2, 0)).shape == (2, 0)
    assert mt.searchsorted(mt.zeros(0, 2, 3), mt.ones(0, 2, 4)).shape == (0, 2, 4)


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16, mt.float32, mt.float64])
def test_neighbours_are_those_of_the_type(dtype: mt.dtype) -> None:
    one, eps = mt.tensor([1.0], dtype=dtype), mt.finfo(dtype).eps
    assert mt.nextafter(one, one * 2).item() == 1 + eps
    assert mt.nextafter(one, one * 0).item() == 1 - eps / 2
    assert mt.nextafter(one, one).item() == 1
    assert mt.nextafter(one * 0, -one).item() < 0


@pytest.mark.parametrize("size", [1, 5000])
@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16, mt.float32, mt.float64])
def test_zeros_keep_their_sign(dtype: mt.dtype, size: int) -> None:
    zero, functional = mt.zeros(size, dtype=dtype), mt.nn.functional
    for function in (functional.elu, functional.celu, functional.selu, functional.leaky_relu, mt.erfinv):
        assert mt.signbit(function(-zero)).all()
        assert not mt.signbit(function(zero)).any()
    for first in (mt.fmax, mt.fmin):
        assert mt.signbit(first(-zero, zero)).all()
        assert not mt.signbit(first(zero, -zero)).any()
    assert mt.signbit(mt.nextafter(zero, -zero)).all()
    assert not mt.signbit(mt.nextafter(-zero, zero)).any()


def test_positive_numbers_pass_celu_as_they_are() -> None:
    x = mt.arange(1, 100, dtype=mt.float64) / 7
    assert mt.nn.functional.celu(x, 0.3).equal(x)


def test_float_power_is_of_float64() -> None:
    x = mt.tensor([2, 3])
    assert mt.float_power(x, -1).tolist() == [0.5, 1 / 3]
    assert mt.float_power(2, x.half()).dtype is mt.float64
    assert mt.float_power(x, 0.5j).dtype is mt.complex128
    assert x.double().float_power_(2).tolist() == [4, 9]
    with pytest.raises(RuntimeError, match=r"float_power_\(\): the base must be of the result's dtype mt.float64"):
        x.float().float_power_(2)


def test_activations_at_unusual_parameters() -> None:
    """By their definitions: `celu` with a negative alpha, `logit` with an eps above 1/2, `threshold` of integers."""
    F = mt.nn.functional
    assert F.celu(leaf(-1.2, 2.0), -0.25).tolist() == pytest.approx([-0.25 * math.expm1(4.8), 2.0])
    assert gradient(lambda x: F.celu(x, -0.25), -1.2, 2.0) == pytest.approx([math.exp(4.8), 1.0])
    assert mt.logit(leaf(0.3), 1.0).tolist() == [math.inf]
    assert mt.logit(leaf(0.9, 0.3, 0.7), 0.6).tolist() == pytest.approx([-math.log(1.5), math.log(1.5), -math.log(1.5)])
    assert F.threshold(mt.tensor([0, 1], dtype=mt.int8), -0.25, 7.9).tolist() == [7, 1]


INTEGERS, FLOATS = mt.tensor([1, 2, 3]), mt.tensor([1.0, 0.5, 3.0], dtype=mt.float64)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: mt.nn.functional.cosine_similarity(a, b, dim=0),
        mt.dist,
        mt.nn.functional.pairwise_distance,
        lambda a, b: mt.nn.functional.gaussian_nll_loss(a, b, FLOATS),
    ],
)
def test_an_integer_beside_a_floating_tensor_is_promoted(call: Any) -> None:
    for pair in ((INTEGERS, FLOATS), (FLOATS, INTEGERS)):
        found, wanted = call(*pair), call(*[each.double() for each in pair])
        assert found.dtype is mt.float64
        assert found.equal(wanted)
