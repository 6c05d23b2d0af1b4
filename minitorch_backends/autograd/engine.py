"""Backward: gradients flow from results to inputs along the recorded graph.

Nodes are visited from the newest to the oldest. The order of creation is a topological order, so a heap of sequence numbers
replaces recursion, and a chain of any length works.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..dtypes import COMPLEX, FLOATING, dtype_of
from ..tensor import Tensor, adopt
from .graph import Leaf, Node, Output, history
from .modes import GradMode, grad_mode

__all__ = ["backward", "backward_running", "grad"]

backward_running: ContextVar[bool] = ContextVar("backward_running", default=False)
"""Whether this thread or task is inside a backward pass."""


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add to `.grad` of every leaf that `tensors` depend on the gradient of their sum, weighted by `grad_tensors`.

    Arguments:
        tensors: a tensor or a sequence of tensors that require gradients.
        grad_tensors: their weights, of their shapes; may be left out for tensors of one element.
        retain_graph: keep the saved tensors for another pass; by default as `create_graph`.
        create_graph: record the backward pass itself, so that gradients can be differentiated.
        inputs: the only tensors whose `.grad` is to be filled; they need not be leaves.

    Raises RuntimeError for a tensor without a graph, a gradient of a wrong shape, and a second pass through a released graph.
    """
    tensors = _sequence(tensors)
    roots = _roots(tensors, _weights(tensors, grad_tensors))
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        _run(roots, keep, create_graph, None)
        return
    wanted = _sequence(inputs)
    if not wanted:
        raise RuntimeError("'inputs' argument to backward cannot be empty; pass the tensors whose .grad is wanted, or None for all leaves")
    nodes = _nodes_of(wanted)
    found = _run(roots, keep, create_graph, set(nodes))
    for tensor, node in zip(wanted, nodes, strict=True):
        if node in found:
            _accumulate(tensor, found[node], create_graph)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of `outputs`, weighted by `grad_outputs`, with respect to each of `inputs`.

    Leaves `.grad` untouched. An input that the outputs do not depend on is an error, None with `allow_unused=True`, or zeros with
    `materialize_grads=True`. See `backward` for the other arguments and errors.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("materialize_grads=True turns unused gradients into zeros, so allow_unused cannot be False; leave it out")
    outputs, wanted = _sequence(outputs), _sequence(inputs)
    if not wanted:
        raise RuntimeError("grad requires at least one input, and got none")
    roots = _roots(outputs, _weights(outputs, grad_outputs))
    nodes = _nodes_of(wanted)
    keep = create_graph if retain_graph is None else retain_graph
    found = _run(roots, keep, create_graph, set(nodes))
    results: list[Tensor | None] = []
    for index, (tensor, node) in enumerate(zip(wanted, nodes, strict=True)):
        result = found.get(node)
        if result is None and materialize_grads:
            result = adopt(np.zeros_like(tensor._array))
        if result is None and not allow_unused:
            raise RuntimeError(
                f"input {index} of grad, of shape {list(tensor.shape)}, appears to not have been used in the graph; "
                "pass allow_unused=True to get None for it"
            )
        results.append(result)
    return tuple(results)


def _sequence(tensors: Any) -> Sequence[Tensor]:
    tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    for index, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected a Tensor or a sequence of Tensors, and element {index} is {type(tensor).__name__}")
    return tensors


def _weights(tensors: Sequence[Tensor], given: Any) -> Sequence[Tensor | None]:
    if given is None:
        return (None,) * len(tensors)
    weights = (given,) if isinstance(given, Tensor) else tuple(given)
    for weight in weights:
        if weight is not None and not isinstance(weight, Tensor):
            raise TypeError(f"gradients are Tensors or None, and got {type(weight).__name__}; use mt.tensor(...)")
    if len(weights) < len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(weights)} gradients; expected one gradient for each")
    return weights


def _roots(tensors: Sequence[Tensor], weights: Iterable[Tensor | None]) -> list[tuple[Node, Tensor]]:
    roots = []
    for index, (tensor, weight) in enumerate(zip(tensors, weights, strict=False)):
        node = history(tensor)
        if node is None:
            raise RuntimeError(
                f"element {index} of tensors does not require grad and does not have a grad_fn; "
                "call requires_grad_() on an input before the computation, outside no_grad"
            )
        if weight is None:
            if tensor._array.size != 1 or dtype_of(tensor._array).category == COMPLEX:
                raise RuntimeError(
                    "grad can be implicitly created only for real scalar outputs, and this one is "
                    f"{tensor.dtype!r}{list(tensor.shape)}; pass gradient=, a tensor of that shape"
                )
            weight = adopt(np.ones_like(tensor._array))
        elif weight._array.shape != tensor._array.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{index}] has a shape of {list(weight.shape)} and "
                f"output[{index}] has a shape of {list(tensor.shape)}; they must be equal"
            )
        roots.append((node, _fitted(weight, (tensor._array.shape, tensor._array.dtype))))
    return roots


def _nodes_of(tensors: Sequence[Tensor]) -> list[Node]:
    nodes = []
    for index, tensor in enumerate(tensors):
        node = history(tensor)
        if node is None:
            raise RuntimeError(
                f"one of the differentiated Tensors does not require grad: input {index}, of shape {list(tensor.shape)}; "
                "call requires_grad_() on it before the computation"
            )
        nodes.append(node)
    return nodes


def _run(roots: list[tuple[Node, Tensor]], keep: bool, create_graph: bool, wanted: set[Node] | None) -> dict[Node, Tensor]:
    """Send gradients from the roots down. Returns those of `wanted` nodes; with None, leaves accumulate theirs."""
    relevant = None if wanted is None else _leading_to(wanted, [node for node, _ in roots])
    pending: dict[Node, Any] = {}
    heap: list[tuple[int, Node]] = []
    found: dict[Node, Tensor] = {}
    before = grad_mode.get()
    grad_mode.set(GradMode(create_graph, before))
    running = backward_running.set(True)
    try:
        for node, g in roots:
            _receive(node, g, pending, heap)
        del roots[:]
        while heap:
            node = heapq.heappop(heap)[1]
            g = pending.pop(node)
            if wanted is not None and node in wanted:
                found[node] = g
            kind = type(node)
            if kind is Leaf:
                if wanted is None and (variable := node._variable()) is not None:  # type: ignore[attr-defined]
                    _accumulate(variable, g, create_graph)
            elif relevant is None or node in relevant:
                if kind is Output:
                    _receive_output(node, g, pending, heap)  # type: ignore[arg-type]
                else:
                    _propagate(node, g, create_graph, relevant, pending, heap)
                    if not keep:
                        node.release()
            g = None
    finally:
        backward_running.reset(running)
        grad_mode.set(before)
    return found


def _propagate(node: Node, g: Any, create_graph: bool, relevant: Any, pending: dict, heap: list) -> None:
    if node.outputs:
        g = tuple(adopt(np.zeros(*like)) if each is None else each for each, like in zip(g, node.outputs, strict=True))
    for edge, value, like in zip(node.edges, node.gradients(g, create_graph), node.likes, strict=True):
        if edge is not None and value is not None and (relevant is None or edge in relevant):
            array = value._array
            if array.shape != like[0] or array.dtype is not like[1]:
                value = _fitted(value, like)
            _receive(edge, value, pending, heap)


def _receive(node: Node, g: Tensor, pending: dict[Node, Any], heap: list[tuple[int, Node]]) -> None:
    present = pending.get(node)
    if present is None:
        pending[node] = g
        heapq.heappush(heap, (-node.sequence, node))
    else:
        pending[node] = present + g  # type: ignore[operator]


def _receive_output(output: Output, g: Tensor, pending: dict[Node, Any], heap: list[tuple[int, Node]]) -> None:
    """Put the gradient of one of several results in its place."""
    node = output.edges[0]
    present = pending.get(node)
    if present is None:
        present = pending[node] = [None] * len(node.outputs)
        heapq.heappush(heap, (-node.sequence, node))
    present[output.index] = g if present[output.index] is None else present[output.index] + g


def _leading_to(wanted: set[Node], starts: list[Node]) -> set[Node]:
    """The nodes on a path from `starts` to a wanted node, the wanted ones included."""
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
    for node in sorted(order, key=lambda each: each.sequence):
        if any(edge in relevant for edge in node.edges if edge is not None):
            relevant.add(node)
    return relevant


def _fitted(value: Tensor, like: tuple[tuple[int, ...], np.dtype]) -> Tensor:
    """A gradient brought to the shape and dtype of what it is the gradient of: summed where the forward broadcast."""
    shape, dtype = like
    if value._array.shape != shape:
        value = value.sum_to_size(shape)  # type: ignore[attr-defined]
    if value._array.dtype != dtype:
        if dtype_of(value._array).category == COMPLEX and np.dtype(dtype).kind != "c":
            value = value.real  # type: ignore[attr-defined]
        value = value.to(dtype)  # type: ignore[attr-defined]
    return value


_ONE_OWNER = 2
"""What `sys.getrefcount` says of an array that one tensor holds: that reference, and the call's own."""


def _accumulate(tensor: Tensor, g: Tensor, create_graph: bool) -> None:
    """Add `g` to the `.grad` of `tensor`; in place, unless the graph of the gradient is wanted."""
    state = tensor.state
    if state.grad is None:
        shared = g._array.base is not None or sys.getrefcount(g._array) > _ONE_OWNER
        state.grad = adopt(g._array.copy()) if shared and not create_graph else adopt(g._array, g._node if create_graph else None)
    elif create_graph or state.grad._node is not None:
        state.grad = state.grad + g  # type: ignore[operator]
    else:
        state.grad._array += g._array
