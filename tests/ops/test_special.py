"""Special functions beyond the samples of their declarations: known numbers, limits, tails, and what is refused."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import minitorch_backends as mt
from minitorch_backends import special
from minitorch_backends.autograd.gradcheck import gradcheck


def double(*values: float) -> mt.Tensor:
    return mt.tensor(list(values), dtype=mt.float64)


@pytest.mark.parametrize(
    ("function", "argument", "value"),
    [
        (special.erfcx, 1e3, 5.6418930016e-4),
        (special.ndtr, -10.0, 7.61985302416e-24),
        (special.log_ndtr, -40.0, -804.60844201),
        (special.ndtri, 0.975, 1.95996398454),
        (special.i0, 1.0, 1.26606587775),
        (special.i1e, 1e4, 3.9892731960e-3),
        (special.bessel_j1, 1.0, 0.440050585745),
        (special.bessel_y0, 1.0, 0.0882569642156),
        (special.modified_bessel_k1, 1.0, 0.601907230197),
        (special.scaled_modified_bessel_k0, 1e4, 0.012532984686),
        (special.airy_ai, 0.0, 0.355028053888),
        (special.spherical_bessel_j0, 0.0, 1.0),
    ],
)
def test_known_numbers(function: Callable[..., mt.Tensor], argument: float, value: float) -> None:
    assert function(double(argument)).item() == pytest.approx(value, rel=1e-8)


def test_zeta_and_multivariate_gamma() -> None:
    assert special.zeta(2, double(1.0)).item() == pytest.approx(math.pi**2 / 6)
    assert special.zeta(1, double(2.0)).item() == math.inf
    assert special.multigammaln(double(2.0), 2).item() == pytest.approx(math.log(math.pi / 2))
    for p in (0, -1, 2**40):
        with pytest.raises(RuntimeError, match=r"mvlgamma\(\): p must be an integer from 1"):
            mt.mvlgamma(double(2.0), p)


@pytest.mark.parametrize("dtype", [mt.float32, mt.float64])
def test_limits_at_infinity(dtype: mt.dtype) -> None:
    """Of zeta, the terms (k + other) ** -input; of ldexp, `input` times 0 or infinity; of heaviside and gammainc, NaN
    of NaN."""
    inf, nan = math.inf, math.nan

    def values(function: Callable[..., mt.Tensor], first: list[float], second: list[float]) -> list[float]:
        return function(mt.tensor(first, dtype=dtype), mt.tensor(second, dtype=dtype)).tolist()

    assert values(special.zeta, [inf, inf, inf, 2, 1e30, 1e30], [0.5, 2, inf, inf, inf, 1e30]) == [inf, 0, 0, 0, 0, 0]
    assert values(special.zeta, [inf, 1e30, 3.5], [1, 1, 1e30]) == [
        1,
        1,
        pytest.approx(0.4e-75 * (dtype == mt.float64)),
    ]
    assert values(mt.ldexp, [0, -3, -3, inf, 0, inf], [3000, inf, -inf, -3000, 1e30, inf]) == [0, -inf, 0, inf, 0, inf]
    undefined = [*values(mt.ldexp, [0, inf, nan, 1], [inf, -inf, 0, nan]), *values(mt.heaviside, [nan], [0.5])]
    undefined += [*values(special.zeta, [nan, 2], [2, nan]), *values(mt.igamma, [inf, nan, nan], [nan, inf, 0])]
    assert all(map(math.isnan, undefined))
    assert values(mt.heaviside, [inf, -inf, -0.0, 0], [nan, nan, 0.5, nan])[:3] == [1, 0, 0.5]


def test_extreme_arguments() -> None:
    assert special.airy_ai(double(150.0, 1e7, 1e300, math.inf)).tolist() == [0.0] * 4
    assert special.gammainc(double(5e-324, 1e-309, 0.0), double(1e-308)).tolist() == [1.0] * 3
    assert special.gammaincc(double(5e-324), double(1e-308)).item() < 1e-300
    # To 60 digits, by the series of large arguments (DLMF, 9.7.9).
    right = {-9e5: -0.00951417686150545, -1.1e6: -0.014581783845161614, -1e8: -0.005554128800056995}
    assert special.airy_ai(double(*right)).tolist() == pytest.approx([*right.values()], abs=1e-6)
    assert 0 < abs(special.airy_ai(double(-1e38)).item()) < 0.57 * 1e38**-0.25


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16, mt.float32])
def test_integer_exponents_beyond_what_a_half_type_holds(dtype: mt.dtype) -> None:
    extreme = mt.tensor([-(2**31), 2**31 - 1], dtype=mt.int32)
    assert mt.ldexp(mt.tensor([math.inf, 0.0], dtype=dtype), extreme).tolist() == [math.inf, 0.0]
    assert mt.ldexp(mt.tensor([3.0, 3.0], dtype=dtype), extreme).tolist() == [0.0, math.inf]
    if dtype != mt.float16:  # bfloat16 rounds 257 to 256
        assert mt.ldexp(mt.tensor(2.0**-133, dtype=dtype), mt.tensor(257)).item() == 2.0**124
    assert mt.ldexp(mt.ones(1, dtype=dtype), extreme).dtype == dtype


def test_zero_times_an_infinite_logarithm() -> None:
    zero = double(0.0, 0.0, 0.0).requires_grad_()
    out = special.xlog1py(zero, double(-1.0, math.inf, math.nan))
    assert out.tolist()[:2] == [0, 0]
    assert math.isnan(out[2].item())
    assert special.entr(double(0.0, -1.0, math.inf)).tolist() == [0, -math.inf, -math.inf]


def test_slopes_of_bessel_functions_at_zero() -> None:
    x = double(0.0).requires_grad_()
    assert mt.autograd.grad(special.i0(x).sum(), x)[0].item() == 0
    for function in (special.i1, special.i1e):
        assert mt.autograd.grad(function(x).sum(), x)[0].item() == 0.5


@pytest.mark.parametrize("function", [mt.igamma, mt.igammac, special.zeta])
def test_gradients_of_the_second_argument(function: Callable[..., mt.Tensor]) -> None:
    assert gradcheck(lambda x: function(double(1.5, 3.0), x), double(0.7, 2.5).requires_grad_())


def test_degrees_of_polynomials() -> None:
    x = double(0.3, -1.0, 1.0)
    assert special.chebyshev_polynomial_t(x, 40).tolist() == pytest.approx([math.cos(40 * math.acos(0.3)), 1, 1])
    assert special.legendre_polynomial_p(x, double(-2.0, 2.9, math.nan)).tolist()[:2] == [0, 1]
    assert math.isnan(special.laguerre_polynomial_l(x, math.nan)[0].item())
    assert special.hermite_polynomial_h(mt.tensor([1, 2]), 3).dtype is mt.float32
    with pytest.raises(RuntimeError, match=r"legendre_polynomial_p\(\): degree n must be at most 65536, got 1e\+20"):
        special.legendre_polynomial_p(x, 1e20)


def test_second_names() -> None:
    assert special.expit is mt.sigmoid
    assert special.psi is mt.digamma
    assert special.gammaln is mt.lgamma
    assert special.gammainc is mt.igamma
    assert special.multigammaln is mt.mvlgamma


def test_sinc_is_zero_at_integers_and_exact_far_from_zero() -> None:
    whole = mt.arange(1, 5000).float()
    assert mt.sinc(whole).abs().max() == 0
    near = (whole + 0.25).double().requires_grad_()
    sign = 1 - 2 * (whole.double() % 2)
    wanted = sign * math.sqrt(0.5) / (math.pi * near.detach())
    assert mt.allclose(mt.sinc(near), wanted, rtol=1e-15, atol=0)
    (slope,) = mt.autograd.grad(mt.sinc(near).sum(), near)
    assert mt.allclose(slope, (sign * math.sqrt(0.5) - wanted) / near.detach(), rtol=1e-13, atol=0)


def test_phases_of_running_logarithms_of_sums_go_on() -> None:
    """As those of sums one by one, also where they leave a turn behind."""
    rng = np.random.default_rng(0)
    terms = rng.normal(size=(40, 7)) * 3 + 1j * rng.normal(size=(40, 7)) * 9
    wanted = [terms[0]]
    for term in terms[1:]:
        larger, smaller = np.where(term.real > wanted[-1].real, [term, wanted[-1]], [wanted[-1], term])
        wanted.append(larger + np.log(1 + np.exp(smaller - larger)))
    found = mt.logcumsumexp(mt.tensor(terms), 0).numpy()
    assert np.abs(found - wanted).max() < 1e-12
    assert np.abs(found.imag).max() > np.pi
