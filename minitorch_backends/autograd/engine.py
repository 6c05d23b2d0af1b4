"""The backward engine: gradients flow from results to inputs along the recorded graph.

Nodes are visited from the newest to the oldest. The order of creation is a topological order, so a heap of sequence
numbers replaces recursion, and the depth of the graph is unlimited.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from ..kernels.block.tuning import Thresholds
from ..kernels.runtime.context import restore_on_failure
from ..kernels.runtime.threading import get_num_threads
from ..tensor import instrumentation
from ..tensor.tensor import Tensor, adopt
from . import extras
from .accumulation import accumulate, accumulate_leaf, fit_gradient
from .anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled, warn_of_forward
from .extras.module_scope import computing_for, is_followed
from .hooks import running, watched_leaves
from .modes import grad_mode
from .nodes import FREED, Leaf, Node, Output, hooks_if_any, owner

# Traversal of the graph from a node, and defaults for absent gradients


def reachable(starts: Iterable[Node]) -> list[Node]:
    """The nodes that gradients may reach, including the given ones. `Output` edges are omitted."""
    stack = [owner(node) for node in starts]
    seen: dict[Node, None] = {}
    while stack:
        node = stack.pop()
        if node not in seen:
            seen[node] = None
            stack += [owner(edge) for edge in node.edges if edge is not None]
    return list(seen)


def _after_its_node(node: Node) -> tuple[int, int]:
    """The position of a node in topological order. An `Output` comes right after its node: for a saved result it is
    created as late as in backward, and then compares equal to one with older consumers."""
    return (node.edges[0].sequence, 1) if type(node) is Output else (node.sequence, 0)


def leading_to(wanted: set[Node], starts: list[Node]) -> set[Node]:
    """The nodes on a path from `starts` to a wanted node, including the wanted ones."""
    order: list[Node] = []
    seen: set[Node] = set()
    stack = list(starts)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            order.append(node)
            stack += [edge for edge in node.edges if edge is not None]
    relevant = set(wanted)
    for node in sorted(order, key=_after_its_node):
        if any(edge in relevant for edge in node.edges if edge is not None):
            relevant.add(node)
    return relevant


def without_gaps(g: list[Tensor | None], outputs: tuple) -> tuple[Tensor | None, ...]:
    """The gradients of several results, with zeros of a result's shape and dtype where none arrived."""
    return tuple(
        adopt(np.zeros(*like)) if each is None and like is not None else each
        for each, like in zip(g, outputs, strict=True)
    )


# Run one backward node with hooks, anomaly detection and module attribution


class Recorder:
    """Replaces the flow while a node's rules are applied, and collects the gradients by input position."""

    def __init__(self, edges: tuple, create_graph: bool) -> None:
        self.create_graph, self.edges = create_graph, edges
        self.values: list[Tensor | None] = [None] * len(edges)
        self.likes: list[Any] = [None] * len(edges)
        self.next = 0

    def deliver(self, edge: Node, value: Tensor | None, like: tuple, g: Any) -> None:
        """Store a gradient. Rules are applied in input order, so the edge determines the input."""
        position = self.next
        while self.edges[position] is not edge:
            position += 1
        self.next = position + 1
        if value is not None and (value._array.shape != like[0] or value._array.dtype is not like[1]):
            value = fit_gradient(value, like[0], like[1], self.create_graph)
        self.values[position], self.likes[position] = value, like


@restore_on_failure
def propagate_with_care(node: Node, edges: tuple, g: Any, flow: Any) -> None:
    """Apply the rules of a node between its hooks, and send the gradients on."""
    hooks = hooks_if_any(node)
    arrived = g if node.outputs else (g,)
    if hooks is not None and hooks.pre:
        arrived = hooks.before(arrived)
        g = arrived if node.outputs else arrived[0]
    if g is None:
        return
    recorder, diagnosing = Recorder(edges, flow.create_graph), is_anomaly_enabled()
    try:
        with computing_for(node):
            node.op.propagate(node, edges, g, recorder)
    except Exception:
        if diagnosing:
            warn_of_forward(node)
        raise
    values = tuple(recorder.values)
    if hooks is not None:
        values = hooks.after(values, arrived)
    if diagnosing and is_anomaly_check_nan_enabled():
        _refuse_nan(node, values)
    for edge, value, like in zip(edges, values, recorder.likes, strict=True):
        if edge is not None:
            flow.deliver(edge, value, like, value)


def _refuse_nan(node: Node, values: tuple) -> None:
    for index, value in enumerate(values):
        if value is not None and np.isnan(value._array).any():
            warn_of_forward(node)
            raise RuntimeError(
                f"Function '{node.name()}' returned nan values in its {index}th output: the gradient of input "
                f"{index}, {value.dtype!r}{list(value.shape)}, is NaN although those of its results were not"
            )


class _Row(NamedTuple):
    heavy_bytes: int = 1 << 20
    """Bytes of a gradient from which another thread pays off."""


thresholds = Thresholds(_Row())


class Flow:
    """One backward pass: the gradients that have arrived at nodes but have not been propagated yet, newest node first.

    Attributes:
        accumulates: whether leaves add gradients to `.grad`; otherwise only those of the wanted nodes are collected.
        careful: whether every node runs with instrumentation: hooks, anomaly detection, module attribution.
        relevant: the nodes that lead to a wanted node; None stands for all nodes.
        found: the gradients of the wanted nodes.
        awaited: for each leaf with hooks, the number of nodes to visit before its gradient is complete.
    """

    __slots__ = (
        "__weakref__",
        "accumulates",
        "awaited",
        "careful",
        "create_graph",
        "found",
        "heap",
        "keep",
        "pending",
        "reached",
        "relevant",
        "roots",
        "wanted",
    )

    def __init__(
        self, roots: list[tuple[Node, Tensor]], keep: bool, create_graph: bool, wanted: set[Node] | None
    ) -> None:
        self.roots, self.keep, self.create_graph, self.accumulates = roots, keep, create_graph, wanted is None
        self.pending: dict[Node, Any] = {}
        self.heap: list[tuple[int, Node]] = []
        self.found: dict[Node, Tensor] = {}
        self.wanted: dict[Node, list[Node]] = {}
        self.relevant: set[Node] | None = None
        self.reached: set[Node] | None = None
        self.awaited: dict[Node, int] | None = None
        self.careful = is_anomaly_enabled() or is_followed()
        if wanted is not None:
            self.relevant = leading_to(wanted, [node for node, _ in roots])
            for node in wanted:
                self.wanted.setdefault(owner(node), []).append(node)
        elif watched_leaves:
            self.awaited = self._count_pending()

    # The pass

    def run(self) -> dict[Node, Tensor]:
        """Visit every node that receives gradients, and return the gradients of the wanted nodes."""
        before, outer = grad_mode.get(), running.get()
        grad_mode.set(before.of_pass(self.create_graph))
        heap, pending, keep = self.heap, self.pending, self.keep
        plain = self.accumulates and not self.careful and self.awaited is None
        threaded = plain and before.multithreading and not self.create_graph
        heavy = thresholds.row.heavy_bytes if threaded else 0
        try:
            for start, weight in self.roots:
                self.send(start, weight)
            while heap:
                node = heappop(heap)[1]
                g = pending.pop(node, None)
                if plain and type(node) is Node:
                    if node.outputs:
                        g = without_gaps(g, node.outputs)
                    elif heap and heavy and g._array.nbytes >= heavy and self._branches(node, heavy):
                        extras.parallel.finish(self, node, g)
                        break
                    node.op.propagate(node, node.edges, g, self)
                    if not keep and node.saved:
                        node.saved = FREED
                elif g is not None:
                    self.visit(node, g)
            return self.found
        finally:
            grad_mode.set(before)
            running.set(outer)
            if instrumentation.went_backward is not None:
                instrumentation.went_backward()

    def _branches(self, node: Node, heavy: int) -> bool:
        """Whether another heavy node is pending and threads are available for it."""
        others = (g for other, g in self.pending.items() if other is not node and isinstance(g, Tensor))
        return get_num_threads() > 1 and any(g._array.nbytes >= heavy for g in others)

    def visit(self, node: Node, g: Any) -> None:
        """Visit a node of any kind, including those with hooks, wanted nodes and waiting leaves. `run` inlines this for
        plain nodes."""
        hooks = hooks_if_any(node)
        if hooks is not None:
            running.set(self)
            g = hooks.of_tensors(g)
        for wanted in self.wanted.get(node, ()):
            found = g[wanted.index] if type(wanted) is Output else g
            if found is not None:
                self.found[wanted] = found
        if type(node) is Leaf:
            if self.accumulates:
                accumulate_leaf(node, g, self.create_graph)
            return
        edges, relevant = node.edges, self.relevant
        if relevant is not None:
            edges = tuple(edge if edge in relevant else None for edge in edges)
            if not any(edges):
                return
        if node.outputs:
            g = without_gaps(g, node.outputs)
        if hooks is None and not self.careful:
            node.op.propagate(node, edges, g, self)
        else:
            propagate_with_care(node, edges, g, self)
        if not self.keep and node.saved:
            node.saved = FREED
        if self.awaited is not None:
            self._visit(node)

    def will_visit(self, node: Node) -> bool:
        """Whether this pass reaches a node, provided that no rule on the way returns None."""
        if self.relevant is not None:
            return node in self.relevant
        if self.reached is None:
            self.reached = set(reachable([start for start, _ in self.roots]))
        return node in self.reached

    def deliver(self, edge: Node, value: Tensor | None, like: tuple, g: Any) -> None:
        """Reduce the gradient that a rule computed from `g` to the input's shape, and send it to the input's node."""
        if value is None:
            return
        if (
            value._array.shape != like[0] or value._array.dtype is not like[1]
        ):  # no local name: `accumulate` counts references
            value = fit_gradient(value, like[0], like[1], self.create_graph)
        kind = type(edge)
        if kind is Node:
            pending = self.pending
            if edge in pending:
                pending[edge] = pending[edge] + value
            else:
                pending[edge] = value
                heappush(self.heap, (-edge.sequence, edge))
        elif kind is Leaf and self.accumulates and edge.hooks is None:
            variable = edge._variable()  # type: ignore[attr-defined]
            if variable is not None:
                accumulate(variable, value, self.create_graph, value is not g)
        else:
            self.send(edge, value)

    def send(self, node: Node, g: Tensor) -> None:
        """Send `g` to a node of any kind. Leaves are queued too."""
        index = None
        if type(node) is Output:
            index, node = node.index, node.edges[0]
        present = self.pending.get(node)
        if present is None:
            heappush(self.heap, (-node.sequence, node))
            if index is None:
                self.pending[node] = g
                return
            present = self.pending[node] = [None] * len(node.outputs)
        if index is None:
            self.pending[node] = present + g  # type: ignore[operator]  # one output: a tensor
        else:
            present[index] = g if present[index] is None else present[index] + g

    # Leaves with hooks accumulate as soon as their gradients are complete, as an optimizer step in a hook requires.

    def _count_pending(self) -> dict[Node, int] | None:
        counts: dict[Node, int] = {}
        for node in reachable([start for start, _ in self.roots]):
            for edge in set(node.edges):
                if type(edge) is Leaf and edge.hooks is not None:
                    counts[edge] = counts.get(edge, 0) + 1
        return counts or None

    def _visit(self, node: Node) -> None:
        awaited: Any = self.awaited
        for edge in set(node.edges):
            if edge in awaited:
                awaited[edge] -= 1
                if awaited[edge] == 0 and edge in self.pending:
                    self.visit(edge, self.pending.pop(edge))
