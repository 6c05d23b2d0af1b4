"""The grad modes under the name of torch's module, and settings of backward passes and views that are modes too."""

from .extras.saved_tensors import _unsafe_preserve_version_counter
from .inference import inference_mode
from .modes import Setting, enable_grad, grad_mode, no_grad, set_grad_enabled

__all__ = [
    "_force_original_view_tracking", "_unsafe_preserve_version_counter", "enable_grad", "enforce_grad_layout_policy",
    "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip

_get = grad_mode.get


def is_multithreading_enabled() -> bool:
    """Whether backward passes started now may use several threads."""
    return _get().multithreading


def is_view_replay_enabled() -> bool:
    """Whether `_force_original_view_tracking` is on. Views are replayed in either case."""
    return _get().view_replay


class set_multithreading_enabled(Setting):
    """Allow backward passes to use several threads (the default), or forbid it; used like `set_grad_enabled`.

    Gradients have the same bits in both cases.
    """

    __slots__ = ()
    _field = "multithreading"


class _force_original_view_tracking(Setting):
    """Request that views are replayed by their ops, not from strides; used like `set_grad_enabled`.

    Views are always replayed here. `is_view_replay_enabled` reads the setting.
    """

    __slots__ = ()
    _field = "view_replay"


class enforce_grad_layout_policy(Setting):
    """Give `.grad` the memory layout of its tensor (the default), or leave it as computed; used like
    `set_grad_enabled`."""

    __slots__ = ()
    _field = "layout"

    def __init__(self, enable: bool = True) -> None:
        super().__init__(enable)
