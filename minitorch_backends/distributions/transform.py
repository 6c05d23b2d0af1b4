"""Transforms of samples and their composition: invertible maps, and the logarithms of their derivatives.

A transform maps `domain` to `codomain`; `transform.inv` is its inverse, and `log_abs_det_jacobian(x, y)` the logarithm
of the absolute value of its derivative at x, for each event of the domain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..ops.creation.factories import zeros
from . import constraints

__all__ = [
    "ComposeTransform", "IndependentTransform", "ReshapeTransform", "Transform", "identity_transform", "sum_rightmost",
]  # fmt: skip


def sum_rightmost(value: Any, count: int) -> Any:
    """The sum over the last `dim` dimensions."""
    return value if not count else value.flatten(value.ndim - count).sum(-1)


class Transform:
    """The base of all transforms: a subclass defines `_call`, `_inverse` and `log_abs_det_jacobian`.

    Attributes:
        bijective: whether it has an inverse; `sign` is that of the derivative, 1 or -1.
        domain, codomain: the sets that it maps between.
    """

    bijective = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._last: tuple[Any, Any] = (None, None)
        self._inverted: Transform | None = None

    @property
    def event_dim(self) -> int:
        """The number of dimensions of an event, where those of domain and codomain agree."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse."""
        if self._inverted is None:
            self._inverted = _InverseTransform(self)
        return self._inverted

    @property
    def sign(self) -> Any:
        """The sign of the derivative."""
        raise NotImplementedError(f"{type(self).__name__} has no sign")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The transform with a memory of its last call, which makes inverting that free."""
        if self._cache_size == cache_size:
            return self
        import copy

        other = copy.copy(self)
        other._cache_size, other._last, other._inverted = cache_size, (None, None), None
        return other

    def __call__(self, x: Any) -> Any:
        if not self._cache_size:
            return self._call(x)
        if self._last[0] is not x or x is None:
            self._last = x, self._call(x)
        return self._last[1]

    def _inv_call(self, y: Any) -> Any:
        if not self._cache_size:
            return self._inverse(y)
        if self._last[1] is not y or y is None:
            self._last = self._inverse(y), y
        return self._last[0]

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _call")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the absolute derivative at x, which maps to y."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def forward_shape(self, shape: Any) -> Any:
        """The output shape for an input shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The input shape for an output shape."""
        return shape

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inverted = transform

    @property
    def _of(self) -> Transform:
        assert self._inverted is not None
        return self._inverted

    @property
    def domain(self) -> Any:
        return self._of.codomain

    @property
    def codomain(self) -> Any:
        return self._of.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._of.bijective

    @property
    def sign(self) -> Any:
        return self._of.sign

    def __call__(self, x: Any) -> Any:
        return self._of._inv_call(x)

    def _inv_call(self, y: Any) -> Any:
        return self._of(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._of.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._of.forward_shape(shape)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._of.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._of == other._of

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"_InverseTransform({self._of!r})"


class ComposeTransform(Transform):
    """Several transforms, one after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [each.with_cache(cache_size) for each in parts] if cache_size else list(parts)

    def _grow(self, event_dim: int, ends: list[tuple[int, int]]) -> int:
        for into, out in ends:
            event_dim = max(event_dim + into - out, into)
        return event_dim

    @property
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        domain = self.parts[0].domain
        pairs = [(each.domain.event_dim, each.codomain.event_dim) for each in reversed(self.parts)]
        more = self._grow(self.parts[-1].codomain.event_dim, pairs) - domain.event_dim
        return constraints.independent(domain, more) if more else domain

    @property
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        codomain = self.parts[-1].codomain
        pairs = [(each.codomain.event_dim, each.domain.event_dim) for each in self.parts]
        more = self._grow(self.parts[0].domain.event_dim, pairs) - codomain.event_dim
        return constraints.independent(codomain, more) if more else codomain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(each.bijective for each in self.parts)

    @property
    def sign(self) -> Any:
        return math.prod(each.sign for each in self.parts)

    @property
    def inv(self) -> Transform:
        if self._inverted is None:
            self._inverted = ComposeTransform([each.inv for each in reversed(self.parts)])
            self._inverted._inverted = self
        return self._inverted

    def __call__(self, x: Any) -> Any:
        for each in self.parts:
            x = each(x)
        return x

    def _inv_call(self, y: Any) -> Any:
        return self.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return zeros(x.shape, dtype=x.dtype)
        points = [x]
        for each in self.parts[:-1]:
            points.append(each(points[-1]))
        points.append(y)
        total: Any = 0
        event_dim = self.domain.event_dim
        for each, before, after in zip(self.parts, points[:-1], points[1:], strict=True):
            total = total + sum_rightmost(each.log_abs_det_jacobian(before, after), event_dim - each.domain.event_dim)
            event_dim += each.codomain.event_dim - each.domain.event_dim
        return total

    def forward_shape(self, shape: Any) -> Any:
        for each in self.parts:
            shape = each.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for each in reversed(self.parts):
            shape = each.inverse_shape(shape)
        return shape

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts})"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose events have further dimensions, over which derivatives are multiplied."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Events of one shape as events of another one."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")

    @property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _swap_shapes(self, x: Any, old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
        shape = tuple(x)
        if shape[len(shape) - len(old) :] != old:
            raise ValueError(f"Shape mismatch: expected {old} but got {shape[len(shape) - len(old) :]}")
        return shape[: len(shape) - len(old)] + new

    def _call(self, x: Any) -> Any:
        return x.reshape(self._swap_shapes(x.shape, self.in_shape, self.out_shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape(self._swap_shapes(y.shape, self.out_shape, self.in_shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return zeros(x.shape[: x.ndim - len(self.in_shape)], dtype=x.dtype)

    def forward_shape(self, shape: Any) -> Any:
        return self._swap_shapes(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._swap_shapes(shape, self.out_shape, self.in_shape)
