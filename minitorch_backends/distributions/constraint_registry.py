"""Transforms from unconstrained numbers into the sets of constraints: `biject_to` one to one, `transform_to` of numbers
that an optimizer moves.

Both are registries: `biject_to(constraint)` gives the transform, `@biject_to.register(kind)` declares one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import constraints
from . import transforms as t


class ConstraintRegistry:
    """Functions from constraints to transforms, by the class of the constraint."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], t.Transform]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], t.Transform] | None = None) -> Any:
        """Declare the transform of a class of constraints, or of that of a constraint; used as a decorator too."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: constraints.Constraint) -> t.Transform:
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _declare(constraint: Any, factory: Callable[[Any], t.Transform]) -> None:
    biject_to.register(constraint, factory)
    transform_to.register(constraint, factory)


def _of_interval(constraint: Any) -> t.Transform:
    lower, upper = constraint.lower_bound, constraint.upper_bound
    if isinstance(lower, int | float) and isinstance(upper, int | float) and (lower, upper) == (0, 1):
        return t.SigmoidTransform()
    return t.ComposeTransform([t.SigmoidTransform(), t.AffineTransform(lower, upper - lower)])


def _above(constraint: Any) -> t.Transform:
    lower = constraint.lower_bound
    if isinstance(lower, int | float) and lower == 0:
        return t.ExpTransform()
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(lower, 1)])


_declare(constraints.real, lambda constraint: t.identity_transform)
_declare(constraints.greater_than, _above)
_declare(constraints.greater_than_eq, _above)
_declare(
    constraints.less_than, lambda each: t.ComposeTransform([t.ExpTransform(), t.AffineTransform(each.upper_bound, -1)])
)
_declare(constraints.interval, _of_interval)
_declare(constraints.half_open_interval, _of_interval)
_declare(constraints.lower_cholesky, lambda constraint: t.LowerCholeskyTransform())
_declare(constraints.positive_definite, lambda constraint: t.PositiveDefiniteTransform())
_declare(constraints.positive_semidefinite, lambda constraint: t.PositiveDefiniteTransform())
_declare(constraints.corr_cholesky, lambda constraint: t.CorrCholeskyTransform())
biject_to.register(constraints.simplex, lambda constraint: t.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: t.SoftmaxTransform())


def _declare_parts(registry: ConstraintRegistry) -> None:
    """The transforms of composed sets."""

    def independent(each: Any) -> t.Transform:
        return t.IndependentTransform(registry(each.base_constraint), each.reinterpreted_batch_ndims)

    def cat(each: Any) -> t.Transform:
        return t.CatTransform([registry(part) for part in each.cseq], each.dim, each.lengths)

    def stack(each: Any) -> t.Transform:
        return t.StackTransform([registry(part) for part in each.cseq], each.dim)

    registry.register(constraints.independent, independent)
    registry.register(constraints.cat, cat)
    registry.register(constraints.stack, stack)


_declare_parts(biject_to)
_declare_parts(transform_to)
