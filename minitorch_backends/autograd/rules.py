"""Gradient rules, and the sources of their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..backends import precision_policy
from ..backends.operands import Roles, of_gradient
from ..backends.precision_policy import GradientPrecisions
from ..tensor.tensor import Parameter
from .nodes import Leaf, Node

Rule = tuple[Callable[..., Any], tuple[tuple[str, str, int], ...]]
"""A gradient rule, with the name, the kind of source and the input of each parameter.

The source "edges" is the node's edges, None for each input that needs no gradient, for rules of all inputs.
"recomputed" occurs only in variants for half types: the results, in float32.
"""


_LIKES = ("shape", "dtype", "strides")
"""What a node records about each input; strides only if a rule of an op of several inputs uses them."""


def fields_of_result(forward: Callable[..., Any]) -> tuple[str, ...]:
    """The names of several results, from the NamedTuple in the forward's return annotation."""
    returned = inspect.signature(forward).return_annotation
    kind = getattr(inspect.unwrap(forward), "__globals__", {}).get(returned) if isinstance(returned, str) else returned
    return getattr(kind, "_fields", ())


def rule_of(op: Any, function: Callable[..., Any] | None) -> Rule | None:
    """A rule with the source of each of its parameters. Raises TypeError for an unknown name."""
    if function is None:
        return None
    return function, tuple((name, *_source(op, name)) for name in inspect.signature(function).parameters)


def reads(rule: Rule, index: int) -> bool:
    """Whether a rule uses the shape, dtype or strides of an input."""
    return any(source in _LIKES and of == index for _, source, of in rule[1])


def _source(op: Any, name: str) -> tuple[str, int]:
    stem, _, what = name.rpartition("_")
    if name == "g" or name == "edges" or name in op.metadata_names:
        return (name if name in ("g", "edges") else "metadata"), 0
    if name in op.inputs or name == "out":
        return "saved", 0
    if name in op.results:
        return "result", op.results.index(name)
    if stem in op.inputs and what in _LIKES[: 2 if len(op.inputs) == 1 else 3]:
        return what, op.inputs.index(stem)
    known = ", ".join(("g", "out", *op.results, *op.order))
    raise TypeError(
        f"{op.name}: a gradient rule has the unknown parameter {name!r}; expected one of {known}, or <input>_shape, "
        "<input>_dtype, <input>_strides"
    )


def precision_for(node: Node, index: int) -> Any:
    """The recorded precision for the gradient of one input: a parameter's, or another input's; roles, also of a node
    that was made before any format was set."""
    kept = node.metadata["precision"]
    if kept is None and precision_policy.by_role and node.op.roles:
        kept = node.op.roles_of(lambda place: _is_parameter(node.edges[place]))
    if type(kept) is Roles:
        return of_gradient(kept, index - node.op.first_operand)
    if type(kept) is not GradientPrecisions:
        return kept
    return kept.weight if _is_parameter(node.edges[index]) else kept.input


def _is_parameter(edge: Any) -> bool:
    """Whether an edge leads to a parameter, or a view of one: a layer's weight may be transposed."""
    while type(edge) is Node and getattr(edge.op, "view", False) and len(edge.edges) == 1:
        edge = edge.edges[0]
    return type(edge) is Leaf and isinstance(edge.variable, Parameter)
