"""Transforms of vectors and matrices, and of parts along a dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..nn import functional as F
from ..ops.creation.factories import arange, zeros
from ..ops.limits import finfo
from ..ops.views.join import cat, stack
from ..tensor.tensor import Tensor
from . import constraints
from .number_transforms import SigmoidTransform
from .transform import Transform

__all__ = [
    "CatTransform", "CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "SoftmaxTransform",
    "StackTransform", "StickBreakingTransform",
]  # fmt: skip


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers as the Cholesky factor of an n x n correlation matrix, by partial correlations tanh(x)."""

    bijective, domain, codomain = True, constraints.real_vector, constraints.corr_cholesky

    def _call(self, x: Any) -> Any:
        x = x.tanh()
        eps = finfo(x.dtype).eps
        r = _triangle(x.clamp(min=-1 + eps, max=1 - eps))
        left = (1 - r**2).sqrt().cumprod(-1)
        unit = arange(r.shape[-1]).unsqueeze(-1) == arange(r.shape[-1])
        return (r + unit.to(r.dtype)) * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        left = F.pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        t = _strict_rows(y) / _strict_rows(left).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        left = 1 - (y * y).cumsum(-1)
        outer = 0.5 * _strict_rows(left[..., :, :], -2).log().sum(-1)
        return outer - 2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        size = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return (*shape[:-1], size, size)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2 or shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


def _strict_places(size: int, diagonal: int = -1) -> tuple[Tensor, Tensor]:
    from ..ops.creation.factories import tril_indices

    rows, columns = tril_indices(size, size, diagonal)
    return rows, columns


def _triangle(vector: Tensor) -> Tensor:
    """A vector as the elements of a strictly lower triangular matrix, row by row."""
    size = round((0.25 + 2 * vector.shape[-1]) ** 0.5 + 0.5)
    rows, columns = _strict_places(size)
    flat = zeros((*vector.shape[:-1], size * size), dtype=vector.dtype)
    places = (rows * size + columns).expand(vector.shape)
    return flat.scatter(-1, places, vector).reshape((*vector.shape[:-1], size, size))


def _strict_rows(matrix: Tensor, diagonal: int = -1) -> Tensor:
    """The elements below the diagonal, row by row; with -2 those below the next one."""
    rows, columns = _strict_places(matrix.shape[-1], diagonal)
    return matrix[..., rows, columns]


class SoftmaxTransform(Transform):
    """The softmax of unnormalised logarithms; the inverse gives the logarithms."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Any) -> Any:
        return F.softmax(x, -1)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__


class StickBreakingTransform(Transform):
    """n numbers as n + 1 that sum to 1: each takes a share of the remainder."""

    bijective, domain, codomain = True, constraints.real_vector, constraints.simplex

    def _offset(self, x: Any) -> Any:
        count = x.shape[-1]
        return (count - arange(count, dtype=x.dtype)).log()

    def _call(self, x: Any) -> Any:
        z = SigmoidTransform()(x - self._offset(x))
        return F.pad(z, [0, 1], value=1) * F.pad((1 - z).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        kept = y[..., :-1]
        left = (1 - kept.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return kept.log() - left.log() + self._offset(kept)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._offset(x)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> Any:
        return (*shape[:-1], shape[-1] - 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = object.__hash__


class LowerCholeskyTransform(Transform):
    """A matrix as a lower triangular one with positive diagonal, by the exponential of the diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = object.__hash__


class PositiveDefiniteTransform(Transform):
    """A matrix as a positive definite one, by `LowerCholeskyTransform`."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        from ..linalg import cholesky

        return LowerCholeskyTransform().inv(cholesky(y))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    __hash__ = object.__hash__


class _OfParts(Transform):
    """Transforms of parts along a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = [each.with_cache(cache_size) for each in tseq], dim

    def _cut(self, x: Any) -> Any:
        raise NotImplementedError

    def _join(self, parts: list[Any]) -> Any:
        raise NotImplementedError

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(each.bijective for each in self.transforms)

    def _call(self, x: Any) -> Any:
        return self._join([each(part) for each, part in zip(self.transforms, self._cut(x), strict=True)])

    def _inverse(self, y: Any) -> Any:
        return self._join([each.inv(part) for each, part in zip(self.transforms, self._cut(y), strict=True)])

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        triples = zip(self.transforms, self._cut(x), self._cut(y), strict=True)
        return self._join([each.log_abs_det_jacobian(before, after) for each, before, after in triples])


class CatTransform(_OfParts):
    """Transforms of parts of the lengths `lengths` along `dim`, 1 by default."""

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)

    def _cut(self, x: Any) -> Any:
        return x.split(self.lengths, self.dim)

    def _join(self, parts: list[Any]) -> Any:
        return cat(parts, self.dim)

    @property
    def domain(self) -> Any:
        return constraints.cat([each.domain for each in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        return constraints.cat([each.codomain for each in self.transforms], self.dim, self.lengths)


class StackTransform(_OfParts):
    """One transform for each slice along `dim`."""

    def _cut(self, x: Any) -> Any:
        return x.unbind(self.dim)

    def _join(self, parts: list[Any]) -> Any:
        return stack(parts, self.dim)

    @property
    def domain(self) -> Any:
        return constraints.stack([each.domain for each in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        return constraints.stack([each.codomain for each in self.transforms], self.dim)
