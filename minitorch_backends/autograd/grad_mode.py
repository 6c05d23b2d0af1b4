"""The grad modes under the name of torch's module."""

from .extras.saved_tensors import (
    _force_original_view_tracking,
    _unsafe_preserve_version_counter,
    enforce_grad_layout_policy,
    set_multithreading_enabled,
)
from .inference import inference_mode
from .modes import enable_grad, no_grad, set_grad_enabled

__all__ = [
    "_force_original_view_tracking", "_unsafe_preserve_version_counter", "enable_grad", "enforce_grad_layout_policy",
    "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip
