"""Automatic differentiation: modes, the graph, and backward."""

from . import (
    graph,
    methods,  # noqa: F401  (installs requires_grad, backward, detach ... on Tensor)
)
from . import modes as grad_mode
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .engine import backward, grad
from .gradcheck import gradcheck, gradgradcheck
from .modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)

__all__ = [
    "backward",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]
