"""Automatic differentiation: modes, the graph, and backward."""

from . import methods  # noqa: F401  (installs requires_grad, backward, detach ... on Tensor)
from .engine import backward, grad
from .gradcheck import gradcheck, gradgradcheck
from .modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled

__all__ = [
    "backward",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]
