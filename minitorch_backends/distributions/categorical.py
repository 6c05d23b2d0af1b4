"""Distributions of categories, and of their counts."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..autograd.modes import no_grad
from ..nn import functional as F
from ..ops.creation.factories import arange, eye
from ..ops.creation.sampling import multinomial
from ..ops.limits import finfo
from ..tensor.dtypes import int64
from ..tensor.tensor import Tensor
from . import constraints
from .counts import Binomial
from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


class Categorical(Distribution):
    """An integer from 0 to n - 1, with probabilities along the last dimension, which need not sum to 1."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given: Any = logits if probs is None else probs
        if given.ndim < 1:
            name = "logits" if probs is None else "probs"
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, True)
        else:
            self.logits = given - given.logsumexp(-1, True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], (), validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return (vars(self).get("probs") if "probs" in vars(self) else self.logits).shape  # type: ignore[union-attr]

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return self.probs.new_full(self._batch_shape, math.nan)

    variance = mean

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        count = math.prod(tuple(sample_shape))
        if not count or not rows.shape[0]:
            return arange(0, dtype=int64).reshape(shape)
        return multinomial(rows, count, True).T.reshape(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        chosen = value.long().unsqueeze(-1)
        shape = broadcast_all(chosen[..., :1], self.logits[..., :1])[0].shape[:-1]
        rows = self.logits.expand((*shape, self._num_events))
        return rows.gather(-1, chosen.expand((*shape, 1))).squeeze(-1)

    def entropy(self) -> Tensor:
        return -(self.logits.clamp(min=finfo(self.logits.dtype).min) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerate_values(arange(self._num_events, dtype=int64), expand)


class OfCategorical(Distribution):
    """A distribution of vectors by the probabilities of a `Categorical`."""

    arg_constraints = Categorical.arg_constraints
    _categorical: Categorical

    def _hold(self, probs: Any, logits: Any, validate_args: bool | None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        count = self._categorical._num_events
        Distribution.__init__(self, self._categorical.batch_shape, (count,), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape


class OneHotCategorical(OfCategorical):
    """`Categorical` whose values are vectors with a 1 at the number, and zeros."""

    support, has_enumerate_support = constraints.one_hot, True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._hold(probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return F.one_hot(self._categorical.mode, self._event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        return F.one_hot(self._categorical.sample(sample_shape), self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._event_shape[0]
        values = eye(count, dtype=self.probs.dtype).reshape((count,) + (1,) * len(self._batch_shape) + (count,))
        return values.expand((count, *self._batch_shape, count)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose samples pass gradients to the probabilities as if they were these (Y. Bengio et al.,
    arXiv 1308.3432)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(OfCategorical):
    """The counts of each number in `total_count` draws of a `Categorical`."""

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._hold(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        return F.one_hot(drawn, self._event_shape[0]).sum(0).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.where((value != 0) | (logits != -math.inf), 0)
        orders = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return orders + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        binomials = Binomial(n, probs=self.probs, validate_args=False)
        counts = binomials.enumerate_support(False)[1:]
        weights = binomials.log_prob(counts).exp()
        return n * self._categorical.entropy() - math.lgamma(n + 1) + (weights * (counts + 1).lgamma()).sum((0, -1))
