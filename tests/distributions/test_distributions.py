"""Distributions against SciPy's: densities, moments, samples; and gradients of samples, shapes, checks."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

import minitorch_backends as mt
from minitorch_backends import distributions as d

from ..support.distribution_cases import CASES, SCIPY, make_distribution


def numbers(value: mt.Tensor) -> np.ndarray:
    return value.detach().numpy()


def first(value: mt.Tensor, distribution: d.Distribution) -> np.ndarray:
    """The part of a value that belongs to the first of a batch."""
    return numbers(value.expand((*distribution.batch_shape, *value.shape[len(distribution.batch_shape) :])))[
        (0,) * len(distribution.batch_shape)
    ]


@pytest.mark.parametrize("name", SCIPY)
def test_densities_and_moments(name: str) -> None:
    kind, arguments = SCIPY[name]
    expected, (distribution, _, value) = getattr(scipy.stats, kind)(**arguments), make_distribution(name, mt)
    x = first(value, distribution) if distribution.event_shape and value.ndim > 1 else numbers(value)
    x = x if distribution.event_shape else x[0]
    found = first(distribution.log_prob(value), distribution)
    if name in ("Bernoulli", "Geometric", "Binomial", "NegativeBinomial", "Poisson", "Multinomial"):
        np.testing.assert_allclose(found, expected.logpmf(x), rtol=1e-9)
    else:
        np.testing.assert_allclose(found, np.ravel(expected.logpdf(x))[0], rtol=1e-9)
    if not distribution.event_shape and name not in ("VonMises", "Cauchy", "HalfCauchy"):
        np.testing.assert_allclose(numbers(distribution.mean)[0], expected.mean(), rtol=1e-9)
        np.testing.assert_allclose(numbers(distribution.variance)[0], expected.var(), rtol=1e-9)
    for each, other, at in (("cdf", "cdf", value), ("icdf", "ppf", value * 0 + 0.3)):
        try:
            result = getattr(distribution, each)(at)
        except NotImplementedError:
            continue
        np.testing.assert_allclose(numbers(result)[0], getattr(expected, other)(numbers(at)[0]), rtol=1e-9)
    if name not in ("Geometric", "NegativeBinomial", "Poisson", "VonMises", "FisherSnedecor"):
        entropy = first(distribution.entropy(), distribution)
        np.testing.assert_allclose(entropy, expected.entropy(), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", sorted(CASES))
def test_samples_have_the_distribution(name: str) -> None:
    """Their means, within five standard errors, and their shapes; of heavy tails the share below a quantile."""
    mt.manual_seed(7)
    distribution, _, _ = make_distribution(name, mt)
    count = 4000
    drawn = distribution.sample((count,))
    assert drawn.shape == (count, *distribution.batch_shape, *distribution.event_shape)
    assert bool(distribution.support.check(drawn).all())
    if name in ("Cauchy", "HalfCauchy"):
        share = numbers((drawn < distribution.icdf(mt.tensor(0.3, dtype=mt.float64))).to(mt.float64).mean(0))
        np.testing.assert_allclose(share, 0.3, atol=5 * math.sqrt(0.21 / count))
        return
    try:
        mean, variance = numbers(distribution.mean), numbers(distribution.variance)
    except NotImplementedError:
        return
    if ("Categorical" in name and "OneHot" not in name) or name == "VonMises":
        return
    np.testing.assert_array_less(abs(numbers(drawn).mean(0) - mean), 6 * np.sqrt(variance / count) + 1e-12)


@pytest.mark.parametrize("name", [each for each in sorted(CASES) if make_distribution(each, mt)[0].has_rsample])
def test_gradients_of_samples(name: str) -> None:
    """With one seed a sample is a function of the parameters."""

    def draw(arguments: dict[str, Any]) -> mt.Tensor:
        mt.manual_seed(3)
        return getattr(d, kind)(**arguments).rsample((2,)).sum()

    kind, arguments, _ = CASES[name]
    given = {
        key: each if isinstance(each, int) else mt.tensor(each, dtype=mt.float64, requires_grad=True)
        for key, each in arguments.items()
    }
    if kind == "Wishart":
        del given["df"]
        given = {"df": mt.tensor(4.0, dtype=mt.float64, requires_grad=True), **given}
    draw(given).backward()
    for key, leaf in given.items():
        if isinstance(leaf, int) or key == "covariance_matrix":
            continue
        step = 1e-6
        moved = [draw({**given, key: leaf.detach() + sign * step}) for sign in (1, -1)]
        expected = (moved[0] - moved[1]).item() / (2 * step)
        np.testing.assert_allclose(leaf.grad.sum().item(), expected, rtol=2e-4, atol=1e-6, err_msg=key)


def test_mixtures_and_independent_events() -> None:
    weights, loc = mt.tensor([0.3, 0.7], dtype=mt.float64), mt.tensor([-1.0, 2.0], dtype=mt.float64)
    mixture = d.MixtureSameFamily(d.Categorical(weights), d.Normal(loc, 0.5))
    x = mt.tensor([0.0, 1.5], dtype=mt.float64)
    parts = [scipy.stats.norm(at, 0.5) for at in (-1, 2)]
    expected = 0.3 * parts[0].pdf(numbers(x)) + 0.7 * parts[1].pdf(numbers(x))
    np.testing.assert_allclose(numbers(mixture.log_prob(x)), np.log(expected))
    np.testing.assert_allclose(mixture.mean.item(), 1.1)
    np.testing.assert_allclose(mixture.variance.item(), 0.25 + 0.3 * 2.1**2 + 0.7 * 0.9**2)
    assert mixture.sample((5, 2)).shape == (5, 2)
    joint = d.Independent(d.Normal(loc, 0.5), 1)
    assert (joint.batch_shape, joint.event_shape) == ((), (2,))
    np.testing.assert_allclose(joint.log_prob(x).item(), sum(p.logpdf(v) for p, v in zip(parts, (0, 1.5), strict=True)))
    assert joint.expand((3,)).sample().shape == (3, 2)


def test_straight_through_samples_pass_gradients_to_probabilities() -> None:
    probs = mt.tensor([0.2, 0.8], requires_grad=True)
    drawn = d.OneHotCategoricalStraightThrough(probs).rsample()
    assert sorted(drawn.tolist()) == [0.0, 1.0]
    (drawn * mt.tensor([1.0, 3.0])).sum().backward()
    np.testing.assert_allclose(probs.grad.numpy(), [-1.6, 0.4], rtol=1e-5)


def test_parameters_and_values_are_checked() -> None:
    with pytest.raises(ValueError, match=r"Expected parameter scale .* GreaterThan\(lower_bound=0.0\)"):
        d.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="within the support"):
        d.Beta(1.0, 1.0).log_prob(mt.tensor(2.0))
    with pytest.raises(ValueError, match="right-most size"):
        d.Dirichlet(mt.ones(3)).log_prob(mt.ones(2) / 2)
    with pytest.raises(ValueError, match="not both"):
        d.Bernoulli()
    assert math.isnan(d.Normal(0.0, -1.0, validate_args=False).log_prob(mt.tensor(0.0)).item())
    with pytest.raises(NotImplementedError, match="No KL"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Bernoulli(0.5))
    assert repr(d.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"


def test_distributions_of_ones_own() -> None:
    class Doubled(d.Normal):
        pass

    @d.register_kl(Doubled, Doubled)
    def _(p: Doubled, q: Doubled) -> str:
        return "own"

    assert d.kl_divergence(Doubled(0.0, 1.0), Doubled(0.0, 1.0)) == "own"
    assert d.kl_divergence(Doubled(0.0, 1.0), d.Normal(0.0, 1.0)).item() == 0
