"""Distributions of positive numbers, and of probabilities."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..ops.creation.factories import zeros_like
from ..ops.limits import finfo
from ..ops.views.join import stack
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import Distribution, ExponentialFamily
from .utils import standard_gamma, uniform

__all__ = ["Beta", "Chi2", "Dirichlet", "Exponential", "FisherSnedecor", "Gamma", "InverseGamma"]


class Exponential(ExponentialFamily):
    """The time to an event that happens `rate` times per unit."""

    arg_constraints, support, has_rsample = {"rate": constraints.positive}, constraints.nonnegative, True
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return 1 / self.rate

    stddev = mean

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.rate)

    @property
    def variance(self) -> Tensor:
        return self.rate**-2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return -uniform(self.rate, self._extended_shape(sample_shape)).log() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()


class Gamma(ExponentialFamily):
    """The time to `concentration` events that happen `rate` times per unit."""

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support, has_rsample = constraints.nonnegative, True
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return standard_gamma(self.concentration.expand(self._extended_shape(sample_shape))) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        shape = self.concentration
        return shape.xlogy(self.rate) + (shape - 1).xlogy(value) - self.rate * value - shape.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.concentration.igamma(self.rate * value)

    def entropy(self) -> Tensor:
        shape = self.concentration
        return shape - self.rate.log() + shape.lgamma() + (1 - shape) * shape.digamma()


class Chi2(Gamma):
    """The sum of squares of `df` normal numbers."""

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(df * 0.5, 0.5, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new.concentration, new.rate = self.concentration.expand(batch_shape), self.rate.expand(batch_shape)
        return new

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2


class InverseGamma(Distribution):
    """The inverse of a `Gamma` distributed number."""

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support, has_rsample = constraints.positive, True
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, concentration=concentration, rate=rate)

    @property
    def base_dist(self) -> Gamma:
        """The distribution of the inverse."""
        return Gamma(self.concentration, self.rate, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return (self.rate / (self.concentration - 1)).where(self.concentration > 1, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        shape = self.concentration
        return (self.rate**2 / ((shape - 1) ** 2 * (shape - 2))).where(shape > 2, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return 1 / self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.base_dist.log_prob(1 / value) - 2 * value.log()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 1 - self.base_dist.cdf(1 / value)

    def entropy(self) -> Tensor:
        shape = self.concentration
        return shape + self.rate.log() + shape.lgamma() - (1 + shape) * shape.digamma()


class FisherSnedecor(Distribution):
    """The quotient of two means of squares of normal numbers, `df1` and `df2` of them."""

    arg_constraints: ClassVar[Any] = {"df1": constraints.positive, "df2": constraints.positive}
    support, has_rsample = constraints.positive, True
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, df1=df1, df2=df2)

    @property
    def mean(self) -> Tensor:
        return (self.df2 / (self.df2 - 2)).where(self.df2 > 2, math.nan)

    @property
    def mode(self) -> Tensor:
        return ((self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)).where(self.df1 > 2, math.nan)

    @property
    def variance(self) -> Tensor:
        one, two = self.df1, self.df2
        found = 2 * two**2 * (one + two - 2) / (one * (two - 2) ** 2 * (two - 4))
        return found.where(two > 4, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        first, second = (standard_gamma((each / 2).expand(shape)) / each for each in (self.df1, self.df2))
        return (first / second.clamp(min=finfo(second.dtype).tiny)).clamp(min=finfo(second.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        one, two, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        outer = (one + two).lgamma() - one.lgamma() - two.lgamma()
        return outer + one * ratio.log() + (one - 1) * value.log() - (one + two) * (ratio * value).log1p()


class Dirichlet(ExponentialFamily):
    """Probabilities of a `Categorical`: vectors of positive numbers that sum to 1."""

    arg_constraints: ClassVar[Any] = {"concentration": constraints.independent(constraints.positive, 1)}
    support, has_rsample = constraints.simplex, True
    concentration: Tensor

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        lowered = (self.concentration - 1).clamp(min=0)
        found = lowered / lowered.sum(-1, True)
        corner = zeros_like(found).scatter(-1, self.concentration.argmax(-1, True), 1.0)
        return found.where((self.concentration >= 1).any(-1, True), corner)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return drawn / drawn.sum(-1, True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        shape = self.concentration
        return (shape - 1).xlogy(value).sum(-1) + shape.sum(-1).lgamma() - shape.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        shape, count = self.concentration, self.concentration.shape[-1]
        total = shape.sum(-1)
        spread = (total - count) * total.digamma() - ((shape - 1) * shape.digamma()).sum(-1)
        return shape.lgamma().sum(-1) - total.lgamma() + spread


class Beta(ExponentialFamily):
    """Probabilities of a `Bernoulli`: numbers from 0 to 1."""

    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support, has_rsample = constraints.unit_interval, True
    concentration1: Tensor
    concentration0: Tensor

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, concentration1=concentration1, concentration0=concentration0)

    @property
    def _dirichlet(self) -> Dirichlet:
        return Dirichlet(stack([self.concentration1, self.concentration0], -1), validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._dirichlet.log_prob(stack([value, 1 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()
