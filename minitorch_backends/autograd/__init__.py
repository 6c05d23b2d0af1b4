"""Automatic differentiation: modes, the graph, and backward."""

from . import (
    forward_ad,
    function,  # noqa: F401
    functional,
    grad_mode,
    graph,
    methods,  # noqa: F401  (installs requires_grad, backward, detach ... on Tensor)
)
from .api import backward, grad
from .extras.anomaly_mode import detect_anomaly, is_anomaly_check_nan_enabled, is_anomaly_enabled, set_detect_anomaly
from .extras.function import Function
from .extras.preserved_versions import _unsafe_preserve_version_counter
from .extras.settings import is_multithreading_enabled, set_multithreading_enabled
from .gradcheck import GradcheckError, gradcheck, gradgradcheck  # shadows the module of the same name
from .inference import inference_mode, is_inference
from .modes import enable_grad, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled

__all__ = [
    "Function", "GradcheckError", "_unsafe_preserve_version_counter", "backward", "detect_anomaly", "enable_grad",
    "forward_ad", "functional", "grad", "grad_mode", "gradcheck", "gradgradcheck", "graph", "inference_mode",
    "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_grad_enabled", "is_inference",
    "is_inference_mode_enabled", "is_multithreading_enabled", "no_grad", "set_detect_anomaly", "set_grad_enabled",
    "set_multithreading_enabled",
]  # fmt: skip
