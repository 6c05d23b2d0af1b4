"""Makes modules from graphs, and checks them: every value is defined once and before its use, so cycles are impossible.

Modules have the names of their nodes, parameters and buffers those of their initializers. Dots in a name are levels of
modules, as elsewhere. A duplicate or empty name gets a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

import onnx

from ...nn.module import Module
from ...ops.names import tensor
from ...tensor.dtypes import float32, int64
from ...tensor.tensor import Parameter, Tensor
from .control_flow import CONTROL_FLOW
from .files import Folder, is_standard, tensor_of
from .graph import Graph, Held, Node, Step
from .table import find

_MOST_LEVELS = 32
"""A name with more dots than this is not split into levels."""


class Builder:
    """Builds the graphs of one model."""

    def __init__(self, opset: int, folder: Folder) -> None:
        self._opset, self._folder = opset, folder
        self._taken = Counter[tuple[Module, str]]()

    def build(self, graph: Graph, proto: onnx.GraphProto, visible: Collection[str] = ()) -> None:
        """Fill a graph. `visible` has the names of the values of outer graphs."""
        constants = dict(self._constants(proto))
        graph.arguments = tuple(each.name for each in proto.input if each.name not in constants)
        graph.results = tuple(each.name for each in proto.output)
        defined = set(graph.arguments) | constants.keys()
        if len(defined) < len(graph.arguments) + len(constants):
            raise ValueError(f"load(): the inputs of the graph {proto.name!r} must have different names")
        captured, trained, steps = dict[str, None](), set[str](), list[Step]()
        for place, node in enumerate(proto.node):
            if node.op_type == "Constant" and is_standard(node.domain):
                continue
            label = node.name or f"{node.op_type}_{place}"
            captured |= dict.fromkeys(_free_names(label, node.input, defined, visible))
            step, used = self._step(graph, node, label, defined, visible)
            captured |= {name: None for name in step.inputs if name and name not in defined}
            trained |= used
            steps.append(step)
            _define(label, step.outputs, defined)
        captured |= dict.fromkeys(_free_names("the outputs", graph.results, defined, visible))
        graph.captured, graph.trained = tuple(captured), frozenset(trained & captured.keys())
        graph._steps = _with_last(steps, graph.results)
        graph._held = [self._hold(graph, name, value, name in trained) for name, value in constants.items()]

    # Nodes

    def _step(
        self, graph: Graph, node: onnx.NodeProto, label: str, defined: Collection[str], visible: Collection[str]
    ) -> tuple[Step, set[str]]:
        """The call of a node, and the names of the values that an operator takes as tensors."""
        self._check(node, label)
        inputs, outputs = tuple(node.input), tuple(node.output)
        module: Module
        if node.op_type in CONTROL_FLOW:
            bodies: dict[str, Graph] = {}
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    bodies[attribute.name] = Graph()
                    self.build(bodies[attribute.name], attribute.g, {*defined, *visible})
            outer = tuple(dict.fromkeys(name for body in bodies.values() for name in body.captured))
            module = CONTROL_FLOW[node.op_type](self._attributes(node, label), bodies, outer, len(outputs))
            used = {name for body in bodies.values() for name in body.trained}
            inputs += outer
        else:
            operator = find(node.op_type, self._opset)
            assert operator is not None  # as `_check` saw
            module = Node(operator, self._attributes(node, label), len(inputs), len(outputs))
            used = {name for place, name in enumerate(inputs) if operator.take(place) == "tensor"}
        holder, attribute = self._place(graph, label)
        holder.add_module(attribute, module)
        return Step(label, node.op_type, module, inputs, outputs, ()), used

    def _check(self, node: onnx.NodeProto, label: str) -> None:
        """Raise ValueError for a node that does not fit its operator's definition."""
        where = f"load(): the node {label!r} ({node.op_type})"
        try:
            schema = onnx.defs.get_schema(node.op_type, self._opset, "")
        except onnx.defs.SchemaError:
            raise ValueError(f"{where} must have an operator of opset {self._opset}, got one of another") from None
        for attribute in node.attribute:
            declared = schema.attributes.get(attribute.name)
            if declared is None:
                raise ValueError(f"{where} has an attribute {attribute.name!r}, which the operator does not have")
            if declared.type.value != attribute.type:
                kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
                raise ValueError(f"{where}: the attribute {attribute.name!r} must be {declared.type.name}, got {kind}")
        given = {each.name for each in node.attribute}
        missing = [name for name, each in schema.attributes.items() if each.required and name not in given]
        if missing:
            raise ValueError(f"{where} must have the attribute {missing[0]!r}, got {sorted(given)}")
        for what, names, least, most in (
            ("inputs", node.input, schema.min_input, schema.max_input),
            ("outputs", node.output, schema.min_output, schema.max_output),
        ):
            if not least <= len(names) <= most:
                raise ValueError(f"{where} must have {least} to {most} {what}, got {len(names)}")
        for name, formal in zip(node.input, schema.inputs, strict=False):
            if not name and formal.option == onnx.defs.OpSchema.FormalParameterOption.Single:
                raise ValueError(f"{where} must have the input {formal.name!r}, got none")

    def _attributes(self, node: onnx.NodeProto, label: str) -> dict[str, Any]:
        graphs = onnx.AttributeProto.GRAPH
        return {each.name: self._attribute(each, label) for each in node.attribute if each.type != graphs}

    def _attribute(self, attribute: onnx.AttributeProto, label: str) -> Any:
        if attribute.type == onnx.AttributeProto.TENSOR:
            return tensor_of(attribute.t, self._folder)
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, (int, float)):
            return value
        found = [each.decode("utf-8", "replace") if isinstance(each, bytes) else each for each in value]
        if not all(isinstance(each, (int, float, str)) for each in found):
            raise ValueError(f"load(): the attribute {attribute.name!r} of the node {label!r} must be numbers or text")
        return found

    # Constants

    def _constants(self, proto: onnx.GraphProto) -> Iterator[tuple[str, Tensor]]:
        """The initializers and the values of Constant nodes."""
        if proto.sparse_initializer:
            raise ValueError(f"load(): the initializers of {proto.name!r} must be dense, got sparse ones")
        names = [each.name for each in proto.initializer]
        nodes = [each for each in proto.node if each.op_type == "Constant" and is_standard(each.domain)]
        names += [name for each in nodes for name in each.output]
        if len(set(names)) < len(names):
            name = Counter(names).most_common(1)[0][0]
            raise ValueError(f"load(): the value {name!r} must be defined once, got several definitions")
        yield from ((each.name, tensor_of(each, self._folder)) for each in proto.initializer)
        for node in nodes:
            self._check(node, node.name or "Constant")
            if len(node.attribute) != 1:
                found = len(node.attribute)
                raise ValueError(f"load(): the constant {node.output[0]!r} must have one value, got {found}")
            [(name, value)] = self._attributes(node, node.name).items()
            if isinstance(value, str) or (isinstance(value, list) and any(isinstance(each, str) for each in value)):
                raise ValueError(f"load(): the constant {node.output[0]!r} must be numbers, got text")
            if not isinstance(value, Tensor):
                value = tensor(value, dtype=float32 if "float" in name else int64)
            yield node.output[0], value

    def _hold(self, graph: Graph, name: str, value: Tensor, trained: bool) -> Held:
        holder, attribute = self._place(graph, name)
        if trained and value.ndim and value.is_floating_point():
            holder.register_parameter(attribute, Parameter(value))
        else:
            holder.register_buffer(attribute, value)
        return Held(name, holder, attribute)

    # Names

    def _place(self, root: Module, name: str) -> tuple[Module, str]:
        """The module and the attribute for a part of this name."""
        *path, last = name.split(".")
        if not all((*path, last)) or len(path) > _MOST_LEVELS:
            return self._free(root, name.replace(".", "_"))
        holder = root
        for part in path:
            child = vars(holder).get(part)
            if child is None and not hasattr(holder, part):
                child = Module()
                holder.add_module(part, child)
            if not isinstance(child, Module):
                return self._free(root, name.replace(".", "_"))
            holder = child
        return self._free(holder, last)

    def _free(self, holder: Module, name: str) -> tuple[Module, str]:
        free = name
        while not free or hasattr(holder, free):
            self._taken[holder, name] += 1
            free = f"{name}_{self._taken[holder, name]}"
        return holder, free


def _free_names(label: str, names: Collection[str], defined: Collection[str], visible: Collection[str]) -> list[str]:
    """Those names that outer graphs define. Raises ValueError for names that are not defined yet."""
    outer = [name for name in names if name and name not in defined]
    for name in outer:
        if name not in visible:
            raise ValueError(
                f"load(): {label!r} reads {name!r}, which must be an input, a weight or an output of an earlier "
                "node; nodes must be in the order of their calls, without cycles"
            )
    return outer


def _define(label: str, names: Collection[str], defined: set[str]) -> None:
    for name in filter(None, names):
        if name in defined:
            raise ValueError(f"load(): the value {name!r} must be defined once, got another definition by {label!r}")
        defined.add(name)


def _with_last(steps: list[Step], results: Collection[str]) -> list[Step]:
    """The steps, each with the values that can be dropped after it."""
    needed, found = {"", *results}, []
    for step in reversed(steps):
        last = tuple(dict.fromkeys(name for name in (*step.inputs, *step.outputs) if name not in needed))
        needed.update(step.inputs)
        found.append(step._replace(last=last))
    return found[::-1]
