"""The base of all distributions."""

from __future__ import annotations

import copy
import warnings
from typing import Any, ClassVar, Self

from ..autograd.modes import no_grad
from ..tensor.size import Size
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .utils import broadcast_all, lazy_property


class Distribution:
    """The base of all distributions: batches of independent ones, each over events.

    Attributes:
        batch_shape, event_shape: the shapes of the batch, and of one event. A sample has the shape sample_shape +
            batch_shape + event_shape.
        arg_constraints: the sets of the parameters, `support` that of the samples.
        has_rsample: whether gradients of samples reach the parameters, in `rsample`.
        has_enumerate_support: whether `enumerate_support` lists all values.

    With `validate_args`, the default, invalid parameters and values raise ValueError.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[Any] = {}
    support: Any = None
    _validate_args: ClassVar[Any] = True

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions check parameters and values by default."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args(): value must be True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args  # type: ignore[misc]
        if self._validate_args:
            for name, constraint in self._constraints():
                value = getattr(self, name)
                if not constraints.all_events(constraint.check(value)):
                    raise ValueError(
                        f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                        f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n"
                        f"{value}"
                    )

    def _constraints(self) -> list[tuple[str, Constraint]]:
        """The parameters that were given, with sets that do not depend on others."""
        return [
            (name, constraint)
            for name, constraint in self.arg_constraints.items()
            if not constraints.is_dependent(constraint)
            and (name in vars(self) or not isinstance(getattr(type(self), name, None), lazy_property | property))
        ]

    def _set(self, validate_args: bool | None, **parameters: Any) -> None:
        """Give parameters that broadcast to the shape of the batch."""
        vars(self).update(zip(parameters, broadcast_all(*parameters.values()), strict=True))
        first = next(iter(parameters))
        Distribution.__init__(self, getattr(self, first).shape, (), validate_args)

    def _set_either(self, probs: Any, logits: Any, validate_args: bool | None, **others: Any) -> None:
        """As `_set`, with probabilities or log odds: exactly one of them."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        self._set(validate_args, **{name: given}, **others)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """This distribution with its parameters expanded to another shape of the batch."""
        new, shape = copy.copy(self) if _instance is None else _instance, Size(batch_shape)
        for name, constraint in self.arg_constraints.items():
            if name in vars(self):
                value = getattr(self, name)
                kept = constraint.event_dim if isinstance(constraint.event_dim, int) else len(self._event_shape)
                setattr(new, name, value.expand(shape + value.shape[value.ndim - kept :]))
        new._batch_shape, new._event_shape = shape, self._event_shape
        return new

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def mode(self) -> Tensor:
        """The most probable value."""
        raise NotImplementedError(f"{type(self).__name__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw from the default generator, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw from the default generator; gradients reach the parameters."""
        raise NotImplementedError(
            f"{type(self).__name__} has no rsample, through which gradients would flow; use sample"
        )

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`."""
        warnings.warn("sample_n(n) is deprecated; use sample((n,))", FutureWarning, stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability, or of its density, at a value."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to this one."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, along a first dimension; with `expand` also along the batch."""
        raise NotImplementedError(f"{type(self).__name__} has no enumerate_support")

    def _enumerate_values(self, values: Tensor, expand: bool) -> Tensor:
        """A vector of values as `enumerate_support` gives it."""
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        """The shape of samples."""
        return Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def _validate_sample(self, value: Tensor) -> None:
        """Raise ValueError for a value of another shape, or outside of the support."""
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = value.ndim - len(self._event_shape)
        if value.shape[max(start, 0) :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        if any(
            own not in (1, other) and other != 1
            for own, other in zip(reversed(value.shape), reversed(expected), strict=False)
        ):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}.")
        if self.support is not None and not constraints.all_events(self.support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({self.support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        held = {name: vars(self)[name] for name in self.arg_constraints if name in vars(self)}
        shown = ", ".join(f"{name}: {each.item() if each.numel() == 1 else each.shape}" for name, each in held.items())
        return f"{type(self).__name__}({shown})"


class ExponentialFamily(Distribution):
    """Distributions whose density is exp(natural parameters * statistics - log normalizer)."""
