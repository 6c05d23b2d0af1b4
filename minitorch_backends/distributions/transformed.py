"""Distributions of transformed numbers of other distributions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..ops.creation.factories import full_like
from ..ops.limits import finfo
from ..tensor.size import Size
from ..tensor.tensor import Tensor
from . import constraints
from .combined import TransformedDistribution
from .distribution import Distribution
from .positive import Exponential
from .real_line import Cauchy, Normal, Uniform
from .transforms import AbsTransform, AffineTransform, ExpTransform, PowerTransform, StickBreakingTransform, Transform
from .utils import broadcast_all

__all__ = ["Gumbel", "HalfCauchy", "HalfNormal", "Kumaraswamy", "LogNormal", "LogisticNormal", "Pareto", "Weibull"]


_EULER = 0.5772156649015329


class _Named(TransformedDistribution):
    """A transformed distribution with parameters of its own, which broadcast."""

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        for name in self.arg_constraints:
            if name in vars(self):
                setattr(new, name, getattr(self, name).expand(Size(batch_shape)))
        if "_retransformed" in dir(new):
            new.transforms = new._rebuild()
        return new

    __repr__ = Distribution.__repr__


class LogNormal(TransformedDistribution):
    """The exponential of a normal number."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale  # type: ignore[attr-defined]

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale**2
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class _Half(TransformedDistribution):
    """The absolute value of a number that is distributed evenly around 0."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative

    @property
    def scale(self) -> Tensor:
        """The scale of the whole distribution."""
        return self.base_dist.scale  # type: ignore[attr-defined]

    @property
    def mode(self) -> Tensor:
        return full_like(self.scale, 0.0)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (self.base_dist.log_prob(value) + math.log(2)).where(value >= 0, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal number of mean 0."""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, False), AbsTransform(), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The absolute value of a `Cauchy` number around 0."""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, False), AbsTransform(), validate_args)

    @property
    def mean(self) -> Tensor:
        return full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance


class Gumbel(_Named):
    """The largest of many numbers."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = finfo(self.loc.dtype)
        base = Uniform(full_like(self.loc, info.tiny), full_like(self.loc, 1 - info.eps), validate_args)
        super().__init__(base, self._rebuild(), validate_args)

    def _rebuild(self) -> list[Transform]:
        inner = AffineTransform(0, -full_like(self.scale, 1.0))
        return [ExpTransform().inv, inner, ExpTransform().inv, AffineTransform(self.loc, -self.scale)]

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * _EULER

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return math.pi**2 / 6 * self.scale**2

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + _EULER)


class Weibull(_Named):
    """The time to a failure whose rate is a power of time."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(full_like(self.scale, 1.0), validate_args)
        super().__init__(base, self._rebuild(), validate_args)

    def _rebuild(self) -> list[Transform]:
        return [PowerTransform(1 / self.concentration), AffineTransform(0, self.scale)]

    def _moment(self, order: int) -> Tensor:
        return (1 + order / self.concentration).lgamma().exp()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return (self.scale * ((k - 1).clamp(min=0) / k) ** (1 / k)).where(k > 1, 0.0)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (self._moment(2) - self._moment(1) ** 2)

    def entropy(self) -> Tensor:
        k = 1 / self.concentration
        return _EULER * (1 - k) + (self.scale * k).log() + 1


class Pareto(_Named):
    """Numbers from `scale` on, whose density is a power `-alpha - 1`."""

    arg_constraints: ClassVar[Any] = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(Exponential(self.alpha, validate_args), self._rebuild(), validate_args)

    def _rebuild(self) -> list[Transform]:
        return [ExpTransform(), AffineTransform(0, self.scale)]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha
        return (a * self.scale / (a - 1)).where(a > 1, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha
        return (self.scale**2 * a / ((a - 1) ** 2 * (a - 2))).where(a > 2, math.inf)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + 1 / self.alpha)


class Kumaraswamy(_Named):
    """Numbers from 0 to 1, with a density much like that of `Beta`."""

    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(full_like(self.concentration0, 0.0), full_like(self.concentration0, 1.0), validate_args)
        super().__init__(base, self._rebuild(), validate_args)

    def _rebuild(self) -> list[Transform]:
        return [
            PowerTransform(1 / self.concentration0), AffineTransform(1.0, -1.0), PowerTransform(1 / self.concentration1)
        ]  # fmt: skip

    def _moment(self, order: int) -> Tensor:
        a, b = 1 + order / self.concentration1, self.concentration0
        return (a.lgamma() + b.lgamma() - (a + b).lgamma() + b.log()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        found = (((a - 1) / (a * b - 1)).log() / a).exp()
        return found.where((a >= 1) & (b >= 1) & ((a != 1) | (b != 1)), math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1) ** 2

    def entropy(self) -> Tensor:
        t1, t0 = 1 - 1 / self.concentration1, 1 - 1 / self.concentration0
        harmonic = (self.concentration0 + 1).digamma() + _EULER
        return t0 + t1 * harmonic - self.concentration1.log() - self.concentration0.log()


class LogisticNormal(TransformedDistribution):
    """Normal vectors as probabilities, by `StickBreakingTransform`."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the normal numbers."""
        return self.base_dist.base_dist.scale  # type: ignore[attr-defined]
