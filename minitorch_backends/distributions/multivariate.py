"""Distributions of vectors and matrices: normal ones, correlations, covariances."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import linalg
from ..autograd.modes import no_grad
from ..ops.creation.factories import arange, eye
from ..ops.creation.sampling import randn
from ..ops.limits import finfo
from ..ops.views.broadcasting import broadcast_shapes
from ..special import multigammaln
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import Distribution, ExponentialFamily
from .positive import Beta
from .utils import broadcast_all, lazy_property, standard_gamma

__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "MultivariateNormal", "Wishart"]

_LOG_TWO_PI = math.log(2 * math.pi)


def mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """The squared lengths of vectors (..., n), with `factor` (..., n, n) the Cholesky factor of the covariance."""
    return (linalg.solve_triangular(factor, x.unsqueeze(-1), upper=False) ** 2).sum((-2, -1))


def _factor_of_inverse(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse of a positive definite matrix."""
    return linalg.cholesky(linalg.inv(precision))


def _log_diagonal(factor: Tensor) -> Tensor:
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class _OfCovariance(ExponentialFamily):
    """A distribution with a covariance matrix, given itself, by its inverse, or by its Cholesky factor."""

    def _hold(self, covariance_matrix: Any, precision_matrix: Any, scale_tril: Any, batch: Any) -> None:
        given = {
            "covariance_matrix": covariance_matrix, "scale_tril": scale_tril, "precision_matrix": precision_matrix,
        }  # fmt: skip
        held = {name: each for name, each in given.items() if each is not None}
        if len(held) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, value),) = held.items()
        if value.ndim < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        setattr(self, name, value.expand((*broadcast_shapes(tuple(batch), value.shape[:-2]), *value.shape[-2:])))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance matrix."""
        if "covariance_matrix" in vars(self):
            return linalg.cholesky(self.covariance_matrix)
        return _factor_of_inverse(self.precision_matrix)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix."""
        return self.scale_tril @ self.scale_tril.mT

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        return linalg.inv(self.covariance_matrix)


_MATRICES = {
    "covariance_matrix": constraints.positive_definite,
    "precision_matrix": constraints.positive_definite,
    "scale_tril": constraints.lower_cholesky,
}


class MultivariateNormal(_OfCovariance):
    """Normal vectors of mean `loc` and a covariance matrix, which is given itself, by its inverse or by its Cholesky
    factor."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real_vector, **_MATRICES}
    support, has_rsample = constraints.real_vector, True
    loc: Tensor

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        self._hold(covariance_matrix, precision_matrix, scale_tril, loc.shape[:-1])
        held = next(vars(self)[name] for name in _MATRICES if name in vars(self))
        self.loc = loc.expand((*held.shape[:-2], loc.shape[-1]))
        super().__init__(self.loc.shape[:-1], self.loc.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return (self.scale_tril**2).sum(-1).expand(self._extended_shape())

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self.scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        size = self._event_shape[0]
        return -0.5 * (size * _LOG_TWO_PI + mahalanobis(self.scale_tril, value - self.loc)) - _log_diagonal(
            self.scale_tril
        )

    def entropy(self) -> Tensor:
        size = self._event_shape[0]
        return (0.5 * size * (1 + _LOG_TWO_PI) + _log_diagonal(self.scale_tril)).expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of mean `loc` and covariance cov_factor @ cov_factor.T + diag(cov_diag), (..., n, rank) and
    (..., n), with the work of the rank."""

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support, has_rsample = constraints.real_vector, True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.ndim < 1 or cov_factor.ndim < 2:
            raise ValueError("loc must be at least one-dimensional, and cov_factor two-dimensional")
        size = loc.shape[-1]
        if cov_factor.shape[-2] != size or cov_diag.shape[-1:] != (size,):
            raise ValueError(f"cov_factor must have {size} rows and cov_diag {size} elements, as loc has")
        batch = broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_diag = loc.expand((*batch, size)), cov_diag.expand((*batch, size))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        super().__init__(batch, (size,), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return (self.cov_factor**2).sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance matrix."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance matrix."""
        return linalg.cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance matrix."""
        return linalg.inv(self.covariance_matrix)

    def _capacitance(self) -> Tensor:
        """The Cholesky factor of 1 + W.T D**-1 W, W being the factor and D the diagonal."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        return linalg.cholesky(scaled @ self.cov_factor + eye(self.cov_factor.shape[-1], dtype=self.loc.dtype))

    def _log_det(self) -> Tensor:
        return 2 * _log_diagonal(self._capacitance()) + self.cov_diag.log().sum(-1)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape, dtype = self._extended_shape(sample_shape), self.loc.dtype
        along = randn((*shape[:-1], self.cov_factor.shape[-1], 1), dtype=dtype)
        noise = randn(shape, dtype=dtype) * self.cov_diag.sqrt()
        return self.loc + (self.cov_factor @ along).squeeze(-1) + noise

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        away = value - self.loc
        scaled = (self.cov_factor.mT / self.cov_diag.unsqueeze(-2)) @ away.unsqueeze(-1)
        length = (away**2 / self.cov_diag).sum(-1) - mahalanobis(self._capacitance(), scaled.squeeze(-1))
        return -0.5 * (self._event_shape[0] * _LOG_TWO_PI + self._log_det() + length)

    def entropy(self) -> Tensor:
        return 0.5 * (self._event_shape[0] * (1 + _LOG_TWO_PI) + self._log_det()).expand(self._batch_shape)


class LKJCholesky(Distribution):
    """Cholesky factors of `dim` x `dim` correlation matrices, of density det(correlations)**(concentration - 1)
    (D. Lewandowski, D. Kurowicka and H. Joe, 2009), by the onion method."""

    arg_constraints, support = {"concentration": constraints.positive}, constraints.corr_cholesky
    concentration: Tensor

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    @no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        dtype, shape = self.concentration.dtype, self._extended_shape(sample_shape)
        offset = arange(self.dim, dtype=dtype) - 1
        offset = offset.clamp(min=0)
        marginal = (self.concentration + 0.5 * (self.dim - 2)).unsqueeze(-1)
        radius = Beta(offset + 0.5, marginal - 0.5 * offset, validate_args=False).sample(sample_shape).unsqueeze(-1)
        drawn = randn(shape, dtype=dtype).tril(-1)
        on_sphere = drawn / (drawn**2).sum(-1, True).sqrt().clamp(min=finfo(dtype).tiny)
        rows = radius.sqrt() * on_sphere
        left = (1 - (rows**2).sum(-1)).clamp(min=finfo(dtype).tiny).sqrt()
        return rows + left.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        order = arange(2, self.dim + 1, dtype=self.concentration.dtype)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        less = self.dim - 1
        alpha = self.concentration + 0.5 * less
        norm = 0.5 * less * math.log(math.pi) + multigammaln(alpha - 0.5, less) - alpha.lgamma() * less
        return (order * diagonal.log()).sum(-1) - norm


class Wishart(_OfCovariance):
    """Sums of `df` outer products of normal vectors of a covariance matrix (M. Bartlett's decomposition, 1933)."""

    arg_constraints: ClassVar[Any] = {"df": constraints.dependent, **_MATRICES}
    support, has_rsample = constraints.positive_definite, True
    df: Tensor

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = next(each for each in (covariance_matrix, scale_tril, precision_matrix) if each is not None)
        (df,) = broadcast_all(df) if isinstance(df, Tensor) else (given.new_tensor(float(df)),)
        self._hold(covariance_matrix, precision_matrix, scale_tril, df.shape)
        held = next(vars(self)[name] for name in _MATRICES if name in vars(self))
        self.df, size = df.expand(held.shape[:-2]), held.shape[-1]
        if not bool((self.df > size - 1).all()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}.")
        super().__init__(held.shape[:-2], (size, size), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new.df = self.df.expand(batch_shape)
        return new

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[0] - 1
        return factor.where(factor > 0, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        diagonal = self.covariance_matrix.diagonal(dim1=-2, dim2=-1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df[..., None, None] * (self.covariance_matrix**2 + products)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        size, dtype = self._event_shape[0], self.df.dtype
        shape = (*sample_shape, *self._batch_shape)
        freedom = self.df.unsqueeze(-1) - arange(size, dtype=dtype)
        roots = (2 * standard_gamma((freedom / 2).expand((*shape, size)))).sqrt()
        noise = randn((*shape, size, size), dtype=dtype).tril(-1) + roots.diag_embed()
        factor = self.scale_tril @ noise
        return factor @ factor.mT

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        size, half = self._event_shape[0], self.df / 2
        trace = linalg.solve(self.covariance_matrix, value).diagonal(dim1=-2, dim2=-1).sum(-1)
        norm = half * size * math.log(2) + self.df * _log_diagonal(self.scale_tril) + multigammaln(half, size)
        return (self.df - size - 1) / 2 * linalg.slogdet(value).logabsdet - trace / 2 - norm

    def entropy(self) -> Tensor:
        size, half = self._event_shape[0], self.df / 2
        slopes = (half.unsqueeze(-1) - arange(size, dtype=self.df.dtype) / 2).digamma().sum(-1)
        spread = (size + 1) * (_log_diagonal(self.scale_tril) + size * math.log(2) / 2)
        return spread + multigammaln(half, size) - (self.df - size - 1) / 2 * slopes + half * size
