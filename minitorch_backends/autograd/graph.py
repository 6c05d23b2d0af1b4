"""The public view of the recorded graph, under the names of torch.autograd.graph: hooks of several tensors, statistics
of live graphs, and a limit of their growth."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..kernels.runtime.context import warn_caller
from ..kernels.runtime.locks import lock
from ..tensor import instrumentation
from ..tensor.tensor import Tensor, sharing
from .api import GradientEdge, get_gradient_edge
from .engine import reachable
from .extras.saved_tensors import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from .hooks import RemovableHandle, place_of, running
from .nodes import Leaf, Node, Output, history, make_node
from .versions import increment_version

__all__ = [
    "GradientEdge", "GraphStatistics", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
    "get_gradient_edge", "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
    "set_growth_limit", "statistics",
]  # fmt: skip


class GraphStatistics(NamedTuple):
    """The live graphs of all threads.

    Attributes:
        nodes: the number of live recorded ops.
        bytes: the memory of the arrays that they keep for backward, each counted once.
        by_op: for each kind of node, by name, their number and the bytes that they keep, largest first.
    """

    nodes: int
    bytes: int
    by_op: dict[str, tuple[int, int]]


def statistics() -> GraphStatistics:
    """Count the live nodes of all threads and the memory that they keep. Walks over every object of the process."""
    counts: dict[str, list[int]] = {}
    seen: set[int] = set()
    for node in gc.get_objects():
        kind = type(node)  # isinstance would ask proxies of other libraries for their class
        if issubclass(kind, Node) and not issubclass(kind, (Leaf, Output)):
            entry = counts.setdefault(node.name(), [0, 0])
            entry[0] += 1
            entry[1] += sum(_bytes_of(each, seen) for each in node.saved.values())
    by_op = {name: (count, size) for name, (count, size) in sorted(counts.items(), key=lambda item: -item[1][1])}
    return GraphStatistics(sum(count for count, _ in by_op.values()), sum(size for _, size in by_op.values()), by_op)


def _bytes_of(entry: Any, seen: set[int]) -> int:
    """The bytes of the arrays in a saved object, without those already `seen`."""
    if isinstance(entry, (list, tuple)):
        return sum(_bytes_of(each, seen) for each in entry)
    array = getattr(entry, "array", entry)
    if not isinstance(array, np.ndarray):
        return 0
    while isinstance(array.base, np.ndarray):
        array = array.base
    if id(array) in seen:
        return 0
    seen.add(id(array))
    return array.nbytes


class _Growth(threading.local):
    """The nodes that this thread created since its last backward pass, and whether it was warned since."""

    def __init__(self) -> None:
        self.nodes: weakref.WeakSet[Node] = weakref.WeakSet()
        self.warned = False


_growth = _Growth()
_limit: int | None = None
_lock = lock()


def set_growth_limit(nodes: int | None) -> None:
    """Warn once when a thread has `nodes` live nodes since its last backward pass; None, the default, never warns.

    Such a graph is usually kept alive by mistake: a loss summed without `item()`, or inference without `no_grad()`. The
    limit applies to all threads. While it is set, every op takes its general path, which is slower. Raises TypeError
    and ValueError for anything but None and a positive int.
    """
    global _limit
    if nodes is not None and (isinstance(nodes, bool) or not isinstance(nodes, int)):
        raise TypeError(f"set_growth_limit(): nodes must be a number of nodes or None, got {nodes!r}")
    if nodes is not None and nodes < 1:
        raise ValueError(f"set_growth_limit(): nodes must be at least 1, got {nodes}")
    with _lock:
        instrumentation.observe_calls((nodes is not None) - (_limit is not None))
        _limit = nodes
        instrumentation.counted = None if nodes is None else _count
        instrumentation.went_backward = None if nodes is None else _forget


def _count(node: Node) -> None:
    nodes, limit = _growth.nodes, _limit
    nodes.add(node)
    if limit is None or _growth.warned or len(nodes) <= limit:
        return
    _growth.warned = True
    seen: set[int] = set()
    kept = sum(_bytes_of(each, seen) for node in nodes for each in node.saved.values())
    warn_caller(
        f"this thread's graph has grown to {len(nodes)} nodes, which keep {kept} bytes, without a backward pass; "
        "if the graph is unwanted, compute under no_grad(), or sum loss.item() or loss.detach()"
    )


def _forget() -> None:
    _growth.nodes.clear()
    _growth.warned = False


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
