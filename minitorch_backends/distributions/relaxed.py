"""Relaxed choices: numbers near those of discrete distributions, through which gradients flow."""

from __future__ import annotations

import math
from typing import Any

from ..tensor.tensor import Tensor
from . import constraints
from .categorical import Categorical, OfCategorical
from .combined import TransformedDistribution
from .counts import Bernoulli
from .distribution import Distribution
from .transforms import ExpTransform, SigmoidTransform
from .utils import broadcast_all, clamp_probs, uniform

__all__ = ["RelaxedBernoulli", "RelaxedOneHotCategorical"]


class LogitRelaxedBernoulli(Distribution):
    """The log odds of a `RelaxedBernoulli`."""

    arg_constraints, support, has_rsample = Bernoulli.arg_constraints, constraints.real, True
    temperature: Tensor
    probs, logits = Bernoulli.probs, Bernoulli.logits

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self._set_either(probs, logits, validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        drawn = uniform(probs, shape)
        odds = drawn.log() - (-drawn).log1p() + probs.log() - (-probs).log1p()
        return odds / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        apart = logits - value * self.temperature
        return self.temperature.log() + apart - 2 * apart.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers from 0 to 1 that are nearer to `Bernoulli` ones the lower the temperature is (C. Maddison, A. Mnih and
    Y. Teh, arXiv 1611.00712)."""

    arg_constraints = Bernoulli.arg_constraints
    support = constraints.unit_interval

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args)

    @property
    def temperature(self) -> Tensor:
        """The temperature."""
        return self.base_dist.temperature  # type: ignore[attr-defined]

    @property
    def probs(self) -> Tensor:
        """The probabilities of the `Bernoulli`."""
        return self.base_dist.probs  # type: ignore[attr-defined]

    @property
    def logits(self) -> Tensor:
        """The log odds of the `Bernoulli`."""
        return self.base_dist.logits  # type: ignore[attr-defined]


class ExpRelaxedCategorical(OfCategorical):
    """The logarithms of a `RelaxedOneHotCategorical`."""

    support, has_rsample = constraints.real_vector, True

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self._hold(probs, logits, validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = -(-uniform(self.logits, self._extended_shape(sample_shape)).log()).log()
        scores = (self.logits + noise) / self.temperature
        return scores - scores.logsumexp(-1, True)

    def log_prob(self, value: Tensor) -> Tensor:
        count = self._event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        scores = logits - value * self.temperature
        scale = math.lgamma(count) + (count - 1) * self.temperature.log()
        return (scores - scores.logsumexp(-1, True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors that sum to 1: the lower the temperature, the nearer to `OneHotCategorical` (C. Maddison, A.
    Mnih and Y. Teh, arXiv 1611.00712)."""

    arg_constraints = Categorical.arg_constraints
    support = constraints.simplex

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits), ExpTransform(), validate_args)

    temperature, probs, logits = RelaxedBernoulli.temperature, RelaxedBernoulli.probs, RelaxedBernoulli.logits
