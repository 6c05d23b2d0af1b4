"""Parametrizations of weights: by lengths and directions, over the largest singular value, orthogonal."""

from __future__ import annotations

from typing import Any

from ...autograd.modes import no_grad
from ...dispatch.call_errors import argument_errors
from ...ops.creation.factories import eye, zeros, zeros_like
from ...ops.creation.sampling import randn
from ...ops.linalg.orthogonal import geqrf, householder_product
from ...ops.linalg.solve import solve
from ...ops.views.join import cat
from ...tensor.tensor import Tensor
from .. import functional as F
from ..module import Module
from .parametrize import register_parametrization
from .weight_norm import as_matrix, default_dim, norm_except_dim, power_iteration, scaled_to

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return scaled_to(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Compute a weight as direction (original1) times length (original0) along `dim`; None takes one length of all."""
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(f"spectral_norm(): n_power_iterations must be positive, got {n_power_iterations}")
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f"spectral_norm(): dim must name one of {weight.ndim} dimensions, got {dim}")
        self.dim, self.eps, self.n_power_iterations = dim % weight.ndim, eps, n_power_iterations
        if weight.ndim > 1:
            matrix = as_matrix(weight.detach(), self.dim)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                self.register_buffer(name, F.normalize(randn(size, dtype=weight.dtype), dim=0, eps=eps))
            power_iteration(matrix, self._u, self._v, 15, eps)

    _u: Tensor
    _v: Tensor

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix, u, v = as_matrix(weight, self.dim), self._u, self._v
        if self.training:
            power_iteration(matrix, u, v, self.n_power_iterations, self.eps)
            u, v = u.clone(), v.clone()  # the next forward writes to them
        return weight / u.vdot(matrix @ v)

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


@argument_errors
def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value, as a matrix with `dim` as rows. In training, each access refines
    the estimate by `n_power_iterations`."""
    dim = default_dim(module) if dim is None else dim
    parametrization = _SpectralNorm(getattr(module, name), n_power_iterations, dim, eps)
    return register_parametrization(module, name, parametrization)


def _orthonormal(matrix: Tensor) -> Tensor:
    """The factor Q of A = Q R with a positive diagonal of R."""
    a, tau = geqrf(matrix)
    return householder_product(a, tau) * a.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """A matrix with orthonormal rows or columns, times `base` from the left, if there is one."""

    base: Tensor

    def __init__(self, shape: Any, orthogonal_map: str, use_trivialization: bool) -> None:
        self.shape, self.orthogonal_map, self.use_trivialization = tuple(shape), orthogonal_map, use_trivialization

    def forward(self, X: Tensor) -> Tensor:
        transposed = X.shape[-2] < X.shape[-1]
        X = X.mT if transposed else X
        n, k = X.shape[-2:]
        if self.orthogonal_map == "householder":
            A = X.tril(-1)
            Q = householder_product(A, 2.0 / (1.0 + (A * A).sum(-2)))
            Q = Q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            X = X.tril()
            X = X if n == k else cat([X, zeros(*X.shape[:-1], n - k, dtype=X.dtype)], -1)
            A = X - X.mH
            identity = eye(n, dtype=A.dtype)
            Q = A.matrix_exp() if self.orthogonal_map == "matrix_exp" else solve(identity - A / 2, identity + A / 2)
            Q = Q[..., :k]
        Q = self.base @ Q if self.use_trivialization else Q
        return Q.mT if transposed else Q

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if tuple(Q.shape) != self.shape:
            raise ValueError(f"orthogonal(): a matrix must have shape {list(self.shape)}, got {list(Q.shape)}")
        transposed = Q.shape[-2] < Q.shape[-1]
        tall = Q.mT if transposed else Q
        n, k = tall.shape[-2:]
        if self.use_trivialization:
            rest = randn(*tall.shape[:-1], n - k, dtype=tall.dtype)
            self.register_buffer("base", _orthonormal(cat([tall, rest], -1) if n != k else tall))
            start = zeros_like(Q)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return start
        if self.orthogonal_map != "householder":
            raise NotImplementedError("orthogonal(): a matrix can be assigned with use_trivialization=True only")
        a, tau = geqrf(tall)
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        diagonal.copy_(diagonal.sign().where(tau != 0, -diagonal.sign()))
        return a.mT if transposed else a


@argument_errors
def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Compute a weight with orthonormal rows or columns, whichever are fewer (M. Lezcano Casado, arXiv 1909.09501).

    `orthogonal_map` is "matrix_exp" (the default for square and complex weights), "cayley" or "householder". With
    `use_trivialization` the map starts from the weight itself, made orthogonal. Raises ValueError for other maps, and
    for tensors of one dimension.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor) or weight.ndim < 2:
        raise ValueError(f"orthogonal(): {name!r} must be a tensor of at least 2 dimensions, got {weight!r}")
    square = weight.shape[-2] == weight.shape[-1]
    chosen = orthogonal_map or ("matrix_exp" if square or weight.is_complex() else "householder")
    if chosen not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f"orthogonal(): orthogonal_map must be 'matrix_exp', 'cayley' or 'householder', got {chosen!r}"
        )
    if chosen == "householder" and weight.is_complex():
        raise ValueError("orthogonal(): the map 'householder' must have a real weight, got a complex one")
    return register_parametrization(module, name, _Orthogonal(weight.shape, chosen, use_trivialization), unsafe=True)
