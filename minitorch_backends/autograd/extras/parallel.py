"""Parallel backward passes, for independent branches with heavy nodes.

The gradients that arrive at a node are summed in the same order as on one thread, so the bits are the same. Other
threads run only ops of this package. User code and matrix products, which use all cores themselves, run in the thread
that called backward.
"""

from __future__ import annotations

import contextvars
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from heapq import heappop, heappush
from typing import Any

from ...kernels.runtime.threading import get_num_threads
from ...tensor.tensor import Tensor
from .. import nodes
from ..accumulation import accumulate, fit_gradient
from ..engine import propagate_with_care, reachable, thresholds, without_gaps
from ..hooks import running
from ..nodes import DEAD_END, FREED, Leaf, Node, Output, hooks_if_any, owner

_pool: ThreadPoolExecutor | None = None


def _workers() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max(1, get_num_threads() - 1), thread_name_prefix="backward")
    return _pool


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


class _Deliveries:
    """Replaces the flow while the rules of one node are applied, possibly in another thread: it collects their
    results."""

    __slots__ = ("create_graph", "delivered")

    def __init__(self) -> None:
        self.create_graph = False
        self.delivered: list[tuple[Node, Tensor, bool]] = []

    def deliver(self, edge: Node, value: Tensor | None, like: tuple, g: Any) -> None:
        if value is None:
            return
        if value._array.shape != like[0] or value._array.dtype is not like[1]:
            value = fit_gradient(value, like[0], like[1], False)
        self.delivered.append((edge, value, value is not g))


class _Rest:
    """The remainder of a pass.

    Attributes:
        awaited: for each node and leaf, the number of unvisited nodes that may send it a gradient.
        arrived: the gradients that have arrived: (minus the sender's sequence, position among those it sent, index of
            the result, the gradient, whether it has no other owner).
        heavy, others: the nodes that are ready, newest first, with their gradients: those for any thread, and the rest.
        active: the number of threads that are visiting a node.
    """

    def __init__(self, flow: Any) -> None:
        self.flow = flow
        self.awaited: dict[Node, int] = {}
        self.arrived: dict[Node, list[tuple[int, int, int | None, Tensor, bool]]] = {}
        self.heavy: list[tuple[int, Node, Any]] = []
        self.others: list[tuple[int, Node, Any]] = []
        self.active = 0
        self.error: BaseException | None = None
        self.with_fields = threading.Condition()
        for node in reachable(flow.pending):
            self.awaited.setdefault(node, 0)
            for edge in _sources(node):
                self.awaited[edge] = self.awaited.get(edge, 0) + 1
        for node, count in list(self.awaited.items()):
            if count == 0:
                self._is_ready(node)

    def run(self) -> None:
        """Visit every remaining node."""
        helpers: list[Future[None]] = []
        for _ in range(get_num_threads() - 1):
            context = contextvars.copy_context()
            submit = partial(_workers().submit, context.run, self._work, False)
            helpers.append(contextvars.Context().run(submit))  # the thread that it may start serves other callers too
        try:
            self._work(True)
        except BaseException as error:  # on an interrupt, the helper threads must not wait forever
            with self.with_fields:
                self.error = self.error or error
                self.with_fields.notify_all()
            raise
        finally:
            for helper in helpers:
                helper.cancel()
            wait(helpers)
        if self.error is not None:
            raise self.error

    def _work(self, main: bool) -> None:
        """Visit nodes until none remain. Only the thread that called backward visits light ones."""
        with self.with_fields:
            while self.error is None:
                queue = self.heavy
                if main and self.others and (not queue or self.others[0] < queue[0]):
                    queue = self.others
                if not queue:
                    if not (self.active or self.others):
                        break
                    self.with_fields.wait()
                    continue
                _, node, g = heappop(queue)
                self.active += 1
                try:
                    self.with_fields.release()
                    try:
                        deliveries = self._visit(node, g)
                    finally:
                        del g
                        self.with_fields.acquire()
                    self._finish(node, deliveries)
                except BaseException as error:
                    self.error = self.error or error
                self.active -= 1
                self.with_fields.notify_all()
            self.with_fields.notify_all()

    def _visit(self, node: Node, g: Any) -> _Deliveries:
        deliveries, hooks = _Deliveries(), hooks_if_any(node)
        if hooks is not None:
            running.set(self.flow)
            g = hooks.of_tensors(g)
        if node.outputs:
            g = without_gaps(g, node.outputs)
        if hooks is None:
            node.op.propagate(node, node.edges, g, deliveries)
        else:
            propagate_with_care(node, node.edges, g, deliveries)
        return deliveries

    def _finish(self, node: Node, deliveries: _Deliveries) -> None:
        """Deliver the gradients that a node sent, and queue the nodes that became ready."""
        if not self.flow.keep and node.saved:
            node.saved = FREED
        for order, (edge, value, fresh) in enumerate(deliveries.delivered):
            place, index = (edge.edges[0], edge.index) if type(edge) is Output else (edge, None)
            self.arrived.setdefault(place, []).append((-node.sequence, order, index, value, fresh))
        for edge in _sources(node):
            self.awaited[edge] -= 1
            if self.awaited[edge] == 0:
                self._is_ready(edge)

    def _is_ready(self, node: Node) -> None:
        """Queue a node that is ready. A node without any gradient is skipped."""
        waiting = [node]
        while waiting:
            node = waiting.pop()
            g = self._gather(node)
            if g is not None and type(node) is not Leaf:
                queue = self.heavy if type(node) is Node and _is_heavy(node, g) else self.others
                heappush(queue, (-node.sequence, node, g))
                continue
            for edge in _sources(node):
                self.awaited[edge] -= 1
                if self.awaited[edge] == 0:
                    waiting.append(edge)

    def _gather(self, node: Node) -> Any:
        """The gradient of a node: the sum of the arrived gradients in the order of their senders, or None."""
        given = self.flow.pending.pop(node, None)
        for _, _, index, value, fresh in sorted(self.arrived.pop(node, ()), key=lambda each: each[:2]):
            if type(node) is Leaf:
                variable = node.variable
                if variable is not None:
                    accumulate(variable, value, False, fresh)
            elif index is not None:
                given = [None] * len(node.outputs) if given is None else given
                given[index] = value if given[index] is None else given[index] + value
            else:
                given = value if given is None else given + value
        return given


def _sources(node: Node) -> set[Node]:
    """The nodes to which a node may send gradients."""
    edges = (owner(edge) for edge in node.edges if edge is not None)
    return {edge for edge in edges if edge is not DEAD_END}


def _is_heavy(node: Node, g: Any) -> bool:
    """Whether a node may run in another thread. Excluded are matrix products, which have threads of their own, and
    tensors that a user's hooks must unpack."""
    if "precision" in node.op.metadata_names or (nodes.packed_before and nodes.holds_packed(node)):
        return False
    least = thresholds.row.heavy_bytes
    return any(each is not None and each._array.nbytes >= least for each in (g if node.outputs else (g,)))


def finish(flow: Any, node: Node, g: Any) -> None:
    """Visit `node` with gradient `g`, and then the remaining nodes of a pass, on several threads."""
    flow.pending[node] = g
    flow.heap.clear()
    _Rest(flow).run()
