"""Hooks of optimizers: functions that run before and after a step, and before and after a state is saved or loaded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..autograd.hooks import RemovableHandle

Hook = Callable[..., Any]

_before_any: dict[int, Hook] = {}
_after_any: dict[int, Hook] = {}
"""What runs around the steps of all optimizers."""


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Have `hook(optimizer, args, kwargs)` called before each step of every optimizer; it may return other arguments
    as (args, kwargs)."""
    return RemovableHandle(_before_any, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Have `hook(optimizer, args, kwargs)` called after each step of every optimizer."""
    return RemovableHandle(_after_any, hook)


def with_step_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A method `step` that calls hooks; one that calls the `step` of its base class calls them once."""

    @functools.wraps(step)
    def step_with_hooks(self: Hooked, *args: Any, **kwargs: Any) -> Any:
        if self._stepping or not (_before_any or _after_any or self._hooks):
            return step(self, *args, **kwargs)
        self._stepping = True
        try:
            for hook in (*_before_any.values(), *self._of("step_pre").values()):
                changed = hook(self, args, kwargs)
                if changed is not None:
                    args, kwargs = changed
            result = step(self, *args, **kwargs)
            for hook in (*self._of("step_post").values(), *_after_any.values()):
                hook(self, args, kwargs)
            return result
        finally:
            self._stepping = False

    return step_with_hooks


class Hooked:
    """The methods of an optimizer that register hooks."""

    _stepping = False
    _hooks: dict[str, dict[int, Hook]] | None = None

    def _of(self, kind: str) -> dict[int, Hook]:
        return (self._hooks or {}).get(kind, {})

    def _register(self, kind: str, hook: Hook, prepend: bool = False) -> RemovableHandle:
        self._hooks = self._hooks or {}
        hooks = self._hooks.setdefault(kind, {})
        handle = RemovableHandle(hooks, hook)
        if prepend:
            others = {key: hooks.pop(key) for key in list(hooks) if key != handle.id}
            hooks.update(others)
        return handle

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Have `hook(optimizer, args, kwargs)` called before each step; it may return other arguments as
        (args, kwargs)."""
        return self._register("step_pre", hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Have `hook(optimizer, args, kwargs)` called after each step."""
        return self._register("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Have `hook(optimizer)` called before `state_dict`; with `prepend` before the others."""
        return self._register("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`. A result other than None replaces the dict."""
        return self._register("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict`. A result other than None is loaded instead."""
        return self._register("load_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Have `hook(optimizer)` called after `load_state_dict`."""
        return self._register("load_post", hook, prepend)

    def _through(self, kind: str, state_dict: dict[str, Any]) -> dict[str, Any]:
        """A state dict after the hooks that may replace it."""
        for hook in self._of(kind).values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        return state_dict
