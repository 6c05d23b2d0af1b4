"""Statistics of the live graph, and a warning if a thread's graph grows without a backward pass."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any, NamedTuple

import numpy as np

from ...kernels.runtime.context import warn_caller
from ...kernels.runtime.locks import lock
from ...tensor import instrumentation
from ..nodes import Leaf, Node, Output


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
