"""Which operators of a model have an implementation, and the definitions that stand in for others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import onnx
from onnx import inliner

from .control_flow import CONTROL_FLOW
from .files import is_standard, opset_of
from .table import find


def expand_missing(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model. Operators that have no implementation here, but that ONNX defines by others, are replaced by these.

    Raises NotImplementedError with the list of the rest.
    """
    opset = opset_of(model)
    while unknown := _unknown(model.graph, opset):
        rest = {name: count for name, count in unknown.items() if not _is_defined_by_others(name, opset)}
        if not rest:
            replaced = _replace_calls(model, unknown)
            if _unknown(replaced.graph, opset).keys().isdisjoint(unknown):
                model = replaced
                continue
            rest = dict(unknown)
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(rest.items()))
        raise NotImplementedError(f"load(): operators must have an implementation here, got these without: {listed}")
    return model


def _replace_calls(model: onnx.ModelProto, operators: Iterable[str]) -> onnx.ModelProto:
    """The model with calls of these operators replaced by their definitions; as it is where these cannot be made."""
    functions = [("", name) for name in operators]
    try:
        return inliner.inline_selected_functions(model, functions, inline_schema_functions=True)
    except RuntimeError:  # definitions that depend on types that are not known
        return model


def _unknown(graph: onnx.GraphProto, opset: int) -> Counter[str]:
    """The number of nodes with each unsupported operator."""
    return Counter(
        node.op_type if is_standard(node.domain) else f"{node.domain}.{node.op_type}"
        for node in _nodes(graph)
        if not is_standard(node.domain) or not _is_known(node.op_type, opset)
    )


def _is_known(name: str, opset: int) -> bool:
    return name == "Constant" or name in CONTROL_FLOW or find(name, opset) is not None


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """All nodes, those of inner graphs included."""
    for node in graph.node:
        yield node
        yield from _inner(attribute.g for attribute in node.attribute if attribute.HasField("g"))


def _inner(graphs: Iterable[onnx.GraphProto]) -> Iterator[onnx.NodeProto]:
    for graph in graphs:
        yield from _nodes(graph)


def _is_defined_by_others(name: str, opset: int) -> bool:
    try:
        schema = onnx.defs.get_schema(name, opset, "")
    except onnx.defs.SchemaError:
        return False
    return schema.has_function or schema.has_context_dependent_function
