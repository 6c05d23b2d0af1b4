"""Aliases of tensors inside a differentiated function: equal values, with nodes of their own."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor, sharing
from ..nodes import Leaf, Node, history, make_node
from ..traversal import reachable


class _Identity:
    """The identity op of an alias, as the engine calls it: it passes gradients on."""

    name, title, view = "identity", "AliasBackward0", True

    @staticmethod
    def propagate(node: Node, edges: tuple, g: Any, flow: Any) -> None:
        flow.deliver(edges[0], g, node.likes[0], g)


_IDENTITY = _Identity()


def stand_in(tensor: Tensor, apart: bool = False) -> Tensor:
    """Make an alias of `tensor`: same memory, requires gradients, and not a leaf, so that it may be written to.

    If `tensor` requires gradients, the alias depends on it, unless it is to stay `apart`. Otherwise it depends on a new
    leaf.
    """
    alias = sharing(tensor, tensor._array)
    before = None if apart else history(tensor)
    like = tensor._array.shape, tensor._array.dtype
    alias._node = make_node(_IDENTITY, (before or Leaf(None),), (like,), {})
    return alias


def outer_leaves(tensors: list[Tensor], stand_ins: list[Tensor]) -> bool:
    """Whether `tensors` depend on leaves other than those that unwritten `stand_ins` have of their own."""
    edges = [tensor._node.edges[0] for tensor in stand_ins]
    own = {edge for edge in edges if type(edge) is Leaf and edge.variable is None}
    starts = [node for node in map(history, tensors) if node is not None]
    return any(type(node) is Leaf and node not in own for node in reachable(starts))
