"""Hooks on the gradients of several tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ...kernels.runtime.locks import lock
from ...tensor.tensor import Tensor, sharing
from ..engine import reachable
from ..hooks import RemovableHandle, place_of, running
from ..nodes import Leaf, Node, history, make_node


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


# Aliases of tensors inside a differentiated function: equal values, with nodes of their own


class _Identity:
    """The identity op of an alias, as the engine calls it: it passes gradients on."""

    name, title, view = "identity", "AliasBackward0", True

    @staticmethod
    def propagate(node: Node, edges: tuple, g: Any, flow: Any) -> None:
        flow.deliver(edges[0], g, node.likes[0], g)


_IDENTITY = _Identity()


def stand_in(tensor: Tensor, apart: bool = False) -> Tensor:
    """Make an alias of `tensor`: same memory, requires gradients, and not a leaf, so that it may be written to.

    If `tensor` requires gradients, the alias depends on it, unless it is to stay `apart`. Otherwise it depends on a new
    leaf.
    """
    alias = sharing(tensor, tensor._array)
    before = None if apart else history(tensor)
    like = tensor._array.shape, tensor._array.dtype
    alias._node = make_node(_IDENTITY, (before or Leaf(None),), (like,), {})
    return alias


def outer_leaves(tensors: list[Tensor], stand_ins: list[Tensor]) -> bool:
    """Whether `tensors` depend on leaves other than those that unwritten `stand_ins` have of their own."""
    edges = [tensor._node.edges[0] for tensor in stand_ins]
    own = {edge for edge in edges if type(edge) is Leaf and edge.variable is None}
    starts = [node for node in map(history, tensors) if node is not None]
    return any(type(node) is Leaf and node not in own for node in reachable(starts))
