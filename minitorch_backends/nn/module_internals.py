"""The parts of torch's `Module` that scripts reach into: dicts of what it holds, and hooks of its state.

Modules here hold parameters, buffers and children as attributes, so that the dicts are views of these.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack
from typing import Any, NamedTuple, Self

from ..autograd.function import Function
from ..autograd.hooks import RemovableHandle
from ..autograd.modes import is_grad_enabled, no_grad
from ..flags.scopes import Scope
from ..kernels.runtime.context import restore_on_failure
from ..ops.creation.factories import as_tensor
from ..tensor.tensor import Parameter, Tensor, kind_of

# Module hooks: user functions that receive, and may replace, the inputs and outputs of a module and their
# gradients.


Gradients = tuple[Tensor | None, ...]


class _Gate(Function):
    """Tensors as they are, whose gradients go through a function on their way back."""

    @staticmethod
    def forward(ctx: Any, passed: Callable[[Gradients], Gradients], *tensors: Tensor) -> Any:
        ctx.passed = passed
        return tuple(each.view_as(each) for each in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        return None, *ctx.passed(grads)


def _through_gate(values: tuple[Any, ...], passed: Callable[[Gradients], Gradients]) -> tuple[Any, ...] | None:
    """Pass the values that require gradients through a gate; `passed` receives one gradient per value, None for the
    others. Returns None if no value requires a gradient."""
    places = [index for index, each in enumerate(values) if isinstance(each, Tensor) and each.requires_grad]
    if not places:
        return None

    def of_all(grads: Gradients) -> Gradients:
        given = dict(zip(places, grads, strict=True))
        found = passed(tuple(given.get(index) for index in range(len(values))))
        return tuple(found[index] for index in places)

    behind = dict(zip(places, _Gate.apply(of_all, *(values[index] for index in places)), strict=True))
    return tuple(behind.get(index, each) for index, each in enumerate(values))


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


class _Passage:
    """The way of gradients through one call of a module.

    Attributes:
        inputs_wait: whether gradients of the inputs are still to come, whose gate calls the hooks then.
    """

    def __init__(self, module: Any, hooks: ModuleHooks) -> None:
        self.module, self.hooks = module, hooks
        self.grad_output: Gradients = ()
        self.inputs_wait, self.count = False, 0

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.count = len(args)
        gated = _through_gate(args, self._of_inputs)
        self.inputs_wait = gated is not None
        return args if gated is None else gated

    def outputs(self, result: Any) -> Any:
        gated = _through_gate(_as_tuple(result), self._of_outputs)
        if gated is None:
            return result
        if not isinstance(result, (tuple, list)):
            return gated[0]
        return type(result)(*gated) if hasattr(result, "_fields") else type(result)(gated)

    def _of_outputs(self, grads: Gradients) -> Gradients:
        for fn in list(self.hooks.backward_pre.values()):
            grads = self._replace(grads, fn(self.module, grads))
        self.grad_output = grads
        if not self.inputs_wait:
            self._of_inputs((None,) * self.count)
        return grads

    def _of_inputs(self, grads: Gradients) -> Gradients:
        for fn in list(self.hooks.backward.values()):
            grads = self._replace(grads, fn(self.module, grads, self.grad_output))
        return grads

    def _replace(self, grads: Gradients, found: Any) -> Gradients:
        if found is None:
            return grads
        found = _as_tuple(found)
        if len(found) != len(grads):
            raise RuntimeError(
                f"Backward hook returned an invalid number of grads, got {len(found)}, but expected {len(grads)}"
            )
        return found


class ModuleHooks:
    """The hooks of one module, by kind.

    Attributes:
        before, after: pairs of a function of a call, and whether it takes keyword arguments.
        backward_pre, backward: functions of the gradients of the outputs, and of inputs and outputs.
        state_pre, state_post, load_pre, load_post: functions that run around `state_dict` and `load_state_dict`.
        scopes: scopes around calls and their forward hooks.
    """

    def __init__(self) -> None:
        self.before: dict[int, tuple[Callable[..., Any], bool]] = {}
        self.after: dict[int, tuple[Callable[..., Any], bool]] = {}
        self.backward_pre: dict[int, Callable[..., Any]] = {}
        self.backward: dict[int, Callable[..., Any]] = {}
        self.scopes: dict[int, Scope] = {}
        self.state_pre: dict[int, Callable[..., Any]] = {}
        self.state_post: dict[int, Callable[..., Any]] = {}
        self.load_pre: dict[int, Callable[..., Any]] = {}
        self.load_post: dict[int, Callable[..., Any]] = {}

    def add(self, kind: str, entry: Any, prepend: bool) -> RemovableHandle:
        hooks = getattr(self, kind)
        others = list(hooks)
        handle = RemovableHandle(hooks, entry)
        for each in others if prepend else ():
            hooks[each] = hooks.pop(each)
        return handle

    @restore_on_failure
    def call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What calling the module gives: its forward, between its hooks, in its scopes."""
        if not self.scopes:
            return self._between(module, args, kwargs)
        with ExitStack() as scopes:
            for scope in self.scopes.values():
                scopes.enter_context(scope)
            return self._between(module, args, kwargs)

    def _between(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for fn, with_kwargs in list(self.before.values()):
            found = fn(module, args, kwargs) if with_kwargs else fn(module, args)
            if found is not None and with_kwargs:
                args, kwargs = _pair(found)
            elif found is not None:
                args = found if isinstance(found, tuple) else (found,)
        passage = _Passage(module, self) if (self.backward or self.backward_pre) and is_grad_enabled() else None
        if passage is not None:
            args = passage.inputs(args)
        result = module.forward(*args, **kwargs)
        for fn, with_kwargs in list(self.after.values()):
            found = fn(module, args, kwargs, result) if with_kwargs else fn(module, args, result)
            result = result if found is None else found
        return result if passage is None else passage.outputs(result)


def _pair(found: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(found, tuple) and len(found) == 2:
        return found
    raise RuntimeError(
        f"a forward pre-hook with_kwargs returns None or a tuple of (new_args, new_kwargs), got {found!r}"
    )


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


# Loading the state of a module: the names, shapes and values of a state dict


class IncompatibleKeys(NamedTuple):
    """The names that `load_state_dict` did not find, and those that it did not use."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    def __str__(self) -> str:
        return repr(self)


@restore_on_failure
def load_state(module: Any, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Implement `Module.load_state_dict`."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"load_state_dict(): state_dict must be a dict of names and tensors, got {state_dict!r}")
    state_dict = _through_pre_hooks(module, state_dict, strict)
    state = module._state()
    missing = [name for name in state if name not in state_dict and not _is_newer(name, state_dict)]
    unexpected = [name for name in state_dict if name not in state]
    errors = []
    if strict and unexpected:
        errors.append(f"Unexpected key(s) in state_dict: {', '.join(map(repr, unexpected))}.")
    if strict and missing:
        errors.append(f"Missing key(s) in state_dict: {', '.join(map(repr, missing))}.")
    found = {name: value for name, value in state_dict.items() if name in state}
    for name, value in found.items():
        shape, current = getattr(value, "shape", None), state[name].shape
        if shape is None or tuple(shape) != current:
            given = kind_of(value) if shape is None else list(shape)
            errors.append(f"size mismatch for {name}: the state_dict has {given}, and the module has {list(current)}.")
    if errors:
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t" + "\n\t".join(errors))
    with no_grad():
        if assign:
            _assign(module, {name: as_tensor(value) for name, value in found.items()})
            found = {}
        for name, value in found.items():
            state[name].copy_(as_tensor(value))
    incompatible = IncompatibleKeys(missing, unexpected)
    run_hooks(module, "", "load_post", incompatible)
    return incompatible


def _through_pre_hooks(module: Any, state_dict: Mapping[str, Any], strict: bool) -> Mapping[str, Any]:
    """The dict as the hooks before loading leave a copy of it. Raises RuntimeError for what they report."""
    changed: Any = OrderedDict(state_dict)
    if hasattr(state_dict, "_metadata"):
        changed._metadata = state_dict._metadata
    reports: tuple[list[str], list[str], list[str]] = ([], [], [])
    run_hooks(module, "", "load_pre", changed, PREFIX, {}, strict, *reports)
    if reports[2]:
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t" + "\n\t".join(reports[2]))
    return changed


def _is_newer(name: str, state_dict: Mapping[str, Any]) -> bool:
    """Whether a buffer came into modules after the version that a state dict is of: those from torch before 0.4.1, or
    without versions, need not have `num_batches_tracked`."""
    owner, _, buffer = name.rpartition(".")
    versions = getattr(state_dict, "_metadata", None) or {}
    return buffer == "num_batches_tracked" and (versions.get(owner, {}).get("version") or 1) < 2


def _assign(module: Any, values: dict[str, Tensor]) -> None:
    """Replace parameters and buffers by the given tensors, which keep their dtypes."""
    for path, value in values.items():
        owner, _, name = path.rpartition(".")
        holder = module.get_submodule(owner)
        current = getattr(holder, name)
        if isinstance(current, Parameter) and not isinstance(value, Parameter):
            value = Parameter(value, current.requires_grad)
        setattr(holder, name, value)
