"""Weights as directions times lengths (T. Salimans and D. Kingma, arXiv 1602.07868), and weights over their largest
singular value (T. Miyato et al., arXiv 1802.05957), recomputed before each forward."""

from __future__ import annotations

from typing import Any

from ...autograd.modes import no_grad
from ...kernels.runtime.context import restore_on_failure
from ...ops.creation.sampling import randn
from ...tensor.call_errors import argument_errors
from ...tensor.tensor import Parameter, Tensor
from .. import functional as F
from ..convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..module import Module


@argument_errors
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norms of order `pow` of the slices along `dim`, with that dimension kept; of all elements if dim is -1."""
    if dim == -1:
        return v.norm(pow)
    return v.norm(pow, [axis for axis in range(v.ndim) if axis != dim % v.ndim], True)


def scaled_to(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """The direction of `v`, slice by slice along `dim`, of length `g`."""
    return v / norm_except_dim(v, 2, dim) * g


class _BeforeForward:
    """A hook that computes an attribute of a module before each forward from parameters of other names."""

    def __init__(self, module: Module, name: str) -> None:
        self.name = name
        hooks = _hooks_of(module)
        if (type(self), name) in hooks:
            raise RuntimeError(f"Cannot register two {type(self).__name__} hooks on the same parameter {name}")
        self.handle = module.register_forward_pre_hook(self)
        hooks[type(self), name] = self

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute(module))

    def compute(self, module: Any) -> Tensor:
        raise NotImplementedError


def _hooks_of(module: Module) -> dict[tuple[type, str], _BeforeForward]:
    return vars(module).setdefault("_computed_before_forward", {})


def _remove(module: Module, kind: type, name: str) -> Any:
    """Remove a hook. Raises ValueError if it does not exist."""
    hook = _hooks_of(module).pop((kind, name), None)
    if hook is None:
        raise ValueError(f"{name!r} of {type(module).__name__} is not computed by {kind.__name__}; nothing to remove")
    hook.handle.remove()
    return hook


class WeightNorm(_BeforeForward):
    """Computes a weight from its lengths, `name_g`, and directions, `name_v`."""

    dim: int

    def compute(self, module: Any) -> Tensor:
        return scaled_to(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)


@argument_errors
@restore_on_failure
def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Replace a parameter by `name_g`, the norms along `dim` (None for one of all), and `name_v`; return `module`."""
    hook = WeightNorm(module, name)
    hook.dim, weight = -1 if dim is None else dim, getattr(module, name)
    delattr(module, name)
    with no_grad():
        lengths = norm_except_dim(weight, 2, hook.dim)
    setattr(module, f"{name}_g", Parameter(lengths))
    setattr(module, f"{name}_v", Parameter(weight.detach()))
    with no_grad():
        hook(module, ())
    return module


@argument_errors
@restore_on_failure
def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the product one parameter again."""
    hook = _remove(module, WeightNorm, name)
    with no_grad():
        weight = hook.compute(module)
    for each in (name, f"{name}_g", f"{name}_v"):
        delattr(module, each)
    setattr(module, name, Parameter(weight))
    return module


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight with `dim` as rows and all else as columns."""
    return weight.movedim(dim, 0).flatten(1)


@no_grad()
def power_iteration(matrix: Tensor, u: Tensor, v: Tensor, steps: int, eps: float) -> None:
    """Turn two vectors towards the first singular vectors of a matrix, in place."""
    for _ in range(steps):
        v.copy_(F.normalize(matrix.mH @ u, dim=0, eps=eps))
        u.copy_(F.normalize(matrix @ v, dim=0, eps=eps))


class SpectralNorm(_BeforeForward):
    """Computes a weight from `name_orig`, over the estimate of its largest singular value by the buffers `name_u` and
    `name_v`."""

    dim: int
    steps: int
    eps: float

    def compute(self, module: Any) -> Tensor:
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = as_matrix(weight, self.dim)
        if module.training:
            power_iteration(matrix, u, v, self.steps, self.eps)
            u, v = u.clone(), v.clone()  # the next forward writes to them
        return weight / u.dot(matrix @ v)


def default_dim(module: Module) -> int:
    """The dimension of a weight that has the output's channels."""
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


@argument_errors
def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a parameter by its largest singular value, as a matrix with `dim` as rows; returns `module`.

    Each forward in training refines the estimate by `n_power_iterations`. Raises ValueError unless that is positive.
    """
    if n_power_iterations <= 0:
        raise ValueError(f"spectral_norm(): n_power_iterations must be positive, got {n_power_iterations}")
    hook = SpectralNorm(module, name)
    hook.dim, hook.steps, hook.eps = default_dim(module) if dim is None else dim, n_power_iterations, eps
    weight = getattr(module, name)
    rows, columns = as_matrix(weight.detach(), hook.dim).shape
    delattr(module, name)
    setattr(module, f"{name}_orig", weight)
    for part, size in (("u", rows), ("v", columns)):
        module.register_buffer(f"{name}_{part}", F.normalize(randn(size, dtype=weight.dtype), dim=0, eps=eps))
    setattr(module, name, weight.detach())
    return module


@argument_errors
@restore_on_failure
def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the quotient a parameter again."""
    hook, training = _remove(module, SpectralNorm, name), module.training
    module.training = False
    with no_grad():
        weight = hook.compute(module)
    module.training = training
    for part in ("", "_orig", "_u", "_v"):
        delattr(module, f"{name}{part}")
    setattr(module, name, Parameter(weight))
    return module
