"""How much of the graph is alive, and a warning when a thread's graph grows without ever going backward."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from typing import Any, NamedTuple

import numpy as np

from ...dispatch import instrumentation
from ...kernels.locks import lock
from ..nodes import Leaf, Node, Output

__all__ = ["GraphStatistics", "set_growth_limit", "statistics"]


class GraphStatistics(NamedTuple):
    """What the graphs of all threads hold.

    Attributes:
        nodes: the recorded ops that are alive.
        bytes: the memory of the arrays that they keep for backward, each counted once.
        by_op: for each kind of node, by its name, how many there are and the bytes of what those keep, the most first.
    """

    nodes: int
    bytes: int
    by_op: dict[str, tuple[int, int]]


def statistics() -> GraphStatistics:
    """Count the nodes that are alive and what they keep, in all threads. Walks over every object of the process."""
    counts: dict[str, list[int]] = {}
    seen: set[int] = set()
    for node in gc.get_objects():
        kind = type(node)  # not isinstance, which would ask proxies of others for their class
        if issubclass(kind, Node) and not issubclass(kind, (Leaf, Output)):
            entry = counts.setdefault(node.name(), [0, 0])
            entry[0] += 1
            entry[1] += sum(_bytes_of(each, seen) for each in node.saved.values())
    by_op = {name: (count, size) for name, (count, size) in sorted(counts.items(), key=lambda item: -item[1][1])}
    return GraphStatistics(sum(count for count, _ in by_op.values()), sum(size for _, size in by_op.values()), by_op)


def _bytes_of(entry: Any, seen: set[int]) -> int:
    """The memory of the arrays in something that was saved, without those that were `seen` before."""
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
    """The nodes that this thread has made since its last backward pass, and whether it was warned since."""

    def __init__(self) -> None:
        self.nodes: weakref.WeakSet[Node] = weakref.WeakSet()
        self.warned = False


_growth = _Growth()
_limit: int | None = None
_lock = lock()


def set_growth_limit(nodes: int | None) -> None:
    """Warn once when a thread has so many nodes alive that were made since its last backward pass; None, the default,
    never does.

    Such a graph is kept alive by mistake: a loss that is added up without `item()`, or inference without `no_grad()`.
    While a limit is set, for all threads, every op takes its general path, which is slower. Raises TypeError and
    ValueError for anything but None and an int above 0.
    """
    global _limit
    if nodes is not None and (isinstance(nodes, bool) or not isinstance(nodes, int)):
        raise TypeError(f"set_growth_limit takes a number of nodes or None, got {nodes!r}")
    if nodes is not None and nodes < 1:
        raise ValueError(f"set_growth_limit takes at least 1 node, got {nodes}")
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
    warnings.warn(
        f"this thread's graph has grown to {len(nodes)} nodes, which keep {kept} bytes, without a backward pass; if "
        "it is "
        "not wanted, compute under no_grad(), or add up loss.item() or loss.detach() in place of loss",
        stacklevel=2,
    )


def _forget() -> None:
    _growth.nodes.clear()
    _growth.warned = False
