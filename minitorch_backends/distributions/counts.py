"""Distributions of events that happen with a probability, and of their numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..autograd.modes import no_grad
from ..nn import functional as F
from ..ops.creation.factories import arange, zeros_like
from ..ops.creation.sampling import bernoulli
from ..ops.creation.variates import binomial, poisson
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import ExponentialFamily
from .positive import Gamma
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs, probs_to_logits, uniform

__all__ = ["Bernoulli", "Binomial", "ContinuousBernoulli", "Geometric", "NegativeBinomial", "Poisson"]


class _OfOdds(ExponentialFamily):
    """A distribution of a probability, which is given itself or by its log odds."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, True)

    @lazy_property
    def logits(self) -> Tensor:
        """The log odds."""
        return probs_to_logits(self.probs, True)

    @property
    def _parameter(self) -> Tensor:
        given = vars(self).get("probs")
        return self.logits if given is None else given

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._parameter.shape


class Bernoulli(_OfOdds):
    """1 with a probability, else 0."""

    support, has_enumerate_support = constraints.boolean, True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_either(probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return (self.probs >= 0.5).to(self.probs.dtype).where(self.probs != 0.5, math.nan)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerate_values(arange(2, dtype=self._parameter.dtype), expand)


class ContinuousBernoulli(_OfOdds):
    """Numbers from 0 to 1 whose density is proportional to probs**x (1 - probs)**(1 - x) (G. Loaiza-Ganem and J.
    Cunningham, arXiv 1907.06845). Within `lims` around 1/2 by series."""

    support, has_rsample = constraints.unit_interval, True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        self._set_either(probs, logits, validate_args)
        if probs is not None:
            self.probs = clamp_probs(self.probs)

    @property
    def _outside(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    @property
    def _cut(self) -> Tensor:
        """Probabilities that are not near 1/2."""
        return self.probs.where(self._outside, self._lims[0])

    def _log_norm(self) -> Tensor:
        cut, x = self._cut, (self.probs - 0.5) ** 2
        below, above = cut.where(cut <= 0.5, 0.0), cut.where(cut >= 0.5, 1.0)
        gap = (-2 * below).log1p().where(cut <= 0.5, (2 * above - 1).log())
        exact = ((-cut).log1p() - cut.log()).abs().log() - gap
        return exact.where(self._outside, math.log(2) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Tensor:
        cut, x = self._cut, self.probs - 0.5
        exact = cut / (2 * cut - 1) + 1 / ((-cut).log1p() - cut.log())
        return exact.where(self._outside, 0.5 + (1 / 3 + 16 / 45 * x**2) * x)

    @property
    def variance(self) -> Tensor:
        cut, x = self._cut, (self.probs - 0.5) ** 2
        exact = cut * (cut - 1) / (1 - 2 * cut) ** 2 + 1 / ((-cut).log1p() - cut.log()) ** 2
        return exact.where(self._outside, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(uniform(self.probs, self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return self._log_norm() - F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        cut = self._cut
        exact = (cut**value * (1 - cut) ** (1 - value) + cut - 1) / (2 * cut - 1)
        return exact.where(self._outside, value).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut
        exact = ((-cut + value * (2 * cut - 1)).log1p() - (-cut).log1p()) / (cut.log() - (-cut).log1p())
        return exact.where(self._outside, value)

    def entropy(self) -> Tensor:
        absent, present = (-self.probs).log1p(), self.probs.log()
        return self.mean * (absent - present) - self._log_norm() - absent


class Geometric(_OfOdds):
    """The number of failures before the first success."""

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._set_either(probs, logits, validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ValueError(f"Geometric(): probs must be positive, got {self.probs.min().item()} among them")

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = uniform(self.probs, self._extended_shape(sample_shape))
        return (drawn.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        failing = (-probs).where((probs != 1) | (value != 0), 0)
        return value * failing.log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class Binomial(_OfOdds):
    """The number of successes among `total_count` trials."""

    arg_constraints: ClassVar[Any] = {"total_count": constraints.nonnegative_integer, **_OfOdds.arg_constraints}
    has_enumerate_support = True
    total_count: Tensor

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._set_either(probs, logits, validate_args, total_count=total_count)
        self.total_count = self.total_count.to(self._parameter.dtype)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n, logits = self.total_count, self.logits
        norm = n * logits.clamp(min=0) + n * (-logits.abs()).exp().log1p() - (n + 1).lgamma()
        return value * logits - (value + 1).lgamma() - (n - value + 1).lgamma() - norm

    def entropy(self) -> Tensor:
        total = int(self.total_count.max().item())
        if not self.total_count.min().item() == total:
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        found = self.log_prob(self.enumerate_support(False))
        return -(found.exp() * found).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        total = int(self.total_count.max().item())
        if not self.total_count.min().item() == total:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return self._enumerate_values(arange(1 + total, dtype=self._parameter.dtype), expand)


class NegativeBinomial(_OfOdds):
    """The number of successes before `total_count` failures."""

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    total_count: Tensor

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._set_either(probs, logits, validate_args, total_count=total_count)
        self.total_count = self.total_count.to(self._parameter.dtype)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        rates = Gamma(self.total_count, (-self.logits).exp(), validate_args=False)
        return poisson(rates.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n, logits = self.total_count, self.logits
        found = n * F.logsigmoid(-logits) + value * F.logsigmoid(logits)
        norm = (1 + value).lgamma() + n.lgamma() - (n + value).lgamma()
        return found - norm.where(n + value != 0, 0)


class Poisson(ExponentialFamily):
    """The number of events in a unit of time, `rate` on average."""

    arg_constraints, support = {"rate": constraints.nonnegative}, constraints.nonnegative_integer
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate

    variance = mean

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return value.xlogy(self.rate) - self.rate - (value + 1).lgamma()
