"""Traversal of the graph from a node, and defaults for absent gradients."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..tensor.tensor import Tensor, adopt
from .nodes import Node, Output, owner


def reachable(starts: Iterable[Node]) -> list[Node]:
    """The nodes that gradients may reach, including the given ones. `Output` edges are omitted."""
    stack = [owner(node) for node in starts]
    seen: dict[Node, None] = {}
    while stack:
        node = stack.pop()
        if node not in seen:
            seen[node] = None
            stack += [owner(edge) for edge in node.edges if edge is not None]
    return list(seen)


def _after_its_node(node: Node) -> tuple[int, int]:
    """The position of a node in topological order. An `Output` comes right after its node: for a saved result it is
    created as late as in backward, and then compares equal to one with older consumers."""
    return (node.edges[0].sequence, 1) if type(node) is Output else (node.sequence, 0)


def leading_to(wanted: set[Node], starts: list[Node]) -> set[Node]:
    """The nodes on a path from `starts` to a wanted node, including the wanted ones."""
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
    """The gradients of several results, with zeros of a result's shape and dtype where none arrived."""
    return tuple(
        adopt(np.zeros(*like)) if each is None and like is not None else each
        for each, like in zip(g, outputs, strict=True)
    )
