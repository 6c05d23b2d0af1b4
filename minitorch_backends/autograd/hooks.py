"""Hooks: user functions that receive gradients, and may replace them.

A hook is stored on the node that the tensor comes from when the hook is registered, so that a hook registered before an
in-place write receives the gradient of the old value. The order of a node's hooks is: those of its tensors, those of
`retain_grad`, "pre", and "post" after its gradients are computed. A leaf's "accumulated" hooks run after `.grad` is
updated.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ..kernels.runtime.context import restorable
from ..tensor.tensor import Tensor, kind_of
from .nodes import DEAD_END, HookedNode, Leaf, Node, history, hooks_if_any, place

_next_id = itertools.count().__next__

running: ContextVar[Any] = ContextVar("running_pass", default=None)
restorable(running)
"""The pass whose hooks are running."""

watched_leaves: dict[int, Any] = {}
"""The leaves with hooks, by id. A pass tracks them, to accumulate as soon as their gradients are complete."""


class RemovableHandle:
    """The handle of a registered hook: `remove()` unregisters it, and so does leaving the block in `with handle:`."""

    __slots__ = ("_hooks", "id")

    def __init__(self, hooks: dict[int, Any], fn: Any) -> None:
        self._hooks, self.id = weakref.ref(hooks) if isinstance(hooks, _Registered) else hooks, _next_id()
        hooks[self.id] = fn

    def remove(self) -> None:
        """Unregister the hook; a second call has no effect."""
        hooks = self._hooks() if isinstance(self._hooks, weakref.ref) else self._hooks
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class _Registered(dict[int, Any]):
    """The hooks of one kind on one node, in registration order. Handles do not keep them alive."""

    __slots__ = ("__weakref__",)


class Hooks:
    """The hooks of one node.

    Attributes:
        tensor: for each result, functions of its gradient.
        retained: for each result, a reference to the tensor whose `.grad` is to be filled.
        pre, post: functions of all gradients; see `Node.register_hook`.
        accumulated: functions of a leaf's tensor.
    """

    __slots__ = ("accumulated", "post", "pre", "retained", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, _Registered] = {}
        self.retained: dict[int, weakref.ref[Tensor]] = {}
        self.pre, self.post, self.accumulated = _Registered(), _Registered(), _Registered()

    def add(self, kind: str, fn: Any, index: int = 0) -> RemovableHandle:
        hooks = self.tensor.setdefault(index, _Registered()) if kind == "tensor" else getattr(self, kind)
        return RemovableHandle(hooks, fn)

    def of_tensors(self, g: Any) -> Any:
        """The gradients after the tensors' hooks: one gradient, or a list for several results."""
        if not isinstance(g, list):
            return self._of_tensor(0, g)
        return [each if each is None else self._of_tensor(index, each) for index, each in enumerate(g)]

    def _of_tensor(self, index: int, g: Tensor) -> Tensor:
        for fn in list(self.tensor.get(index, {}).values()):
            g = replacement(g, fn(g))
        retained = self.retained.get(index)
        tensor = None if retained is None else retained()
        if tensor is not None:
            state = tensor.state
            state.grad = g.clone() if state.grad is None else state.grad + g
        return g

    def before(self, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """The gradients that arrived at a node, after its "pre" hooks."""
        for fn in list(self.pre.values()):
            grads = _all_replaced(grads, fn(grads))
        return grads

    def after(self, inputs: tuple[Tensor | None, ...], outputs: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """The gradients that leave a node, after its "post" hooks."""
        for fn in list(self.post.values()):
            inputs = _all_replaced(inputs, fn(inputs, outputs))
        return inputs

    def when_accumulated(self, tensor: Tensor) -> None:
        for fn in list(self.accumulated.values()):
            result = fn(tensor)
            if result is not None:
                raise TypeError(
                    f"a post-accumulate-grad hook should return None, got {kind_of(result)} from {fn!r}; set "
                    "tensor.grad in the hook"
                )


def replacement(g: Tensor, result: Any) -> Tensor:
    """`g`, or the hook's replacement for it. Raises TypeError and RuntimeError for an invalid replacement."""
    if result is None:
        return g
    if not isinstance(result, Tensor):
        raise TypeError(f"a hook must return a Tensor or None, got {kind_of(result)}")
    if result._array.shape != g._array.shape:
        raise RuntimeError(f"hook has changed the size of value: from {list(g.shape)} to {list(result.shape)}")
    if result._array.dtype != g._array.dtype:
        raise RuntimeError(f"hook has changed the type of value: from {g.dtype!r} to {result.dtype!r}")
    return result


def _all_replaced(grads: tuple, results: Any) -> tuple:
    if results is None:
        return grads
    results = (results,) if isinstance(results, Tensor) else tuple(results)
    if len(results) != len(grads):
        raise RuntimeError(f"hook has returned {len(results)} values; expected {len(grads)}, one for each gradient")
    return tuple(
        result if g is None or result is None else replacement(g, result)
        for g, result in zip(grads, results, strict=True)
    )


def place_of(tensor: Tensor) -> tuple[Node, int]:
    """The node of a tensor and the index of its result. Raises RuntimeError if the tensor does not require a
    gradient."""
    node = history(tensor)
    if node is None:
        raise RuntimeError(
            "cannot register a hook on a tensor that doesn't require gradient; call requires_grad_() on it first"
        )
    return place(node)


def _hooks_of(node: Node) -> Hooks:
    """The hooks of a node, created on first registration."""
    if type(node) is Node:
        node.__class__ = HookedNode
        node.hooks = Hooks()
    elif node.hooks is None:
        node.hooks = Hooks()
    hooks: Hooks = node.hooks
    if type(node) is Leaf and id(node) not in watched_leaves:
        key = id(node)
        watched_leaves[key] = weakref.ref(node, lambda _: watched_leaves.pop(key, None))
    return hooks


def _register_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Call `hook(grad)` in every backward pass with the gradient of this tensor. A returned tensor replaces the
    gradient.

    Hooks run in registration order. Returns a handle with `remove()`. Raises RuntimeError for a tensor that does not
    require a gradient. A hook that returns another type, size or dtype fails in the backward pass.
    """
    node, index = place_of(self)
    if node is DEAD_END:
        return RemovableHandle({}, hook)
    return _hooks_of(node).add("tensor", hook, index)


def _register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call `hook(tensor)` after a backward pass has added the complete gradient to `.grad` of this leaf.

    The hook may change `.grad` or set it to None, and must return None. Raises RuntimeError for a non-leaf.
    """
    node, _ = place_of(self)
    if type(node) is not Leaf:
        raise RuntimeError(
            "post accumulate grad hooks cannot be registered on non-leaf tensors, such as this result of "
            f"{node.name()}; use register_hook"
        )
    if node is DEAD_END:
        return RemovableHandle({}, hook)
    return _hooks_of(node).add("accumulated", hook)


def _retain_grad(self: Tensor) -> None:
    """Fill `.grad` of this tensor in backward passes, as for a leaf, with the gradient after all hooks of the tensor.

    Has no effect on a leaf. Raises RuntimeError for a tensor that does not require a gradient.
    """
    node = history(self)
    if node is None:
        raise RuntimeError(
            "can't retain_grad on Tensor that has requires_grad=False; call requires_grad_() on an input first"
        )
    if type(node) is Leaf:
        return
    node, index = place_of(self)
    _hooks_of(node).retained[index] = weakref.ref(self)


def _retains_grad(self: Tensor) -> bool:
    node = history(self)
    if node is None or type(node) is Leaf:
        return False
    node, index = place_of(self)
    hooks = hooks_if_any(node)
    retained = None if hooks is None else hooks.retained.get(index)
    return retained is not None and retained() is self


def move_retained(before: Node | None, after: Node | None) -> None:
    """Move the `retain_grad` request from a tensor's old node to its new one."""
    if before is None or after is None:
        return
    old, index = place(before)
    hooks = hooks_if_any(old)
    if hooks is not None and index in hooks.retained:
        new, number = place(after)
        _hooks_of(new).retained[number] = hooks.retained.pop(index)


def _register_post(self: Node, fn: Callable[..., Any]) -> RemovableHandle:
    """Call `fn(grad_inputs, grad_outputs)` after this node's gradients are computed. It may return replacements."""
    return _hooks_of(self).add("post", fn)


def _register_pre(self: Node, fn: Callable[..., Any]) -> RemovableHandle:
    """Call `fn(grad_outputs)` before this node's gradients are computed. It may return replacements."""
    return _hooks_of(self).add("pre", fn)


Node.register_hook, Node.register_prehook = _register_post, _register_pre
Tensor.register_hook = _register_hook  # type: ignore[assignment, method-assign]
Tensor.register_post_accumulate_grad_hook = _register_post_accumulate_grad_hook  # type: ignore[assignment, method-assign]
Tensor.retain_grad = _retain_grad  # type: ignore[assignment, method-assign]
Tensor.retains_grad = property(_retains_grad, doc="Whether `retain_grad` was called on this non-leaf tensor.")  # type: ignore[assignment, method-assign]
