"""A module made from a graph: one submodule per node, and the weights, all under their ONNX names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import onnx
from onnx import inliner

from ...nn.module import Module
from ...ops.names import as_tensor, ones, tensor
from ...tensor.dtypes import DType, float32, int64
from ...tensor.tensor import Parameter, Tensor
from . import (  # noqa: F401  (they fill the table)
    elementwise,
    images,
    indexing,
    normalization,
    pooling,
    products,
    quantization,
    recurrent,
    reductions,
    shapes,
)  # fmt: skip
from .control_flow import CONTROL_FLOW
from .files import Folder, dtype_of, is_standard, opset_of, tensor_of
from .graph import Graph, Held, Node, Step
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


# Makes modules from graphs, and checks them: every value is defined once and before its use, so cycles are
# impossible.
# Modules have the names of their nodes, parameters and buffers those of their initializers. Dots in a name are levels
# of modules, as elsewhere. A duplicate or empty name gets a number.


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
    """The names that only outer graphs define. Raises ValueError for those that no graph defines yet."""
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


class Value(NamedTuple):
    """An input or an output of a model.

    Attributes:
        name: its ONNX name.
        dtype: that of its elements.
        shape: sizes; names stand for sizes that may differ from call to call, None for those without a name. None for
            any number of dimensions.
    """

    name: str
    dtype: DType
    shape: tuple[int | str | None, ...] | None


class Model(Graph):
    """The module that `load` makes from an ONNX file.

    Call it with inputs in the graph's order or by their ONNX names, as tensors, arrays or numbers. It returns one
    tensor, or a tuple of several outputs. Raises TypeError for inputs that are missing, unknown or of another dtype,
    and ValueError for other shapes.

    Attributes:
        inputs: the inputs, in order.
        outputs: the outputs, in order.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        given = self._by_name(args, kwargs)
        wanted = (each._replace(dtype=self._converted.get(each.dtype, each.dtype)) for each in self.inputs)
        found = self.run([_check_input(each, given[each.name]) for each in wanted], {})
        return found[0] if len(found) == 1 else found

    _converted: Mapping[DType, DType] = {}

    def _convert(self, convert: Callable[[Tensor], Tensor]) -> Self:
        """Convert the weights, and with them the types that inputs must have: after `double()` they are float64."""
        kinds = {each.dtype for each in self.inputs if ones(1, dtype=each.dtype).is_floating_point()}
        self._converted = {kind: convert(ones(1, dtype=self._converted.get(kind, kind))).dtype for kind in kinds}
        for module in self.modules():
            if isinstance(module, Node):
                module.convert(convert)
        return super()._convert(convert)

    def _by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        known = [each.name for each in self.inputs]
        if len(args) > len(known):
            raise TypeError(f"Model(): there must be at most {len(known)} inputs, got {len(args)}")
        given = dict(zip(known, args, strict=False))
        for name, value in kwargs.items():
            if name in given or name not in known:
                state = "is given twice" if name in given else "does not exist"
                raise TypeError(f"Model(): the input {name!r} {state}; the inputs are {', '.join(map(repr, known))}")
            given[name] = value
        missing = [name for name in known if name not in given]
        if missing:
            raise TypeError(f"Model(): the inputs {', '.join(map(repr, missing))} are missing")
        return given

    def extra_repr(self) -> str:
        return f"inputs={[each.name for each in self.inputs]}, outputs={[each.name for each in self.outputs]}"


def _check_input(input: Value, value: Any) -> Tensor:
    """The tensor of an input, if it has the type and the shape that the model declares."""
    if not isinstance(value, Tensor):
        plain = isinstance(value, (bool, int, float, list, tuple))
        value = as_tensor(value, dtype=input.dtype if plain else None)
    if value.dtype is not input.dtype:
        raise TypeError(
            f"Model(): the input {input.name!r} must have dtype {input.dtype!r}, got {value.dtype!r}; convert it with "
            f".to({input.dtype!r})"
        )
    wanted, got = input.shape, tuple(value.shape)
    if wanted is not None and (
        len(wanted) != len(got)
        or any(isinstance(size, int) and size != found for size, found in zip(wanted, got, strict=True))
    ):
        sizes = ", ".join("?" if size is None else str(size) for size in wanted)
        raise ValueError(f"Model(): the input {input.name!r} must have shape [{sizes}], got {list(got)}")
    return value


def model_of(proto: onnx.ModelProto, folder: Folder) -> Model:
    """The module of a model."""
    proto = expand_missing(proto)
    model, graph = Model(), proto.graph
    initialized = {each.name for each in graph.initializer}
    model.inputs = _values(each for each in graph.input if each.name not in initialized)
    model.outputs = _values(graph.output)
    Builder(opset_of(proto), folder).build(model, graph)
    return model


def _values(infos: Iterable[onnx.ValueInfoProto]) -> tuple[Value, ...]:
    return tuple(map(_value, infos))


def _value(info: onnx.ValueInfoProto) -> Value:
    if not info.type.HasField("tensor_type"):
        raise ValueError(f"load(): inputs and outputs must be tensors, got {info.name!r}, which is not one")
    kind = info.type.tensor_type
    shape = tuple(map(_size, kind.shape.dim)) if kind.HasField("shape") else None
    return Value(info.name, dtype_of(kind.elem_type, f"the value {info.name!r}"), shape)


def _size(dim: Any) -> int | str | None:
    if dim.WhichOneof("value") == "dim_value":
        return dim.dim_value if dim.dim_value >= 0 else None  # exporters write -1 for sizes that vary
    return dim.dim_param if dim.dim_param not in ("", "?") else None
