"""Where gradients get to from a node: walks over the graph, and what stands in for gradients that did not come."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..tensor.tensor import Tensor, adopt
from .nodes import Node, Output, owner

__all__ = ["leading_to", "reachable", "without_gaps"]


def reachable(starts: Iterable[Node]) -> list[Node]:
    """The nodes that gradients may get to, the given ones included; results of nodes that have several are left out."""
    stack = [owner(node) for node in starts]
    seen: dict[Node, None] = {}
    while stack:
        node = stack.pop()
        if node not in seen:
            seen[node] = None
            stack += [owner(edge) for edge in node.edges if edge is not None]
    return list(seen)


def _after_its_node(node: Node) -> tuple[int, int]:
    """The place of a node in topological order. That of one of several results is right behind the node's own: a saved
    result gets an `Output` as late as in backward, which is equal to one whose consumers are older.
    """
    return (node.edges[0].sequence, 1) if type(node) is Output else (node.sequence, 0)


def leading_to(wanted: set[Node], starts: list[Node]) -> set[Node]:
    """The nodes on a path from `starts` to a wanted node, the wanted ones included."""
    order: list[Node] = []
    seen: set[Node] = set()
    stack = list(starts)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            order.append(node)
            stack += [edge for edge in node.edges if edge is not None]
    relevant = set(wanted)
    for node in sorted(order, key=_after_its_node):
        if any(edge in relevant for edge in node.edges if edge is not None):
            relevant.add(node)
    return relevant


def without_gaps(g: list[Tensor | None], outputs: tuple) -> tuple[Tensor | None, ...]:
    """The gradients of several results, with zeros of a result's shape and dtype for those that nothing depended on."""
    return tuple(
        adopt(np.zeros(*like)) if each is None and like is not None else each
        for each, like in zip(g, outputs, strict=True)
    )
