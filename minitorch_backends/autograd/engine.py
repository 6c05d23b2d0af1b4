"""Backward: gradients flow from results to inputs along the recorded graph.

Nodes are visited from the newest to the oldest. The order of creation is a topological order, so a heap of sequence
numbers replaces recursion, and a chain of any length works.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ..dtypes import COMPLEX, dtype_of
from ..tensor import Tensor, adopt
from .graph import FREED, Leaf, Node, Output, history
from .modes import GradMode, grad_mode

__all__ = ["backward", "grad"]


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

    Raises RuntimeError for a tensor without a graph, a gradient of a wrong shape, and a second pass through a
    released graph.
    """
    if grad_tensors is None and isinstance(tensors, Tensor):
        roots = [_root(0, tensors, None)]
    else:
        tensors = _sequence(tensors)
        roots = _roots(tensors, _weights(tensors, grad_tensors))
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        _run(roots, keep, create_graph, None)
        return
    wanted = _sequence(inputs)
    if not wanted:
        raise RuntimeError(
            "'inputs' argument to backward cannot be empty; pass the tensors whose .grad is wanted, or None for all "
            "leaves"
        )
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

    Leaves `.grad` untouched. An input that the outputs do not depend on is an error, None with `allow_unused=True`,
    or zeros with `materialize_grads=True`. See `backward` for the other arguments and errors.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "materialize_grads=True turns unused gradients into zeros, so allow_unused cannot be False; leave it out"
        )
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
            raise TypeError(
                f"expected a Tensor or a sequence of Tensors, and element {index} is {type(tensor).__name__}"
            )
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
    """The nodes to start from, and the gradients that start there."""
    return [_root(index, tensor, weight) for index, (tensor, weight) in enumerate(zip(tensors, weights, strict=False))]


_ONES = {dtype: np.ones((), dtype) for dtype in (np.dtype(np.float32), np.dtype(np.float64))}


def _root(index: int, tensor: Tensor, weight: Tensor | None) -> tuple[Node, Tensor]:
    node, array = history(tensor), tensor._array
    if node is None:
        raise RuntimeError(
            f"element {index} of tensors does not require grad and does not have a grad_fn; "
            "call requires_grad_() on an input before the computation, outside no_grad"
        )
    if weight is None:
        if array.ndim == 0 and array.dtype in _ONES:
            return node, adopt(_ONES[array.dtype])
        if array.size != 1 or array.dtype.kind == "c":
            raise RuntimeError(
                "grad can be implicitly created only for real scalar outputs, and this one is "
                f"{tensor.dtype!r}{list(tensor.shape)}; pass gradient=, a tensor of that shape"
            )
        return node, adopt(np.ones(array.shape, array.dtype))
    if weight._array.shape != array.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {list(weight.shape)} and "
            f"output[{index}] has a shape of {list(tensor.shape)}; they must be equal"
        )
    return node, weight if weight._array.dtype == array.dtype else weight.to(array.dtype)


def _nodes_of(tensors: Sequence[Tensor]) -> list[Node]:
    nodes = []
    for index, tensor in enumerate(tensors):
        node = history(tensor)
        if node is None:
            raise RuntimeError(
                f"one of the differentiated Tensors does not require grad: input {index}, of shape "
                f"{list(tensor.shape)}; "
                "call requires_grad_() on it before the computation"
            )
        nodes.append(node)
    return nodes


def _run(
    roots: list[tuple[Node, Tensor]], keep: bool, create_graph: bool, wanted: set[Node] | None
) -> dict[Node, Tensor]:
    """Send gradients from the roots down. Returns those of `wanted` nodes; with None, leaves accumulate theirs."""
    found: dict[Node, Tensor] = {}
    flow = _Flow(create_graph, wanted, [node for node, _ in roots])
    heap, pending = flow.heap, flow.pending
    before = grad_mode.get()
    grad_mode.set(GradMode(create_graph, before, True))
    try:
        for start, weight in roots:
            flow.send(start, weight, False)
        while heap:
            node = heappop(heap)[1]
            g: Any = pending.pop(node)
            if wanted is not None:
                _collect(node, g, wanted, found)
            if type(node) is not Leaf:
                if node.outputs:
                    g = _without_gaps(g, node.outputs)
                node.op.propagate(node, g, flow)
                if not keep and node.saved:
                    node.saved = FREED
    finally:
        grad_mode.set(before)
    return found


class _Flow:
    """Gradients under way: those that have arrived at a node but not been sent on, newest node first."""

    __slots__ = ("accumulates", "create_graph", "heap", "pending", "relevant")

    def __init__(self, create_graph: bool, wanted: set[Node] | None, starts: list[Node]) -> None:
        self.create_graph, self.accumulates = create_graph, wanted is None
        self.relevant = None if wanted is None else _leading_to(wanted, starts)
        self.pending: dict[Node, Any] = {}
        self.heap: list[tuple[int, Node]] = []

    def deliver(self, edge: Node, value: Tensor | None, like: tuple, g: Any) -> None:
        """Take what a rule made of `g` to the node of an input, brought to that input's shape and dtype."""
        if value is None:
            return
        array = value._array
        if array.shape != like[0] or array.dtype is not like[1]:
            value = _fitted(value, like[0], like[1], self.create_graph)
        if type(edge) is Node and self.relevant is None and edge not in self.pending:
            self.pending[edge] = value
            heappush(self.heap, (-edge.sequence, edge))
        else:
            self.send(edge, value, value is not g)

    def send(self, node: Node, g: Tensor, fresh: bool) -> None:
        """Let `g` arrive at a node; `fresh` says that no one else holds it."""
        kind = type(node)
        if kind is Leaf and self.accumulates:
            variable = node._variable()  # type: ignore[attr-defined]
            if variable is not None:
                _accumulate(variable, g, self.create_graph, fresh)
            return
        if self.relevant is not None and node not in self.relevant:
            return
        index = None
        if kind is Output:
            index, node = node.index, node.edges[0]  # type: ignore[attr-defined]
        present = self.pending.get(node)
        if present is None:
            heappush(self.heap, (-node.sequence, node))
            if index is None:
                self.pending[node] = g
                return
            present = self.pending[node] = [None] * len(node.outputs)
        if index is None:
            self.pending[node] = present + g
        else:
            present[index] = g if present[index] is None else present[index] + g


def _without_gaps(g: list[Tensor | None], outputs: tuple) -> tuple[Tensor, ...]:
    """The gradients of several results, with zeros for those that nothing depended on."""
    return tuple(adopt(np.zeros(*like)) if each is None else each for each, like in zip(g, outputs, strict=True))


def _collect(node: Node, g: Any, wanted: set[Node], found: dict[Node, Tensor]) -> None:
    """Note the gradient of a node that was asked for, or of those of its results that were."""
    if node in wanted:
        found[node] = g
    if node.outputs:
        for output in wanted:
            if type(output) is Output and output.edges[0] is node and g[output.index] is not None:
                found[output] = g[output.index]


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


def _fitted(value: Tensor, shape: tuple[int, ...], dtype: np.dtype, create_graph: bool) -> Tensor:
    """A gradient brought to the shape and dtype of what it is the gradient of: summed where the forward broadcast."""
    array = value._array
    if not create_graph and array.dtype is dtype and dtype in _ONES and array.shape[1:] == shape:
        return adopt(np.add.reduce(array, axis=0))
    if array.shape != shape:
        value = value.sum_to_size(shape)
    if value._array.dtype != dtype:
        if dtype_of(value._array).category == COMPLEX and np.dtype(dtype).kind != "c":
            value = value.real
        value = value.to(dtype)
    return value


_ONE_OWNER = 2
"""What `sys.getrefcount` says of an array that one tensor holds: that reference, and the call's own."""


def _accumulate(tensor: Tensor, g: Tensor, create_graph: bool, fresh: bool = False) -> None:
    """Add `g` to the `.grad` of `tensor`: in place, unless the graph of the gradient is wanted.

    The first gradient is kept without a copy when it is `fresh` and its array is nobody else's.
    """
    state = tensor.state
    if state.grad is None:
        array = g._array
        if create_graph:
            state.grad = adopt(array, g._node)
        elif fresh and array.base is None and sys.getrefcount(g._array) <= _ONE_OWNER + 1:
            state.grad = adopt(array)
        else:
            state.grad = adopt(array.copy())
    elif create_graph or state.grad._node is not None:
        state.grad = state.grad + g
    else:
        np.add(state.grad._array, g._array, out=state.grad._array)
