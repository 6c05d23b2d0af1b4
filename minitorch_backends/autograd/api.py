"""`backward` and `grad`: checks of their arguments, and delivery of the gradients of a pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..kernels.runtime.context import warn_caller
from ..tensor.call_errors import argument_errors
from ..tensor.registry import registry
from ..tensor.tensor import Tensor, adopt, kind_of
from .accumulation import accumulate, accumulate_leaf
from .engine import Flow
from .nodes import DEAD_END, Leaf, Node, Output, history, place


class GradientEdge(NamedTuple):
    """A node and the index of one of its results, accepted by `grad` and `backward` among the inputs."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge that a tensor comes from. Raises RuntimeError if the tensor does not require a gradient."""
    node = history(tensor)
    if node is None:
        raise RuntimeError("get_gradient_edge expects a tensor that requires grad; call requires_grad_() on it first")
    return GradientEdge(*place(node))


@argument_errors
def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add gradients to `.grad` of every leaf: those of the sum of `tensors`, weighted by `grad_tensors`.

    Arguments:
        tensors: a tensor or a sequence of tensors that require gradients.
        grad_tensors: their weights, of the same shapes; may be omitted for tensors of one element.
        retain_graph: keep the saved tensors for another pass; by default as `create_graph`.
        create_graph: record the backward pass itself, so that gradients can be differentiated.
        grad_variables: an old name of `grad_tensors`.
        inputs: fill `.grad` of these tensors only (one, several, or the values of a dict); they need not be leaves.

    Raises RuntimeError for a tensor without a graph, a gradient of a wrong shape, and a second pass through a released
    graph.
    """
    if grad_variables is not None:
        warn_caller("grad_variables is deprecated; use grad_tensors instead", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError(
                "backward(): grad_tensors and grad_variables, its old name, are both given; pass grad_tensors only"
            )
        grad_tensors = grad_variables
    if grad_tensors is None and isinstance(tensors, Tensor):
        roots = [_root(0, tensors, None)]
    else:
        tensors = _sequence(tensors)
        roots = _roots(tensors, _weights(tensors, grad_tensors))
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        Flow(roots, keep, create_graph, None).run()
        return
    wanted = _inputs(inputs)
    if not wanted:
        raise RuntimeError(
            "'inputs' argument to backward cannot be empty; pass the tensors whose .grad is wanted, or None for all "
            "leaves"
        )
    nodes = dict(zip(_nodes_of(wanted), wanted, strict=True))
    found = Flow(roots, keep, create_graph, set(nodes)).run()
    for node, tensor in nodes.items():
        if node not in found:
            continue
        if type(node) is Leaf:
            accumulate_leaf(node, found[node], create_graph)
        elif isinstance(tensor, Tensor) and not tensor.retains_grad:
            accumulate(tensor, found[node], create_graph)


@argument_errors
def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of the sum of `outputs`, weighted by `grad_outputs`, with respect to each of `inputs`.

    Leaves `.grad` unchanged. Returns a tuple, or a dict if `inputs` is a dict. An input that the outputs do not depend
    on raises RuntimeError; its gradient is None with `allow_unused=True`, and zeros with `materialize_grads=True`.

    With `is_grads_batched` each of `grad_outputs` has an additional first dimension, and so have the results: one pass
    runs per element. `only_inputs` must stay True. See `backward` for the other arguments and errors.
    """
    if not only_inputs:
        warn_caller(
            "only_inputs=False is ignored: gradients of other leaves are never accumulated here; use backward for that",
            FutureWarning,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "materialize_grads=True turns unused gradients into zeros, so allow_unused cannot be False; omit it"
        )
    if isinstance(inputs, Mapping):
        values = grad(
            outputs,
            tuple(inputs.values()),
            grad_outputs,
            retain_graph,
            create_graph,
            allow_unused=allow_unused,
            is_grads_batched=is_grads_batched,
            materialize_grads=materialize_grads,
        )
        return dict(zip(inputs, values, strict=True))
    outputs, wanted = _sequence(outputs), _inputs(inputs)
    if not wanted:
        raise RuntimeError("grad(): inputs must contain at least one tensor, got none")
    nodes = _nodes_of(wanted)
    keep = create_graph if retain_graph is None else retain_graph
    weights = _weights(outputs, grad_outputs)
    if is_grads_batched:
        found = _batch_gradients(outputs, weights, nodes, keep, create_graph)
    else:
        found = Flow(_roots(outputs, weights), keep, create_graph, set(nodes) - {DEAD_END}).run()
    results = [found.get(node) for node in nodes]
    for index, (tensor, result) in enumerate(zip(wanted, results, strict=True)):
        if result is None and materialize_grads and isinstance(tensor, Tensor):
            results[index] = adopt(np.zeros_like(tensor._array))
        elif result is None and not allow_unused:
            raise RuntimeError(
                f"input {index} of grad, {_describe(tensor)}, appears to not have been used in the graph; "
                "pass allow_unused=True to get None for it"
            )
    return tuple(results)


def _batch_gradients(
    outputs: Sequence[Tensor], weights: Sequence[Tensor | None], nodes: list[Node], keep: bool, create_graph: bool
) -> dict[Node, Tensor]:
    """Run one pass per element of the weights' first dimension, and stack the gradients of the nodes."""
    sizes = {weight._array.shape[:1] for weight in weights if weight is not None}
    if len(sizes) != 1 or sizes == {()}:
        raise RuntimeError(
            "grad(): grad_outputs must share a first dimension with is_grads_batched=True, got first sizes "
            f"{sorted(map(list, sizes))}"
        )
    ((count,),) = sizes
    passes: list[dict[Node, Tensor]] = []
    for position in range(count):
        chosen = [None if weight is None else weight[position] for weight in weights]
        last = position == count - 1
        passes.append(Flow(_roots(outputs, chosen), keep or not last, create_graph, set(nodes) - {DEAD_END}).run())
    stack = registry["stack"].public
    return {node: stack([each[node] for each in passes]) for node in (passes[0] if passes else ())}


def _describe(tensor: Any) -> str:
    return f"of shape {list(tensor.shape)}" if isinstance(tensor, Tensor) else f"a result of {tensor.node.name()}"


def _sequence(tensors: Any) -> Sequence[Tensor]:
    if not isinstance(tensors, (Tensor, Iterable)):
        raise TypeError(f"expected a Tensor or a sequence of Tensors, not {type(tensors).__name__}")
    tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    for index, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected a Tensor or a sequence of Tensors, got {kind_of(tensor)} as element {index}")
    return tensors


def _inputs(inputs: Any) -> tuple[Tensor | GradientEdge, ...]:
    if isinstance(inputs, (Tensor, GradientEdge)):
        return (inputs,)
    given = tuple(inputs.values() if isinstance(inputs, Mapping) else inputs)
    for index, each in enumerate(given):
        if not isinstance(each, (Tensor, GradientEdge)):
            raise RuntimeError(f"inputs must be Tensors or GradientEdges, got {kind_of(each)} as element {index}")
    return given


def _weights(tensors: Sequence[Tensor], given: Any) -> Sequence[Tensor | None]:
    if given is None:
        return (None,) * len(tensors)
    weights = tuple(given) if isinstance(given, Iterable) and not isinstance(given, Tensor) else (given,)
    for weight in weights:
        if weight is not None and not isinstance(weight, Tensor):
            raise TypeError(f"backward(): gradients must be Tensors or None, got {kind_of(weight)}; use mt.tensor(...)")
    if len(weights) < len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(weights)} gradients; expected one gradient per tensor")
    return weights


def _roots(tensors: Sequence[Tensor], weights: Iterable[Tensor | None]) -> list[tuple[Node, Tensor]]:
    """The nodes where a pass starts, and their gradients."""
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
        if array.ndim == 0 and (one := _ONES.get(array.dtype)) is not None:
            return node, adopt(one.copy())
        if array.size != 1 or array.dtype.kind == "c":
            raise RuntimeError(
                "grad can be implicitly created only for real scalar outputs, got "
                f"{tensor.dtype!r}{list(tensor.shape)}; pass gradient=, a tensor of that shape"
            )
        return node, adopt(np.ones(array.shape, array.dtype))
    if weight._array.shape != array.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {list(weight.shape)} and "
            f"output[{index}] has a shape of {list(tensor.shape)}; they must be equal"
        )
    if (weight._array.dtype.kind == "c") != (array.dtype.kind == "c"):
        raise RuntimeError(
            f"grad_output[{index}] is of {weight.dtype!r} and output[{index}] of {tensor.dtype!r}; expected both to be "
            "complex, or none"
        )
    return node, weight if weight._array.dtype == array.dtype else weight.to(array.dtype)


def _nodes_of(inputs: Sequence[Tensor | GradientEdge]) -> list[Node]:
    nodes = []
    for index, each in enumerate(inputs):
        if isinstance(each, GradientEdge):
            nodes.append(Output(each.node, each.output_nr) if each.node.outputs else each.node)
            continue
        node = history(each)
        if node is None:
            raise RuntimeError(
                f"one of the differentiated Tensors does not require grad: input {index}, of shape "
                f"{list(each.shape)}; "
                "call requires_grad_() on it before the computation"
            )
        nodes.append(node)
    return nodes
