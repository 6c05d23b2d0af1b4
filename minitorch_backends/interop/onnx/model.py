"""A module made from a graph: one submodule per node, and the weights, all under their ONNX names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self

import onnx

from ...ops.names import as_tensor, ones
from ...tensor.dtypes import DType
from ...tensor.tensor import Tensor
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
from .building import Builder
from .files import Folder, dtype_of, opset_of
from .graph import Graph, Node
from .support import expand_missing


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
