"""Gradient rules, and what their parameter names ask for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..backends.precision_policy import GradientPrecisions
from ..tensor.tensor import Parameter
from .nodes import Leaf, Node

__all__ = ["Rule", "fields_of_result", "precision_for", "rule_of"]

Rule = tuple[Callable[..., Any], tuple[tuple[str, str, int], ...]]
"""A gradient rule, and for each of its parameters the name, the kind of source, and which input.

The source "recomputed" occurs in variants for half types only: the results, in float32."""


_LIKES = ("shape", "dtype", "strides")
"""What a node keeps of each input; strides where a rule of an op of several inputs asks for them."""


def fields_of_result(forward: Callable[..., Any]) -> tuple[str, ...]:
    """The names of several results, where the forward says that it returns a NamedTuple of arrays."""
    returned = inspect.signature(forward).return_annotation
    kind = getattr(inspect.unwrap(forward), "__globals__", {}).get(returned) if isinstance(returned, str) else returned
    return getattr(kind, "_fields", ())


def rule_of(op: Any, function: Callable[..., Any] | None) -> Rule | None:
    """A rule, and where each of its arguments comes from; raises TypeError for a name that stands for nothing."""
    if function is None:
        return None
    return function, tuple((name, *_source(op, name)) for name in inspect.signature(function).parameters)


def _source(op: Any, name: str) -> tuple[str, int]:
    stem, _, what = name.rpartition("_")
    if name == "g" or name in op.metadata_names:
        return ("g" if name == "g" else "metadata"), 0
    if name in op.inputs or name == "out":
        return "saved", 0
    if name in op.results:
        return "result", op.results.index(name)
    if stem in op.inputs and what in _LIKES[: 2 if len(op.inputs) == 1 else 3]:
        return what, op.inputs.index(stem)
    known = ", ".join(("g", "out", *op.results, *op.order))
    raise TypeError(
        f"{op.name}: a gradient rule asks for {name!r}; expected one of {known}, or <input>_shape, <input>_dtype, "
        "<input>_strides"
    )


def precision_for(node: Node, index: int) -> Any:
    """The precision that a node has kept for the gradient of one input: a parameter's, or another's."""
    kept = node.metadata["precision"]
    if type(kept) is not GradientPrecisions:
        return kept
    edge = node.edges[index]
    while type(edge) is Node and edge.op.view and len(edge.edges) == 1:  # the weight of a layer may be transposed
        edge = edge.edges[0]
    return kept.weight if type(edge) is Leaf and isinstance(edge.variable, Parameter) else kept.input
