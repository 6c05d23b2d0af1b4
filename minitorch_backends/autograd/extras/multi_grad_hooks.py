"""Hooks on the gradients of several tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ...kernels.runtime.locks import lock
from ...tensor.tensor import Tensor
from ..hooks import RemovableHandle, place_of, running


class _MultiGradHook:
    """Calls a function once per pass: with all gradients after the last has arrived, or with the first."""

    def __init__(self, tensors: Sequence[Tensor], fn: Callable[..., Any], mode: str) -> None:
        # Nodes hold their hooks, so holding the nodes here would make a cycle.
        self.nodes = [weakref.ref(place_of(tensor)[0]) for tensor in tensors]
        self.fn, self.mode, self.lock = fn, mode, lock()
        self.arrived: weakref.WeakKeyDictionary[Any, dict[int, Tensor]] = weakref.WeakKeyDictionary()

    def at(self, position: int) -> Callable[[Tensor], None]:
        def hook(g: Tensor) -> None:
            flow = running.get()
            with self.lock:
                arrived = self.arrived.setdefault(flow, {})
                first = not arrived
                arrived[position] = g
                nodes = (node() for node in self.nodes)
                complete = len(arrived) == sum(node is not None and flow.will_visit(node) for node in nodes)
            # Called without the lock, since `fn` may start a pass of its own.
            if self.mode == "any":
                if first:
                    self.fn(g)
            elif complete:
                self.fn([arrived.get(index) for index in range(len(self.nodes))])

        return hook


class _Handles:
    """Several handles as one."""

    def __init__(self, handles: list[RemovableHandle]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Unregister the hooks."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all") -> _Handles:
    """Call `fn` once in every backward pass that reaches any of `tensors`.

    With mode "all", `fn(grads)` receives the list of their gradients after the last has been computed; those that the
    pass does not reach are None. With mode "any", `fn(grad)` receives the first gradient. Returns a handle with
    `remove()`. Raises ValueError for another mode, and RuntimeError for a tensor that does not require a gradient.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any'), but got {mode!r}")
    hook = _MultiGradHook(tensors, fn, mode)
    return _Handles([tensor.register_hook(hook.at(index)) for index, tensor in enumerate(tensors)])
