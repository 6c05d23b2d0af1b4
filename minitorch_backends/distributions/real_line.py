"""Distributions of real numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..ops.creation.factories import full_like, ones_like
from ..ops.creation.sampling import generator_or_default, rand, randn
from ..special import i0e, i1e
from ..tensor.casting import cast_unchecked
from ..tensor.tensor import Tensor, adopt
from . import constraints
from .distribution import Distribution, ExponentialFamily
from .utils import standard_gamma, uniform

__all__ = ["Cauchy", "GeneralizedPareto", "Laplace", "Normal", "StudentT", "Uniform", "VonMises"]


_LOCATION = {"loc": constraints.real, "scale": constraints.positive}


class _LocationScale(Distribution):
    """Numbers that are moved by `loc` and stretched by `scale`."""

    arg_constraints, support, has_rsample = _LOCATION, constraints.real, True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, scale=scale)


class Normal(_LocationScale, ExponentialFamily):
    """Normal numbers of mean `loc` and standard deviation `scale`."""

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return self.scale**2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.loc + randn(self._extended_shape(sample_shape), dtype=self.loc.dtype) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -(((value - self.loc) / self.scale) ** 2) / 2 - self.scale.log() - math.log(2 * math.pi) / 2

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (1 + ((value - self.loc) / (self.scale * math.sqrt(2))).erf()) / 2

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + math.log(2 * math.pi) / 2 + self.scale.log()


class Laplace(_LocationScale):
    """Numbers whose density falls exponentially on both sides of `loc`."""

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale**2

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = 2 * uniform(self.loc, self._extended_shape(sample_shape)) - 1
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * (-away.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """Numbers of infinite variance around `loc`; `scale` is the half width at half of the density."""

    @property
    def mean(self) -> Tensor:
        return full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(uniform(self.loc, self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class StudentT(Distribution):
    """A normal number over the root of a mean of `df` squares of others, times `scale`, plus `loc`."""

    arg_constraints: ClassVar[Any] = {"df": constraints.positive, **_LOCATION}
    support, has_rsample = constraints.real, True
    df: Tensor
    loc: Tensor
    scale: Tensor

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self._set(validate_args, df=df, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        return self.loc.where(self.df > 1, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.scale**2 * self.df / (self.df - 2)
        return finite.where(self.df > 2, full_like(self.df, math.inf).where(self.df > 1, math.nan))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        squares = standard_gamma((self.df / 2).expand(shape)) * 2
        return self.loc + self.scale * randn(shape, dtype=self.df.dtype) * (self.df / squares).sqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        half = self.df / 2
        spread = self.scale.log() + self.df.log() / 2 + math.log(math.pi) / 2 + half.lgamma() - (half + 0.5).lgamma()
        return -(half + 0.5) * (y**2 / self.df).log1p() - spread

    def entropy(self) -> Tensor:
        half = self.df / 2
        beta = half.lgamma() + math.lgamma(0.5) - (half + 0.5).lgamma()
        slope = (half + 0.5).digamma() - half.digamma()
        return self.scale.log() + (half + 0.5) * slope + self.df.log() / 2 + beta


class VonMises(Distribution):
    """Angles around `loc`; near 0, `concentration` is the inverse of a variance."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, concentration=concentration)

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        """The circular variance, from 0 to 1."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape, loc, spread = self._extended_shape(sample_shape), self.loc._array, self.concentration._array
        return adopt(cast_unchecked(generator_or_default(None)._von_mises(loc, spread, tuple(shape)), loc.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        spread = self.concentration
        return spread * ((value - self.loc).cos() - 1) - math.log(2 * math.pi) - i0e(spread).log()


class Uniform(Distribution):
    """Numbers in [low, high), all equally likely."""

    arg_constraints: ClassVar[Any] = {"low": constraints.dependent, "high": constraints.dependent}
    has_rsample = True
    low: Tensor
    high: Tensor

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, low=low, high=high)
        if self._validate_args and not bool((self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low>= high")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return full_like(self.high, math.nan)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = rand(self._extended_shape(sample_shape), dtype=self.low.dtype)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class GeneralizedPareto(Distribution):
    """Excesses over the threshold `loc`; the tail is heavy for a positive `concentration` and ends for a negative
    one."""

    arg_constraints: ClassVar[Any] = {**_LOCATION, "concentration": constraints.real}
    has_rsample = True
    loc: Tensor
    scale: Tensor
    concentration: Tensor

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, end.where(self.concentration < 0, math.inf))

    @property
    def _flat(self) -> Tensor:
        return self.concentration.abs() < 1e-8 if self.loc.itemsize > 4 else self.concentration.abs() < 1e-5

    def _log_survival(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of larger values."""
        z, k = (value - self.loc) / self.scale, ones_like(self.concentration).where(self._flat, self.concentration)
        return (-z).where(self._flat, -(k * z).log1p() / k)

    @property
    def mean(self) -> Tensor:
        k = self.concentration
        return (self.loc + self.scale / (1 - k)).where(k < 1, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        return (self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k))).where(k < 0.5, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(uniform(self.loc, self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (1 + self.concentration) * self._log_survival(value) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -self._log_survival(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        k, left = ones_like(self.concentration).where(self._flat, self.concentration), (-value).log1p()
        return self.loc + self.scale * (-left).where(self._flat, (-k * left).expm1() / k)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
