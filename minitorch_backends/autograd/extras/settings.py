"""Settings of backward passes and views, as modes: several threads, the layout of `.grad`, replay of views."""

from __future__ import annotations

from ..modes import Setting, grad_mode

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
