"""The Kullback-Leibler divergence of two distributions, by pairs of their classes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from .. import linalg
from ..tensor.tensor import Tensor
from .categorical import Categorical, OneHotCategorical
from .combined import Independent, TransformedDistribution
from .counts import Bernoulli, Binomial, ContinuousBernoulli, Geometric, Poisson
from .distribution import Distribution
from .multivariate import LowRankMultivariateNormal, MultivariateNormal, mahalanobis
from .positive import Beta, Dirichlet, Exponential, Gamma
from .real_line import Cauchy, Laplace, Normal, Uniform
from .transformed import Gumbel, HalfNormal, Pareto
from .transforms import sum_rightmost

_registry: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}
_EULER = 0.5772156649015329


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Declare a function of two distributions of these classes, and their subclasses, as their divergence."""
    for each in (type_p, type_q):
        if not isinstance(each, type) or not issubclass(each, Distribution):
            raise TypeError(f"register_kl(): expected subclasses of Distribution, got {each}")

    def declare(function: Callable[[Any, Any], Tensor]) -> Callable[[Any, Any], Tensor]:
        _registry[type_p, type_q] = function
        _find.cache_clear()
        return function

    return declare


@functools.cache
def _find(type_p: type, type_q: type) -> Callable[[Any, Any], Tensor] | None:
    """The function of the nearest base classes of both."""
    orders = type_p.__mro__, type_q.__mro__
    fitting = [
        (orders[0].index(p) + orders[1].index(q), p, q)
        for p, q in _registry
        if issubclass(type_p, p) and issubclass(type_q, q)
    ]
    return _registry[min(fitting, key=lambda each: each[0])[1:]] if fitting else None


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The divergence of `q` from `p`: the mean of log p(x) - log q(x) over x of p, for each of the batch.

    Raises NotImplementedError for classes that have no formula.
    """
    function: Any = _find(type(p), type(q))  # type: ignore[arg-type]
    if function is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return function(p, q)


def _xlog(x: Tensor, ratio: Tensor) -> Tensor:
    return x.xlogy(ratio)


@register_kl(Bernoulli, Bernoulli)
def _(p: Bernoulli, q: Bernoulli) -> Tensor:
    a, b = p.probs, q.probs
    return _xlog(a, a / b).where(a > 0, 0) + _xlog(1 - a, (1 - a) / (1 - b)).where(a < 1, 0)


@register_kl(Binomial, Binomial)
def _(p: Binomial, q: Binomial) -> Tensor:
    per_trial = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return (p.total_count * per_trial).where(p.total_count <= q.total_count, math.inf)


@register_kl(Categorical, Categorical)
def _(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = terms.where(q.probs != 0, math.inf)
    return terms.where(p.probs != 0, 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    norms = p._log_norm() - q._log_norm()
    return p.mean * (p.logits - q.logits) + norms + (-p.probs).log1p() - (-q.probs).log1p()


@register_kl(Geometric, Geometric)
def _(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


def _log_beta_norm(a: Tensor, b: Tensor) -> Tensor:
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


@register_kl(Beta, Beta)
def _(p: Beta, q: Beta) -> Tensor:
    a, b, total = p.concentration1, p.concentration0, p.concentration1 + p.concentration0
    c, d = q.concentration1, q.concentration0
    slopes = (a - c) * a.digamma() + (b - d) * b.digamma() + (c + d - total) * total.digamma()
    return _log_beta_norm(c, d) - _log_beta_norm(a, b) + slopes


@register_kl(Dirichlet, Dirichlet)
def _(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    norms = a.sum(-1).lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return norms + ((a - b) * (a.digamma() - a.sum(-1, True).digamma())).sum(-1)


@register_kl(Exponential, Exponential)
def _(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _(p: Gamma, q: Gamma) -> Tensor:
    a, b, c, d = p.concentration, p.rate, q.concentration, q.rate
    return c * (b / d).log() + c.lgamma() - a.lgamma() + (a - c) * a.digamma() + (d - b) * (a / b)


@register_kl(Exponential, Gamma)
def _(p: Exponential, q: Gamma) -> Tensor:
    ratio = q.rate / p.rate
    shape = q.concentration
    return -shape * ratio.log() + ratio + shape.lgamma() + shape * _EULER - (1 + _EULER)


@register_kl(Gamma, Exponential)
def _(p: Gamma, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gumbel, Gumbel)
def _(p: Gumbel, q: Gumbel) -> Tensor:
    a, b, c = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    return -a.log() - b + c + a * _EULER + (b + (1 + a).lgamma() - c).exp() - (1 + _EULER)


@register_kl(HalfNormal, HalfNormal)
def _(p: HalfNormal, q: HalfNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _(p: Laplace, q: Laplace) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _(p: Cauchy, q: Cauchy) -> Tensor:
    return (((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2).log()) - (4 * p.scale * q.scale).log()


@register_kl(Normal, Normal)
def _(p: Normal, q: Normal) -> Tensor:
    ratio, apart = (p.scale / q.scale) ** 2, ((p.loc - q.loc) / q.scale) ** 2
    return 0.5 * (ratio + apart - 1 - ratio.log())


@register_kl(Normal, Laplace)
def _(p: Normal, q: Laplace) -> Tensor:
    apart = p.loc - q.loc
    z, ratio = apart / p.scale, p.scale / q.scale
    inside = math.sqrt(2 / math.pi) * (-0.5 * z**2).exp() + z * (math.sqrt(0.5) * z).erf()
    return -ratio.log() + ratio * inside - 0.5 * math.log(0.5 * math.pi * math.e)


@register_kl(Laplace, Normal)
def _(p: Laplace, q: Normal) -> Tensor:
    square = q.scale**2
    ratio = p.scale**2 / square
    apart = 0.5 * p.loc**2 - p.loc * q.loc + 0.5 * q.loc**2
    return -0.5 * (2 * ratio).log() + 0.5 * math.log(math.pi) + ratio + apart / square - 1


def _by_moments(p: Any, q: Normal) -> Tensor:
    """The divergence of a normal distribution from one with a mean, a variance and an entropy."""
    return (
        -p.entropy()
        + 0.5 * math.log(2 * math.pi)
        + q.scale.log()
        + 0.5 * ((p.variance + (p.mean - q.loc) ** 2) / q.scale**2)
    )


def _of_rate(p: Any, q: Exponential) -> Tensor:
    """The divergence of an exponential distribution from one of positive numbers with a mean and an entropy."""
    return -p.entropy() - q.rate.log() + q.rate * p.mean


def _declare(kinds: tuple[type, ...], others: tuple[type, ...], function: Callable[[Any, Any], Tensor]) -> None:
    for kind in kinds:
        for other in others:
            register_kl(kind, other)(function)


_declare((Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Uniform), (Normal,), _by_moments)
_declare((Beta, ContinuousBernoulli, Pareto), (Exponential,), _of_rate)


@register_kl(Uniform, Exponential)
def _(p: Uniform, q: Exponential) -> Tensor:
    return _of_rate(p, q).where(p.low >= 0, math.inf)


@register_kl(Uniform, Uniform)
def _(p: Uniform, q: Uniform) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return found.where((q.low <= p.low) & (q.high >= p.high), math.inf)


@register_kl(Beta, Uniform)
def _(p: Beta, q: Uniform) -> Tensor:
    return (-p.entropy() + (q.high - q.low).log()).where((q.low <= 0) & (q.high >= 1), math.inf)


@register_kl(Beta, Gamma)
def _(p: Beta, q: Gamma) -> Tensor:
    total = p.concentration1 + p.concentration0
    logs = (q.concentration - 1) * (p.concentration1.digamma() - total.digamma())
    rest = q.concentration.lgamma() - q.concentration * q.rate.log() + q.rate * p.mean
    return -p.entropy() + rest - logs


@register_kl(Pareto, Pareto)
def _(p: Pareto, q: Pareto) -> Tensor:
    ratio, alpha = p.scale / q.scale, q.alpha / p.alpha
    return (q.alpha * ratio.log() - alpha.log() + alpha - 1).where(p.support.lower_bound >= q.scale, math.inf)


@register_kl(Bernoulli, Poisson)
def _(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


def _never(p: Any, q: Any) -> Tensor:
    """The divergence where `p` has values that `q` has not."""
    return (p.mean * 0 + q.mean * 0).nan_to_num(0, 0, 0) + math.inf


_BOUNDED = (Beta, ContinuousBernoulli, Uniform)
_declare((Normal, Laplace, Gumbel), (*_BOUNDED, Exponential, Gamma, Pareto), _never)
_declare((Exponential, Gamma, Pareto), _BOUNDED, _never)
_declare((Exponential, Gamma, Beta, ContinuousBernoulli), (Pareto,), _never)
_declare((Poisson,), (Bernoulli, Binomial), _never)


def _of_normals(p: Any, q: Any, length: Tensor, trace: Tensor, size: int) -> Tensor:
    halves = (factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) for factor in (q.scale_tril, p.scale_tril))
    return next(halves) - next(halves) + 0.5 * (trace + length - size)


def _multivariate(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two multivariate normals with different event shapes cannot be computed"
        )
    spread = linalg.solve_triangular(q.scale_tril, p.scale_tril, upper=False)
    length = mahalanobis(q.scale_tril, q.loc - p.loc)
    return _of_normals(p, q, length, (spread**2).sum((-2, -1)), p.event_shape[0])


_NORMALS = (MultivariateNormal, LowRankMultivariateNormal)
_declare(_NORMALS, _NORMALS, _multivariate)


@register_kl(Independent, Independent)
def _(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence of Independent distributions of different event dimensions")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence of distributions by different transforms")
    return kl_divergence(p.base_dist, q.base_dist)
