"""Tensors that stand for others inside a function that is differentiated: the same values, and a node of their own."""

from __future__ import annotations

from typing import Any

from ..tensor.tensor import Tensor, sharing
from .nodes import Leaf, Node, history, next_sequence
from .traversal import reachable

__all__ = ["outer_leaves", "stand_in"]


class _Identity:
    """What the engine asks of the op of a stand-in: to pass gradients on."""

    name, title = "identity", "AliasBackward0"

    @staticmethod
    def propagate(node: Node, edges: tuple, g: Any, flow: Any) -> None:
        flow.deliver(edges[0], g, node.likes[0], g)


_IDENTITY = _Identity()


def stand_in(tensor: Tensor, apart: bool = False) -> Tensor:
    """A tensor with the memory of `tensor`, that requires gradients and is no leaf, so that it may be written to.

    It comes from `tensor` when that requires gradients, unless it is to stay `apart`; else from a leaf of its own.
    """
    alias = sharing(tensor, tensor._array)
    before = None if apart else history(tensor)
    node = object.__new__(Node)
    node.op, node.edges, node.outputs, node.saved = _IDENTITY, (before or Leaf(None),), (), {}
    node.likes, node.metadata, node.sequence = ((tensor._array.shape, tensor._array.dtype),), {}, next_sequence()
    alias._node = node
    return alias


def outer_leaves(tensors: list[Tensor], stand_ins: list[Tensor]) -> bool:
    """Whether `tensors` also depend on leaves other than those that `stand_ins`, unwritten, have of their own."""
    edges = [tensor._node.edges[0] for tensor in stand_ins]
    own = {edge for edge in edges if type(edge) is Leaf and edge.variable is None}
    starts = [node for node in map(history, tensors) if node is not None]
    return any(type(node) is Leaf and node not in own for node in reachable(starts))
