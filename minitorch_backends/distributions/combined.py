"""Distributions composed of others: by transforms, by joining batches, by mixing."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..autograd.modes import no_grad
from ..tensor.size import Size
from ..tensor.tensor import Tensor
from . import constraints
from .categorical import Categorical
from .constraints import MixtureSameFamilyConstraint
from .distribution import Distribution
from .transforms import ComposeTransform, Transform, sum_rightmost

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


class Independent(Distribution):
    """A distribution with its last batch dimensions counted as event dimensions."""

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch, event = base_distribution.batch_shape, base_distribution.event_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        kept = len(batch) - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(batch[:kept], batch[kept:] + event, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = copy.copy(self) if _instance is None else _instance
        kept = self._event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(Size(batch_shape) + kept)
        new._batch_shape, new._event_shape = Size(batch_shape), self._event_shape
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_enumerate_support and not self.reinterpreted_batch_ndims

    @constraints.dependent_property
    def support(self) -> Any:
        found = self.base_dist.support
        return constraints.independent(found, self.reinterpreted_batch_ndims) if found is not None else None

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of transformed samples of another one."""

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(each, Transform) for each in self.transforms):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        whole = ComposeTransform(self.transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got {shape}."
            )
        made, inner = Size(whole.forward_shape(shape)), len(base_distribution.event_shape)
        needed = Size(whole.inverse_shape(made))
        if needed != shape:
            base_distribution = base_distribution.expand(needed[: len(needed) - inner])
        more = whole.domain.event_dim - inner
        self.base_dist = Independent(base_distribution, more) if more > 0 else base_distribution
        event_dim = max(whole.codomain.event_dim, inner + whole.codomain.event_dim - whole.domain.event_dim)
        cut = len(made) - event_dim
        super().__init__(made[:cut], made[cut:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new, shape = copy.copy(self) if _instance is None else _instance, Size(batch_shape)
        whole = ComposeTransform(self.transforms)
        inner = Size(whole.inverse_shape(shape + self._event_shape))
        new.base_dist = self.base_dist.expand(inner[: len(inner) - len(self.base_dist.event_shape)])
        new.transforms, new._batch_shape, new._event_shape = self.transforms, shape, self._event_shape
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        more = len(self._event_shape) - found.event_dim
        return constraints.independent(found, more) if more > 0 else found

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    def _through(self, x: Tensor) -> Tensor:
        for each in self.transforms:
            x = each(x)
        return x

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        event_dim, total, y = len(self._event_shape), 0.0, value
        for each in reversed(self.transforms):
            x = each.inv(y)
            event_dim += each.domain.event_dim - each.codomain.event_dim
            total = total - sum_rightmost(each.log_abs_det_jacobian(x, y), event_dim - each.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _of_base(self, value: Tensor) -> Tensor:
        for each in reversed(self.transforms):
            value = each.inv(value)
        return value

    @property
    def _sign(self) -> Any:
        return math.prod(each.sign for each in self.transforms)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        found, sign = self.base_dist.cdf(self._of_base(value)), self._sign
        return sign * (found - 0.5) + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return self._through(self.base_dist.icdf(self._sign * (value - 0.5) + 0.5))


class MixtureSameFamily(Distribution):
    """A `Categorical` choice among the distributions along the last dimension of a batch."""

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("The Mixture distribution needs to be an instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        own, other = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for one, two in zip(reversed(own), reversed(other), strict=False):
            if one not in (1, two) and two != 1:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({own}) is not compatible with "
                    f"`component_distribution.batch_shape` ({other})"
                )
        count = mixture_distribution._num_events
        if component_distribution.batch_shape[-1] != count:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({component_distribution.batch_shape[-1]})"
            )
        self._num_component, self._event_ndims = count, len(component_distribution.event_shape)
        super().__init__(other, component_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new, shape = copy.copy(self) if _instance is None else _instance, Size(batch_shape)
        new._component_distribution = self._component_distribution.expand((*shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(shape)
        new._batch_shape = shape
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The distribution of the choice."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The distributions that are chosen among."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape((*probs.shape, *(1,) * self._event_ndims))

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        weights, dim = self._weights(), -1 - self._event_ndims
        apart = self._component_distribution.mean - self.mean.unsqueeze(dim)
        return (weights * (self._component_distribution.variance + apart**2)).sum(dim)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (self._component_distribution.cdf(value.unsqueeze(-1)) * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        of_component = self._component_distribution.log_prob(value.unsqueeze(-1 - self._event_ndims))
        return (of_component + self._mixture_distribution.logits).logsumexp(-1)

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
        drawn = self._component_distribution.sample(sample_shape)
        places = chosen.reshape((*chosen.shape, 1, *(1,) * self._event_ndims))
        places = places.expand((*chosen.shape, 1, *self._event_shape))
        return drawn.gather(len(chosen.shape), places).squeeze(len(chosen.shape))

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
