"""Run one backward node with hooks, anomaly detection and module attribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.runtime.context import restore_on_failure
from ..tensor.tensor import Tensor
from .accumulation import fit_gradient
from .extras.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled, warn_of_forward
from .extras.module_scope import computing_for
from .nodes import Node, hooks_if_any


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
