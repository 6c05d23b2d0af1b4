"""The recorded graph: nodes, what they save, and the histories of tensors and their views.

A node stands for one executed op. It knows the nodes of the op's inputs (`edges`), what its gradient rules asked to
keep (`saved`), and its place in the order of creation (`sequence`), which is a topological order.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import numpy as np

from ..tensor import Tensor, adopt

__all__ = ["FREED", "Leaf", "Node", "Output", "history", "rewrites", "save", "unpack"]

_new = object.__new__
next_sequence = itertools.count().__next__

FREED: dict[str, Any] = {"freed": True}
"""What a node's `saved` is after its backward pass has released the saved tensors."""

Saved = tuple[np.ndarray, "Node | None", list[int], int]


class Node:
    """One recorded op.

    Attributes:
        op: the `Op` whose gradient rules apply.
        edges: for each input, in the op's order, the node it came from, or None when it needs no gradient.
        likes: for each input, its shape and dtype, to which its gradient is brought.
        saved: name -> what `save` returned, for what the needed rules ask for.
        metadata: the op's other arguments by name.
        outputs: the shape and dtype of each result; empty for a single one that is not in a tuple.
    """

    __slots__ = ("__weakref__", "edges", "likes", "metadata", "op", "outputs", "saved", "sequence")

    op: Any
    edges: tuple[Any, ...]
    likes: tuple[Any, ...]
    saved: dict[str, Any]
    metadata: dict[str, Any]
    outputs: tuple[Any, ...]
    sequence: int

    def name(self) -> str:
        """The op's name as torch writes it, `MulBackward0`."""
        return "".join(part.capitalize() for part in self.op.name.split("_")) + "Backward0"

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class Leaf(Node):
    """The node of a tensor that the user made and that requires gradients: it accumulates them in `.grad`."""

    __slots__ = ("_variable",)

    def __init__(self, variable: Tensor) -> None:
        self._variable = weakref.ref(variable)
        self.edges, self.saved, self.outputs, self.sequence = (), {}, (), next_sequence()

    @property
    def variable(self) -> Tensor | None:
        return self._variable()

    def name(self) -> str:
        return "AccumulateGrad"


class Output(Node):
    """One of several results of a node: the edge that says which."""

    __slots__ = ("index",)

    def __init__(self, node: Node, index: int) -> None:
        self.edges, self.index, self.sequence = (node,), index, next_sequence()
        self.saved, self.outputs, self.op = {}, (), node.op


def rewrites(base: Tensor) -> int:
    """How often in-place writes have rewritten the history of `base`."""
    return 0 if base._state is None else base._state.rewrites


def history(tensor: Tensor) -> Node | None:
    """The node that `tensor` comes from, or None when it needs no gradient."""
    node = tensor._node
    if node is None:
        return None
    state = tensor._state
    if state is None or state.base is None or type(node) is Leaf:
        return node
    return state.current_node()  # type: ignore[attr-defined]


def save(tensor: Tensor, edge: Node | None) -> Saved:
    """What a node keeps of a tensor: the array, where it came from, and the version it had."""
    cell = tensor._cell
    if cell is None:
        cell = tensor._cell = [0]
    return (tensor._array, edge, cell, cell[0])


def unpack(node: Node, name: str, create_graph: bool) -> Any:
    """The saved tensor `name` of `node` (or the Python number or None that stood in its place).

    Raises RuntimeError when it was released, or modified in place since it was saved.
    """
    entry = node.saved.get(name, FREED)
    if type(entry) is tuple:
        array, edge, cell, version = entry
        if cell[0] == version:
            tensor = _new(Tensor)
            tensor._array, tensor._cell, tensor._state = array, cell, None
            tensor._node = None if not create_graph else node if edge is SELF else edge
            return tensor
        raise _stale(node, name, entry)
    if entry is FREED:
        raise RuntimeError(
            f"trying to go through {node.name()} a second time, but its saved tensors were released by the first "
            "backward; "
            "pass retain_graph=True the first time"
        )
    return entry if type(entry) is not list else _unpacked_list(node, name, entry, create_graph)


def _unpacked_list(node: Node, name: str, entries: list[Saved], create_graph: bool) -> list[Tensor]:
    """The saved tensors of an input that is a sequence, or the saved results of an op that has several."""
    tensors = []
    for index, entry in enumerate(entries):
        array, edge, cell, version = entry
        if cell[0] != version:
            raise _stale(node, name, entry)
        tensor = adopt(array, None if not create_graph else Output(node, index) if edge is SELF else edge)
        tensor._cell = cell
        tensors.append(tensor)
    return tensors


def _stale(node: Node, name: str, entry: Saved) -> RuntimeError:
    array, _, cell, version = entry
    return RuntimeError(
        f"one of the tensors needed for the gradient of {node.op.name} has been modified by an inplace operation: "
        f"{name!r}, {array.dtype}{list(array.shape)}, is at version {cell[0]}; expected version {version}. "
        f"Write to a copy, {name}.clone(), or use the out-of-place form"
    )


class _Self:
    """Stands for the saving node itself in what it saves of its own results, so that no reference cycle is made."""


SELF: Any = _Self()
