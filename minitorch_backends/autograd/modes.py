"""Grad modes: whether operations are recorded, and how. Modes belong to the current thread or asyncio task.

A new thread starts with the defaults, whatever the mode of its creator.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from types import FrameType
from typing import Any, ClassVar

from ..backends import precision_policy
from ..flags.scopes import Scope
from ..tensor import instrumentation


class GradMode:
    """One level of the modes, and the level below it.

    Levels are immutable and reused: `inner` caches the levels that `no_grad`, `enable_grad`, `inference_mode` and
    backward passes enter from here.

    Attributes:
        enabled: the value of `is_grad_enabled`.
        records: whether operations are recorded; always False in inference mode.
        inference: whether new tensors are inference tensors.
        backward: whether a backward pass is running.
        multithreading: whether backward passes may use several threads.
        view_replay: the setting of `_force_original_view_tracking`; views are always replayed.
        layout: whether gradients get the memory layout of their tensors.
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

    def with_fields(self, parent: GradMode | None, **fields: Any) -> GradMode:
        """This level with other fields, above `parent`."""
        names = ("enabled", "inference", "backward", "multithreading", "view_replay", "layout")
        return GradMode(parent, **{name: getattr(self, name) for name in names} | fields)

    def of_pass(self, create_graph: bool) -> GradMode:
        """The level inside this one for backward passes."""
        level = self.inner[3 + create_graph]
        if level is None:
            level = self.inner[3 + create_graph] = self.with_fields(self, enabled=create_graph, backward=True)
        return level

    def inner_level(self, enabled: bool) -> GradMode:
        """The level inside this one, created on first use."""
        level = self.inner[enabled] = self.with_fields(self, enabled=enabled)
        return level

    def made_inference(self) -> GradMode:
        """The level of inference mode inside this one, created on first use."""
        level = self.inner[2] = self.with_fields(self, enabled=False, inference=True)
        return level


class WatchedMode(GradMode):
    """A level that notes whether a caller outside of this package disables recording inside it.

    Attributes:
        noted: a list, not empty if that happened; inner levels share it.
    """

    __slots__ = ("noted",)

    noted: list[bool]

    @classmethod
    def inside(cls, outer: GradMode) -> WatchedMode:
        """A level above `outer` that equals it."""
        return cls._like(outer, [], outer)

    @classmethod
    def _like(cls, level: GradMode, noted: list[bool], parent: GradMode | None, **fields: Any) -> WatchedMode:
        names = ("enabled", "inference", "backward", "multithreading", "view_replay", "layout")
        made = cls(parent, **{name: getattr(level, name) for name in names} | fields)
        made.noted = noted
        return made

    def with_fields(self, parent: GradMode | None, **fields: Any) -> GradMode:
        if fields.get("enabled") is False and not fields.keys() & {"backward", "inference"} and _is_called_outside():
            self.noted.append(True)
        return self._like(self, self.noted, parent, **fields)

    def inner_level(self, enabled: bool) -> GradMode:
        return self.with_fields(self, enabled=enabled)  # not kept: the next caller may be another one


def _is_called_outside() -> bool:
    """Whether the block that enters a mode, or the function that the mode decorates, is outside of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    name = "" if frame is None else frame.f_globals.get("__name__", "")
    if frame is not None and name == Scope.__module__:
        name = getattr(frame.f_locals.get("function"), "__module__", None) or ""
    return name.partition(".")[0] != __name__.partition(".")[0]


default_mode = GradMode(
    None, enabled=True, inference=False, backward=False, multithreading=True, view_replay=False, layout=True
)
grad_mode: ContextVar[GradMode] = ContextVar("grad_mode", default=default_mode)

_get, _set = grad_mode.get, grad_mode.set


def is_grad_enabled() -> bool:
    """Whether grad mode is on: operations on tensors that require gradients are recorded (except in inference mode)."""
    return _get().enabled


def _by_ops() -> bool:
    """Whether forward mode or `vmap` must see each op; a direct kernel call would bypass them."""
    if instrumentation.batching is not None:
        return True
    return instrumentation.duals is not None and instrumentation.duals.active()


def derives() -> bool:
    """Whether results computed now must be computed by ops, since they are recorded or traced op by op."""
    return _get().records or _by_ops()


def derives_from(tensor: Any) -> bool:
    """Whether results computed from this tensor now must be computed by ops, since they are recorded or traced op by
    op."""
    return (tensor.requires_grad and _get().records) or _by_ops()


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on: new tensors are inference tensors."""
    return _get().inference


def is_in_backward() -> bool:
    """Whether this thread or task is inside a backward pass."""
    return _get().backward


class Mode(Scope):
    """A scope that enters a level of the modes."""

    __slots__ = ()

    def __exit__(self, *exception: object) -> None:
        _set(_get().parent or default_mode)


class no_grad(Mode):
    """Disable recording while a block or a function runs: `with no_grad():`, `@no_grad()` or `@no_grad`.

    Results of operations do not require gradients, and keep nothing alive for a backward pass.
    """

    __slots__ = ()

    def __new__(cls, function: Any = None) -> Any:
        return _no_grad if function is None else _no_grad(function)

    def __enter__(self) -> None:
        outer = _get()
        _set(outer.inner[0] or outer.inner_level(False))


class enable_grad(Mode):
    """Enable recording, inside `no_grad`, while a block or a function runs."""

    __slots__ = ()

    def __new__(cls, function: Any = None) -> Any:
        return _enable_grad if function is None else _enable_grad(function)

    def __enter__(self) -> None:
        outer = _get()
        _set(outer.inner[1] or outer.inner_level(True))


_no_grad, _enable_grad = object.__new__(no_grad), object.__new__(enable_grad)
"""Scopes are stateless, so one object of each serves all blocks."""


class Setting(Mode):
    """Sets one field of the mode at once, when called as a statement. As a context manager it restores the value from
    before the call. As a decorator it acts only inside calls of the function."""

    __slots__ = ("_before", "_made", "mode")

    _field: ClassVar[str]

    def __init__(self, mode: bool) -> None:
        if mode is not True and mode is not False:
            raise TypeError(f"{type(self).__name__}(): mode must be True or False, got {mode!r}")
        self.mode, self._before = mode, _get()
        self._made: GradMode | None = self._put(mode)

    def _put(self, value: bool) -> GradMode:
        outer = _get()
        level = outer.with_fields(outer.parent, **{self._field: value})
        _set(level)
        return level

    def _taken_back(self) -> GradMode:
        """The current level, without the effect of constructing this object."""
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
        _set(outer.with_fields(outer, **{self._field: self.mode}))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mode={self.mode})"


class set_grad_enabled(Setting):
    """Enable or disable recording: `set_grad_enabled(False)`, or `with set_grad_enabled(mode):`.

    It takes effect at once. As a context manager it restores the previous mode; as a decorator it acts only inside
    calls. Raises TypeError for values other than True and False.
    """

    __slots__ = ()
    _field = "enabled"

    def __enter__(self) -> None:
        outer = self._taken_back()
        _set(outer.inner[self.mode] or outer.inner_level(self.mode))


precision_policy.in_backward = is_in_backward
