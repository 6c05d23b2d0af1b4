"""Gradient rules: what their parameter names ask for, and one compiled function for an op that fetches and applies
them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..backends.precision_policy import GradientPrecisions
from ..tensor.tensor import Parameter
from .nodes import Leaf, Node, show_saved, unpack

__all__ = ["Rule", "compiled", "fields_of_result", "rule_of"]

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


def compiled(op: Any) -> Callable[[Any, tuple, Any, Any], None]:
    """The function (node, edges, g, flow) that applies an op's rules and delivers what they give to the nodes of the
    inputs. `edges` are the node's, or None in place of those that the pass has no use for.

    It is written out as text, for mul:

        def propagate(node, edges, g, flow):
            likes = node.likes
            if edges[0] is not None:
                flow.deliver(edges[0], rules[0](g, unpack(node, 'other', flow.create_graph)), likes[0], g)
            if edges[1] is not None:
                flow.deliver(edges[1], rules[1](g, unpack(node, 'input', flow.create_graph)), likes[1], g)

    since a loop over inputs and sources would take longer than most rules of small tensors.
    """
    lines, all_at_once = ["def propagate(node, edges, g, flow):", "    likes = node.likes"], op.listed or op.joint
    for index, rule in enumerate(op.rules[:1] if all_at_once else op.rules):
        if rule is None:
            continue
        call = f"rules[{index}]({', '.join(_fetch(op, index, *source) for source in rule[1])})"
        if all_at_once:
            lines.append(f"    for edge, value, like in zip(edges, {call}, likes, strict=True):")
            lines.append("        if edge is not None: flow.deliver(edge, value, like, g)")
        else:
            lines.append(f"    if edges[{index}] is not None:")
            lines.append(f"        flow.deliver(edges[{index}], {call}, likes[{index}], g)")
    show_saved((*op.inputs, "out", *op.metadata_names))
    recomputed = getattr(op, "recomputed", None)
    namespace = {
        "precision": _precision,
        "unpack": unpack,
        "recomputed": recomputed,
        "rules": [None if rule is None else rule[0] for rule in op.rules],
    }
    exec("\n".join(lines), namespace)
    return namespace["propagate"]  # type: ignore[return-value]


def _precision(node: Node, index: int) -> Any:
    """The precision that a node has kept for the gradient of one input: a parameter's, or another's."""
    kept = node.metadata["precision"]
    if type(kept) is not GradientPrecisions:
        return kept
    edge = node.edges[index]
    while type(edge) is Node and edge.op.view and len(edge.edges) == 1:  # the weight of a layer may be transposed
        edge = edge.edges[0]
    return kept.weight if type(edge) is Leaf and isinstance(edge.variable, Parameter) else kept.input


def _fetch(op: Any, of_input: int, name: str, source: str, index: int) -> str:
    """The expression that gives one argument of the rule of an input."""
    if source == "g":
        return "g"
    if source == "metadata" and name == "precision":
        return f"precision(node, {of_input})"
    if source == "metadata":
        return f"node.metadata[{name!r}]"
    if source == "saved":
        return f"unpack(node, {name!r}, flow.create_graph)"
    if source == "recomputed":
        return "recomputed(node, flow.create_graph)"
    if source == "result":
        return f"unpack(node, 'out', flow.create_graph)[{index}]"
    which = _LIKES.index(source)
    return f"[like[{which}] for like in likes]" if op.listed else f"likes[{index}][{which}]"
