"""Grad modes: whether operations are recorded, and how. They belong to the current thread or asyncio task.

A new thread starts with the defaults, whatever the mode of the thread that started it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, ClassVar

from ..backends import precision_policy
from ..dispatch import instrumentation
from ..flags.scopes import Scope

__all__ = [
    "Mode",
    "derives",
    "derives_from",
    "enable_grad",
    "enforce_grad_layout_policy",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


class GradMode:
    """One level of the modes: what is in force, and the level to return to.

    Levels are immutable, so that one which was entered before is entered again: `inner` keeps those that `no_grad`,
    `enable_grad`, `inference_mode` and backward passes enter from here.

    Attributes:
        enabled: what `is_grad_enabled` says; `records`: whether operations are recorded, which inference mode prevents.
        inference: whether new tensors are inference tensors.
        backward: whether a backward pass is running.
        multithreading: whether backward passes may use several threads.
        view_replay: whether views are to be made anew from the ops that made them; they always are.
        layout: whether gradients are laid out in memory as what they are the gradients of.
    """

    __slots__ = (
        "backward",
        "enabled",
        "inference",
        "inner",
        "layout",
        "multithreading",
        "parent",
        "records",
        "view_replay",
    )

    def __init__(
        self,
        parent: GradMode | None,
        enabled: bool,
        inference: bool,
        backward: bool,
        multithreading: bool,
        view_replay: bool,
        layout: bool,
    ) -> None:
        self.parent, self.enabled, self.inference, self.backward = parent, enabled, inference, backward
        self.multithreading, self.view_replay, self.layout = multithreading, view_replay, layout
        self.records = enabled and not inference
        self.inner: list[GradMode | None] = [None] * 5

    def changed(self, parent: GradMode | None, **fields: Any) -> GradMode:
        """This level with other fields, above `parent`."""
        names = ("enabled", "inference", "backward", "multithreading", "view_replay", "layout")
        return GradMode(parent, **{name: getattr(self, name) for name in names} | fields)

    def of_pass(self, create_graph: bool) -> GradMode:
        """The level inside this one in which backward passes run."""
        level = self.inner[3 + create_graph]
        if level is None:
            level = self.inner[3 + create_graph] = self.changed(self, enabled=create_graph, backward=True)
        return level

    def made(self, enabled: bool) -> GradMode:
        """The level inside this one, made when it is first entered."""
        level = self.inner[enabled] = self.changed(self, enabled=enabled)
        return level

    def made_inference(self) -> GradMode:
        """The level of inference mode inside this one, made when it is first entered."""
        level = self.inner[2] = self.changed(self, enabled=False, inference=True)
        return level


_initial = GradMode(
    None, enabled=True, inference=False, backward=False, multithreading=True, view_replay=False, layout=True
)
grad_mode: ContextVar[GradMode] = ContextVar("grad_mode", default=_initial)

_get, _set = grad_mode.get, grad_mode.set


def is_grad_enabled() -> bool:
    """Whether operations on tensors that require gradients are recorded, here and now (inference mode apart)."""
    return _get().enabled


def _by_ops() -> bool:
    """Whether forward mode or `vmap` follows each op, which no kernel that is called directly would tell."""
    if instrumentation.batching is not None:
        return True
    return instrumentation.duals is not None and instrumentation.duals.active()


def derives() -> bool:
    """Whether what is computed here and now must be computed by ops: it is recorded, or followed op by op."""
    return _get().records or _by_ops()


def derives_from(tensor: Any) -> bool:
    """Whether what is computed from a tensor now must be computed by ops: it is recorded, or followed op by op."""
    return (tensor.requires_grad and _get().records) or _by_ops()


def is_inference_mode_enabled() -> bool:
    """Whether new tensors are inference tensors, here and now."""
    return _get().inference


def is_multithreading_enabled() -> bool:
    """Whether backward passes started here may use several threads."""
    return _get().multithreading


def is_view_replay_enabled() -> bool:
    """Whether `_force_original_view_tracking` is on; views are replayed either way."""
    return _get().view_replay


def is_in_backward() -> bool:
    """Whether this thread or task is inside a backward pass."""
    return _get().backward


class Mode(Scope):
    """Enters a level, and leaves it."""

    __slots__ = ()

    def __exit__(self, *exception: object) -> None:
        _set(_get().parent or _initial)


class no_grad(Mode):
    """Records nothing while a block or a function runs: `with no_grad():`, `@no_grad()` or `@no_grad`.

    Results of operations do not require gradients, and keep nothing alive for a backward pass.
    """

    __slots__ = ()

    def __new__(cls, function: Any = None) -> Any:
        return _no_grad if function is None else _no_grad(function)

    def __enter__(self) -> None:
        outer = _get()
        _set(outer.inner[0] or outer.made(False))


class enable_grad(Mode):
    """Records operations again, inside `no_grad`, while a block or a function runs."""

    __slots__ = ()

    def __new__(cls, function: Any = None) -> Any:
        return _enable_grad if function is None else _enable_grad(function)

    def __enter__(self) -> None:
        outer = _get()
        _set(outer.inner[1] or outer.made(True))


_no_grad, _enable_grad = object.__new__(no_grad), object.__new__(enable_grad)
"""Scopes keep no state, so that one of each serves all blocks."""


class _Setting(Mode):
    """Sets one field of the mode at once, when called as a statement; as a context it puts back the value from before
    the call. As a decorator it acts inside the calls of the function only.
    """

    __slots__ = ("_before", "_made", "mode")

    _field: ClassVar[str]

    def __init__(self, mode: bool) -> None:
        if mode is not True and mode is not False:
            raise TypeError(f"{type(self).__name__} takes exactly True or False, got {mode!r}")
        self.mode, self._before = mode, _get()
        self._made: GradMode | None = self._put(mode)

    def _put(self, value: bool) -> GradMode:
        outer = _get()
        level = outer.changed(outer.parent, **{self._field: value})
        _set(level)
        return level

    def _taken_back(self) -> GradMode:
        """The level in force, without what constructing this object did to it."""
        made, self._made = self._made, None
        if made is None:
            return _get()
        if made is not _get():
            return self._put(getattr(self._before, self._field))
        _set(self._before)
        return self._before

    def __call__(self, function: Any) -> Any:
        self._taken_back()
        return super().__call__(function)

    def __enter__(self) -> None:
        outer = self._taken_back()
        _set(outer.changed(outer, **{self._field: self.mode}))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mode={self.mode})"


class set_grad_enabled(_Setting):
    """Records operations, or stops recording them: `set_grad_enabled(False)`, or `with set_grad_enabled(mode):`.

    Takes effect at once; a context puts back what was in force before the call, and a decorator acts inside calls only.
    Raises TypeError for anything but True and False.
    """

    __slots__ = ()
    _field = "enabled"

    def __enter__(self) -> None:
        outer = self._taken_back()
        _set(outer.inner[self.mode] or outer.made(self.mode))


class set_multithreading_enabled(_Setting):
    """Lets backward passes use several threads (the default), or not; used as `set_grad_enabled` is.

    Gradients have the same bits either way.
    """

    __slots__ = ()
    _field = "multithreading"


class _force_original_view_tracking(_Setting):
    """Asks for views to be made anew from the ops that made them, not from strides; used as `set_grad_enabled` is.

    They are always made anew so here; the setting can be read with `is_view_replay_enabled`.
    """

    __slots__ = ()
    _field = "view_replay"


class enforce_grad_layout_policy(_Setting):
    """Lays `.grad` out in memory as its tensor is (the default), or leaves it as backward made it; used as
    `set_grad_enabled` is.
    """

    __slots__ = ()
    _field = "layout"

    def __init__(self, enable: bool = True) -> None:
        super().__init__(enable)


precision_policy.in_backward = is_in_backward
