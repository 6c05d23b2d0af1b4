"""The table of operators: the function of each, and the first opset version that it applies to.

A function's positional parameters are the operator's inputs, its keyword-only ones the attributes. Inputs annotated as
tensors arrive as tensors (None if omitted); others, such as `axes: list[int]`, as Python numbers and lists. An input
that was an attribute in older versions is found by its name. A function with a parameter `outputs` receives the number
of used outputs; one with `packed` receives the packed weight that its node stores.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ...tensor.tensor import Tensor

Statistics = Tensor
"""An input that training does not change: means and variances, scales and zero points of quantization."""

_Value = TypeVar("_Value")

_TABLE: dict[str, list[Operator]] = {}


class Operator:
    """One operator from one version.

    Attributes:
        function: computes it.
        takes: for each input "tensor", "statistics", "list" or "number"; the last one applies to all further inputs.
        asks: the additional parameters of the function: "outputs", "packed".
    """

    def __init__(self, name: str, since: int, function: Callable[..., Any], inputs: int | None) -> None:
        self.name, self.since, self.function = name, since, function
        parameters = inspect.signature(function).parameters.values()
        positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        variadic = [each for each in parameters if each.kind is each.VAR_POSITIONAL]
        kinds = [_kind(str(each.annotation)) for each in (*positional, *variadic)]
        self.takes = kinds if inputs is None else ["tensor"] * inputs
        self.asks = {each.name for each in parameters} & {"outputs", "packed"} if inputs is None else set[str]()

    def take(self, place: int) -> str:
        return self.takes[min(place, len(self.takes) - 1)] if self.takes else "tensor"

    def __reduce__(self) -> tuple[Any, ...]:
        return find, (self.name, self.since)


def _kind(annotation: str) -> str:
    if "Statistics" in annotation:
        return "statistics"
    return "tensor" if "Tensor" in annotation else "list" if "list" in annotation else "number"


def operator(*names: str, since: int = 1, inputs: int | None = None) -> Callable[[Callable[..., Any]], Any]:
    """Declare what computes the operators of these names, from version `since` of the operator set on. `inputs` is the
    number of inputs of a function whose further parameters are not the operator's."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            declared = _TABLE.setdefault(name, [])
            declared.append(Operator(name, since, function, inputs))
            declared.sort(key=lambda each: -each.since)
        return function

    return declare


def choice(table: Mapping[str, _Value], name: str, attribute: str) -> _Value:
    """The table's entry for the value of an attribute. Raises ValueError, with the known values, for another one."""
    if name not in table:
        raise ValueError(f"{attribute} must be one of {', '.join(table)}, got {name!r}")
    return table[name]


def find(name: str, opset: int) -> Operator | None:
    """The operator of this name in an opset version; None if it is not supported."""
    return next((each for each in _TABLE.get(name, ()) if each.since <= opset), None)


def names() -> list[str]:
    """The names of all operators."""
    return sorted(_TABLE)
