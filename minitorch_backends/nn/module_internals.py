"""The parts of torch's `Module` that scripts reach into: dicts of what it holds, and hooks of its state.

Modules here hold parameters, buffers and children as attributes, so that the dicts are views of these.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Self

from ..autograd.hooks import RemovableHandle
from .hooks import ModuleHooks


class Held(MutableMapping[str, Any]):
    """A view of those attributes of a module that `read` returns; writes set and delete the attributes."""

    def __init__(self, module: Any, read: Callable[[], dict[str, Any]]) -> None:
        self._module, self._read = module, read

    def __getitem__(self, name: str) -> Any:
        return self._read()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self._module, name, value)

    def __delitem__(self, name: str) -> None:
        self._read()[name]
        delattr(self._module, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return repr(self._read())


class Constants:
    """A base, before `Module`, of families that differ by class attributes: `class Conv1d(_Forward, dims=1)`."""

    def __init_subclass__(cls, **constants: Any) -> None:
        super().__init_subclass__()
        for name, value in constants.items():
            setattr(cls, name, value)


class ModuleInternals:
    """A base of `Module`."""

    _hooks: ModuleHooks | None
    _empty: frozenset[str]
    _own_parameters: Callable[[], dict[str, Any]]
    _own_buffers: Callable[[], dict[str, Any]]
    _persistence: Any

    @property
    def _modules(self) -> Held:
        held = vars(self)
        return Held(self, lambda: {name: each for name, each in held.items() if isinstance(each, ModuleInternals)})

    @property
    def _parameters(self) -> Held:
        return Held(self, lambda: self._own_parameters() | dict.fromkeys(sorted(self._empty)))

    @property
    def _buffers(self) -> Held:
        return Held(self, lambda: {name: vars(self).get(name) for name in self._persistence})

    def _functions(self, kind: str) -> dict[int, Callable[..., Any]]:
        held = {} if self._hooks is None else getattr(self._hooks, kind)
        return {key: entry[0] if isinstance(entry, tuple) else entry for key, entry in held.items()}

    @property
    def _forward_pre_hooks(self) -> dict[int, Callable[..., Any]]:
        return self._functions("before")

    @property
    def _forward_hooks(self) -> dict[int, Callable[..., Any]]:
        return self._functions("after")

    @property
    def _backward_hooks(self) -> dict[int, Callable[..., Any]]:
        return self._functions("backward")

    def _get_name(self) -> str:
        return type(self).__name__

    def _add_hook(self, kind: str, entry: Any, prepend: bool) -> RemovableHandle:
        if self._hooks is None:
            object.__setattr__(self, "_hooks", ModuleHooks())
        return self._hooks.add(kind, entry, prepend)  # type: ignore[union-attr]

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` of this module or of one that holds it."""
        return self._add_hook("state_pre", hook, False)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after the state dict is filled; it may change it."""
        return self._add_hook("state_post", hook, False)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`
        before `load_state_dict`, with a copy of the dict, which it may change."""
        return self._add_hook("load_pre", hook, False)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return self._add_hook("load_pre", hook if with_module else lambda module, *args: hook(*args), False)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after values are loaded; it may change the lists of keys."""
        return self._add_hook("load_post", hook, False)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """torch's old form of `register_full_backward_hook`."""
        return self._add_hook("backward", hook, False)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Without effect: programs are not compiled."""

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Return the module, whose parameters keep their values. Raises RuntimeError for another device."""
        return self.to(device)  # type: ignore[attr-defined]

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put a module in the place of the dotted name `target`, where there is one if `strict`. Raises TypeError for a
        target other than text, AttributeError for a name that does not exist."""
        if not isinstance(target, str):
            raise TypeError(f"set_submodule(): argument 'target' must be str, not {type(target).__name__}")
        path, _, name = target.rpartition(".")
        holder: Any = self.get_submodule(path)  # type: ignore[attr-defined]
        if not name or (strict and name not in holder._modules):
            raise AttributeError(f"{type(self).__name__} has no module {target!r}; named_modules() lists them")
        setattr(holder, name, module)


PREFIX = object()
"""Stands for the prefix of a module's names among the arguments of `run_hooks`."""


def run_hooks(root: Any, prefix: str, kind: str, *args: Any) -> None:
    """Call `hook(module, *args)` for the hooks of a kind of a module and all below it."""
    for path, module in root._all_modules(prefix.rstrip(".")):
        if module._hooks is not None:
            for hook in list(getattr(module._hooks, kind).values()):
                hook(module, *((f"{path}." if path else "") if each is PREFIX else each for each in args))


_OBJECTS = 4096
"""A lower bound for the bytes of the Python objects of one part of a model."""


def refuse_beyond_memory(name: str, argument: str, count: int, bytes_each: int) -> None:
    """Raise RuntimeError if `count` parts of `size` bytes, with their Python objects, exceed this machine's memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 2**62
    most = memory // (bytes_each + _OBJECTS)
    if count > most:
        raise RuntimeError(f"{name}(): {argument} must be at most {most} in this machine's memory, got {count}")
