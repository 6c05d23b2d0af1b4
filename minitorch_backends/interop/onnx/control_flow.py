"""If, Loop and Scan: nodes that hold graphs, and run them with the values of the graph around."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...nn.module import Module
from ...ops.names import tensor
from ...ops.views.join import stack
from ...tensor.dtypes import bool_, int64
from ...tensor.tensor import Tensor
from .graph import Graph


class _ControlFlow(Module):
    """A node that holds graphs, under the names of their attributes. Its inputs are followed by the values of outer
    graphs that these use."""

    def __init__(
        self, attributes: Mapping[str, Any], bodies: Mapping[str, Graph], captured: Sequence[str], outputs: int
    ) -> None:
        self.attributes, self.captured, self.outputs = attributes, captured, outputs
        for name, body in bodies.items():
            self.add_module(name, body)

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        count = len(inputs) - len(self.captured)
        return self.run(inputs[:count], dict(zip(self.captured, inputs[count:], strict=True)))

    def run(self, inputs: Sequence[Any], outer: Mapping[str, Any]) -> tuple[Any, ...]:
        raise NotImplementedError


class If(_ControlFlow):
    """One of two graphs, chosen by a boolean."""

    then_branch: Graph
    else_branch: Graph

    def run(self, inputs: Sequence[Any], outer: Mapping[str, Any]) -> tuple[Any, ...]:
        branch = self.then_branch if inputs[0].item() else self.else_branch
        return branch.run((), outer)


class Loop(_ControlFlow):
    """A graph that runs up to a number of times, while a condition holds.

    (count, condition, *states) gives the final states and the stacked further outputs of all runs.
    """

    body: Graph

    def run(self, inputs: Sequence[Any], outer: Mapping[str, Any]) -> tuple[Any, ...]:
        count, going, *states = inputs
        most = None if count is None else int(count.item())
        holds = going is None or bool(going.item())
        runs: list[Sequence[Tensor]] = []
        number = 0
        while holds and (most is None or number < most):
            arguments = (tensor(number, dtype=int64), tensor(True, dtype=bool_), *states)
            going, *found = self.body.run(arguments, outer)
            states = found[: len(states)]
            if len(found) > len(states):
                runs.append(found[len(states) :])
            holds, number = bool(going.item()), number + 1
        if not runs and self.outputs > len(states):
            raise RuntimeError("Loop: the outputs of all runs must be of one run at least, got none")
        return (*states, *(stack(list(each)) for each in zip(*runs, strict=True)))


class Scan(_ControlFlow):
    """A graph that is run for each slice of its last inputs: (*states, *sequences) gives the states after the last run
    and the further outputs of all runs, stacked."""

    body: Graph

    def run(self, inputs: Sequence[Any], outer: Mapping[str, Any]) -> tuple[Any, ...]:
        scanned = self.attributes["num_scan_inputs"]
        states, sequences = list(inputs[: len(inputs) - scanned]), inputs[len(inputs) - scanned :]
        slices = [
            each.unbind(axis)[:: -1 if backward else 1]
            for each, (axis, backward) in zip(sequences, self._ways("input", scanned), strict=True)
        ]
        runs: list[Sequence[Tensor]] = []
        for step in zip(*slices, strict=True):
            found = self.body.run((*states, *step), outer)
            states = list(found[: len(states)])
            runs.append(found[len(states) :])
        results = self.outputs - len(states)
        if not runs and results:
            raise RuntimeError("Scan: sequences must have a length of at least 1, got 0")
        pairs = zip(zip(*runs, strict=True), self._ways("output", results), strict=True)
        return (*states, *(stack(list(each)[:: -1 if backward else 1], axis) for each, (axis, backward) in pairs))

    def _ways(self, side: str, count: int) -> list[tuple[int, int]]:
        """The axis of each sequence of a side, and whether it is passed from the end."""
        axes = self.attributes.get(f"scan_{side}_axes") or [0] * count
        return list(zip(axes, self.attributes.get(f"scan_{side}_directions") or [0] * count, strict=True))


CONTROL_FLOW: dict[str, type[_ControlFlow]] = {"If": If, "Loop": Loop, "Scan": Scan}
"""What runs each of these operators."""
