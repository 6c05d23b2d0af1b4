"""Graphs as modules: nodes, in the order of their calls, and the weights that they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from onnx import TensorProto

from ...nn.module import Module
from ...ops.conv.packed import PackedConvolution
from ...ops.names import ones
from ...tensor.dtypes import float32, float64
from ...tensor.tensor import Tensor
from .table import Operator

_TYPES = ("to", "dtype", "output_datatype")
"""Attributes that name the type of a result."""

_NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


_SENTENCES = (ValueError, RuntimeError, IndexError, MemoryError)
_OF_PYTHON = ("zip() argument", "values to unpack", "list index out of range", "tuple index out of range")


def _is_sentence(error: Exception) -> bool:
    """Whether an error of an operator says what is wrong, and is not Python's own about a line of code here."""
    text = str(error)
    if isinstance(error, _SENTENCES) and not any(part in text for part in _OF_PYTHON):
        return bool(text)
    return "(): " in text


class Node(Module):
    """One node: an operator and its attributes."""

    def __init__(self, operator: Operator, attributes: dict[str, Any], inputs: int, outputs: int) -> None:
        self.operator, self.attributes = operator, attributes
        further = {"outputs": outputs, "packed": PackedConvolution()}
        self._options = attributes | {name: further[name] for name in operator.asks}
        kinds = [operator.take(place) for place in range(inputs)]
        self._values = [(place, kind == "list") for place, kind in enumerate(kinds) if kind in ("list", "number")]

    def forward(self, *inputs: Any) -> Any:
        given = list(inputs)
        for place, as_list in self._values:
            value = given[place]
            if value is not None:
                given[place] = value.reshape(-1).tolist() if as_list else value.item()
        return self.operator.function(*given, **self._options)

    def convert(self, convert: Callable[[Tensor], Tensor]) -> None:
        """Convert attributes: tensors, and the types that the node converts to where `convert` makes float64."""
        wide = convert(ones(1, dtype=float32)).dtype is float64
        for name, value in self.attributes.items():
            if isinstance(value, Tensor) and value.is_floating_point():
                self._options[name] = convert(value)
            elif name in _TYPES and value in _NARROW:
                self._options[name] = TensorProto.DOUBLE if wide else value

    def extra_repr(self) -> str:
        return ", ".join([self.operator.name, *(f"{name}={value!r}" for name, value in self.attributes.items())])


class Step(NamedTuple):
    """The call of a node.

    Attributes:
        name: the name of the node.
        kind: its operator.
        module: the node.
        inputs: the names of its input values, "" for omitted ones.
        outputs: the names of its output values.
        last: the names of the values that no later step needs.
    """

    name: str
    kind: str
    module: Module
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    last: tuple[str, ...]


class Held(NamedTuple):
    """A weight: the name of its value, and the module and the attribute that hold it."""

    name: str
    holder: Module
    attribute: str


class Graph(Module):
    """Nodes in the order of their calls.

    Attributes:
        arguments: the names of the inputs.
        results: the names of the outputs.
        captured: the names of the values of outer graphs that it uses.
        trained: those of them that an operator takes as a tensor.
    """

    arguments: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    captured: tuple[str, ...] = ()
    trained: frozenset[str] = frozenset()
    _steps: Sequence[Step] = ()
    _held: Sequence[Held] = ()

    def run(self, arguments: Sequence[Any], outer: Mapping[str, Any]) -> tuple[Any, ...]:
        """The outputs for inputs in their order, and for the values of outer graphs."""
        values: dict[str, Any] = {name: outer[name] for name in self.captured}
        values.update((name, vars(holder)[attribute]) for name, holder, attribute in self._held)
        values.update(zip(self.arguments, arguments, strict=True))
        values[""] = None
        for step in self._steps:
            try:
                found = step.module(*[values[name] for name in step.inputs])
            except Exception as error:
                node = f"the node {step.name!r} ({step.kind})"
                if _is_sentence(error):
                    error.add_note(f"in {node} of the ONNX model")
                    raise
                kind = next((each for each in (ValueError, MemoryError) if isinstance(error, each)), RuntimeError)
                got = f"{type(error).__name__}: {error}"
                raise kind(f"Model(): operands and attributes must fit {node}, got {got}") from error
            values.update(zip(step.outputs, found if isinstance(found, tuple) else (found,), strict=False))
            values[""] = None
            for name in step.last:
                del values[name]
        return tuple(values[name] for name in self.results)

    def extra_repr(self) -> str:
        return f"inputs={list(self.arguments)}, outputs={list(self.results)}"
