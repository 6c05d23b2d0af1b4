"""Automatic differentiation: modes, the graph, and backward. Names under `TYPE_CHECKING` load at their first use."""

# ruff: noqa: F401

from typing import TYPE_CHECKING

from . import methods  # installs requires_grad, backward, detach ... on Tensor
from .api import backward, grad
from .gradcheck import GradcheckError, gradcheck, gradgradcheck  # shadows the module of the same name
from .inference import inference_mode, is_inference
from .modes import enable_grad, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled

if TYPE_CHECKING:
    from . import forward_ad, function, functional, grad_mode, graph
    from .anomaly_mode import detect_anomaly, is_anomaly_check_nan_enabled, is_anomaly_enabled, set_detect_anomaly
    from .extras.saved_tensors import _unsafe_preserve_version_counter
    from .function import Function
    from .grad_mode import is_multithreading_enabled, set_multithreading_enabled
