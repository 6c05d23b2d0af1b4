"""Module hooks: user functions that receive, and may replace, the inputs and outputs of a module and their
gradients."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ..autograd.extras.function import Function
from ..autograd.hooks import RemovableHandle
from ..autograd.modes import is_grad_enabled
from ..flags.scopes import Scope
from ..kernels.runtime.context import restore_on_failure
from ..tensor.tensor import Tensor

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
